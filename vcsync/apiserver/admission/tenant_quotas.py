"""Charges writes to the quotas of their tenants in their own transaction, and corrects the usage after deletions."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from weakref import WeakValueDictionary

import structlog

from vcsync.apimachinery import errors
from vcsync.apimachinery.resources import CUSTOM
from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.admission.charge import QuotaExceeded, Write
from vcsync.apiserver.admission.tenant_charge import TenantQuotaExceeded, charge_tenant
from vcsync.apiserver.admission.tenant_quota_count import count
from vcsync.apiserver.request.claims import NOTHING, Reservation
from vcsync.apiserver.request.scope import Scope
from vcsync.apiserver.storage.interface import Change, Compare, Put, Store, StoreError, tenant_of
from vcsync.apiserver.tenants.quota_records import QUOTAS, decode_quota, encode_quota, quota_key
from vcsync.quota.tenants import charged
from vcsync.quota.usage import updates_count

GATHER_SECONDS = 0.5
"""Longest time for which deletions are collected before they are counted. It varies, so that one of several processes counts."""
LAG_SECONDS = 30.0
"""Time after which a new limit is counted again: until then, every process has learned of it."""
AGAIN_SECONDS = 600.0
"""Time between two counts of everything, in case that anything was missed."""
PAUSE_FACTOR = 20.0
"""After a count that was not quick, the tenant's next count waits this many times as long as it took.

A hostile tenant with many objects could otherwise cause a count by each deletion.
"""
QUICK_SECONDS = 0.02
"""Longest time of a quick count."""
RETRY_SECONDS = 5.0
"""Time after a count that failed."""
ATTEMPTS = 8
"""Times that a write's charge is computed while the usage is counted."""
CHARGED_PARTS = frozenset({("pods", "resize"), ("persistentvolumeclaims", "status")})
"""Subresources whose writes may change usage."""
_ENDED = (b'"phase":"Succeeded"', b'"phase":"Failed"')

_log = structlog.get_logger(__name__)


class TenantQuotas:
    """The quotas of all tenants: claims that charge writes, and the counts that correct the usage.

    Args:
        store: The store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._names: dict[str, frozenset[str]] = {}
        self._revisions: dict[str, int] = {}
        self._loaded = False
        self._loading = asyncio.Lock()
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._counting: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._stale: dict[str, dict[str, int]] = {}
        self._later: dict[str, float] = {}
        self._not_before: dict[str, float] = {}
        self._wake = asyncio.Event()

    # What is known of quotas

    def changed(self, changes: Sequence[Change]) -> None:
        """Apply changes of the store: quotas, and objects that count less than before."""
        for change in changes:
            if change.key.startswith(QUOTAS):
                self._learn(change.key.removeprefix(QUOTAS), change.value, change.revision)
            elif self._names and (names := self._names.get(tenant_of(change.key))):
                self._note(names, change)

    def missed(self) -> None:
        """Read all quotas again, because changes may have been missed."""
        self._loaded = False
        self._wake.set()

    def _learn(self, tenant: str, value: bytes | None, revision: int) -> None:
        if revision <= self._revisions.get(tenant, 0):
            return
        self._revisions[tenant] = revision
        if value is None:
            for known in (self._names, self._stale, self._later, self._not_before):
                known.pop(tenant, None)
            return
        record = decode_quota(value)
        self._names[tenant] = frozenset(record.used)
        if uncounted := record.uncounted():
            self._stale.setdefault(tenant, {}).update(dict.fromkeys(uncounted, revision))
            self._later[tenant] = time.monotonic() + LAG_SECONDS
            self._wake.set()

    def _note(self, names: frozenset[str], change: Change) -> None:
        tenant, group, plural = (*change.key.split("/", 3), "", "")[:3]
        group = "" if group == "core" else group.removeprefix(CUSTOM)
        if change.value is not None and not (plural == "pods" and _ends(change)):
            return
        less = charged(group, plural, names)
        if less:
            self._stale.setdefault(tenant, {}).update(dict.fromkeys(less, change.revision))
            self._wake.set()

    async def _load(self) -> None:
        async with self._loading:
            if self._loaded:
                return
            page = await self._store.range(QUOTAS)
            for record in page.records:
                tenant = record.key.removeprefix(QUOTAS)
                self._learn(tenant, record.value, record.revision)
                if names := self._names.get(tenant):
                    self._stale.setdefault(tenant, {}).update(dict.fromkeys(names, page.revision))
            found = {record.key.removeprefix(QUOTAS) for record in page.records}
            for tenant in self._names.keys() - found:
                self._learn(tenant, None, page.revision)
            self._loaded = True
            self._wake.set()

    # Charges

    async def __call__(
        self, scope: Scope, new: Object | None, old: Object | None, *, dry_run: bool = False
    ) -> Reservation:
        """See `claims.Claims`.

        Raises:
            StatusError: 403, the quota of the tenant is exceeded.
        """
        if not self._loaded:
            await self._load()
        names = self._names.get(scope.tenant)
        if names is None or new is None or not _may_change(scope, exists=old is not None):
            return NOTHING
        resource = scope.kind.resource
        if not charged(resource.storage_group, resource.plural, names):
            return NOTHING
        write = Write(resource.storage_group, resource.plural, new, old, scope.subresource == "status")
        try:
            return await self._charge(scope.tenant, write, dry_run=dry_run)
        except QuotaExceeded as error:
            name = new["metadata"].get("name") or scope.name
            raise errors.forbidden(resource.plural, resource.group, name, str(error)) from None

    async def _charge(self, tenant: str, write: Write, *, dry_run: bool) -> Reservation:
        """Return the reservation of a write.

        Raises:
            QuotaExceeded: The write is refused.
        """
        for attempt in range(ATTEMPTS):
            record = await self._store.get_cached(quota_key(tenant))
            if record is None:
                return NOTHING
            quota = decode_quota(record.value)
            names = charged(write.group, write.plural, quota.uncounted())
            if names and attempt < ATTEMPTS - 1:
                await self._count(tenant, names)
                continue
            try:
                after = charge_tenant(tenant, write, quota)
            except TenantQuotaExceeded:
                # Deletions may not have been counted yet.
                of_kind = charged(write.group, write.plural, quota.used)
                if attempt or not await self._count_stale(tenant, of_kind):
                    raise
                continue
            if after is None or dry_run:
                return NOTHING
            return Reservation(
                (Compare(record.key, record.revision),), (Put(record.key, encode_quota(after)),)
            )
        raise AssertionError("the last attempt returns or raises")

    def turn(self, scope: Scope) -> AbstractAsyncContextManager[None]:
        """Serialize the charged writes of a tenant, so that they do not conflict repeatedly."""
        if self._loaded and scope.tenant not in self._names:
            return nullcontext()
        return self._turn(scope)

    @asynccontextmanager
    async def _turn(self, scope: Scope) -> AsyncIterator[None]:
        if not self._loaded:
            await self._load()
        names, resource = self._names.get(scope.tenant), scope.kind.resource
        if (
            names is None
            or not _may_change(scope, exists=scope.exists)
            or not charged(resource.storage_group, resource.plural, names)
        ):
            yield
            return
        lock = self._turns.get(scope.tenant)
        if lock is None:
            lock = self._turns[scope.tenant] = asyncio.Lock()
        async with lock:
            yield

    # Counts

    async def run(self) -> None:
        """Count everything, as a crash may have left it stale, and later what is stale, until cancelled."""
        self._wake.set()
        again = time.monotonic() + AGAIN_SECONDS
        while True:
            try:
                async with asyncio.timeout(max(0.0, min((again, *self._later.values())) - time.monotonic())):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            await asyncio.sleep(random.uniform(GATHER_SECONDS / 5, GATHER_SECONDS))  # noqa: S311  jitter
            now = time.monotonic()
            everything = again <= now
            if everything:
                again = now + AGAIN_SECONDS
            if not await self._count_due(now, everything=everything):
                await asyncio.sleep(RETRY_SECONDS)
            if self._stale:
                self._wake.set()

    async def _count_due(self, now: float, *, everything: bool) -> bool:
        """Count what is stale or due, tenant by tenant. Returns whether nothing failed."""
        try:
            await self._load()
        except StoreError as error:
            _log.warning("quotas of tenants cannot be read", error=str(error))
            return False
        done = True
        for tenant in sorted({*self._names, *self._stale}):
            try:
                if everything or self._later.get(tenant, now + 1) <= now:
                    await self._count(tenant, self._names.get(tenant, frozenset()))
                    self._later.pop(tenant, None)
                await self._count_stale(tenant, list(self._stale.get(tenant, ())))
            except StoreError as error:
                _log.warning("the quota of a tenant cannot be counted", tenant=tenant, error=str(error))
                done = False
            except Exception:  # noqa: BLE001 - a defect over one tenant must not end the work on all
                _log.exception("the quota of a tenant cannot be counted", tenant=tenant)
                done = False
        return done

    async def _count_stale(self, tenant: str, names: Collection[str]) -> bool:
        """Count the names whose usage may be too high. Returns whether there were any, and it was time to count them."""
        stale = self._stale.get(tenant, {})
        less = {name: stale[name] for name in names if name in stale}
        if not less or time.monotonic() < self._not_before.get(tenant, 0.0):
            return False
        record = await self._store.get_cached(quota_key(tenant))
        counted = {} if record is None else decode_quota(record.value).counted
        if still := [name for name, revision in less.items() if counted.get(name, 0) < revision]:
            await self._count(tenant, still)
        else:  # Another process has counted them.
            self._forget_stale(tenant, less)
        return True

    async def _count(self, tenant: str, names: Collection[str]) -> None:
        lock = self._counting.get(tenant)
        if lock is None:
            lock = self._counting[tenant] = asyncio.Lock()
        async with lock:
            began = time.monotonic()
            stale = dict(self._stale.get(tenant, {}))
            if await count(self._store, tenant, names):
                self._forget_stale(tenant, {name: stale[name] for name in names if name in stale})
            took = time.monotonic() - began
            if took > QUICK_SECONDS:
                self._not_before[tenant] = time.monotonic() + PAUSE_FACTOR * took

    def _forget_stale(self, tenant: str, names: dict[str, int]) -> None:
        stale = self._stale.get(tenant, {})
        for name, revision in names.items():
            if stale.get(name) == revision:
                del stale[name]
        if not stale:
            self._stale.pop(tenant, None)


def _may_change(scope: Scope, *, exists: bool) -> bool:
    """Return whether a write may change usage."""
    resource = scope.kind.resource
    if scope.subresource:
        return not resource.storage_group and (resource.plural, scope.subresource) in CHARGED_PARTS
    return not exists or updates_count(resource.storage_group, resource.plural)


def _ends(change: Change) -> bool:
    """Return whether a Pod has ended, so that it no longer counts."""
    before = change.previous or b""
    return any(mark in (change.value or b"") and mark not in before for mark in _ENDED)
