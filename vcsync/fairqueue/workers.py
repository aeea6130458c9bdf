"""A pool of asyncio workers around a fair queue: starts them on demand, retries what fails, loses nothing."""

import asyncio
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Generic, TypeVar

import structlog

from vcsync.fairqueue.errors import LastError, LastErrors
from vcsync.fairqueue.queue import FairQueue

K = TypeVar("K", bound=Hashable)

_MOST_LAST_ERRORS = 200
PATIENCE_SECONDS = 1.0
"""How long an item may be in work before its worker is no longer counted: it waits for somebody who does not answer."""
_SILENT_SHARE = 8  # of the workers: as many items of one group that does not answer are in work at once
_ITEMS_BEFORE_YIELD = (
    8  # a worker whose handler never suspends lets the rest of the loop run after so many items
)

_log = structlog.get_logger(__name__)


class HandlerCancelledError(Exception):
    """A handler ended in a cancellation that nobody asked the pool for, e.g. of something it awaited."""


class WorkerPool(Generic[K]):
    """Handles the items of a fair queue, up to `workers` at a time.

    `handle(group, item)` returns None when the item is settled, or the seconds after which to look at it
    again; both end its backoff. When it raises an `Exception` the item is retried with backoff, and
    `on_error(group, item, error, delay)` is told, with the seconds of backoff (infinity: its group was
    forgotten, there is no retry).

    Whoever does not answer takes nothing from those who do, however many hang at once: an item that is in work for longer than
    `patience` seconds no longer counts as one of the `workers`, nor do further items of its group until one of them ends in less.
    Such a group has an eighth of the workers' number in work at most, so what hangs is bounded, too.

    All methods belong to the event loop that `run()` runs in. `clock` gives seconds and never goes back.
    `queue` may come from an earlier pool, to go on where that one stopped.
    """

    def __init__(
        self,
        name: str,
        handle: Callable[[str, K], Awaitable[float | None]],
        *,
        workers: int = 32,
        clock: Callable[[], float] = time.monotonic,
        queue: FairQueue[K] | None = None,
        on_error: Callable[[str, K, Exception, float], None] | None = None,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        if workers < 1:
            raise ValueError(f"workers of pool {name!r} must be at least 1, not {workers}")
        self.name = name
        self._handle = handle
        self._workers = workers
        self._clock = clock
        self._queue: FairQueue[K] = FairQueue() if queue is None else queue
        self._on_error = on_error
        self._patience = patience
        self._begun: dict[tuple[str, K], float] = {}  # items in work that count, oldest first, and since when
        self._uncounted = 0  # workers whose items wait for somebody who does not answer
        self._sweeping: asyncio.TimerHandle | None = None
        self._errors: LastErrors[K] = LastErrors(_MOST_LAST_ERRORS)
        self._stopped = False  # by drain() or the end of run(): takes no more items
        self._drained = False
        self._running = 0  # workers that have an item, or are between two
        self._idle = asyncio.Event()  # set while no worker runs
        self._idle.set()
        self._handed_over: deque[tuple[str, K]] = deque()  # popped for workers that have not begun yet
        self._wake_up: asyncio.Future[None] | None = None  # what the dispatcher waits for

    @property
    def queue(self) -> FairQueue[K]:
        """The queue, for weights, limits, forgetting groups and statistics."""
        return self._queue

    @property
    def last_errors(self) -> Mapping[tuple[str, K], LastError]:
        """A copy of the newest errors (at most 200) of items that failed and have not been settled since."""
        failing: dict[tuple[str, K], LastError] = {}
        for group, item, error in list(self._errors):
            if self._queue.attempts(group, item):
                failing[group, item] = error
            else:  # its group was forgotten, or its backoff
                self._errors.settle(group, item)
        return failing

    def add(self, group: str, item: K, priority: bool = False) -> None:
        """Ask for an item to be handled as soon as it is its turn; see `FairQueue.add`."""
        self._queue.add(group, item, now=self._clock(), priority=priority)

    def add_after(self, group: str, item: K, delay: float) -> None:
        """Ask for an item to be handled `delay` seconds from now; see `FairQueue.add_after`."""
        self._queue.add_after(group, item, delay, now=self._clock())

    async def run(self) -> None:
        """Handle items until cancelled. What was in flight then is back in the queue afterwards.

        Runs no task of its own while there is nothing to handle. `RuntimeError` if a pool runs on this queue
        already.
        """
        if self._queue.on_ready is not None:
            raise RuntimeError(f"pool {self.name!r}: its queue is served by a running pool already")
        self._queue.on_ready = self._wake
        self._stopped = self._drained
        try:
            async with asyncio.TaskGroup() as tasks:
                try:
                    await self._dispatch(tasks)
                finally:
                    self._stopped = True
        finally:
            self._queue.on_ready = None
            if self._sweeping is not None:
                self._sweeping.cancel()
                self._sweeping = None
            while self._handed_over:  # their workers were cancelled before they began
                self._put_back(*self._handed_over.popleft())
                self._worker_ended()

    async def drain(self, timeout: float) -> bool:  # noqa: ASYNC109 - running out of time is a result here
        """Take no more items, for good, and wait up to `timeout` seconds for those in flight.

        True if all of them have ended. Items may still be added; they stay in the queue. `run()` goes on,
        idle, until it is cancelled.
        """
        self._drained = self._stopped = True
        try:
            async with asyncio.timeout(timeout):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    # The dispatcher

    async def _dispatch(self, tasks: asyncio.TaskGroup) -> None:
        """Start workers whenever there is more to do than the running ones take."""
        loop = asyncio.get_running_loop()
        while True:
            # Made before looking at the queue: whatever comes in from here on ends the wait below.
            self._wake_up = loop.create_future()
            self._start_workers(tasks)
            timer = self._set_timer(loop)
            try:
                await self._wake_up
            finally:
                self._wake_up = None
                if timer is not None:
                    timer.cancel()

    def _start_workers(self, tasks: asyncio.TaskGroup) -> None:
        while not self._stopped and self._counted < self._workers:
            popped = self._queue.pop(now=self._clock())
            if popped is None:
                return
            self._handed_over.append(popped)
            self._running += 1
            self._idle.clear()
            tasks.create_task(self._work(), name=f"{self.name}-worker")

    def _set_timer(self, loop: asyncio.AbstractEventLoop) -> asyncio.TimerHandle | None:
        """Have the dispatcher woken at the next deadline, unless it could start no worker then."""
        deadline = None if self._stopped else self._queue.next_deadline()
        if deadline is None:
            return None
        return loop.call_later(max(0.0, deadline - self._clock()), self._wake)

    def _wake(self) -> None:
        # With all workers busy there is nothing to dispatch: they take the next items, due ones included.
        if self._counted < self._workers and self._wake_up is not None and not self._wake_up.done():
            self._wake_up.set_result(None)

    # The workers

    async def _work(self) -> None:
        """Handle the item handed over, then others until none is ready."""
        popped: tuple[str, K] | None = self._handed_over.popleft()
        handled = 0
        try:
            while popped is not None:
                await self._process(*popped)
                handled += 1
                if handled % _ITEMS_BEFORE_YIELD == 0:
                    await asyncio.sleep(0)
                if self._stopped or self._counted > self._workers:  # others have begun in its place
                    return
                popped = self._queue.pop(now=self._clock())
        finally:
            self._worker_ended()

    def _worker_ended(self) -> None:
        was_full = self._counted >= self._workers
        self._running -= 1
        if was_full:
            self._wake()  # deadlines set meanwhile have no timer yet
        if self._running == 0:
            self._idle.set()

    async def _process(self, group: str, item: K) -> None:
        """Handle one item and settle, delay or retry it; whatever happens, its processing ends here."""
        began = self._begin(group, item)
        try:
            again = await self._handle(group, item)
            if again is not None:
                self._queue.again(group, item, again, now=self._clock())
            if self._errors:
                self._errors.settle(group, item)
        except asyncio.CancelledError as error:
            if _cancelled_from_outside():
                self._queue.again(group, item, 0, now=self._clock())
                raise
            failure = HandlerCancelledError("something the handler awaited was cancelled")
            failure.__cause__ = error
            self._failed(group, item, failure)
        except Exception as error:  # noqa: BLE001 - whatever a handler raises, its item is retried
            self._failed(group, item, error)
        finally:
            self._end(group, item, began)
            self._queue.done(group, item, now=self._clock())

    # Who does not answer

    @property
    def _counted(self) -> int:
        """Workers that are taken from those who answer."""
        return self._running - self._uncounted

    def _begin(self, group: str, item: K) -> float:
        now = self._clock()
        if self._queue.has_ceiling(group):
            self._uncounted += 1
            self._wake()
        else:
            self._begun[group, item] = now
            if self._sweeping is None:
                self._sweeping = asyncio.get_running_loop().call_later(self._patience, self._sweep)
        return now

    def _end(self, group: str, item: K, began: float) -> None:
        if self._begun.pop((group, item), None) is None:
            self._uncounted -= 1
        if self._queue.has_ceiling(group) and self._clock() - began < self._patience:
            self._queue.set_ceiling(group, None)  # it answers, with a result or an error

    def _sweep(self) -> None:
        """Count no longer whose items have been in work for too long."""
        self._sweeping = None
        now = self._clock()
        while self._begun:
            (group, item), began = next(iter(self._begun.items()))
            left = began + self._patience - now
            if left > 0:
                self._sweeping = asyncio.get_running_loop().call_later(left, self._sweep)
                break
            del self._begun[group, item]
            self._uncounted += 1
            self._queue.set_ceiling(group, max(1, self._workers // _SILENT_SHARE))
        self._wake()

    def _failed(self, group: str, item: K, error: Exception) -> None:
        now = self._clock()
        delay = self._queue.retry(group, item, now=now)
        try:
            if delay < math.inf:
                self._errors.record(group, item, error, time=now, attempts=self._queue.attempts(group, item))
            if self._on_error is not None:
                self._on_error(group, item, error, delay)
        except Exception:  # noqa: BLE001 - broken reporting must not cost the item or the worker
            _log.exception("reporting an error failed", pool=self.name, tenant=group)

    def _put_back(self, group: str, item: K) -> None:
        now = self._clock()
        self._queue.again(group, item, 0, now=now)
        self._queue.done(group, item, now=now)


def _cancelled_from_outside() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
