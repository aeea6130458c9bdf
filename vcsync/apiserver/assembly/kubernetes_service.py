"""Controller of every tenant's Service, Endpoints and EndpointSlice `kubernetes`: restores them when they change.

Behaviour: kubernetes `pkg/controlplane/controller/kubernetesservice`, which runs every ten seconds. This controller
runs for a tenant when one of its three objects changed. Several processes may run it at once: they write by compare
and swap, and all compute the same objects.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from http import HTTPStatus

import structlog

from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.kinds.core.service_claims import Network
from vcsync.apimachinery.resources import object_key
from vcsync.apimachinery.strategy import Context, Object, User
from vcsync.apiserver.admission.quotas import QuotaClaims
from vcsync.apiserver.assembly.api_servers import ApiServers, adds_or_removes_server
from vcsync.apiserver.assembly.tenant_exists import TenantExists, ready
from vcsync.apiserver.discovery.served import builtin_kinds
from vcsync.apiserver.operator.defaults import SERVICE_ADDRESS, SERVICE_CIDR
from vcsync.apiserver.registry.deletion import Deleter
from vcsync.apiserver.registry.service_allocation import ServiceClaims
from vcsync.apiserver.registry.store import Registry
from vcsync.apiserver.request import stored
from vcsync.apiserver.request.claims import AllClaims
from vcsync.apiserver.request.options import DeleteOptions, WriteOptions
from vcsync.apiserver.request.scope import Scope
from vcsync.apiserver.storage.interface import Change, Store, StoreError, tenant_of
from vcsync.apiserver.tenants import api_endpoints
from vcsync.apiserver.tenants.api_endpoints import NAME, NAMESPACE, Server

KEY_SUFFIX = f"/{NAMESPACE}/{NAME}"
"""End of the keys of the three objects. A few other objects share it."""
SETTLE_SECONDS = 0.5
"""Time for which changes are collected before tenants are reconciled."""
BACKOFF_SECONDS = 10.0
"""Time between two reconciliations of a tenant that wrote or failed, in case somebody deletes the objects in a loop."""
_SERVICES = ("", "v1", "services")
_ENDPOINTS = ("", "v1", "endpoints")
_SLICES = ("discovery.k8s.io", "v1", "endpointslices")
_SELF = User("system:apiserver", groups=("system:masters",))
_log = structlog.get_logger(__name__)


class KubernetesService:
    """The controller of the three objects named `kubernetes`.

    Args:
        store: The store.
        own: Address and port at which Pods reach this process.
        tenants: Returns all tenants.
        now: Returns the time in RFC 3339.
    """

    def __init__(
        self, store: Store, own: Server, tenants: Callable[[], Iterable[str]], now: Callable[[], str]
    ) -> None:
        self._store, self._tenants, self._now = store, tenants, now
        self._servers = ApiServers(store, own)
        # Writes of the server pass no webhook or policy of a tenant, but count against its quotas.
        claims = AllClaims(TenantExists(store), ServiceClaims(store, Network(SERVICE_CIDR)))
        self._registry = Registry(store, claims=claims, charges=QuotaClaims(store))
        self._deleter = Deleter(self._registry)
        self._queue: dict[str, None] = {}
        self._backoff: dict[str, asyncio.TimerHandle] = {}
        self._failing: set[str] = set()
        self._wake = asyncio.Event()

    def changed(self, changes: Sequence[Change]) -> None:
        """Enqueue the tenants that changes of the store concern. Other changes cost little."""
        for change in changes:
            if change.key.endswith(KEY_SUFFIX):
                self.enqueue((tenant_of(change.key),))
            elif adds_or_removes_server(change):
                self.enqueue(self._tenants())

    def enqueue(self, tenants: Iterable[str]) -> None:
        """Reconcile tenants soon."""
        self._queue.update((tenant, None) for tenant in tenants if tenant not in self._backoff)
        self._wake.set()

    async def run(self) -> None:
        """Reconcile all tenants, and then those that are enqueued, until cancelled."""
        self.enqueue(self._tenants())
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._servers.run())
                tasks.create_task(self._work())
        finally:
            for timer in self._backoff.values():
                timer.cancel()

    async def _work(self) -> None:
        while True:
            await self._wake.wait()
            await asyncio.sleep(SETTLE_SECONDS)
            self._wake.clear()
            while self._queue:
                tenant = next(iter(self._queue))
                del self._queue[tenant]
                if await self._step(tenant):
                    loop = asyncio.get_running_loop()
                    self._backoff[tenant] = loop.call_later(BACKOFF_SECONDS, self._retry, tenant)

    def _retry(self, tenant: str) -> None:
        self._backoff.pop(tenant, None)
        self.enqueue((tenant,))

    async def _step(self, tenant: str) -> bool:
        """Reconcile a tenant and return whether to do so again after `BACKOFF_SECONDS`."""
        try:
            wrote = await self.reconcile(tenant)
        except (StatusError, StoreError) as error:
            self._log_once(tenant, str(error))
            return True
        except Exception:  # noqa: BLE001 - a defect over one tenant must not stop the others
            _log.exception("the Service kubernetes of a tenant cannot be reconciled", tenant=tenant)
            return True
        self._failing.discard(tenant)
        return wrote

    def _log_once(self, tenant: str, why: str) -> None:
        """Log the first of a series of failures of a tenant."""
        if tenant not in self._failing:
            self._failing.add(tenant)
            _log.warning("the Service kubernetes of a tenant cannot be reconciled", tenant=tenant, error=why)

    async def reconcile(self, tenant: str) -> bool:
        """Restore the three objects of a tenant and return whether anything was written.

        Raises:
            StatusError: An object cannot be written, for example because another Service has its address. The other
                objects are written nevertheless.
            StoreError: The store cannot be read or written.
        """
        if await ready(self._store, tenant) is None:
            return False
        servers = await self._servers.known()
        try:
            wrote = await self._service(tenant, min(servers)[1])
        finally:
            wrote_endpoints = await self._endpoints(tenant, servers)
        return wrote or wrote_endpoints

    async def _service(self, tenant: str, port: int) -> bool:
        if await self._get(tenant, _SERVICES) is not None:
            return False
        return await self._create(tenant, _SERVICES, api_endpoints.service(SERVICE_ADDRESS, port))

    async def _endpoints(self, tenant: str, servers: Iterable[Server]) -> bool:
        found = await self._get(tenant, _ENDPOINTS)
        wanted = api_endpoints.endpoints(found, frozenset(servers))
        wrote = await self._put(tenant, _ENDPOINTS, found, wanted)
        current = await self._get(tenant, _SLICES)
        # The address type is immutable, so that a wrong slice must be replaced.
        if current is not None and current.get("addressType") != "IPv4":
            await self._deleter.delete(self._scope(tenant, _SLICES), DeleteOptions())
            current, wrote = None, True
        return (
            await self._put(tenant, _SLICES, current, api_endpoints.endpoint_slice(current, wanted)) or wrote
        )

    async def _put(
        self, tenant: str, which: tuple[str, str, str], found: Object | None, wanted: Object
    ) -> bool:
        if found is None:
            return await self._create(tenant, which, wanted)
        if wanted is found:
            return False
        version = found["metadata"]["resourceVersion"]

        async def change(_: Object | None) -> Object:
            return {**wanted, "metadata": {**wanted["metadata"], "resourceVersion": version}}

        return await _unless_conflict(
            self._registry.update(self._scope(tenant, which), change, WriteOptions())
        )

    async def _create(self, tenant: str, which: tuple[str, str, str], wanted: Object) -> bool:
        return await _unless_conflict(
            self._registry.create(self._scope(tenant, which), wanted, WriteOptions())
        )

    async def _get(self, tenant: str, which: tuple[str, str, str]) -> Object | None:
        """Return one of the three objects, or None if it does not exist."""
        group, version, plural = which
        kind = builtin_kinds()[which].resource.kind
        record, _ = await self._store.get(object_key(tenant, group, plural, NAMESPACE, NAME))
        if record is None:
            return None
        api_version = f"{group}/{version}" if group else version
        return stored.unpack(record.value, record.revision, kind, api_version)

    def _scope(self, tenant: str, which: tuple[str, str, str]) -> Scope:
        context = Context(tenant, _SELF, self._now())
        return Scope(tenant, builtin_kinds()[which], context, NAMESPACE, NAME)


async def _unless_conflict(write: Awaitable[object]) -> bool:
    """Write. Return False if another process wrote first."""
    try:
        await write
    except StatusError as error:
        if error.code != HTTPStatus.CONFLICT:
            raise
        return False
    return True
