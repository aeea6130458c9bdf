"""A way to a server that can be shut and opened again, for demos: what is lost is the network, not the server."""

import asyncio
from contextlib import suppress
from typing import Self

CHUNK = 2**16


class Door:
    """A port of this machine that leads to a server while it is open. Use as an async context manager.

    Args:
        host: where the server is.
        port: where the server is.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._open = True
        self._through: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def __aenter__(self) -> Self:
        """Begin to listen, the door open; `port` says where."""
        self._server = await asyncio.start_server(self._enter, "127.0.0.1", 0)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        """Cut everybody off and stop listening."""
        assert self._server is not None  # noqa: S101  entered
        self._server.close()
        await self.shut()

    async def shut(self) -> None:
        """Cut everybody off; whoever comes meets a connection that ends at once."""
        self._open = False
        for task in self._through:
            task.cancel()
        if self._through:
            await asyncio.wait(self._through)

    def open(self) -> None:
        """Let everybody through again."""
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
            pass  # one of the two has gone: so has the other, for those who come through here
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
