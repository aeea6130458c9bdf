"""Long work on the event loop in short pieces: each iteration of the loop runs one piece, however many tasks have some."""

import asyncio
from collections import deque
from weakref import WeakKeyDictionary

from vcsync.objects.budget import Budget


class Turns:
    """A queue of tasks. Each iteration of the event loop resumes the first one."""

    def __init__(self) -> None:
        """Begin with nobody."""
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def come(self) -> None:
        """Wait until all earlier tasks have been resumed, and for one iteration at least."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._waiting.append(future)
        if len(self._waiting) == 1:
            loop.call_soon(self._next)
        await future

    def _next(self) -> None:
        """Resume the first task that still waits."""
        while self._waiting and self._waiting[0].done():
            self._waiting.popleft()
        if self._waiting:
            self._waiting[0].set_result(None)
            asyncio.get_running_loop().call_soon(self._next)


_turns: "WeakKeyDictionary[asyncio.AbstractEventLoop, Turns]" = WeakKeyDictionary()


async def turn() -> None:
    """Let other tasks run between two pieces of long work."""
    loop = asyncio.get_running_loop()
    found = _turns.get(loop)
    if found is None:
        found = _turns[loop] = Turns()
    await found.come()


async def rest(budget: Budget) -> None:
    """Let other tasks run if the work has taken a piece of its budget since the last call that did."""
    if budget.piece_ended():
        await turn()
