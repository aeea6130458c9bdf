"""A proxy to a server that can be closed and opened, for demos: it simulates a lost network, not a lost server."""

import asyncio
from contextlib import suppress
from typing import Self

CHUNK = 2**16


class Door:
    """A local port that leads to a server while it is open. Use as an async context manager.

    Args:
        host: host of the server.
        port: port of the server.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._open = True
        self._through: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def __aenter__(self) -> Self:
        """Start to listen with the door open; `port` contains the port."""
        self._server = await asyncio.start_server(self._enter, "127.0.0.1", 0)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close all connections and stop listening."""
        assert self._server is not None  # noqa: S101  entered
        self._server.close()
        await self.shut()

    async def shut(self) -> None:
        """Close all connections, and close new ones immediately."""
        self._open = False
        for task in self._through:
            task.cancel()
        if self._through:
            await asyncio.wait(self._through)

    def open(self) -> None:
        """Let connections through again."""
        self._open = True

    def _enter(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._pass(reader, writer))
        self._through.add(task)
        task.add_done_callback(self._through.discard)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there: asyncio.StreamWriter | None = None
        try:
            if self._open:
                back, there = await asyncio.open_connection(*self._target)
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(_pump(reader, there))
                    tasks.create_task(_pump(back, writer))
        except* OSError:
            # One side has closed the connection, so the other one is closed, too.
            pass
        finally:
            for each in (writer, there):
                if each is not None:
                    each.transport.abort()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while chunk := await source.read(CHUNK):
        sink.write(chunk)
        await sink.drain()
    with suppress(OSError):
        sink.write_eof()
