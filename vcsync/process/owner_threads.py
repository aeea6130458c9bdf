"""Threads for long work on behalf of many owners: each owner has one piece of work at a time, and nobody takes all threads."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from weakref import WeakValueDictionary

from vcsync.process.tasks import retrieve

T = TypeVar("T")


class OwnerThreads:
    """A few threads.

    Args:
        name: Beginning of their names.
        threads: Their number.
    """

    def __init__(self, name: str, threads: int = 2) -> None:
        self._pool = ThreadPoolExecutor(threads, name)
        self._gates: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def run(self, owner: str, work: Callable[[], T]) -> T:
        """Run work on a thread, after the earlier work of the same owner.

        A cancelled caller waits until the thread has ended, so that the owner cannot start more.
        """
        gate = self._gates.get(owner)
        if gate is None:
            gate = self._gates[owner] = asyncio.Lock()
        async with gate:
            done = asyncio.get_running_loop().run_in_executor(self._pool, work)
            done.add_done_callback(retrieve)
            try:
                return await asyncio.shield(done)
            except asyncio.CancelledError:
                await asyncio.wait([done])
                raise
