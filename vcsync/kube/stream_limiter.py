"""Limits how many streams a process opens at the same time, because each costs a TLS handshake.

Servers that do not answer do not delay the streams of other servers.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary

MAX_OPENING = 64
"""Streams that the process opens at the same time, except those of servers that are slow to answer."""
MAX_OPENING_PER_SERVER = 8
"""Streams to one server that are opened at the same time."""
SLOW_SECONDS = 1.0
"""Seconds after which the slot of a stream is released: its server is slow to answer."""

_slots: "WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]" = WeakKeyDictionary()


class StreamLimiter:
    """Limits the streams to one server that are opened at the same time.

    A stream that takes longer than `SLOW_SECONDS` to open releases its slot of the process. Further streams to the same
    server take no slot until one of them opens in time. Only `MAX_OPENING_PER_SERVER` limits them. Otherwise, eight
    unresponsive servers would occupy all slots.
    """

    def __init__(self) -> None:
        self._own = asyncio.Semaphore(MAX_OPENING_PER_SERVER)
        self._is_slow = False

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a slot, and hold it while a stream is opened."""
        async with self._own:
            slot = None if self._is_slow else _process_slots()
            if slot is not None:
                await slot.acquire()
            held = [slot] if slot is not None else []
            late = False

            def release_slot() -> None:
                nonlocal late
                late = self._is_slow = True
                while held:
                    held.pop().release()

            timer = asyncio.get_running_loop().call_later(SLOW_SECONDS, release_slot)
            try:
                yield
            finally:
                timer.cancel()
                self._is_slow = late
                while held:
                    held.pop().release()


def _process_slots() -> asyncio.Semaphore:
    """Return the slots of the process. A semaphore belongs to one event loop, so each loop has its own."""
    loop = asyncio.get_running_loop()
    slots = _slots.get(loop)
    if slots is None:
        slots = _slots[loop] = asyncio.Semaphore(MAX_OPENING)
    return slots
