"""Creates tenants, changes their settings, and rotates their keys."""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
import structlog

from vcsync.api.networks import NetworkSpec
from vcsync.apimachinery.errors import StatusError, already_exists, conflict, forbidden
from vcsync.apiserver.operator import defaults
from vcsync.apiserver.operator.context import OperatorContext
from vcsync.apiserver.operator.draining import sweep
from vcsync.apiserver.operator.front_proxy import config_key, config_put, new_front_proxy
from vcsync.apiserver.operator.tenant_deletion import BUSY
from vcsync.apiserver.request.caller import SYSTEM
from vcsync.apiserver.request.host_names import HostNames
from vcsync.apiserver.storage.interface import NARROW, Compare, Delete, Put, Store
from vcsync.apiserver.tenants import external_controllers as controllers_of
from vcsync.apiserver.tenants import pki
from vcsync.apiserver.tenants.records import (
    SERVER,
    Authority,
    Controllers,
    Nodes,
    Phase,
    TenantRecord,
    Upstream,
    decode,
    decode_authority,
    encode,
    name_problem,
    record_key,
)
from vcsync.apiserver.tenants.request_limits import TenantLimits
from vcsync.apiserver.tenants.stalls import MOST_CHARACTERS, Stall, recent, why_aside
from vcsync.objects.times import unix_time_text

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Address of the API.

    Attributes:
        url: URL for clients outside the clusters: `https://host:port`.
        address: IPv4 address for Pods.
        port: Port for Pods, and in URLs with host names of tenants.
        host_names: Host names of tenants, or None if they have none.
    """

    url: str
    address: str
    port: int
    host_names: HostNames | None = None

    def url_of(self, tenant: str) -> str:
        """Return the URL for users of a tenant: with its host name if it has one."""
        if self.host_names is None or tenant == SYSTEM:
            return self.url
        return f"https://{tenant}.{self.host_names.domain}:{self.port}"


async def ensure_server(store: Store, clock: Callable[[], float]) -> Authority:
    """Return the certificate authority that signs serving certificates; create it if there is none.

    Raises:
        StoreError: The store cannot be read or written.
    """
    found, _ = await store.get(SERVER)
    if found is None:
        made = encode(pki.new_authority(f"vcsync-server-{uuid.uuid4().hex[:12]}", clock()))
        await store.txn([Compare(SERVER, 0)], [Put(SERVER, made)])
        found, _ = await store.get(SERVER)
    assert found is not None  # noqa: S101 - it is never deleted
    return decode_authority(found.value)


class Lifecycle:
    """Creates and changes tenants.

    Args:
        context: What operations on tenants share.
        endpoint: Where the API is reached.
    """

    def __init__(self, context: OperatorContext, endpoint: Endpoint) -> None:
        self._context = context
        self._endpoint = endpoint

    async def ensure_system(self) -> None:
        """Create the system space if it does not exist.

        Raises:
            StoreError: The store cannot be read or written.
        """
        while not self._context.registry.exists(SYSTEM):
            found, _ = await self._context.store.get(record_key(SYSTEM))
            if found and decode(found.value).phase == "Ready":
                self._context.registry.learn(decode(found.value), found.revision)
                return
            try:
                await self._create(SYSTEM)
            except StatusError:
                _log.info("another process makes the system space")

    async def create(
        self,
        tenant: str,
        controllers: Controllers = "vcsync",
        nodes: Nodes = "virtual",
        upstream: Upstream | None = None,
        network: NetworkSpec | None = None,
    ) -> TenantRecord:
        """Create a tenant. One with an embedded control plane gets default objects.

        Args:
            tenant: Name of the tenant.
            controllers: See `records.Controllers`. External control planes have controllers of their own.
            nodes: See `records.Nodes`.
            upstream: API server of an external control plane, or None.
            network: The network `default`, which exists from the start. None: the network-controller makes a flat one.

        Raises:
            StatusError: 409, a tenant of that name exists; 422, the name is invalid.
            StoreError: The store cannot be read or written.
        """
        problem = name_problem(tenant)
        if problem:
            raise StatusError(422, "Invalid", f'"{tenant}" is no tenant name: {problem}')
        return await self._create(tenant, "external" if upstream else controllers, nodes, upstream, network)

    async def _create(
        self,
        tenant: str,
        controllers: Controllers = "vcsync",
        nodes: Nodes = "virtual",
        upstream: Upstream | None = None,
        network: NetworkSpec | None = None,
    ) -> TenantRecord:
        key = record_key(tenant)
        found, _ = await self._context.store.get(key)
        if found and decode(found.value).phase != "Creating":
            raise already_exists("tenants", "", tenant)
        record = msgspec.structs.replace(
            self._record(tenant, controllers=controllers, nodes=nodes), upstream=upstream
        )
        revision = found.revision if found else 0
        if (await self._context.store.range(f"{tenant}/", limit=1)).records:
            # An earlier tenant left objects, or another process writes them now: only the owner of the record may sweep.
            revision = await self._write(record, "Creating", revision, [])
            await sweep(self._context.store, tenant, Compare(key, revision))
        assert record.authority is not None  # noqa: S101 - set by _record
        objects: list[Put | Delete] = [controllers_of.publish(tenant, controllers, record.created, nodes)]
        if upstream is None:
            objects += defaults.default_puts(
                tenant,
                now=record.created,
                address=self._endpoint.address,
                port=self._endpoint.port,
                authority=record.authority.certificate,
            )
        if network is not None:
            objects.append(defaults.network_put(tenant, network, now=record.created))
        batch = NARROW - 1
        for start in range(0, len(objects), batch):
            phase: Phase = "Ready" if start + batch >= len(objects) else "Creating"
            revision = await self._write(record, phase, revision, objects[start : start + batch])
        self._context.registry.learn(record, revision)
        self._context.on_replaced(tenant)
        return record

    async def _write(
        self, record: TenantRecord, phase: Phase, revision: int, objects: Sequence[Put | Delete]
    ) -> int:
        """Write a record together with objects, and return the new revision.

        Args:
            record: The record.
            phase: Phase to write.
            revision: Revision that the record must have. 0: it must not exist.
            objects: Writes of objects.

        Raises:
            StatusError: 409, the record has another revision.
            StoreError: The store cannot be written.
        """
        key = record_key(record.name)
        written = encode(msgspec.structs.replace(record, phase=phase))
        outcome = await self._context.store.txn([Compare(key, revision)], [*objects, Put(key, written)])
        if not outcome.done:
            raise already_exists("tenants", "", record.name)
        return outcome.revision

    def _record(self, tenant: str, *, controllers: Controllers, nodes: Nodes) -> TenantRecord:
        """Return a record with new keys."""
        now = self._context.clock()
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
        return unix_time_text(int(self._context.clock()))

    def issuer(self, tenant: str) -> str:
        """Return the issuer of a tenant's tokens."""
        return self._endpoint.url if tenant == SYSTEM else f"{self._endpoint.url}/tenants/{tenant}"

    async def rotate(self, tenant: str) -> TenantRecord:
        """Replace the keys of a tenant. All certificates and tokens issued before become invalid at once.

        Raises:
            StatusError: 404, the tenant does not exist; 403, it is the system space; 409, it is being changed.
            StoreError: The store cannot be read or written.
        """
        if tenant == SYSTEM:
            raise forbidden("tenants", "", tenant, "the operator's own space keeps its keys")
        key = record_key(tenant)
        found = await self._context.stored(tenant)
        old = decode(found.value)
        if old.phase != "Ready":
            raise conflict("tenants", "", tenant, BUSY)
        fresh = self._record(tenant, controllers=old.controllers, nodes=old.nodes)
        record = msgspec.structs.replace(
            old,
            authority=fresh.authority,
            signer=fresh.signer,
            front_proxy=new_front_proxy(self._context.clock()) if old.front_proxy is not None else None,
        )
        compares, writes = await self._with_config(record)
        outcome = await self._context.store.txn(
            [Compare(key, found.revision), *compares], [Put(key, encode(record)), *writes]
        )
        if not outcome.done:
            raise conflict("tenants", "", tenant, BUSY)
        self._context.registry.learn(record, outcome.revision)
        await self._context.forget_keys(tenant)
        return record

    async def set_controllers(self, tenant: str, controllers: Controllers) -> TenantRecord:
        """Change the controllers of a tenant.

        Raises:
            StatusError: 404, the tenant does not exist; 409, its control plane is external, or it is being changed.
            StoreError: The store cannot be read or written.
        """

        def change(old: TenantRecord) -> tuple[TenantRecord, list[Put | Delete]]:
            if old.upstream is not None:
                raise conflict("tenants", "", tenant, "its control plane is external")
            published = controllers_of.publish(
                tenant, "external" if old.aside else controllers, self._now(), old.nodes
            )
            return msgspec.structs.replace(old, controllers=controllers), [published]

        return await self._change(tenant, change)

    async def set_upstream(self, tenant: str, upstream: Upstream) -> TenantRecord:
        """Change the API server of a tenant's external control plane, or the gateway's credential for it.

        Raises:
            StatusError: 404, the tenant does not exist; 409, its control plane is embedded, or it is being changed.
            StoreError: The store cannot be read or written.
        """

        def change(old: TenantRecord) -> tuple[TenantRecord, list[Put | Delete]]:
            if old.upstream is None:
                raise conflict("tenants", "", tenant, "its control plane is embedded")
            return msgspec.structs.replace(old, upstream=upstream), []

        return await self._change(tenant, change)

    async def suspend(self, tenant: str, *, suspended: bool) -> TenantRecord:
        """Let a tenant's users only read, or also write again.

        Raises:
            StatusError: 404, the tenant does not exist; 403, it is the system space; 409, it has nodes of its own, or it is
                being changed.
            StoreError: The store cannot be read or written.
        """
        if tenant == SYSTEM:
            raise forbidden("tenants", "", tenant, "the operator's own space cannot be suspended")

        def change(old: TenantRecord) -> tuple[TenantRecord, list[Put | Delete]]:
            if suspended and old.nodes != "virtual":
                raise conflict("tenants", "", tenant, "it has nodes of its own, so it is a cluster")
            return msgspec.structs.replace(old, suspended=suspended), []

        return await self._change(tenant, change)

    async def stalled(self, tenant: str, work: str, *, sure: bool) -> TenantRecord:
        """Record that work of a tenant made a process end, and set the tenant aside if that has become too frequent.

        A tenant that is set aside has no controllers of vcsync. The operator's space and clusters are never set aside.

        Args:
            tenant: The tenant.
            work: Kind of the work.
            sure: Whether no other work can have been the cause.

        Raises:
            StatusError: 404, the tenant does not exist; 409, it is being changed.
            StoreError: The store cannot be read or written.
        """
        now = self._now()

        def change(old: TenantRecord) -> tuple[TenantRecord, list[Put | Delete]]:
            known = recent((*old.stalls, Stall(now, work[:MOST_CHARACTERS], sure)), now)
            may = tenant != SYSTEM and old.nodes == "virtual"
            aside = old.aside or (why_aside(known) if may else "")
            hidden = [controllers_of.publish(tenant, "external", now)] if aside and not old.aside else []
            return msgspec.structs.replace(old, stalls=known, aside=aside), [*hidden]

        return await self._change(tenant, change)

    async def release(self, tenant: str) -> TenantRecord:
        """Serve a tenant again that was set aside, and forget its stalls.

        Raises:
            StatusError: 404, the tenant does not exist; 409, it is being changed.
            StoreError: The store cannot be read or written.
        """

        def change(old: TenantRecord) -> tuple[TenantRecord, list[Put | Delete]]:
            shown = [controllers_of.publish(tenant, old.controllers, self._now())] if old.aside else []
            return msgspec.structs.replace(old, stalls=(), aside=""), [*shown]

        return await self._change(tenant, change)

    async def limit_storage(self, tenant: str, **limits: int | None) -> TenantRecord:
        """Change the storage limits of a tenant.

        Args:
            tenant: Name of the tenant.
            limits: The fields `storage_bytes` and `storage_objects` of its record that change.

        Raises:
            StatusError: 404, the tenant does not exist; 409, it is being changed.
            StoreError: The store cannot be read or written.
        """
        return await self._change(tenant, lambda old: (msgspec.structs.replace(old, **limits), []))

    async def limit_requests(self, tenant: str, **changes: TenantLimits | int | None) -> TenantRecord:
        """Change the limits of a tenant's requests, or its weight.

        Args:
            tenant: Name of the tenant.
            changes: The fields `limits` and `weight` of its record that change.

        Raises:
            StatusError: 404, the tenant does not exist; 403, it is the system space; 409, it is being changed.
            StoreError: The store cannot be read or written.
        """
        if tenant == SYSTEM:
            raise forbidden("tenants", "", tenant, "requests of the operator are not limited")
        return await self._change(tenant, lambda old: (msgspec.structs.replace(old, **changes), []))

    async def _change(
        self, tenant: str, change: Callable[[TenantRecord], tuple[TenantRecord, list[Put | Delete]]]
    ) -> TenantRecord:
        key = record_key(tenant)
        found = await self._context.stored(tenant)
        old = decode(found.value)
        if old.phase != "Ready":
            raise conflict("tenants", "", tenant, BUSY)
        record, writes = change(old)
        outcome = await self._context.store.txn(
            [Compare(key, found.revision)], [Put(key, encode(record)), *writes]
        )
        if not outcome.done:
            raise conflict("tenants", "", tenant, BUSY)
        self._context.registry.learn(record, outcome.revision)
        return record

    async def _with_config(self, record: TenantRecord) -> tuple[list[Compare], list[Put]]:
        """Return the write of the new authorities to the ConfigMap that aggregated API servers read, if it exists."""
        found, _ = await self._context.store.get(config_key(record.name))
        if found is None or record.authority is None:
            return [], []
        return [Compare(found.key, found.revision)], [config_put(record, found)]
