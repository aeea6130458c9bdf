"""Starts a process's event loop, with uvloop if it is installed, watches it, and tunes the garbage collector."""

import asyncio
import gc
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from vcsync.process.marks import MarkingExecutor
from vcsync.process.watchdog import LIMITS, Watchdog

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, on uvloop if it is installed.

    An idle TLS stream on uvloop needs a fifth of the memory that it needs on asyncio's own loop. A watchdog ends the process if
    the loop stands for too long; see `vcsync.process.watchdog`.
    """
    try:
        import uvloop  # noqa: PLC0415 - optional
    except ImportError:
        factory = None
    else:
        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner, _watched(runner.get_loop()):
        return runner.run(main)


@contextmanager
def _watched(running: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Watch a loop of the main thread, and mark what its threads run."""
    global _watchdog  # noqa: PLW0603 - a process has one
    running.set_default_executor(MarkingExecutor(thread_name_prefix="asyncio"))
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _watchdog = Watchdog(running, LIMITS)
    _watchdog.start()
    try:
        yield
    finally:
        _watchdog.stop()
        _watchdog = None


_watchdog: Watchdog | None = None


def taken_report() -> str:
    """Return the report of the last process whose loop stood; see `Watchdog.taken_report`."""
    return "" if _watchdog is None else _watchdog.taken_report()


def started() -> None:
    """Tell the watchdog that the process has started, and serves or works for tenants from now on."""
    if _watchdog is not None:
        _watchdog.started()


def tune_gc() -> None:
    """Exclude all present objects from garbage collection, and make collections rare. Call it after start-up.

    Caches hold envelopes, which the collector does not track; other objects are short-lived. Each collection examines few
    objects, since it takes up to a microsecond for each and blocks the process. Call the function again after a restart of a
    part of the process, to free the objects of its predecessor.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    gc.set_threshold(2_000, 1, 50_000)
