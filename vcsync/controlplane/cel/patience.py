"""Long evaluations kept off the event loop: a short try on it, then a thread that makes way every few milliseconds.

What is evaluated is pure, so it can begin anew: on a thread, or once the authorizer has answered.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar, copy_context
from functools import cache
from typing import TypeVar

from vcsync.controlplane.cel.authorizing import WAIT, Pending
from vcsync.controlplane.cel.values import CostExceeded, Work

SHORT_STEPS = 2_000
"""Steps that are taken on the event loop at a time: about two milliseconds."""
THREADS = 2
"""Long evaluations of all tenants that run at the same time; of one tenant it is one."""
REST_STEPS = 2_000
REST_SECONDS = 0.000_2
"""A thread rests so long after so many steps: without it the event loop waits for Python's lock."""
MOST_ANSWERS = 64
"""Checks of the authorizer that one evaluation may wait for on the event loop."""
ANSWER_SECONDS = 30.0

T = TypeVar("T")


class TooLong(Exception):
    """It takes longer than the event loop can spare."""


class TooLarge(TooLong):
    """So much stands there that it was not even tried."""


class _Slice:
    """What is left of the steps on the event loop."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = SHORT_STEPS


class _ShortWork(Work):
    __slots__ = ("_slice",)

    def __init__(self, limit: int, slice_: _Slice) -> None:
        super().__init__(limit)
        self._slice = slice_

    def spend(self, steps: int = 1) -> None:
        self._slice.left -= steps
        if self._slice.left < 0:
            raise TooLong
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


_slice: ContextVar[_Slice | None] = ContextVar("slice", default=None)
_ended: ContextVar[threading.Event | None] = ContextVar("ended", default=None)
_movable: ContextVar[bool] = ContextVar("movable", default=False)
_gates: dict[str, tuple[asyncio.Lock, int]] = {}


@contextmanager
def moving() -> Iterator[None]:
    """Let what takes too long raise `TooLong` instead of going on on a thread: it will be done elsewhere."""
    token = _movable.set(True)
    try:
        yield
    finally:
        _movable.reset(token)


def movable() -> bool:
    """Tell whether what takes too long is to raise `TooLong`."""
    return _movable.get()


def work(limit: int) -> Work:
    """Return the steps of one evaluation, where it runs now.

    Args:
        limit: most steps that it may take.
    """
    current = _slice.get()
    if current is not None:
        return _ShortWork(limit, current)
    ended = _ended.get()
    return Work(limit) if ended is None else _RestingWork(limit, ended)


def heavy(steps: int) -> None:
    """Count what takes as long as so many steps, for all that it is not an evaluation.

    Raises:
        TooLong: it is too much for the event loop.
    """
    current = _slice.get()
    if current is not None:
        current.left -= steps
        if current.left < 0:
            raise TooLong


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, "cel")


@asynccontextmanager
async def _turn(tenant: str) -> AsyncIterator[None]:
    """Let one long evaluation of a tenant run after the other."""
    lock, users = _gates.get(tenant) or (asyncio.Lock(), 0)
    _gates[tenant] = (lock, users + 1)
    try:
        async with lock:
            yield
    finally:
        lock, users = _gates.pop(tenant)
        if users > 1:
            _gates[tenant] = (lock, users - 1)


async def patiently(tenant: str, evaluate: Callable[[], T]) -> T:
    """Evaluate, on a thread if it takes long; what the authorizer is asked is answered.

    Args:
        tenant: whose expression it is.
        evaluate: pure; takes its steps from `work`.

    Raises:
        TooLong: it takes long, and is done elsewhere; see `moving`.
    """
    for _ in range(MOST_ANSWERS):
        try:
            return await _once(tenant, evaluate)
        except Pending as pending:
            await pending.answer()
    return await _once(tenant, evaluate)


async def _once(tenant: str, evaluate: Callable[[], T]) -> T:
    token = _slice.set(_Slice())
    try:
        return evaluate()
    except TooLong:
        if movable():
            raise
    finally:
        _slice.reset(token)
    return await aside(tenant, evaluate)


async def aside(tenant: str, evaluate: Callable[[], T]) -> T:
    """Evaluate on a thread; see `patiently`."""
    async with _turn(tenant):
        loop, ended = asyncio.get_running_loop(), threading.Event()

        def wait(pending: Pending) -> None:
            asyncio.run_coroutine_threadsafe(pending.answer(), loop).result(ANSWER_SECONDS)

        def run() -> T:
            _ended.set(ended)
            WAIT.set(wait)
            return evaluate()

        done = loop.run_in_executor(_threads(), copy_context().run, run)
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            # Nobody wants to know any more; the tenant's turn ends when the thread has noticed.
            ended.set()
            await asyncio.wait([done])
            raise
