"""How tenants come, and get new keys."""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec
import structlog

from vcsync.controlplane.errors import StatusError, already_exists, conflict, forbidden
from vcsync.controlplane.identity.caller import SYSTEM
from vcsync.controlplane.resources import object_key
from vcsync.controlplane.store.interface import NARROW, Compare, Delete, Put, Store
from vcsync.controlplane.tenants import controllers as controllers_of
from vcsync.controlplane.tenants import defaults, pki
from vcsync.controlplane.tenants.departing import BUSY
from vcsync.controlplane.tenants.draining import sweep
from vcsync.controlplane.tenants.means import Means
from vcsync.controlplane.tenants.records import (
    SERVER,
    Authority,
    Controllers,
    Nodes,
    Phase,
    TenantRecord,
    decode,
    decode_authority,
    encode,
    name_problem,
    record_key,
)

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the API is found. `url` by clients outside (`https://host:port`); `address`, `port` by Pods."""

    url: str
    address: str
    port: int


async def ensure_server(store: Store, clock: Callable[[], float]) -> Authority:
    """Return the authority that signs serving certificates; the first who asks makes it.

    Raises:
        StoreError: the store cannot be read or written.
    """
    found, _ = await store.get(SERVER)
    if found is None:
        made = encode(pki.new_authority(f"vcsync-server-{uuid.uuid4().hex[:12]}", clock()))
        await store.txn([Compare(SERVER, 0)], [Put(SERVER, made)])
        found, _ = await store.get(SERVER)
    assert found is not None  # noqa: S101  nothing deletes it
    return decode_authority(found.value)


class Lifecycle:
    """Creates and rekeys tenants."""

    def __init__(self, means: Means, endpoint: Endpoint) -> None:
        """Take what it needs for that, and where the API is."""
        self._means = means
        self._endpoint = endpoint

    async def ensure_system(self) -> None:
        """Make the operator's own space, unless it is there.

        Raises:
            StoreError: the store cannot be read or written.
        """
        while not self._means.registry.exists(SYSTEM):
            found, _ = await self._means.store.get(record_key(SYSTEM))
            if found and decode(found.value).phase == "Ready":
                self._means.registry.learn(decode(found.value), found.revision)
                return
            try:
                await self._create(SYSTEM)
            except StatusError:
                _log.info("another process makes the system space")

    async def create(
        self, tenant: str, controllers: Controllers = "vcsync", nodes: Nodes = "virtual"
    ) -> TenantRecord:
        """Make a tenant with everything that it begins with, and say whose its controllers and nodes are.

        Raises:
            StatusError: 409, there is one of that name; 422, the name will not do.
            StoreError: the store cannot be read or written.
        """
        problem = name_problem(tenant)
        if problem:
            raise StatusError(422, "Invalid", f'"{tenant}" is no tenant name: {problem}')
        return await self._create(tenant, controllers, nodes)

    async def _create(
        self, tenant: str, controllers: Controllers = "vcsync", nodes: Nodes = "virtual"
    ) -> TenantRecord:
        key = record_key(tenant)
        found, _ = await self._means.store.get(key)
        if found and decode(found.value).phase != "Creating":
            raise already_exists("tenants", "", tenant)
        record = self._record(tenant, controllers=controllers, nodes=nodes)
        revision = found.revision if found else 0
        if (await self._means.store.range(f"{tenant}/", limit=1)).records:
            # Left by an earlier one, or being written by somebody else: only who has the record may sweep.
            revision = await self._write(record, "Creating", revision, [])
            await sweep(self._means.store, tenant, Compare(key, revision))
        assert record.authority is not None  # noqa: S101  _record has just made it
        objects: list[Put | Delete] = [
            controllers_of.publish(tenant, controllers, record.created, nodes),
            *defaults.default_puts(
                tenant,
                now=record.created,
                address=self._endpoint.address,
                port=self._endpoint.port,
                authority=record.authority.certificate,
            ),
        ]
        room = NARROW - 1
        for start in range(0, len(objects), room):
            phase: Phase = "Ready" if start + room >= len(objects) else "Creating"
            revision = await self._write(record, phase, revision, objects[start : start + room])
        self._means.registry.learn(record, revision)
        self._means.on_gone(tenant)
        return record

    async def _write(
        self, record: TenantRecord, phase: Phase, revision: int, objects: Sequence[Put | Delete]
    ) -> int:
        """Write a record that nobody wrote since `revision`, and objects with it; return the new revision.

        Raises:
            StatusError: 409, somebody did.
            StoreError: the store cannot be written.
        """
        key = record_key(record.name)
        written = encode(msgspec.structs.replace(record, phase=phase))
        outcome = await self._means.store.txn([Compare(key, revision)], [*objects, Put(key, written)])
        if not outcome.done:
            raise already_exists("tenants", "", record.name)
        return outcome.revision

    def _record(self, tenant: str, *, controllers: Controllers, nodes: Nodes) -> TenantRecord:
        """Make a record with new keys."""
        now = self._means.clock()
        unique = uuid.uuid4().hex[:12]
        return TenantRecord(
            tenant,
            str(uuid.uuid4()),
            self._now(),
            authority=pki.new_authority(f"{unique}-{tenant}", now),
            signer=pki.new_signer(self.issuer(tenant)),
            controllers=controllers,
            nodes=nodes,
        )

    def _now(self) -> str:
        return datetime.fromtimestamp(int(self._means.clock()), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def issuer(self, tenant: str) -> str:
        """Return whom a tenant's tokens say they are from."""
        return self._endpoint.url if tenant == SYSTEM else f"{self._endpoint.url}/tenants/{tenant}"

    async def rotate(self, tenant: str) -> TenantRecord:
        """Give a tenant new keys: all certificates and tokens issued before are worthless at once.

        Raises:
            StatusError: 404, there is no such tenant; 403 for the operator's own space; 409, it changes just now.
            StoreError: the store cannot be read or written.
        """
        if tenant == SYSTEM:
            raise forbidden("tenants", "", tenant, "the operator's own space keeps its keys")
        key = record_key(tenant)
        found = await self._means.stored(tenant)
        old = decode(found.value)
        if old.phase != "Ready":
            raise conflict("tenants", "", tenant, BUSY)
        fresh = self._record(tenant, controllers=old.controllers, nodes=old.nodes)
        record = msgspec.structs.replace(old, authority=fresh.authority, signer=fresh.signer)
        compares, writes = await self._with_config(record)
        outcome = await self._means.store.txn(
            [Compare(key, found.revision), *compares], [Put(key, encode(record)), *writes]
        )
        if not outcome.done:
            raise conflict("tenants", "", tenant, BUSY)
        self._means.registry.learn(record, outcome.revision)
        await self._means.forget_keys(tenant)
        return record

    async def give_controllers(self, tenant: str, controllers: Controllers) -> TenantRecord:
        """Say whose a tenant's controllers are from now on.

        Raises:
            StatusError: 404, there is no such tenant; 409, it changes just now.
            StoreError: the store cannot be read or written.
        """
        return await self._change(
            tenant,
            lambda old: (
                msgspec.structs.replace(old, controllers=controllers),
                [controllers_of.publish(tenant, controllers, self._now(), old.nodes)],
            ),
        )

    async def limit_storage(self, tenant: str, **limits: int | None) -> TenantRecord:
        """Say how much a tenant may keep from now on.

        Args:
            tenant: its name.
            limits: `storage_bytes` and `storage_objects` of its record, whichever change.

        Raises:
            StatusError: 404, there is no such tenant; 409, it changes just now.
            StoreError: the store cannot be read or written.
        """
        return await self._change(tenant, lambda old: (msgspec.structs.replace(old, **limits), []))

    async def _change(
        self, tenant: str, change: Callable[[TenantRecord], tuple[TenantRecord, list[Put | Delete]]]
    ) -> TenantRecord:
        key = record_key(tenant)
        found = await self._means.stored(tenant)
        old = decode(found.value)
        if old.phase != "Ready":
            raise conflict("tenants", "", tenant, BUSY)
        record, besides = change(old)
        outcome = await self._means.store.txn(
            [Compare(key, found.revision)], [Put(key, encode(record)), *besides]
        )
        if not outcome.done:
            raise conflict("tenants", "", tenant, BUSY)
        self._means.registry.learn(record, outcome.revision)
        return record

    async def _with_config(self, record: TenantRecord) -> tuple[list[Compare], list[Put]]:
        """Tell the new authority where extension API servers look for it, if that still stands there."""
        namespace, name = defaults.AUTHENTICATION_CONFIG
        key = object_key(record.name, "", "configmaps", namespace, name)
        found, _ = await self._means.store.get(key)
        if found is None or record.authority is None:
            return [], []
        body = msgspec.json.decode(found.value)
        body["data"] = {**(body.get("data") or {}), "client-ca-file": record.authority.certificate}
        return [Compare(key, found.revision)], [Put(key, msgspec.json.encode(body))]
