"""A writer thread that commits many transactions together. Each is durable before its caller gets the result."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import apsw
import structlog

from vcsync.apiserver.storage.interface import Change, StoreUnavailable
from vcsync.apiserver.storage.sqlite_file import as_store_error
from vcsync.apiserver.storage.sqlite_writes import TransactionWriter

T = TypeVar("T")
Work = Callable[[TransactionWriter], T]

MAX_WAITING = 1024
"""Length of the writer's queue. Further callers wait until there is room."""

MAX_GROUP = 256
"""Transactions in one commit."""

MAX_GROUP_BYTES = 8 << 20
"""Bytes of values after which a commit accepts no further transactions, because its callers wait for it."""

_log = structlog.get_logger(__name__)

_FSYNC_FAILED = {apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_IOERR_DIR_FSYNC}


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    work: Work[Any]
    answer: asyncio.Future[Any]
    size: int


@dataclass(slots=True)
class _Done:
    """The outcome of a group: the result or error of each job, and all changes."""

    answers: list[tuple[_Job, Any, Exception | None]] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    revision: int = 0


class GroupCommit:
    """Runs work on the database in a thread, in order.

    `publish` is called in the event loop with the changes of a commit and the newest revision, before the callers of its
    transactions continue.
    """

    def __init__(
        self,
        connection: apsw.Connection,
        publish: Callable[[Sequence[Change], int], None],
        clock: Callable[[], float],
    ) -> None:
        self._connection = connection
        self._publish = publish
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Semaphore(MAX_WAITING)
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="vcsync-store-writer", daemon=True)
        self._thread.start()

    async def do(self, work: Work[T], size: int = 0) -> T:
        """Run work in a transaction, and return its result once it is durable. Cancellation does not undo it.

        Args:
            work: The work.
            size: Approximate number of bytes that it writes.

        Raises:
            StoreFull: The disk is full. The transaction has no effect.
            StoreUnavailable: The store is closed, or the disk fails.
        """
        await self._room.acquire()
        if self._closed:
            self._room.release()
            raise StoreUnavailable("the store is closed")
        answer: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put(_Job(work, answer, size))
        return await answer

    async def close(self) -> None:
        """Finish all queued work, and end the thread."""
        if not self._closed:
            self._closed = True
            self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        open_for_jobs = True
        while open_for_jobs:
            group, open_for_jobs = self._next_group()
            if group:
                done = _Done()
                self._commit(group, done)
                self._loop.call_soon_threadsafe(self._deliver, done)

    def _next_group(self) -> tuple[list[_Job], bool]:
        """Wait for a job, and return it with the others that wait, and whether more may follow."""
        job = self._jobs.get()
        group: list[_Job] = []
        size = 0
        while job:
            group.append(job)
            size += job.size
            if len(group) == MAX_GROUP or size >= MAX_GROUP_BYTES:
                return group, True
            try:
                job = self._jobs.get_nowait()
            except Empty:
                return group, True
        return group, False

    def _commit(self, group: Sequence[_Job], done: _Done) -> None:
        """Commit a group together or, if that fails, each job separately, so that a failing job does not affect others."""
        try:
            writer, results = self._attempt(group)
        except Exception as error:  # noqa: BLE001 - the caller of the job gets it; the thread must continue
            self._roll_back()
            if getattr(error, "extendedresult", 0) in _FSYNC_FAILED:
                # The kernel may have dropped the pages that it could not write. The commit has no effect, and can get one
                # only by a crash before the next commit, which overwrites its frames of the WAL and makes them durable.
                # Earlier commits were durable before.
                unavailable = StoreUnavailable("the disk failed to keep a write")
                done.answers += [(job, None, unavailable) for job in group]
            elif len(group) > 1:
                for job in group:
                    self._commit([job], done)
            else:
                cause = as_store_error(error) if isinstance(error, apsw.Error) else error
                done.answers.append((group[0], None, cause))
            return
        done.answers += [(job, result, None) for job, result in zip(group, results, strict=True)]
        if writer.changes:
            done.changes += writer.changes
            done.revision = writer.revision

    def _roll_back(self) -> None:
        """End a failed transaction, unless SQLite has ended it."""
        if self._connection.in_transaction:
            try:
                self._connection.execute("ROLLBACK")
            except apsw.Error as error:  # the next job fails with the same error and reports it
                _log.error("transaction not rolled back", error=str(error))

    def _attempt(self, group: Sequence[_Job]) -> tuple[TransactionWriter, list[Any]]:
        self._connection.execute("BEGIN IMMEDIATE")
        writer = TransactionWriter(self._connection, self._clock())
        results = [job.work(writer) for job in group]
        writer.finish()
        self._connection.execute("COMMIT")
        return writer, results

    def _deliver(self, done: _Done) -> None:
        if done.changes:
            self._publish(done.changes, done.revision)
        for job, result, error in done.answers:
            self._room.release()
            if job.answer.done():  # its caller was cancelled
                continue
            if error:
                job.answer.set_exception(error)
            else:
                job.answer.set_result(result)
