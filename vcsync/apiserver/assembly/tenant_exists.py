"""Makes writes of the server itself conditional on their tenant being ready, so that nothing is left of a deleted one."""

from contextlib import AbstractAsyncContextManager, nullcontext

from vcsync.apimachinery.errors import not_found
from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.request.claims import Reservation
from vcsync.apiserver.request.scope import Scope
from vcsync.apiserver.storage.interface import Compare, Record, Store
from vcsync.apiserver.tenants.records import decode, record_key


class TenantExists:
    """Claims that make each write conditional on its tenant being ready.

    Args:
        store: The store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    async def __call__(
        self,
        scope: Scope,
        new: Object | None,  # noqa: ARG002 - see the protocol
        old: Object | None,  # noqa: ARG002
        *,
        dry_run: bool = False,  # noqa: ARG002
    ) -> Reservation:
        """See `claims.Claims`.

        Raises:
            StatusError: 404, the tenant is gone or being deleted.
        """
        record = await ready(self._store, scope.tenant)
        if record is None:
            raise not_found("tenants", "", scope.tenant)
        return Reservation((Compare(record.key, record.revision),))

    def turn(self, scope: Scope) -> AbstractAsyncContextManager[None]:  # noqa: ARG002 - see the protocol
        """See `claims.Claims`; does not wait."""
        return nullcontext()


async def ready(store: Store, tenant: str) -> Record | None:
    """Return the record of a tenant, or None if it is not in phase Ready.

    Raises:
        StoreError: The store cannot be read.
    """
    record, _ = await store.get(record_key(tenant))
    return record if record is not None and decode(record.value).phase == "Ready" else None
