"""Sets and shows the quotas of tenants for the operator."""

from collections.abc import Mapping

from vcsync.apimachinery.errors import bad_request, conflict, forbidden, not_found
from vcsync.apiserver.operator.tenant_deletion import BUSY
from vcsync.apiserver.request.caller import SYSTEM
from vcsync.apiserver.storage.interface import Compare, Delete, Put, Store
from vcsync.apiserver.tenants.quota_records import decode_quota, encode_quota, quota_key, with_limits
from vcsync.apiserver.tenants.records import decode, record_key
from vcsync.quota.tenants import BYTES, free, problems

ATTEMPTS = 50
"""Attempts to change a quota while writes are charged to it."""


async def set_quota(store: Store, tenant: str, hard: Mapping[str, str] | None) -> None:
    """Change the limits of a tenant's quota. Every process learns of it by its watch of the store.

    Args:
        store: The store.
        tenant: Name of the tenant.
        hard: The limits by resource name. None: there is no quota.

    Raises:
        StatusError: 400, a limit is invalid; 404, the tenant does not exist; 403, it is the system space; 409, its control
            plane is external, or it is being changed.
        StoreError: The store cannot be read or written.
    """
    if hard and (wrong := next(problems(hard, "quota"), "")):
        raise bad_request(wrong)
    if tenant == SYSTEM:
        raise forbidden("tenants", "", tenant, "the operator's own space has no quota")
    key = quota_key(tenant)
    for _attempt in range(ATTEMPTS):
        found, _ = await store.get(record_key(tenant))
        if found is None:
            raise not_found("tenants", "", tenant)
        record = decode(found.value)
        if record.phase != "Ready":
            break
        if record.upstream is not None:
            why = "its control plane is external, and this server does not see all writes there: remove the quota"
            raise conflict("tenants", "", tenant, why)
        stored, _ = await store.get(key)
        old = None if stored is None else decode_quota(stored.value)
        if hard == (None if old is None else old.hard):
            return
        write = Delete(key) if hard is None else Put(key, encode_quota(with_limits(old, hard)))
        revision = 0 if stored is None else stored.revision
        outcome = await store.txn([Compare(found.key, found.revision), Compare(key, revision)], [write])
        if outcome.done:
            return
    raise conflict("tenants", "", tenant, BUSY)


async def shown_quota(store: Store, tenant: str) -> dict[str, dict[str, str]] | None:
    """Return the limits of a tenant, what it uses of them, and what is left. None: it has no quota.

    A limit whose usage was not counted yet has neither.

    Raises:
        StoreError: The store cannot be read.
    """
    stored, _ = await store.get(quota_key(tenant))
    if stored is None:
        return None
    record = decode_quota(stored.value)
    unknown = record.uncounted()
    used = {name: value for name, value in record.used.items() if name not in unknown}
    if BYTES in record.hard:
        used[BYTES] = str((await store.usage(tenant)).bytes)
    return {"hard": record.hard, "used": used, "free": free(record.hard, used)}
