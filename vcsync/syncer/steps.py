"""Long walks over many items in short steps: the event loop belongs to everybody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

T = TypeVar("T")

STEP_ITEMS = 200
"""Items looked at before the event loop is let go."""


async def in_steps(items: Iterable[T], *, pause: float = 0.0) -> AsyncIterator[T]:
    """Yield items, and let the event loop go after every `STEP_ITEMS` of them.

    Args:
        items: what to walk over; a generator is only asked for the items of one step at a time.
        pause: seconds to rest between two steps; 0 gives way to what is ready, and goes on.
    """
    for count, item in enumerate(items, 1):
        yield item
        if count % STEP_ITEMS == 0:
            await asyncio.sleep(pause)
