"""The certificate authority of a tenant's front proxy, and the ConfigMap by which aggregated API servers trust it.

Aggregated API servers believe the headers that name a user if the client certificate of the connection is from this
authority. It is not the authority of the tenant's users: with a certificate of theirs, they could be anybody to those servers.

Behaviour: kubernetes' `pkg/controlplane/controller/clusterauthenticationtrust`.
"""

import uuid
from collections.abc import Mapping

import msgspec

from vcsync.apimachinery.errors import conflict
from vcsync.apimachinery.resources import object_key
from vcsync.apiserver.operator.context import OperatorContext
from vcsync.apiserver.operator.defaults import AUTHENTICATION_CONFIG
from vcsync.apiserver.operator.tenant_deletion import BUSY
from vcsync.apiserver.storage.interface import Compare, Delete, Put, Record
from vcsync.apiserver.tenants import pki
from vcsync.apiserver.tenants.records import Authority, TenantRecord, decode, encode, record_key
from vcsync.objects.times import unix_time_text

CLIENT = "front-proxy-client"
"""Common name of the client certificate."""
USER, UID, GROUP, EXTRA = "X-Remote-User", "X-Remote-Uid", "X-Remote-Group", "X-Remote-Extra-"
"""Headers that name a user; the last one is a prefix."""
MAX_TRIES = 5
"""Attempts to write against other writes of the same record or ConfigMap."""
_LISTS: Mapping[str, str] = {
    "requestheader-allowed-names": CLIENT,
    "requestheader-username-headers": USER,
    "requestheader-uid-headers": UID,
    "requestheader-group-headers": GROUP,
    "requestheader-extra-headers-prefix": EXTRA,
}


def authentication_data(record: TenantRecord) -> dict[str, str]:
    """Return what a tenant's ConfigMap `extension-apiserver-authentication` says."""
    data = {}
    if record.authority is not None:
        data["client-ca-file"] = record.authority.certificate
    if record.front_proxy is not None:
        data["requestheader-client-ca-file"] = record.front_proxy.certificate
        data |= {key: msgspec.json.encode([value]).decode() for key, value in _LISTS.items()}
    return data


def config_key(tenant: str) -> str:
    """Return the key of a tenant's ConfigMap `extension-apiserver-authentication`."""
    namespace, name = AUTHENTICATION_CONFIG
    return object_key(tenant, "", "configmaps", namespace, name)


def config_put(record: TenantRecord, found: Record) -> Put:
    """Return the write by which an existing ConfigMap says what `authentication_data` returns; other keys stay."""
    body = msgspec.json.decode(found.value)
    body["data"] = {**(body.get("data") or {}), **authentication_data(record)}
    return Put(found.key, msgspec.json.encode(body))


def new_front_proxy(now: float) -> Authority:
    """Make an authority. `now`: seconds since the epoch."""
    return pki.new_authority(f"vcsync-front-proxy-{uuid.uuid4().hex[:12]}", now)


class FrontProxies:
    """The front proxies of all tenants.

    Args:
        context: What operations on tenants share.
    """

    def __init__(self, context: OperatorContext) -> None:
        self._context = context

    async def ensure(self, tenant: str) -> Authority | None:
        """Return the authority of a tenant's front proxy. Create it, or repair the ConfigMap, where that is necessary.

        Several processes may call this at once: they write by compare and swap, and all end with the same authority.

        Returns:
            The authority, or None if the tenant does not exist, or is being created or deleted.

        Raises:
            StatusError: 409, other writes came first in every attempt.
            StoreError: The store cannot be read or written.
        """
        for _ in range(MAX_TRIES):
            found, _ = await self._context.store.get(record_key(tenant))
            old = None if found is None else decode(found.value)
            if found is None or old is None or old.phase != "Ready" or old.authority is None:
                return None
            front_proxy = old.front_proxy or new_front_proxy(self._context.clock())
            record = msgspec.structs.replace(old, front_proxy=front_proxy)
            config, _ = await self._context.store.get(config_key(tenant))
            if record == old and config is not None and _says(config, record):
                return front_proxy
            if await self._write(found, record, config):
                return front_proxy
        raise conflict("tenants", "", tenant, BUSY)

    async def _write(self, found: Record, record: TenantRecord, config: Record | None) -> bool:
        key = config_key(record.name)
        put = self._config_create(record, key) if config is None else config_put(record, config)
        compares = [Compare(found.key, found.revision), Compare(key, config.revision if config else 0)]
        writes: list[Put | Delete] = [put]
        if record.front_proxy != decode(found.value).front_proxy:
            writes.append(Put(record_key(record.name), encode(record)))
        outcome = await self._context.store.txn(compares, writes)
        if outcome.done and len(writes) > 1:
            self._context.registry.learn(record, outcome.revision)
        return outcome.done

    def _config_create(self, record: TenantRecord, key: str) -> Put:
        namespace, name = AUTHENTICATION_CONFIG
        metadata = {
            "name": name,
            "namespace": namespace,
            "uid": str(uuid.uuid4()),
            "creationTimestamp": unix_time_text(int(self._context.clock())),
        }
        return Put(key, msgspec.json.encode({"metadata": metadata, "data": authentication_data(record)}))


def _says(config: Record, record: TenantRecord) -> bool:
    """Tell whether a stored ConfigMap says what aggregated API servers must know of a tenant."""
    data = msgspec.json.decode(config.value).get("data") or {}
    return authentication_data(record).items() <= data.items()
