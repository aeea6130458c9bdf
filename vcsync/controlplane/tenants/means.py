"""What whoever makes, changes or deletes tenants needs for it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from vcsync.controlplane.errors import not_found
from vcsync.controlplane.store.interface import Record, Store
from vcsync.controlplane.tenants.records import record_key
from vcsync.controlplane.tenants.registry import TenantRegistry


@dataclass(frozen=True, slots=True)
class Means:
    """The store with all tenants, and who must learn of what is done to them.

    Attributes:
        store: holds the tenants' records.
        registry: learns of them at once.
        clock: seconds since the epoch.
        on_gone: told of a tenant of which nothing holds any more that was known.
        forget_keys: drops what is kept of a tenant's certificates once its authority is gone.
    """

    store: Store
    registry: TenantRegistry
    clock: Callable[[], float]
    on_gone: Callable[[str], None]
    forget_keys: Callable[[str], Awaitable[None]]

    async def stored(self, tenant: str) -> Record:
        """Return a tenant's record as it is stored.

        Raises:
            StatusError: 404, there is no such tenant.
            StoreError: the store cannot be read.
        """
        found, _ = await self.store.get(record_key(tenant))
        if found is None:
            raise not_found("tenants", "", tenant)
        return found
