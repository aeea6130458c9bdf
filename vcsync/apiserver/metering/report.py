"""Reads what tenants used from the store, and removes rows that are older than the retention."""

import asyncio
from collections.abc import AsyncIterator, Callable

import structlog

from vcsync.apiserver.metering.rows import (
    HOUR_SECONDS,
    USAGE,
    Used,
    by_hour,
    decode,
    hour_text,
    parse_key,
)
from vcsync.apiserver.storage.interface import Delete, Store, StoreError

PAGE = 500
"""Rows that are read from the store at once."""

DELETED_AT_ONCE = 100
"""Most rows that one transaction deletes."""

DAY_SECONDS = 24 * HOUR_SECONDS
_log = structlog.get_logger(__name__)


async def tenants_with_rows(store: Store) -> AsyncIterator[str]:
    """Yield the names of all tenants that have rows, also of deleted ones.

    Raises:
        StoreError: The store cannot be read.
    """
    after = ""
    while page := (await store.range(USAGE, after=after, limit=1, counted=False)).records:
        tenant = parse_key(page[0].key).tenant
        yield tenant
        after = f"{USAGE}{tenant}/\U0010ffff"


async def used(store: Store, tenant: str, begin: str, end: str) -> AsyncIterator[Used]:
    """Yield what a tenant used in each hour from `begin` to before `end`, in order.

    Args:
        store: The store.
        tenant: Name of the tenant. Its rows stay when it is deleted.
        begin: First hour, as `rows.hour_text` formats it.
        end: The hour after the last one.

    Raises:
        StoreError: The store cannot be read.
    """
    prefix = f"{USAGE}{tenant}/"
    after, rest, more = f"{prefix}{begin}", [], True
    while more:
        page = await store.range(prefix, after=after, limit=PAGE, counted=False)
        found = [Used(parse_key(each.key), decode(each.value)) for each in page.records]
        more = page.more and found[-1].key.hour < end
        rest += [each for each in found if each.key.hour < end]
        after = page.records[-1].key if page.records else after
        hours = list(by_hour(rest))
        # The rows of the last hour may continue on the next page.
        last = hours[-1].key if more and hours else None
        for each in hours:
            if each.key != last:
                yield each
        rest = [each for each in rest if each.key == last]


async def remove_old(store: Store, before: str) -> int:
    """Delete the rows of hours before `before`, and return their number.

    Raises:
        StoreError: The store cannot be read or written.
    """
    removed = 0
    async for tenant in tenants_with_rows(store):
        prefix = f"{USAGE}{tenant}/"
        while True:
            page = await store.range(prefix, limit=DELETED_AT_ONCE, counted=False)
            old = [Delete(each.key) for each in page.records if parse_key(each.key).hour < before]
            if not old:
                break
            await store.txn((), old)
            removed += len(old)
    return removed


async def keep_rows(store: Store, days: int, clock: Callable[[], float]) -> None:
    """Delete rows older than a number of days, once an hour, until cancelled.

    Args:
        store: The store.
        days: Retention.
        clock: Returns seconds since the epoch.
    """
    while True:
        try:
            if removed := await remove_old(store, hour_text(clock() - days * DAY_SECONDS)):
                _log.info("removed old rows of usage", rows=removed)
        except StoreError as error:
            _log.warning("old rows of usage cannot be removed", error=str(error))
        await asyncio.sleep(HOUR_SECONDS)
