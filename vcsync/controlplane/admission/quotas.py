"""Counts writes against ResourceQuotas in the write's own transaction, so that no two writes share what is left.

kube-apiserver writes the quota first and the object after; here both are one transaction, on however many processes.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from vcsync.controlplane import errors
from vcsync.controlplane.admission.charge import QuotaExceeded, Write, charge
from vcsync.controlplane.admission.usage import IGNORED, is_terminating, updates_count
from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.resources import collection_key
from vcsync.controlplane.rest import stored
from vcsync.controlplane.rest.claims import NOTHING, Reservation
from vcsync.controlplane.rest.scope import Scope
from vcsync.controlplane.store.interface import Compare, Put, Record, Store


class QuotaClaims:
    """Reserves what writes use of their namespace's quotas."""

    def __init__(self, store: Store) -> None:
        """Take where quotas are kept."""
        self._store = store
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
        if not records:
            return NOTHING
        resource = scope.kind.resource
        quotas = [stored.unpack(each.value, each.revision, "ResourceQuota", "v1") for each in records]
        try:
            charged = charge(Write(resource.storage_group, resource.plural, new, old), quotas)
        except QuotaExceeded as error:
            name = new["metadata"].get("name") or scope.name
            raise errors.forbidden(resource.plural, resource.group, name, str(error)) from None
        if dry_run:
            return NOTHING
        operations = []
        for position, used in charged:
            quota = quotas[position]
            status = {**(quota.get("status") or {}), "used": used}
            operations.append(Put(records[position].key, stored.pack({**quota, "status": status})))
        compares = (Compare(records[position].key, records[position].revision) for position, _ in charged)
        return Reservation(tuple(compares), tuple(operations))

    @asynccontextmanager
    async def turn(self, scope: Scope) -> AsyncIterator[None]:
        """Hold a namespace with quotas for one write, so that many at once need not try again and again."""
        prefix = _prefix(scope)
        if not prefix or not await self._store.count(prefix):
            yield
            return
        lock = self._turns.get(prefix)
        if lock is None:
            lock = self._turns[prefix] = asyncio.Lock()
        async with lock:
            yield

    async def _quotas(self, scope: Scope) -> list[Record]:
        return (await self._store.range(_prefix(scope))).records


def _prefix(scope: Scope) -> str:
    return collection_key(scope.tenant, "", "resourcequotas", scope.namespace) if scope.namespace else ""


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
    return not scope.subresource and updates_count(group, plural)
