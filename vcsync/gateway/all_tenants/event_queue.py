"""A queue for the events of one control plane, which is bounded in bytes and read in turn with others."""

import asyncio
from collections import deque
from collections.abc import Sequence

from vcsync.gateway.all_tenants.events import Change

QUEUE_BYTES = 2**20
"""Bytes that may wait in one queue. One more event fits always, so that a large one is not stuck."""
TURN_EVENTS = 50
"""Events that are taken of one queue before the next one has its turn."""


class EventQueue:
    """The events of one control plane that have not been sent.

    Args:
        wake: Set when an event arrives.
    """

    def __init__(self, wake: asyncio.Event) -> None:
        self._wake = wake
        self._waiting: deque[tuple[Change, int]] = deque()
        self._size = 0
        self._moved = asyncio.Event()

    async def put(self, change: Change, size: int) -> None:
        """Add an event of so many bytes, as soon as there is room."""
        while self._waiting and self._size + size > QUEUE_BYTES:
            await self._wait()
        self._waiting.append((change, size))
        self._size += size
        self._wake.set()

    async def drained(self) -> None:
        """Wait until all events have been taken."""
        while self._waiting:
            await self._wait()

    async def _wait(self) -> None:
        self._moved.clear()
        await self._moved.wait()

    @property
    def empty(self) -> bool:
        """Whether no event waits."""
        return not self._waiting

    def take(self, most: int = TURN_EVENTS) -> Sequence[Change]:
        """Return the next events of this queue's turn."""
        found = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
        self._size -= sum(size for _, size in found)
        self._moved.set()
        return [change for change, _ in found]
