"""Counts writes against ResourceQuotas in the write's own transaction, so that no two writes share what is left.

kube-apiserver writes the quota first and the object after; here both are one transaction, on however many processes.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from weakref import WeakValueDictionary

from vcsync.controlplane import errors
from vcsync.controlplane.admission.charge import NotCovered, QuotaExceeded, Write, charge
from vcsync.controlplane.admission.settings import Limited
from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.patch import managed, resets
from vcsync.controlplane.patch.managed import Tracking
from vcsync.controlplane.resources import collection_key
from vcsync.controlplane.rest import stored
from vcsync.controlplane.rest.claims import NOTHING, Reservation
from vcsync.controlplane.rest.scope import Scope
from vcsync.controlplane.schema import builtin
from vcsync.controlplane.store.interface import Compare, Put, Record, Store
from vcsync.quota.usage import IGNORED, is_terminating, updates_count

MANAGER = "kube-apiserver"
CHARGED_PARTS = frozenset({("pods", "resize"), ("persistentvolumeclaims", "status")})
"""Subresources whose writes may change what is used."""


class QuotaClaims:
    """Reserves what writes use of their namespace's quotas."""

    def __init__(self, store: Store, limited: Sequence[Limited] = ()) -> None:
        """Take where quotas are kept, and what needs one."""
        self._store = store
        self._limited = limited
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def __call__(
        self, scope: Scope, new: Object | None, old: Object | None, *, dry_run: bool = False
    ) -> Reservation:
        """See `claims.Claims`. What a deletion frees is counted by the tenant's quota controller.

        Raises:
            StatusError: 403 a quota is exceeded.
        """
        if new is None or not _counts(scope, new, old):
            return NOTHING
        records = await self._quotas(scope)
        if not records and not self._limited:
            return NOTHING
        resource = scope.kind.resource
        quotas = [stored.unpack(each.value, each.revision, "ResourceQuota", "v1") for each in records]
        try:
            told = scope.subresource == "status"
            write = Write(resource.storage_group, resource.plural, new, old, told)
            charged = charge(write, quotas, self._limited)
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
        """Hold a namespace with quotas for one write, so that many at once need not try again and again."""
        prefix = _prefix(scope)
        if not prefix or _is_free(scope) or not await self._store.known_below(prefix):
            yield
            return
        lock = self._turns.get(prefix)
        if lock is None:
            lock = self._turns[prefix] = asyncio.Lock()
        async with lock:
            yield

    async def _quotas(self, scope: Scope) -> Sequence[Record]:
        return await self._store.known_below(_prefix(scope))


def _with_used(quota: Object, used: dict[str, str], now: str) -> Object:
    """Return a quota with other usage, which the server has written."""
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
        reset=resets.of_builtin("", "resourcequotas", "status"),
        empty=managed.empty_object("", "v1", "ResourceQuota"),
    )


def _prefix(scope: Scope) -> str:
    return collection_key(scope.tenant, "", "resourcequotas", scope.namespace) if scope.namespace else ""


def _is_free(scope: Scope) -> bool:
    """Whether a write changes what is used never, or so rarely that it may as well be tried again; see `_counts`."""
    resource = scope.kind.resource
    of = (resource.storage_group, resource.plural)
    if scope.subresource:
        return (resource.plural, scope.subresource) not in CHARGED_PARTS
    return of in IGNORED or (scope.standing and (of == ("", "pods") or not updates_count(*of)))


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
