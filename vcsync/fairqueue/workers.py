"""A pool of asyncio workers for a fair queue. It starts workers on demand, and retries items that fail.

An item that becomes ready while a worker is free starts one in the same callback. The worker pops its first item when it runs,
which is before the event loop looks at its sockets and timers again. Between a watch event and its handler there is thus no
timer, and no task but those that were ready before. The queue alone decides which item a worker gets, so a worker
that was started by one group's item takes that of another group whose turn it is.
"""

import asyncio
import contextvars
import math
import secrets
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Generic, TypeVar

import structlog

from vcsync.fairqueue.costs import Measured
from vcsync.fairqueue.errors import LastError, LastErrors
from vcsync.fairqueue.queue import FairQueue
from vcsync.fairqueue.reconciles import Reconciles, Result, current
from vcsync.fairqueue.timeline import Timeline
from vcsync.process.marks import marked

K = TypeVar("K", bound=Hashable)

_MOST_LAST_ERRORS = 200
PATIENCE_SECONDS = 1.0
"""Seconds after which a worker does not count any more, since its item waits for a server that does not answer."""
ITEM_SECONDS = 0.001
"""Seconds of the event loop that an item may take before its group is charged for more than one item."""
_SILENT_SHARE = 8  # one group that does not answer has at most this fraction of the workers
_ITEMS_BEFORE_YIELD = 8  # items after which a worker whose handler never suspends lets other tasks run

_log = structlog.get_logger(__name__)


class HandlerCancelledError(Exception):
    """A handler was cancelled although the pool was not, for example because of something that it awaited."""


class WorkerPool(Generic[K]):
    """Handles the items of a fair queue, up to `workers` at a time.

    A group whose server does not answer takes no workers from other groups: an item that is handled for longer than
    `patience` seconds does not count as one of the `workers`, nor do further items of its group until one of them ends
    sooner. Such a group has at most an eighth of `workers` items in process, so the number of hanging items is limited.

    Each handling is a reconcile with an id. `structlog` adds the id as `reconcile` to every line logged by the handler.

    All methods must be called in the event loop in which `run()` runs.

    Attributes:
        reconciles: counts the reconciles by controller and result.
        timeline: records the actions of handlers on objects.

    Args:
        name: name of the pool, for logs and errors.
        handle: handles (group, item). It returns None when the item is settled, or the seconds until the item is to be
            handled again; both end its backoff. When it raises an `Exception`, the item is retried with backoff.
        workers: largest number of items that are handled concurrently.
        clock: monotonic seconds.
        queue: the queue; that of an earlier pool continues where the pool stopped. None for a new one.
        on_error: called with (group, item, error, seconds of backoff) when `handle` raised. The seconds are infinite if
            the group was forgotten, so that there is no retry.
        patience: seconds after which a worker does not count any more.
        controller_of: returns the name of the controller that handles an item; None for the pool's name.
        meter: seconds of a clock that goes on while this thread works. Each item's time by it is charged to its group, so that
            groups share time and not turns. None: each item counts the same.
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
        controller_of: Callable[[K], str] | None = None,
        meter: Callable[[], float] | None = None,
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
        self._controller_of = controller_of
        self._meter = meter
        self.reconciles = Reconciles(secrets.token_hex(3))
        self.timeline = Timeline(name)
        # Items whose workers count, and since when they are handled, oldest first.
        self._begun: dict[tuple[str, K], float] = {}
        self._uncounted = 0  # workers that do not count, since their items wait for a silent server
        self._sweeping: asyncio.TimerHandle | None = None
        self._errors: LastErrors[K] = LastErrors(_MOST_LAST_ERRORS)
        self._stopped = False  # whether drain() or the end of run() has stopped taking items
        self._drained = False
        self._running = 0  # workers that handle an item, or are between two items
        self._idle = asyncio.Event()  # set while no worker runs
        self._idle.set()
        self._starting = 0  # workers among them that have not popped their first item yet
        self._tasks: asyncio.TaskGroup | None = None  # of `run`, which starts workers in its own context
        self._context = contextvars.Context()
        self._settling = False  # whether a worker calls the queue and takes the next item itself
        self._timer: asyncio.TimerHandle | None = None

    @property
    def queue(self) -> FairQueue[K]:
        """The queue, for weights, limits, forgetting groups and statistics."""
        return self._queue

    @property
    def last_errors(self) -> Mapping[tuple[str, K], LastError]:
        """A copy of the newest errors (at most 200) of items that have failed and have not succeeded since."""
        failing: dict[tuple[str, K], LastError] = {}
        for group, item, error in list(self._errors):
            if self._queue.attempts(group, item):
                failing[group, item] = error
            else:  # its group was forgotten, or its backoff
                self._errors.settle(group, item)
        return failing

    def add(self, group: str, item: K, priority: bool = False) -> None:
        """Enqueue an item; see `FairQueue.add`."""
        self._queue.add(group, item, now=self._clock(), priority=priority)

    def add_after(self, group: str, item: K, delay: float) -> None:
        """Enqueue an item after `delay` seconds; see `FairQueue.add_after`."""
        self._queue.add_after(group, item, delay, now=self._clock())

    async def run(self) -> None:
        """Handle items until cancelled. Items in flight are then back in the queue.

        Raises:
            RuntimeError: another pool uses the queue.
        """
        if self._queue.on_ready is not None:
            raise RuntimeError(f"pool {self.name!r}: its queue is served by a running pool already")
        self._stopped = self._drained
        self._context = contextvars.copy_context()
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                self._queue.on_ready, self._queue.on_deadline = self._start_worker, self._set_timer
                try:
                    self._start_workers()
                    self._set_timer()
                    await asyncio.get_running_loop().create_future()  # until cancelled
                finally:
                    self._stopped = True
        finally:
            self._tasks = None
            self._queue.on_ready = self._queue.on_deadline = None
            for timer in (self._sweeping, self._timer):
                if timer is not None:
                    timer.cancel()
            self._sweeping = self._timer = None
            while self._starting:  # they were cancelled before they began, so they hold no item
                self._starting -= 1
                self._worker_ended()

    async def drain(self, timeout: float) -> bool:  # noqa: ASYNC109 - running out of time is a result here
        """Stop taking items, and wait up to `timeout` seconds for those in flight.

        Items may still be added; they stay in the queue. `run()` continues without work until it is cancelled.

        Returns:
            Whether all items in flight have ended.
        """
        self._drained = self._stopped = True
        try:
            async with asyncio.timeout(timeout):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    # The start of workers

    def _start_worker(self) -> None:
        """Start a worker if one is free, and more items are ready than the workers take that have been started already."""
        if (
            self._tasks is not None
            and not (self._stopped or self._settling)
            and self._counted < self._workers
            and self._queue.has_turns
            and self._queue.queued > self._starting
        ):
            self._starting += 1
            self._running += 1
            self._idle.clear()
            # Not in the context of whoever added the item, which may be another reconcile.
            self._tasks.create_task(self._work(), name=f"{self.name}-worker", context=self._context.copy())

    def _start_workers(self) -> None:
        """Start all workers that are free and have an item to take."""
        before = -1
        while before != self._starting:
            before = self._starting
            self._start_worker()

    def _set_timer(self) -> None:
        """Make delayed items ready at the next deadline."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline = None if self._stopped else self._queue.next_deadline()
        if deadline is not None:
            delay = max(0.0, deadline - self._clock())
            self._timer = asyncio.get_running_loop().call_later(delay, self._release_due)

    def _release_due(self) -> None:
        self._timer = None
        self._queue.release_due(self._clock())
        self._set_timer()

    # The workers

    async def _work(self) -> None:
        """Handle ready items until there is none."""
        self._starting -= 1
        handled = 0
        try:
            while not self._stopped and self._counted <= self._workers:  # else others were started instead
                popped = self._queue.pop(now=self._clock())
                if popped is None:
                    return
                await self._process(*popped)
                handled += 1
                if handled % _ITEMS_BEFORE_YIELD == 0:
                    await asyncio.sleep(0)
        finally:
            self._worker_ended()

    def _worker_ended(self) -> None:
        self._running -= 1
        self._start_workers()  # those that found no free worker
        if self._running == 0:
            self._idle.set()

    async def _process(self, group: str, item: K) -> None:
        """Handle one item, and settle, delay or retry it."""
        began = self._begin(group, item)
        reconcile = self.reconciles.begin(self._controller_of(item) if self._controller_of else self.name)
        current.set(reconcile)
        structlog.contextvars.bind_contextvars(reconcile=reconcile.id)
        result: Result = "error"
        try:
            again = await self._measured(
                group, item, marked(reconcile.controller, group, self._handle(group, item), item)
            )
            if again is not None:
                self._queue.again(group, item, again, now=self._clock())
            result = "success" if again is None else "requeue_after"
            if self._errors:
                self._errors.settle(group, item)
        except asyncio.CancelledError as error:
            if _cancelled_from_outside():
                self._queue.again(group, item, 0, now=self._clock())
                raise
            failure = HandlerCancelledError("something the handler awaited was cancelled")
            failure.__cause__ = error
            self._failed(group, item, failure)
        except Exception as error:  # noqa: BLE001 - the item is retried after any error
            self._failed(group, item, error)
        finally:
            self.reconciles.end(reconcile, result, self._clock() - began)
            self._end(group, item, began)
            self._settle(group, item)

    async def _measured(self, group: str, item: K, work: Awaitable[float | None]) -> float | None:
        """Await the handling of an item, and charge its group for the time that it takes of the event loop."""
        if self._meter is None:
            return await work
        measured = Measured(work, self._meter)
        try:
            return await measured
        finally:
            self._queue.charge(group, item, max(0.0, measured.seconds / ITEM_SECONDS - 1))

    def _settle(self, group: str, item: K) -> None:
        """End the processing of an item. The worker takes what becomes ready by that itself, if it is only one item."""
        self._settling = True
        try:
            self._queue.done(group, item, now=self._clock())
        finally:
            self._settling = False

    # Servers that do not answer

    @property
    def _counted(self) -> int:
        """Number of workers that count towards the limit."""
        return self._running - self._uncounted

    def _begin(self, group: str, item: K) -> float:
        now = self._clock()
        if self._queue.has_ceiling(group):
            self._uncounted += 1
            self._start_workers()
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
        """Stop counting workers whose items have been handled for too long."""
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
        self._start_workers()

    def _failed(self, group: str, item: K, error: Exception) -> None:
        now = self._clock()
        delay = self._queue.retry(group, item, now=now)
        try:
            if delay < math.inf:
                running = current.get()
                self._errors.record(
                    group,
                    item,
                    error,
                    time=now,
                    attempts=self._queue.attempts(group, item),
                    reconcile=running.id if running else "",
                )
            if self._on_error is not None:
                self._on_error(group, item, error, delay)
        except Exception:  # noqa: BLE001 - an error in reporting must not lose the item or end the worker
            _log.exception("reporting an error failed", pool=self.name, tenant=group)


def _cancelled_from_outside() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
