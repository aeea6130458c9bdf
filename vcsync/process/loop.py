"""Starts a process's event loop, with uvloop if it is installed, and tunes the garbage collector."""

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, on uvloop if it is installed.

    An idle TLS stream on uvloop needs a fifth of the memory that it needs on asyncio's own loop.
    """
    try:
        import uvloop  # noqa: PLC0415 - optional
    except ImportError:
        factory = None
    else:
        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main)


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
