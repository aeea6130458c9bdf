"""An HTTP server's connection taken over after an upgrade: bytes both ways, as fast as the slower side takes them."""

import asyncio
from collections import deque

from aiohttp import web

HELD = 256 * 1024
"""Bytes that came and were not read yet, from which on the other side has to wait."""


class Connection:
    """What comes on a connection, and a way back; made by `take_over`."""

    def __init__(self, request: web.BaseRequest) -> None:
        self._protocol = request.protocol
        self._transport = request.transport
        self._pieces: deque[bytes] = deque()
        self._held = 0
        self._paused = False
        self._ended = self._transport is None
        self._came = asyncio.Event()

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Take what came; called by the HTTP server."""
        self._pieces.append(bytes(data))
        self._held += len(data)
        self._came.set()
        if self._held >= HELD and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        return False, b""

    def feed_eof(self) -> None:
        """Take note that nothing more comes; called by the HTTP server."""
        self._ended = True
        self._came.set()

    async def read(self) -> bytes:
        """Return the next bytes; none: the other side has ended."""
        while not self._pieces:
            if self._ended:
                return b""
            self._came.clear()
            await self._came.wait()
        piece = self._pieces.popleft()
        self._held -= len(piece)
        if self._paused and self._held < HELD // 2 and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return piece

    async def write(self, data: bytes) -> None:
        """Send bytes, and wait while the other side does not take them.

        Raises:
            ConnectionError: it is gone.
        """
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError("the connection is gone")
        self._transport.write(data)
        await self._protocol._drain_helper()  # aiohttp's own way to wait for room


class Taken(web.StreamResponse):
    """Stands for an answer that has been given by hand; the connection ends with it."""

    def __init__(self) -> None:
        super().__init__(status=101)
        self.force_close()

    async def prepare(self, request: web.BaseRequest) -> None:
        """Send nothing."""

    async def write_eof(self, data: bytes = b"") -> None:
        """Send nothing."""


def take_over(request: web.BaseRequest) -> Connection:
    """Take a request's connection over; whoever does answers by hand and returns `Taken` at the end."""
    taken = Connection(request)
    request.protocol.set_parser(taken)  # type: ignore[arg-type]  # as its WebSockets do; it asks for these two methods
    return taken
