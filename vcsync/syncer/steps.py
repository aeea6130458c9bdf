"""Walks over many items in short steps, so that the event loop is never blocked for long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

T = TypeVar("T")

STEP_ITEMS = 200
"""Items in each step, after which other tasks of the event loop run."""


async def in_steps(items: Iterable[T], *, pause: float = 0.0) -> AsyncIterator[T]:
    """Yield items, and let other tasks run after every `STEP_ITEMS` of them.

    Args:
        items: the items. A generator is advanced by one step at a time.
        pause: seconds to pause between two steps. With 0, tasks that are ready run once.
    """
    for count, item in enumerate(items, 1):
        yield item
        if count % STEP_ITEMS == 0:
            await asyncio.sleep(pause)
