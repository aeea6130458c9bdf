"""A response on a connection of its own, whose bytes are read as they come. Upgraded connections begin with one."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass

RESPONSE_SECONDS = 30.0
"""Timeout until a server has sent the head of its response."""
MAX_HEAD_BYTES = 32 * 1024
"""Longest head of a response. The reader of the connection must be opened with this limit."""
MAX_ERROR_BYTES = 50_000
"""Bytes that are read of the body of an error response."""

KEEPALIVE = {socket.TCP_KEEPIDLE: 30, socket.TCP_KEEPINTVL: 10, socket.TCP_KEEPCNT: 3}
"""TCP keep-alive, in seconds and probes: a stream of a server that has vanished ends within a minute."""


@dataclass(slots=True)
class RawResponse:
    """A response whose body has not been read.

    Attributes:
        status: HTTP status code.
        headers: Headers as (name, value).
        reader: Delivers the bytes after the head.
        writer: Sends bytes to the server, for upgraded connections.
        change: Changes the bytes after the head on their way to the client; receives no bytes at their end. None: they pass
            unchanged.
        ahead: Bytes after the head that have been read, but not by `piece`.
        left: Bytes of the body that `piece` has not read. None: it ends with the connection.
    """

    status: int
    headers: Sequence[tuple[str, str]]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    change: Callable[[bytes], bytes] | None = None
    ahead: bytes = b""
    left: int | None = None

    def header(self, name: str) -> str:
        """Return the value of a header by its name in lower case, or an empty text."""
        return next((value for key, value in self.headers if key.lower() == name), "")

    async def piece(self, size: int) -> bytes:
        """Return the next bytes for the client, about `size` of them at most, or nothing at the end.

        Raises:
            OSError: The connection broke, or `change` refuses the bytes.
        """
        read = b"..."
        while read:
            read = await self._read(size)
            piece = read if self.change is None else self.change(read)
            if piece:
                return piece
        return b""

    async def beginning(self, size: int) -> bytes:
        """Return the first `size` bytes after the head, fewer if there are no more or the rest is late. `piece` returns them too.

        Raises:
            OSError: The connection broke.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RESPONSE_SECONDS):
                while len(self.ahead) < size and (read := await self.reader.read(size - len(self.ahead))):
                    self.ahead += read
        return self.ahead

    async def _read(self, size: int) -> bytes:
        if self.left == 0:  # What follows is no part of the answer.
            return b""
        read, self.ahead = self.ahead or await self.reader.read(size), b""
        if self.left is None:
            return read
        if not read:
            raise ConnectionAbortedError("the answer was cut off")
        read = read[: self.left]
        self.left -= len(read)
        return read

    async def text(self) -> str:
        """Return the beginning of the body of an error response. Empty if it cannot be read."""
        try:
            async with asyncio.timeout(RESPONSE_SECONDS):
                body = await self.reader.read(MAX_ERROR_BYTES)
        except (OSError, TimeoutError):
            body = b""
        return body.decode(errors="replace").strip()


def keep_alive(created: socket.socket) -> None:
    """Have a connection end when the other side has vanished; see `KEEPALIVE`."""
    created.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEPALIVE.items():
        created.setsockopt(socket.IPPROTO_TCP, option, value)


async def read_head(
    reader: asyncio.StreamReader, seconds: float = RESPONSE_SECONDS
) -> tuple[int, Sequence[tuple[str, str]]]:
    """Return status code and headers of a response.

    Args:
        reader: Delivers the response.
        seconds: Timeout until the head is complete.

    Raises:
        OSError: The connection broke, or the response is not HTTP.
        TimeoutError: There is no head in time.
    """
    try:
        async with asyncio.timeout(seconds):
            head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
        status = first.removeprefix("HTTP/1.").split(" ", 2)[1]
        pairs = [line.partition(":")[::2] for line in lines]
        return int(status), [(key.strip(), value.strip()) for key, value in pairs]
    except (EOFError, ValueError, IndexError, asyncio.LimitOverrunError) as error:
        raise ConnectionError("the response is not HTTP") from error
