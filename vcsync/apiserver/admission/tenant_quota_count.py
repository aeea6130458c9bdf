"""Counts what a tenant uses of its quota, as of one revision of the store, while its writes continue."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Mapping

import msgspec
import structlog

from vcsync.apimachinery.resources import collection_key, custom_group
from vcsync.apiserver.storage.interface import Compacted, Compare, Put, Store, StoreError
from vcsync.apiserver.tenants.quota_records import QuotaRecord, decode_quota, encode_quota, quota_key
from vcsync.objects.quantity import canonical, milli
from vcsync.quota.tenants import amounts, kinds, needs_objects, total
from vcsync.quota.usage import NONE, Amount, Object, Usage

PAGE = 50
"""Objects that are read at once; the event loop runs other tasks between two pages."""
ATTEMPTS = 5
"""Counts that are tried when the history of the store no longer contains the revision."""
MERGE_ATTEMPTS = 50
"""Attempts to write a count while other writes of the tenant are charged."""

_log = structlog.get_logger(__name__)


async def count(store: Store, tenant: str, names: Collection[str]) -> bool:
    """Correct the usage of a tenant's quota.

    The difference between what was charged and what existed at one revision is taken from the usage of today. Writes that
    were charged meanwhile therefore stay charged, and no write has to wait.

    Args:
        store: The store.
        tenant: The tenant.
        names: Resource names to count. Those that the quota does not have are ignored.

    Returns:
        Whether the usage is correct now. False: it has to be counted again.

    Raises:
        StoreError: The store cannot be read or written.
    """
    for _attempt in range(ATTEMPTS):
        record, revision = await store.get(quota_key(tenant))
        if record is None:
            return True
        then = decode_quota(record.value)
        wanted = sorted(then.used.keys() & set(names))
        try:
            found = await _existing(store, tenant, wanted, revision)
        except Compacted:
            continue
        return await _correct(store, tenant, then, found, revision)
    raise StoreError(f"the quota of tenant {tenant} cannot be counted: the history of the store is too short")


async def _existing(store: Store, tenant: str, names: Collection[str], revision: int) -> dict[str, Amount]:
    """Return what exists at a revision, by resource name."""
    of_kind: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name in names:
        for kind in kinds(name):
            of_kind[kind].append(name)
    found = dict.fromkeys(names, NONE)
    for (group, plural), its in of_kind.items():
        sums = total((), its)
        numbers = [name for name in its if not needs_objects(name)]
        for prefix in _prefixes(tenant, group, plural):
            if numbers:
                page = await store.range(prefix, limit=1, revision=revision)
                number = Amount(1000 * (len(page.records) + page.remaining))
                for name in numbers:
                    sums[name] += number
            if len(numbers) < len(its):
                async for page_sums in _sums(
                    store, prefix, (group, plural), set(its) - set(numbers), revision
                ):
                    for name, each in page_sums.items():
                        sums[name] += each
        for name, each in sums.items():
            found[name] += each
    return found


def _prefixes(tenant: str, group: str, plural: str) -> list[str]:
    """Return the prefixes of the keys of a kind, which may be built in or custom."""
    built_in = collection_key(tenant, group, plural)
    return [built_in, collection_key(tenant, custom_group(group), plural)] if group else [built_in]


async def _sums(
    store: Store, prefix: str, kind: tuple[str, str], names: Collection[str], revision: int
) -> AsyncIterator[Mapping[str, Amount]]:
    """Yield the sums of what objects use, page by page."""
    after, more = "", True
    while more:
        page = await store.range(prefix, after=after, limit=PAGE, revision=revision, counted=False)
        yield total((_used(kind, each.value) for each in page.records), names)
        more = page.more
        after = page.records[-1].key if page.records else after
        await asyncio.sleep(0)


def _used(kind: tuple[str, str], value: bytes) -> Usage:
    obj: Object = msgspec.json.decode(value)
    return amounts(*kind, obj)


async def _correct(
    store: Store, tenant: str, then: QuotaRecord, found: Mapping[str, Amount], revision: int
) -> bool:
    for _attempt in range(MERGE_ATTEMPTS):
        record, _ = await store.get(quota_key(tenant))
        if record is None:
            return True
        now = decode_quota(record.value)
        if any(now.counted.get(name) != then.counted.get(name) for name in found):
            return False  # Another process counted meanwhile.
        changed = corrected(now, then, found, revision)
        if changed is None:
            return True
        outcome = await store.txn(
            [Compare(record.key, record.revision)], [Put(record.key, encode_quota(changed))]
        )
        if outcome.done:
            _log.debug("quota of a tenant is counted", tenant=tenant, names=sorted(found))
            return True
    return False


def corrected(
    now: QuotaRecord, then: QuotaRecord, found: Mapping[str, Amount], revision: int
) -> QuotaRecord | None:
    """Return a record with counted usage, or None if the record is correct.

    Args:
        now: The current record.
        then: The record at the revision of the count.
        found: What existed at that revision.
        revision: Revision of the count.
    """
    used, counted = dict(now.used), dict(now.counted)
    for name, each in found.items():
        drift = each.milli - milli(then.used[name])
        if drift or not now.counted.get(name):
            used[name] = canonical(max(0, milli(now.used[name]) + drift), _notation(now, name, each))
            counted[name] = revision
    return None if (used, counted) == (now.used, now.counted) else QuotaRecord(now.hard, used, counted)


def _notation(record: QuotaRecord, name: str, found: Amount) -> str:
    """Return a quantity in the notation that the usage gets: that of the objects, or else of the limit."""
    return found.like or record.hard.get(name, "")
