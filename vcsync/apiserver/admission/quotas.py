"""Charges writes to ResourceQuotas in their own transaction, so that two writes never use the same remaining quota.

kube-apiserver writes the quota first and then the object. vcsync writes both in one transaction, which also holds across
processes.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from weakref import WeakValueDictionary

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.kinds import all_kinds
from vcsync.apimachinery.patch import managed
from vcsync.apimachinery.patch.managed import Tracking
from vcsync.apimachinery.resources import collection_key
from vcsync.apimachinery.schema import builtin
from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.admission.charge import NotCovered, QuotaExceeded, Write, charges
from vcsync.apiserver.admission.framework.decoded import decoded
from vcsync.apiserver.admission.framework.settings import Limited
from vcsync.apiserver.request import stored
from vcsync.apiserver.request.claims import NOTHING, Reservation
from vcsync.apiserver.request.scope import Scope
from vcsync.apiserver.storage.interface import Compare, Put, Record, Store
from vcsync.objects.budget import Budget
from vcsync.process.loop_turns import rest
from vcsync.quota.usage import IGNORED, is_terminating, updates_count

MANAGER = "kube-apiserver"
QUOTA_STEPS = 20
"""Steps of the budget that one ResourceQuota takes, besides one for each of its resources."""
CHARGED_PARTS = frozenset({("pods", "resize"), ("persistentvolumeclaims", "status")})
"""Subresources whose writes may change usage."""


class QuotaClaims:
    """Claims that charge writes to the quotas of their namespace.

    Args:
        store: The store.
        limited: Resources that must be covered by a quota.
    """

    def __init__(self, store: Store, limited: Sequence[Limited] = ()) -> None:
        self._store = store
        self._limited = limited
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def __call__(
        self, scope: Scope, new: Object | None, old: Object | None, *, dry_run: bool = False
    ) -> Reservation:
        """See `claims.Claims`. The quota controller of the tenant recalculates usage after deletions.

        Raises:
            StatusError: 403, a quota is exceeded.
        """
        if new is None or not _counts(scope, new, old):
            return NOTHING
        records = await self._quotas(scope)
        if not records and not self._limited:
            return NOTHING
        resource = scope.kind.resource
        quotas = [
            _whole(quota, record) for quota, record in zip(await decoded(records), records, strict=True)
        ]
        budget = Budget("the ResourceQuotas of a namespace")
        charged: list[tuple[int, dict[str, str]]] = []
        try:
            reports_status = scope.subresource == "status"
            write = Write(resource.storage_group, resource.plural, new, old, reports_status)
            for quota, each in zip(quotas, charges(write, quotas, self._limited), strict=True):
                charged += [each] if each is not None else ()
                budget.spend(QUOTA_STEPS + len((quota.get("status") or {}).get("hard") or ()))
                await rest(budget)
        except NotCovered as error:
            raise StatusError(500, "", str(error)) from None
        except QuotaExceeded as error:
            name = new["metadata"].get("name") or scope.name
            raise errors.forbidden(resource.plural, resource.group, name, str(error)) from None
        if dry_run:
            return NOTHING
        operations = []
        for position, used in charged:
            quota = quotas[position]
            changed = _with_used(quota, used, scope.context.now)
            operations.append(Put(records[position].key, stored.pack(changed)))
        compares = (Compare(records[position].key, records[position].revision) for position, _ in charged)
        return Reservation(tuple(compares), tuple(operations))

    @asynccontextmanager
    async def turn(self, scope: Scope) -> AsyncIterator[None]:
        """Serialize writes in a namespace with quotas, so that concurrent writes do not conflict repeatedly."""
        prefix = _prefix(scope)
        if not prefix or _is_free(scope) or not await self._store.range_cached(prefix):
            yield
            return
        lock = self._turns.get(prefix)
        if lock is None:
            lock = self._turns[prefix] = asyncio.Lock()
        async with lock:
            yield

    async def _quotas(self, scope: Scope) -> Sequence[Record]:
        return await self._store.range_cached(_prefix(scope))


def _whole(quota: Object, record: Record) -> Object:
    """Return a stored quota as it is read."""
    metadata = {"resourceVersion": str(record.revision), **quota["metadata"]}
    return {"kind": "ResourceQuota", "apiVersion": "v1", **quota, "metadata": metadata}


def _with_used(quota: Object, used: dict[str, str], now: str) -> Object:
    """Return a quota with new usage and the server as its field manager."""
    status = {**(quota.get("status") or {}), "used": used}
    changed = {**quota, "metadata": dict(quota["metadata"]), "status": status}
    entries = managed.update(quota, changed, MANAGER, now, _tracking())
    if entries:
        changed["metadata"]["managedFields"] = entries
    return changed


@cache
def _tracking() -> Tracking:
    schema = builtin.schema("", "v1", "ResourceQuota")
    if schema is None:
        raise AssertionError("ResourceQuota is a built-in kind")
    return Tracking(
        schema=schema,
        api_version="v1",
        kind="ResourceQuota",
        subresource="status",
        reset=all_kinds.reset("", "resourcequotas", "status"),
        empty=managed.empty_object("", "v1", "ResourceQuota"),
    )


def _prefix(scope: Scope) -> str:
    return collection_key(scope.tenant, "", "resourcequotas", scope.namespace) if scope.namespace else ""


def _is_free(scope: Scope) -> bool:
    """Return whether a write never changes usage, or so rarely that a conflict may be retried; see `_counts`."""
    resource = scope.kind.resource
    of = (resource.storage_group, resource.plural)
    if scope.subresource:
        return (resource.plural, scope.subresource) not in CHARGED_PARTS
    return of in IGNORED or (scope.exists and (of == ("", "pods") or not updates_count(*of)))


def _counts(scope: Scope, new: Object, old: Object | None) -> bool:
    resource = scope.kind.resource
    group, plural = resource.storage_group, resource.plural
    if not scope.namespace or (group, plural) in IGNORED:
        return False
    if old is None:
        return not scope.subresource
    if (group, plural) == ("", "pods"):
        return scope.subresource == "resize" or (
            not scope.subresource and is_terminating(new) != is_terminating(old)
        )
    if (group, plural) == ("", "persistentvolumeclaims") and scope.subresource == "status":
        return True
    return not scope.subresource and updates_count(group, plural)
