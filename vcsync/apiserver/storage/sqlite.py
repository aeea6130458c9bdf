"""The store in one SQLite file: group commit, snapshots by undoing a log, watches within the process."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import apsw
import structlog

from vcsync.apiserver.storage.broadcaster import Broadcaster, follow
from vcsync.apiserver.storage.group_commit import GroupCommit
from vcsync.apiserver.storage.interface import (
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
from vcsync.apiserver.storage.read_cache import RecordCache
from vcsync.apiserver.storage.sqlite_check import Check
from vcsync.apiserver.storage.sqlite_file import FileLock, open_checked, open_reader
from vcsync.apiserver.storage.sqlite_reads import Reader, Window

DATABASE = "store.db"
"""Name of the database file in a data folder."""

PAGE_RECORDS = 200
"""Records to read before other tasks of the event loop run (half a millisecond)."""

CHECK_SECONDS = 1.0
"""Seconds that the start waits for the check of the whole file. The check of a larger file continues while it is served."""

LONG_READS = 4
"""Number of concurrent reads of several pages. Each has its own connection."""

SPARE_PAGES = 512
"""Free pages (4 MiB) that the file keeps for the next writes."""

SHRINK_PAGES = 128
"""Free pages (1 MiB) that one step returns to the file system, so that no write waits long behind it."""

BATCH_ROWS = 200
"""Rows that one step of compaction or expiry deletes, so that no write waits long behind it."""

log = structlog.get_logger(__name__)


class SqliteStore:
    """A `Store` in one file. Use `open_sqlite` to open one."""

    def __init__(
        self,
        path: Path,
        lock: FileLock,
        connection: apsw.Connection,
        check: Check,
        *,
        clock: Callable[[], float],
        sweep_seconds: float | None,
    ) -> None:
        """Start the writer thread and the sweeper.

        Args:
            path: The database file, which `open_checked` has opened.
            lock: The lock of the file. The store releases it.
            connection: The connection for writing. The store closes it.
            check: The running check of the file.
            clock: Returns seconds since 1970, for keys with a time to live.
            sweep_seconds: Seconds between deletions of expired keys, or None if only `sweep` deletes them.
        """
        self._path = path
        self._lock = lock
        self._clock = clock
        self._check = check
        self._connection = connection
        self._reader = Reader(open_reader(path))
        self._broadcaster = Broadcaster(self._reader.window().newest)
        self._record_cache = RecordCache()
        self._group_commit = GroupCommit(connection, self._publish, clock)
        self._idle: list[Reader] = []
        self._closed = False
        self._long_reads = asyncio.Semaphore(LONG_READS)
        self._sweeper = (
            asyncio.create_task(self._sweep_periodically(sweep_seconds)) if sweep_seconds else None
        )

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

    async def get_cached(self, key: str) -> Record | None:
        """See `Store.get_cached`."""
        cached = self._record_cache.get(key)
        if cached is None:
            record = self._reader.get(key)[0]
            cached = self._record_cache.put(key, () if record is None else (record,))
        return cached[0] if cached else None

    async def range_cached(self, prefix: str) -> Sequence[Record]:
        """See `Store.range_cached`."""
        cached = self._record_cache.get(prefix)
        if cached is None:
            generation = self._record_cache.generation
            records = (await self.range(prefix)).records
            if generation != self._record_cache.generation:
                # Other tasks run during a long read, so the records may have changed again: do not cache them.
                return records
            cached = self._record_cache.put(prefix, records)
        return cached

    async def count(self, prefix: str) -> int:
        """See `Store.count`."""
        with self._reader.snapshot():
            return self._reader.count(prefix, "", None)

    async def txn(self, compares: Sequence[Compare], operations: Sequence[Put | Delete]) -> Outcome:
        """See `Store.txn`."""
        require_valid(compares, operations)
        size = sum(len(operation.value) for operation in operations if isinstance(operation, Put))
        return await self._group_commit.do(lambda transaction: transaction.apply(compares, operations), size)

    def watch(self, prefix: str, after: int, *, progress: float | None = None) -> AsyncGenerator[Batch, None]:
        """See `Store.watch`."""
        return follow(self._broadcaster, self._history, prefix, after, progress)

    async def revision(self) -> int:
        """See `Store.revision`."""
        with self._reader.snapshot() as window:
            return window.newest

    async def compact(self, revision: int) -> None:
        """See `Store.compact`."""
        newest = await self.revision()
        if revision > newest:
            raise FutureRevision(newest)
        await self._group_commit.do(lambda transaction: transaction.compact(revision))
        while await self._group_commit.do(lambda transaction: transaction.forget(BATCH_ROWS)) == BATCH_ROWS:
            continue
        await self._shrink()

    async def _shrink(self) -> None:
        """Return the space of deleted history to the file system. The file shrinks at the next checkpoint of its WAL."""
        left = -1
        while True:
            before, left = (
                left,
                await self._group_commit.do(lambda transaction: transaction.shrink(SHRINK_PAGES)),
            )
            if left <= SPARE_PAGES or left == before:
                return

    async def sweep(self) -> int:
        """Delete expired keys, and return their number."""
        with self._reader.snapshot():
            if not self._reader.has_expired(self._clock()):
                return 0
        deleted = 0
        while batch := await self._group_commit.do(lambda transaction: transaction.expire(BATCH_ROWS)):
            deleted += batch
        return deleted

    async def usage(self, tenant: str) -> Usage:
        """See `Store.usage`."""
        with self._reader.snapshot():
            return self._reader.usage(tenant)

    async def wait_until_checked(self) -> None:
        """See `Store.wait_until_checked`."""
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
        await self._group_commit.close()
        self._broadcaster.fail(StoreUnavailable("the store is closed"))
        for reader in (self._reader, *self._idle):
            reader.close()
        await asyncio.to_thread(self._connection.close)
        self._lock.release()

    def _publish(self, changes: Sequence[Change], revision: int) -> None:
        self._record_cache.note(changes)
        self._broadcaster.publish(changes, revision)

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
        """Lend a connection that may keep its snapshot while other tasks run."""
        async with self._long_reads:
            reader = self._idle.pop() if self._idle else Reader(open_reader(self._path))
            try:
                yield reader
            finally:
                if self._closed:
                    reader.close()
                else:
                    self._idle.append(reader)

    async def _sweep_periodically(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await self.sweep()
            except StoreError as error:  # the next sweep tries again; until then expired keys stay readable
                log.warning("cannot delete expired keys", error=str(error))


async def _read_all(
    reader: Reader, prefix: str, after: str, limit: int, at: int | None
) -> tuple[list[Record], bool]:
    """Read up to `limit` records page by page. Returns them, and whether more follow."""
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
    """Return a page of the records that were read."""
    revision = at or window.newest
    if not more:
        return Page(records, revision)
    remaining = reader.count(prefix, records[-1].key, at) if counted else 0
    return Page(records, revision, more=True, remaining=remaining)


async def open_sqlite(
    path: Path, *, clock: Callable[[], float] = time.time, sweep_seconds: float | None = 1
) -> SqliteStore:
    """Open the database file, or create it.

    Args:
        path: The file. Its folder must exist.
        clock: Returns seconds since 1970, for keys with a time to live.
        sweep_seconds: Seconds between deletions of expired keys, or None if only `sweep` deletes them.

    Raises:
        StoreRefused: The file is damaged, newer than this program, not vcsync's or in use. The message names the remedy.
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
            log.info("the database is in service while its check continues", path=str(path))
    except BaseException:
        await check.close()
        connection.close()
        lock.release()
        raise
    return SqliteStore(path, lock, connection, check, clock=clock, sweep_seconds=sweep_seconds)
