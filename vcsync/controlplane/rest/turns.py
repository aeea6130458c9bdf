"""Pieces of long work on the event loop, one in each of its rounds: however many there are, others wait for one at most."""

import asyncio
from collections import deque
from weakref import WeakKeyDictionary


class Turns:
    """Those who wait for the rest of the loop to have had its turn, and for those that came before them."""

    def __init__(self) -> None:
        """Begin with nobody."""
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def come(self) -> None:
        """Wait for one's turn."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._waiting.append(future)
        if len(self._waiting) == 1:
            loop.call_soon(self._next)
        await future

    def _next(self) -> None:
        """Let one go on; those who wait no longer are left out."""
        while self._waiting and self._waiting[0].done():
            self._waiting.popleft()
        if self._waiting:
            self._waiting[0].set_result(None)
            asyncio.get_running_loop().call_soon(self._next)


_turns: "WeakKeyDictionary[asyncio.AbstractEventLoop, Turns]" = WeakKeyDictionary()


async def turn() -> None:
    """Let everything else have its turn, between two pieces of long work."""
    loop = asyncio.get_running_loop()
    found = _turns.get(loop)
    if found is None:
        found = _turns[loop] = Turns()
    await found.come()
