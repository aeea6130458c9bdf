"""The store in one SQLite file: group commit, snapshots by undoing a log, watches handed out in process."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import apsw
import structlog

from vcsync.controlplane.store.group_commit import GroupCommit
from vcsync.controlplane.store.hub import Hub, follow
from vcsync.controlplane.store.interface import (
    Batch,
    Change,
    Compacted,
    Compare,
    Delete,
    FutureRevision,
    Outcome,
    Page,
    Put,
    Record,
    StoreError,
    StoreUnavailable,
    Usage,
    require_valid,
)
from vcsync.controlplane.store.remembered import Remembered
from vcsync.controlplane.store.sqlite_check import Check
from vcsync.controlplane.store.sqlite_file import FileLock, open_checked, open_reader
from vcsync.controlplane.store.sqlite_reads import Reader, Window

DATABASE = "store.db"
"""The file's name in a data folder."""

PAGE_RECORDS = 200
"""Records that are read before others in the event loop get their turn (half a millisecond)."""

CHECK_SECONDS = 1.0
"""How long the start waits for the check of the whole file; a larger one is served while it goes on."""

LONG_READS = 4
"""How many ranges of several pages are read at a time; each has a connection of its own."""

SPARE_PAGES = 512
"""Free pages (4 MiB) that the file keeps for what is written next."""

SHRINK_PAGES = 128
"""Free pages (1 MiB) that one step gives back, so that no write waits long behind it."""

BATCH_ROWS = 200
"""Rows that one step of compaction or expiry deletes, so that no write waits long behind it."""

log = structlog.get_logger(__name__)


class SqliteStore:
    """A `Store` in one file. Made by `open_sqlite`."""

    def __init__(
        self,
        path: Path,
        lock: FileLock,
        writer: apsw.Connection,
        check: Check,
        *,
        clock: Callable[[], float],
        sweep_seconds: float | None,
    ) -> None:
        self._path = path
        self._lock = lock
        self._clock = clock
        self._check = check
        self._connection = writer
        self._reader = Reader(open_reader(path))
        self._hub = Hub(self._reader.window().newest)
        self._remembered = Remembered()
        self._writer = GroupCommit(writer, self._publish, clock)
        self._idle: list[Reader] = []
        self._closed = False
        self._long_reads = asyncio.Semaphore(LONG_READS)
        self._sweeper = asyncio.create_task(self._sweep_for_ever(sweep_seconds)) if sweep_seconds else None

    async def get(self, key: str, *, revision: int = 0) -> tuple[Record | None, int]:
        """See `Store.get`."""
        if not revision:
            return self._reader.get(key)
        with self._reader.snapshot() as window:
            window.require(revision)
            return self._reader.get_at(key, revision), revision

    async def range(
        self, prefix: str, *, after: str = "", limit: int = 0, revision: int = 0, counted: bool = True
    ) -> Page:
        """See `Store.range`."""
        if limit <= PAGE_RECORDS:
            with self._reader.snapshot() as window:
                at = window.resolve(revision)
                records, more = self._reader.range(prefix, after, limit or PAGE_RECORDS, at)
                if limit or not more:
                    return _page(self._reader, prefix, records, at, window, more=more, counted=counted)
        async with self._borrow() as reader:
            with reader.snapshot() as window:
                at = window.resolve(revision)
                records, more = await _read_all(reader, prefix, after, limit, at)
                return _page(reader, prefix, records, at, window, more=more, counted=counted)

    async def known(self, key: str) -> Record | None:
        """See `Store.known`."""
        found = self._remembered.get(key)
        if found is None:
            record = self._reader.get(key)[0]
            found = self._remembered.put(key, () if record is None else (record,))
        return found[0] if found else None

    async def known_below(self, prefix: str) -> Sequence[Record]:
        """See `Store.known_below`."""
        found = self._remembered.get(prefix)
        if found is None:
            turn = self._remembered.turn
            records = (await self.range(prefix)).records
            if turn != self._remembered.turn:  # a long one takes turns with others: it may have changed again
                return records
            found = self._remembered.put(prefix, records)
        return found

    async def count(self, prefix: str) -> int:
        """See `Store.count`."""
        with self._reader.snapshot():
            return self._reader.count(prefix, "", None)

    async def txn(self, compares: Sequence[Compare], operations: Sequence[Put | Delete]) -> Outcome:
        """See `Store.txn`."""
        require_valid(compares, operations)
        size = sum(len(one.value) for one in operations if isinstance(one, Put))
        return await self._writer.do(lambda ledger: ledger.apply(compares, operations), size)

    def watch(self, prefix: str, after: int, *, progress: float | None = None) -> AsyncGenerator[Batch, None]:
        """See `Store.watch`."""
        return follow(self._hub, self._history, prefix, after, progress)

    async def revision(self) -> int:
        """See `Store.revision`."""
        with self._reader.snapshot() as window:
            return window.newest

    async def compact(self, revision: int) -> None:
        """See `Store.compact`."""
        newest = await self.revision()
        if revision > newest:
            raise FutureRevision(newest)
        await self._writer.do(lambda ledger: ledger.compact(revision))
        while await self._writer.do(lambda ledger: ledger.forget(BATCH_ROWS)) == BATCH_ROWS:
            continue
        await self._shrink()

    async def _shrink(self) -> None:
        """Give back what history took; the file itself becomes smaller with the next checkpoint of its WAL."""
        left = -1
        while True:
            before, left = left, await self._writer.do(lambda ledger: ledger.shrink(SHRINK_PAGES))
            if left <= SPARE_PAGES or left == before:
                return

    async def sweep(self) -> int:
        """Delete what has outlived its time; return how many keys."""
        with self._reader.snapshot():
            if not self._reader.has_expired(self._clock()):
                return 0
        deleted = 0
        while batch := await self._writer.do(lambda ledger: ledger.expire(BATCH_ROWS)):
            deleted += batch
        return deleted

    async def usage(self, tenant: str) -> Usage:
        """See `Store.usage`."""
        with self._reader.snapshot():
            return self._reader.usage(tenant)

    async def sound(self) -> None:
        """See `Store.sound`."""
        await self._check.finished(None)

    async def close(self) -> None:
        """See `Store.close`."""
        if self._closed:
            return
        self._closed = True
        await self._check.close()
        if self._sweeper:
            self._sweeper.cancel()
            with suppress(asyncio.CancelledError):
                await self._sweeper
        await self._writer.close()
        self._hub.fail(StoreUnavailable("the store is closed"))
        for reader in (self._reader, *self._idle):
            reader.close()
        await asyncio.to_thread(self._connection.close)
        self._lock.release()

    def _publish(self, changes: Sequence[Change], revision: int) -> None:
        self._remembered.note(changes)
        self._hub.publish(changes, revision)

    async def _history(self, prefix: str, after: int, until: int) -> AsyncGenerator[Batch, None]:
        while after < until:
            with self._reader.snapshot() as window:
                if after < window.compacted:
                    raise Compacted(window.compacted)
                batch = self._reader.changes(prefix, after, until, PAGE_RECORDS)
            after = batch.revision
            yield batch
            await asyncio.sleep(0)

    @asynccontextmanager
    async def _borrow(self) -> AsyncIterator[Reader]:
        """Lend a connection that may keep its snapshot while others have their turn."""
        async with self._long_reads:
            reader = self._idle.pop() if self._idle else Reader(open_reader(self._path))
            try:
                yield reader
            finally:
                if self._closed:
                    reader.close()
                else:
                    self._idle.append(reader)

    async def _sweep_for_ever(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await self.sweep()
            except StoreError as error:  # tried again next time; until then what is over stays readable
                log.warning("cannot delete what has outlived its time", error=str(error))


async def _read_all(
    reader: Reader, prefix: str, after: str, limit: int, at: int | None
) -> tuple[list[Record], bool]:
    """Read page by page up to `limit` records; return whether there are more, too."""
    records: list[Record] = []
    while True:
        want = min(limit - len(records), PAGE_RECORDS) if limit else PAGE_RECORDS
        part, more = reader.range(prefix, after, want, at)
        records += part
        if not more or len(records) == limit:
            return records, more
        after = part[-1].key
        await asyncio.sleep(0)


def _page(
    reader: Reader,
    prefix: str,
    records: list[Record],
    at: int | None,
    window: Window,
    *,
    more: bool,
    counted: bool,
) -> Page:
    """Make a page of what was read."""
    revision = at or window.newest
    if not more:
        return Page(records, revision)
    remaining = reader.count(prefix, records[-1].key, at) if counted else 0
    return Page(records, revision, more=True, remaining=remaining)


async def open_sqlite(
    path: Path, *, clock: Callable[[], float] = time.time, sweep_seconds: float | None = 1
) -> SqliteStore:
    """Open the database file, or make it.

    Args:
        path: of the file; its folder must exist.
        clock: the time in seconds since 1970, for what lives only so long.
        sweep_seconds: how often to delete what has outlived its time; None: only when `sweep` is called.

    Raises:
        StoreRefused: damaged, newer, not ours or in use; the message names the remedy.
    """

    def opened() -> tuple[FileLock, apsw.Connection]:
        lock = FileLock(path)
        try:
            return lock, open_checked(path)
        except BaseException:
            lock.release()
            raise

    lock, connection = await asyncio.to_thread(opened)
    check = Check(path)
    try:
        if not await check.finished(CHECK_SECONDS):
            log.info("the database is served while it is still being checked", path=str(path))
    except BaseException:
        await check.close()
        connection.close()
        lock.release()
        raise
    return SqliteStore(path, lock, connection, check, clock=clock, sweep_seconds=sweep_seconds)
