"""One thread that writes: many transactions share one commit, and each is durable before its caller hears of it."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import apsw

from vcsync.controlplane.store.interface import Change, StoreUnavailable
from vcsync.controlplane.store.sqlite_file import as_store_error
from vcsync.controlplane.store.sqlite_ledger import Ledger

T = TypeVar("T")
Work = Callable[[Ledger], T]

MAX_WAITING = 1024
"""Transactions that may wait for the writer; further callers wait for their turn to wait."""

MAX_GROUP = 256
"""Transactions in one commit."""

MAX_GROUP_BYTES = 8 << 20
"""A commit takes no further transaction once it has so many bytes of values: others wait behind it."""

_FSYNC_FAILED = {apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_IOERR_DIR_FSYNC}


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    work: Work[Any]
    answer: asyncio.Future[Any]
    size: int


@dataclass(slots=True)
class _Done:
    """What became of a group: for each job its result or its error, and what all of them changed."""

    answers: list[tuple[_Job, Any, Exception | None]] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    revision: int = 0


class GroupCommit:
    """Runs work on the database in its own thread, in the order in which it was given.

    `publish` is called in the event loop with what a commit changed and the newest revision, before anyone who
    waits for that commit goes on.
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
        self._broken: StoreUnavailable | None = None
        self._thread = threading.Thread(target=self._run, name="vcsync-store-writer", daemon=True)
        self._thread.start()

    async def do(self, work: Work[T], size: int = 0) -> T:
        """Run work in a transaction; return its result once that is durable. Cancelling does not undo it.

        `size`: bytes that it will write, about.

        Raises:
            StoreFull: no room; nothing is in effect.
            StoreUnavailable: closed, or the disk fails.
        """
        await self._room.acquire()
        if self._closed:
            self._room.release()
            raise StoreUnavailable("the store is closed")
        answer: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put(_Job(work, answer, size))
        return await answer

    async def close(self) -> None:
        """Finish what was given, then end the thread."""
        if not self._closed:
            self._closed = True
            self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        going_on = True
        while going_on:
            group, going_on = self._next_group()
            if group:
                done = _Done()
                self._commit(group, done)
                self._loop.call_soon_threadsafe(self._deliver, done)

    def _next_group(self) -> tuple[list[_Job], bool]:
        """Wait for a job, and take along what else waits; False: no more will come."""
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
        """Commit a group at once or, if it fails, one job at a time: one job's failure is no other's."""
        if self._broken:
            done.answers += [(job, None, self._broken) for job in group]
            return
        try:
            ledger, results = self._attempt(group)
        except Exception as error:  # noqa: BLE001  it goes to who gave the job; the thread must live on
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            if getattr(error, "extendedresult", 0) in _FSYNC_FAILED:
                # The kernel may have dropped what it could not write: nothing after this can be trusted.
                self._broken = StoreUnavailable(
                    "the disk failed to keep a write; restart vcsync when it is mended"
                )
                self._commit(group, done)
            elif len(group) > 1:
                for job in group:
                    self._commit([job], done)
            else:
                told = as_store_error(error) if isinstance(error, apsw.Error) else error
                done.answers.append((group[0], None, told))
            return
        done.answers += [(job, result, None) for job, result in zip(group, results, strict=True)]
        if ledger.changes:
            done.changes += ledger.changes
            done.revision = ledger.revision

    def _attempt(self, group: Sequence[_Job]) -> tuple[Ledger, list[Any]]:
        self._connection.execute("BEGIN IMMEDIATE")
        ledger = Ledger(self._connection, self._clock())
        results = [job.work(ledger) for job in group]
        ledger.finish()
        self._connection.execute("COMMIT")
        return ledger, results

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
