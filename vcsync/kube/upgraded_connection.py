"""The raw connection of an HTTP server after an upgrade, with flow control in both directions."""

import asyncio
from collections import deque

from aiohttp import web

MAX_BUFFERED = 256 * 1024
"""Received bytes that are not read yet, above which receiving is paused."""


class Connection:
    """The raw connection of a request. Create it with `take_over`.

    Args:
        request: The request.
    """

    def __init__(self, request: web.BaseRequest) -> None:
        self._protocol = request.protocol
        self._transport = request.transport
        self._pieces: deque[bytes] = deque()
        self._buffered = 0
        self._paused = False
        self._ended = self._transport is None
        self._received = asyncio.Event()

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Buffer received bytes. The HTTP server calls it."""
        self._pieces.append(bytes(data))
        self._buffered += len(data)
        self._received.set()
        if self._buffered >= MAX_BUFFERED and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        return False, b""

    def feed_eof(self) -> None:
        """Record the end of the received bytes. The HTTP server calls it."""
        self._ended = True
        self._received.set()

    async def read(self) -> bytes:
        """Return the next bytes, empty at the end."""
        while not self._pieces:
            if self._ended:
                return b""
            self._received.clear()
            await self._received.wait()
        piece = self._pieces.popleft()
        self._buffered -= len(piece)
        if self._paused and self._buffered < MAX_BUFFERED // 2 and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return piece

    async def write(self, data: bytes) -> None:
        """Send bytes, and wait while the send buffer is full.

        Raises:
            ConnectionError: The connection is closed.
        """
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError("the connection is closed")
        self._transport.write(data)
        await self._protocol._drain_helper()  # aiohttp has no public method for this


class HijackedResponse(web.StreamResponse):
    """The response of a handler that has written its response to the raw connection. It ends the connection."""

    def __init__(self) -> None:
        super().__init__(status=101)
        self.force_close()

    async def prepare(self, request: web.BaseRequest) -> None:
        """Send nothing."""

    async def write_eof(self, data: bytes = b"") -> None:
        """Send nothing."""


def take_over(request: web.BaseRequest) -> Connection:
    """Return the raw connection of a request. The handler writes the response to it, and returns `HijackedResponse`."""
    connection = Connection(request)
    # aiohttp's WebSockets do the same. The protocol calls only feed_data and feed_eof.
    request.protocol.set_parser(connection)  # type: ignore[arg-type]
    return connection
