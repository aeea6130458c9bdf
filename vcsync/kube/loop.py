"""Starting a process' event loop: uvloop where it is installed, and a garbage collector that keeps out of the way."""

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, on uvloop if there is one: a fifth of the memory per idle TLS stream."""
    try:
        import uvloop  # noqa: PLC0415 - optional
    except ImportError:
        factory = None
    else:
        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main)


def tune_gc() -> None:
    """Take what stands now out of the collector's rounds and make them rare. Call it after start-up.

    Caches hold envelopes, which the collector need not look at; what is left is short-lived. Few objects are looked at
    at once, new ones and those of two rounds alike: it takes up to a microsecond for each, and nothing else is done
    meanwhile. Called again, when a part was started anew, it lets go of what its forerunner left.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    gc.set_threshold(2_000, 1, 50_000)
