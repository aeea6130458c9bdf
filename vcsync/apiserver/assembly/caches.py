"""Keeps what the server caches of the store up to date, and drops it where changes were missed."""

from collections.abc import Callable, Sequence

from vcsync.apiserver.apiextensions.catalogue import Catalogue
from vcsync.apiserver.apiextensions.definition_controller import DefinitionController
from vcsync.apiserver.discovery.remote_api_services import RemoteApiServices
from vcsync.apiserver.flow.service import Fairness
from vcsync.apiserver.registry.long_running import LongRunningRequests
from vcsync.apiserver.registry.storage_limit import StorageLimit
from vcsync.apiserver.storage.interface import Change
from vcsync.apiserver.watch.cacher import OnMissed, OnTenantFailed


class ServerCaches:
    """Everything that the server caches of the store.

    Args:
        catalogue: Custom kinds.
        definitions: Controller of CustomResourceDefinitions.
        long_running: Long-running requests.
        storage_limit: Usage of tenants.
        fairness: Configuration of priority and fairness, or None if there is none.
        remote: APIServices that name a Service.
        tenants: Returns all tenants.
        on_missed: Drops other caches when changes may have been missed; called first.
        on_tenant_failed: Drops other caches of a tenant after a listener failed on one of its changes; called first.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        definitions: DefinitionController,
        long_running: LongRunningRequests,
        storage_limit: StorageLimit,
        fairness: Fairness | None,
        *,
        remote: RemoteApiServices,
        tenants: Callable[[], Sequence[str]],
        on_missed: OnMissed | None,
        on_tenant_failed: OnTenantFailed | None,
    ) -> None:
        self._catalogue = catalogue
        self._remote = remote
        self._definitions = definitions
        self._long_running = long_running
        self._storage_limit = storage_limit
        self._fairness = fairness
        self._tenants = tenants
        self._on_missed = on_missed
        self._on_tenant_failed = on_tenant_failed

    def changed(self, changes: Sequence[Change]) -> None:
        """Apply changes of the store. Applying one twice does no harm."""
        for change in changes:
            self._catalogue.apply(change)
            self._remote.apply(change)
            self._definitions.observe(change)
        if self._fairness is not None:
            self._fairness.changed(changes)
        self._storage_limit.changed(changes)
        self._long_running.changed(changes)

    async def forget_all(self) -> None:
        """Drop everything, because changes were missed.

        Raises:
            StoreError: The store cannot be read.
        """
        if self._on_missed is not None:
            await self._on_missed()
        if self._fairness is not None:
            self._fairness.gate.changed_all()
        self._long_running.missed()
        self._storage_limit.missed()
        for tenant in self._tenants():
            self._catalogue.forget(tenant)
        for tenant in self._remote.tenants():
            self._remote.forget(tenant)
        await self._definitions.resume(self._tenants())

    async def forget(self, tenant: str) -> None:
        """Drop everything about a tenant, because a listener failed on one of its changes.

        Raises:
            StoreError: The store cannot be read.
        """
        if self._on_tenant_failed is not None:
            await self._on_tenant_failed(tenant)
        if self._fairness is not None:
            self._fairness.gate.changed(tenant)
        self._long_running.missed()
        self._storage_limit.missed()
        self._catalogue.forget(tenant)
        self._remote.forget(tenant)
        await self._definitions.resume([tenant])
