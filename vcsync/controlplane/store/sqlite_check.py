"""Reads a whole database file once, to find out whether it is sound, while others work with it."""

import asyncio
from pathlib import Path

from vcsync.controlplane.store.sqlite_file import open_reader, require_sound

_INTERRUPT_SECONDS = 0.05


class Check:
    """A check that runs, in a thread and on a connection of its own."""

    def __init__(self, path: Path) -> None:
        """Begin to check a database that `open_checked` has opened."""
        self._connection = open_reader(path)
        self._task = asyncio.ensure_future(asyncio.to_thread(require_sound, self._connection, path))

    async def finished(self, seconds: float | None) -> bool:
        """Wait so long (None: to its end); True: everything is sound.

        Raises:
            StoreRefused: the database is damaged.
        """
        done, _ = await asyncio.wait([self._task], timeout=seconds)
        if done:
            self._task.result()
        return bool(done)

    async def close(self) -> None:
        """Stop it, if it runs, and release everything."""
        while not self._task.done():
            self._connection.interrupt()  # has no effect before the thread has begun
            await asyncio.wait([self._task], timeout=_INTERRUPT_SECONDS)
        await asyncio.gather(self._task, return_exceptions=True)
        self._connection.close()
