"""The part of SPDY/3.1 that kubelets use: streams that clients open, with headers, and bytes in both directions.

Kubernetes clients do not support SPDY's flow control, so only the connection's own flow control applies.
Format: SPDY Protocol, draft 3.1.
"""

import asyncio
import struct
import zlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from vcsync.simulate.spdy_words import DICTIONARY

VERSION = 3
SYN_STREAM, SYN_REPLY, RST_STREAM, PING, GOAWAY = 1, 2, 3, 6, 7
FIN = 1
CONTROL = 1 << 31
MASK = CONTROL - 1
FRAME_HEAD = 8
SYN_HEAD = 10
"""Bytes of a SYN_STREAM before its headers."""
LONGEST_CONTROL = 64 * 1024
LONGEST_HEADERS = 64 * 1024
MOST_STREAMS = 200
REFUSED_STREAM = 3


class SpdyError(Exception):
    """The data is not SPDY, or exceeds a limit."""


class Pipe(Protocol):
    """A connection."""

    async def read(self) -> bytes:
        """Return the next bytes; empty: the end."""
        ...

    async def write(self, data: bytes) -> None:
        """Send bytes."""
        ...


class Stream:
    """One stream that the client opened.

    Attributes:
        headers: headers with lower-case names.
    """

    def __init__(self, session: "Session", number: int, headers: Mapping[str, str]) -> None:
        self.headers = headers
        self._session = session
        self._number = number
        self._came: asyncio.Queue[bytes] = asyncio.Queue(64)
        self._ended = False
        self._closed = False

    async def read(self) -> bytes:
        """Return the next bytes; empty: the client has closed its side."""
        if self._ended and self._came.empty():
            return b""
        piece = await self._came.get()
        self._ended = self._ended or not piece
        return piece

    async def write(self, data: bytes) -> None:
        """Send bytes."""
        for at in range(0, len(data), 1 << 20):
            await self._session.send(self._number, data[at : at + (1 << 20)])

    async def close(self) -> None:
        """End the server's side."""
        if not self._closed:
            self._closed = True
            await self._session.send(self._number, b"", FIN)

    async def feed(self, piece: bytes) -> None:
        """Receive bytes; empty: the end."""
        await self._came.put(piece)

    def abort(self) -> None:
        """Record that the client sends no more data."""
        self._ended = True
        if self._came.empty():
            self._came.put_nowait(b"")


Opened = Callable[[Stream], Awaitable[None]]


class Session:
    """All streams of a connection.

    Args:
        pipe: the connection.
        opened: called with each new stream; must not wait for its input.
    """

    def __init__(self, pipe: Pipe, opened: Opened) -> None:
        self._pipe = pipe
        self._opened = opened
        self._buffer = bytearray()
        self._streams: dict[int, Stream] = {}
        self._unpack = zlib.decompressobj(zdict=DICTIONARY)
        self._pack = zlib.compressobj(
            zlib.Z_DEFAULT_COMPRESSION, zlib.DEFLATED, zlib.MAX_WBITS, zdict=DICTIONARY
        )
        self._turn = asyncio.Lock()

    async def run(self) -> None:
        """Receive frames until the client ends.

        Raises:
            SpdyError: the data is not SPDY.
        """
        try:
            while await self._frame():
                pass
        finally:
            for stream in self._streams.values():
                stream.abort()

    async def send(self, number: int, data: bytes, flags: int = 0) -> None:
        """Send a frame of data."""
        async with self._turn:
            await self._pipe.write(struct.pack("!II", number, flags << 24 | len(data)) + data)

    async def _frame(self) -> bool:
        head = await self._take(FRAME_HEAD)
        if head is None:
            return False
        first, second = struct.unpack("!II", head)
        flags, length = second >> 24, second & 0xFFFFFF
        if not first & CONTROL:
            return await self._data(first & MASK, flags, length)
        if length > LONGEST_CONTROL or first >> 16 & 0x7FFF != VERSION:
            raise SpdyError("a control frame is too long, or of another version")
        body = await self._take(length)
        if body is None:
            return False
        await self._control(first & 0xFFFF, flags, body)
        kind: int = first & 0xFFFF
        return kind != GOAWAY

    async def _data(self, number: int, flags: int, length: int) -> bool:
        stream = self._streams.get(number)
        while length:
            piece = await self._some(length)
            if not piece:
                return False
            length -= len(piece)
            if stream is not None:
                await stream.feed(piece)
        if stream is not None and flags & FIN:
            await stream.feed(b"")
        return True

    async def _control(self, kind: int, flags: int, body: bytes) -> None:
        if kind == SYN_STREAM:
            await self._syn(flags, body)
        elif kind == RST_STREAM and len(body) >= 4:
            stream = self._streams.pop(int.from_bytes(body[:4]) & MASK, None)
            if stream is not None:
                stream.abort()
        elif kind == PING:
            await self._reply(PING, body)

    async def _syn(self, flags: int, body: bytes) -> None:
        if len(body) < SYN_HEAD:
            raise SpdyError("a stream is opened without a head")
        number, headers = int.from_bytes(body[:4]) & MASK, self._headers(body[SYN_HEAD:])
        if len(self._streams) >= MOST_STREAMS:
            await self._reply(RST_STREAM, struct.pack("!II", number, REFUSED_STREAM))
            return
        stream = self._streams[number] = Stream(self, number, headers)
        if flags & FIN:
            await stream.feed(b"")
        nothing = self._pack.compress(bytes(4)) + self._pack.flush(zlib.Z_SYNC_FLUSH)
        await self._reply(SYN_REPLY, struct.pack("!I", number) + nothing)
        await self._opened(stream)

    def forget(self, stream: Stream) -> None:
        """Remove a closed stream."""
        self._streams = {number: each for number, each in self._streams.items() if each is not stream}

    def _headers(self, packed: bytes) -> dict[str, str]:
        try:
            raw = self._unpack.decompress(packed, LONGEST_HEADERS)
            if self._unpack.unconsumed_tail:
                raise SpdyError("a stream's headers are too long")
            (count,), at, texts = struct.unpack_from("!I", raw), 4, []
            for _ in range(2 * min(count, 1000)):
                (length,) = struct.unpack_from("!I", raw, at)
                texts.append(raw[at + 4 : at + 4 + length].decode("latin-1"))
                at += 4 + length
        except (zlib.error, struct.error) as error:
            raise SpdyError(f"a stream's headers cannot be read: {error}") from error
        return {name.lower(): value for name, value in zip(texts[::2], texts[1::2], strict=True)}

    async def _reply(self, kind: int, body: bytes) -> None:
        async with self._turn:
            head = struct.pack("!II", CONTROL | VERSION << 16 | kind, len(body))
            await self._pipe.write(head + body)

    async def _take(self, count: int) -> bytes | None:
        while len(self._buffer) < count:
            piece = await self._pipe.read()
            if not piece:
                return None
            self._buffer += piece
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken

    async def _some(self, most: int) -> bytes:
        if not self._buffer:
            self._buffer += await self._pipe.read()
        taken = bytes(self._buffer[:most])
        del self._buffer[:most]
        return taken
