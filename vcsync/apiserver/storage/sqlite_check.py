"""Checks a database file for damage by reading all of it, while it is in use."""

import asyncio
from pathlib import Path

from vcsync.apiserver.storage.sqlite_file import open_reader, require_sound

_INTERRUPT_SECONDS = 0.05


class Check:
    """A running check, in a thread and on a connection of its own."""

    def __init__(self, path: Path) -> None:
        """Start to check a database that `open_checked` has opened."""
        self._connection = open_reader(path)
        self._task = asyncio.ensure_future(asyncio.to_thread(require_sound, self._connection, path))

    async def finished(self, seconds: float | None) -> bool:
        """Wait for the end of the check, at most `seconds` (None: unlimited). Returns whether it has ended without findings.

        Raises:
            StoreRefused: The database is damaged.
        """
        done, _ = await asyncio.wait([self._task], timeout=seconds)
        if done:
            self._task.result()
        return bool(done)

    async def close(self) -> None:
        """Stop the check, and release all resources."""
        while not self._task.done():
            self._connection.interrupt()  # has no effect before the thread has begun
            await asyncio.wait([self._task], timeout=_INTERRUPT_SECONDS)
        await asyncio.gather(self._task, return_exceptions=True)
        self._connection.close()
