"""Walks over many items in short steps, so that the event loop is never blocked for long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from time import thread_time
from typing import TypeVar

T = TypeVar("T")

STEP_ITEMS = 200
"""Items in each step, after which other tasks of the event loop run."""


class StepMeter:
    """The CPU time of walks: all of it, and the longest step.

    Attributes:
        cpu_seconds: CPU seconds of all steps.
        longest_step: CPU seconds of the longest step. The event loop does nothing else meanwhile.
    """

    def __init__(self) -> None:
        self.cpu_seconds = 0.0
        self.longest_step = 0.0
        self._started = 0.0

    def start_step(self) -> None:
        """Note that a step begins."""
        self._started = thread_time()

    def end_step(self) -> None:
        """Note that the step ends."""
        spent = thread_time() - self._started
        self.cpu_seconds += spent
        self.longest_step = max(self.longest_step, spent)


async def in_steps(
    items: Iterable[T | None], *, pause: float = 0.0, meter: StepMeter | None = None
) -> AsyncIterator[T]:
    """Yield items, and let other tasks run after every `STEP_ITEMS` of them.

    Args:
        items: the items. A generator is advanced by one step at a time. None stands for work that yields nothing.
        pause: seconds to pause between two steps. With 0, tasks that are ready run once.
        meter: measures the steps, including what the caller does with the items without waiting.
    """
    meter = meter or StepMeter()
    meter.start_step()
    for count, item in enumerate(items, 1):
        if item is not None:
            yield item
        if count % STEP_ITEMS == 0:
            meter.end_step()
            await asyncio.sleep(pause)
            meter.start_step()
    meter.end_step()
