"""Runs evaluations without blocking the event loop: first briefly on it, then on a thread that sleeps at intervals.

Evaluations are pure, so they can start again: on a thread, or after the authorizer has answered.
"""

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar, copy_context
from functools import cache
from typing import TypeVar

from vcsync.apimachinery.cel.authorizing import WAIT, Pending
from vcsync.apimachinery.cel.values import CostExceeded, Work
from vcsync.objects import loop_steps
from vcsync.objects.loop_steps import LoopSteps, TooLong
from vcsync.process.marks import MarkingExecutor
from vcsync.process.tasks import retrieve

SHORT_STEPS = 2_000
"""Most steps of an evaluation on the event loop: about two milliseconds."""
THREADS = 2
"""Long evaluations that run at the same time. A tenant has one at a time."""
REST_STEPS = 2_000
REST_SECONDS = 0.000_2
"""A thread sleeps this long after every `REST_STEPS` steps, so that the event loop gets Python's lock."""
MOST_ANSWERS = 64
"""Most answers of the authorizer that one evaluation awaits on the event loop."""
ANSWER_SECONDS = 30.0

T = TypeVar("T")


class TooLarge(TooLong):
    """The stored object is too large, so the evaluation was not tried on the event loop."""


class _ShortWork(Work):
    __slots__ = ("_slice",)

    def __init__(self, limit: int, slice_: LoopSteps) -> None:
        super().__init__(limit)
        self._slice = slice_

    def spend(self, steps: int = 1) -> None:
        self._slice.spend(steps)
        Work.spend(self, steps)


class _RestingWork(Work):
    __slots__ = ("_ended", "_rest")

    def __init__(self, limit: int, ended: threading.Event) -> None:
        super().__init__(limit)
        self._ended = ended
        self._rest = limit - REST_STEPS

    def spend(self, steps: int = 1) -> None:
        Work.spend(self, steps)
        if self.left < self._rest:
            self._rest = self.left - REST_STEPS
            if self._ended.is_set():
                raise CostExceeded
            time.sleep(REST_SECONDS)


_ended: ContextVar[threading.Event | None] = ContextVar("ended", default=None)
_raises_too_long: ContextVar[bool] = ContextVar("raises_too_long", default=False)
_gates: dict[str, tuple[asyncio.Lock, int]] = {}


@contextmanager
def raising_too_long() -> Iterator[None]:
    """Let long evaluations raise `TooLong` instead of moving to a thread: the caller runs them elsewhere."""
    token = _raises_too_long.set(True)
    try:
        yield
    finally:
        _raises_too_long.reset(token)


def raises_too_long() -> bool:
    """Return whether long evaluations raise `TooLong`."""
    return _raises_too_long.get()


def work(limit: int) -> Work:
    """Return the steps of one evaluation, in the thread or event loop that calls this.

    Args:
        limit: the most steps that the evaluation may take.
    """
    current = loop_steps.current.get()
    if current is not None:
        return _ShortWork(limit, current)
    ended = _ended.get()
    return Work(limit) if ended is None else _RestingWork(limit, ended)


@cache
def _threads() -> MarkingExecutor:
    return MarkingExecutor(THREADS, "cel")


# A forked process does not have its parent's threads, and would wait for them forever.
os.register_at_fork(after_in_child=_threads.cache_clear)


@asynccontextmanager
async def _turn(tenant: str) -> AsyncIterator[None]:
    """Run the long evaluations of a tenant one at a time."""
    lock, users = _gates.get(tenant) or (asyncio.Lock(), 0)
    _gates[tenant] = (lock, users + 1)
    try:
        async with lock:
            yield
    finally:
        lock, users = _gates.pop(tenant)
        if users > 1:
            _gates[tenant] = (lock, users - 1)


async def evaluate_cooperatively(tenant: str, evaluate: Callable[[], T]) -> T:
    """Evaluate on the event loop, or on a thread if it takes long. Checks of the authorizer are answered.

    Args:
        tenant: the tenant whose expression is evaluated.
        evaluate: a pure function that takes its steps from `work`.

    Raises:
        TooLong: the evaluation takes long, within `raising_too_long`.
    """
    for _ in range(MOST_ANSWERS):
        try:
            return await _once(tenant, evaluate)
        except Pending as pending:
            await pending.answer()
    return await _once(tenant, evaluate)


async def _once(tenant: str, evaluate: Callable[[], T]) -> T:
    token = loop_steps.current.set(LoopSteps(SHORT_STEPS))
    try:
        return evaluate()
    except TooLong:
        if raises_too_long():
            raise
    finally:
        loop_steps.current.reset(token)
    return await evaluate_in_thread(tenant, evaluate)


async def evaluate_in_thread(tenant: str, evaluate: Callable[[], T]) -> T:
    """Evaluate on a thread; see `evaluate_cooperatively`."""
    async with _turn(tenant):
        loop, ended = asyncio.get_running_loop(), threading.Event()

        def wait(pending: Pending) -> None:
            asyncio.run_coroutine_threadsafe(pending.answer(), loop).result(ANSWER_SECONDS)

        def run() -> T:
            _ended.set(ended)
            WAIT.set(wait)
            return evaluate()

        done = loop.run_in_executor(_threads(), copy_context().run, run)
        done.add_done_callback(retrieve)
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            # The result is no longer needed. The tenant's next evaluation starts when the thread has ended.
            ended.set()
            await asyncio.wait([done])
            raise
