"""Waits for a condition, as long as this machine needs.

A time limit is that of a quiet machine with two processors. It grows with the time that servers need to start here,
compared to their usual time.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from hack.testbed import KubectlError
from vcsync.kube.errors import KubeError

T = TypeVar("T")

SECONDS = 60.0
POLL_SECONDS = 0.1
SLOWEST = 8.0
"""Factor by which a limit grows at most, so that what never happens still ends a test."""

_slowness = 1.0


def observe(seconds: float, usual: float) -> None:
    """Learn from a start of servers how slow the machine is.

    Args:
        seconds: Time that it took.
        usual: Time that it takes on a quiet machine with two processors.
    """
    global _slowness  # noqa: PLW0603 - one machine
    _slowness = min(SLOWEST, max(_slowness, seconds / usual))


def limit(seconds: float) -> float:
    """Return a time limit for this machine. `seconds` is the limit on a quiet one."""
    return seconds * _slowness


def eventually(check: Callable[[], T], within: float = SECONDS) -> T:
    """Call `check` until it returns a true value, and return that.

    A check that raises AssertionError, or whose kubectl or request fails, is called again.

    Args:
        check: Returns a true value when the condition is met.
        within: Seconds to wait on a quiet machine.

    Raises:
        AssertionError: The condition was not met in time; has the last value or error.
    """
    deadline = time.monotonic() + limit(within)
    while True:
        try:
            found = check()
            if found:
                return found
            seen: object = repr(found)
        except (AssertionError, KubectlError, KubeError) as error:
            seen = error
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {limit(within):.0f} s; seen last: {seen}")
        time.sleep(POLL_SECONDS)


async def soon(check: Callable[[], Awaitable[T]], within: float = SECONDS) -> T:
    """Do the same as `eventually` with an asynchronous check.

    Raises:
        AssertionError: The condition was not met in time; has the last value or error.
    """
    seen: object = "nothing"
    try:
        async with asyncio.timeout(limit(within)):
            while True:
                try:
                    found = await check()
                    if found:
                        return found
                    seen = repr(found)
                except (AssertionError, KubeError) as error:
                    seen = error
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise AssertionError(f"not within {limit(within):.0f} s; seen last: {seen}") from None
