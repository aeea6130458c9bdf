"""Shared state of the parts that create, change and delete tenants."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from vcsync.apimachinery.errors import not_found
from vcsync.apiserver.storage.interface import Record, Store
from vcsync.apiserver.tenants.records import record_key
from vcsync.apiserver.tenants.registry import TenantRegistry


@dataclass(frozen=True, slots=True)
class OperatorContext:
    """The store, and what must learn of changes of tenants.

    Attributes:
        store: Keeps the records of tenants.
        registry: Learns of changed records at once.
        clock: Returns seconds since the epoch.
        on_replaced: Called when everything cached about a tenant is outdated.
        forget_keys: Deletes the revocations of a tenant whose authority is gone.
    """

    store: Store
    registry: TenantRegistry
    clock: Callable[[], float]
    on_replaced: Callable[[str], None]
    forget_keys: Callable[[str], Awaitable[None]]

    async def stored(self, tenant: str) -> Record:
        """Return the stored record of a tenant.

        Raises:
            StatusError: 404, the tenant does not exist.
            StoreError: The store cannot be read.
        """
        found, _ = await self.store.get(record_key(tenant))
        if found is None:
            raise not_found("tenants", "", tenant)
        return found
