"""Exec and attach at a container that pretends, and the streams they go over: WebSockets or SPDY."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec
from aiohttp import WSMsgType, web

from vcsync.simulate import canned
from vcsync.simulate.spdy import Stream

STDIN, STDOUT, STDERR, ERROR = 0, 1, 2, 3
CLOSE = 255
"""Channel by which a client of v5.channel.k8s.io says that it sends no more on another."""
V4, V5 = "v4.channel.k8s.io", "v5.channel.k8s.io"
NAMES = {"stdin": STDIN, "stdout": STDOUT, "stderr": STDERR, "error": ERROR}
LONGEST_LINE = 4096
TYPED = 64
"""Messages of a client that wait to be read."""


class Streams(Protocol):
    """What a client sends, and the ways back."""

    async def read(self) -> bytes:
        """Return what comes on stdin; nothing: its end."""
        ...

    async def write(self, channel: int, data: bytes) -> None:
        """Send on a channel; one that the client did not ask for swallows it."""
        ...


class Channels:
    """Streams over a WebSocket: each message begins with the number of its channel.

    Args:
        socket: the connection.
        wanted: the channels that the client asked for.
    """

    def __init__(self, socket: web.WebSocketResponse, wanted: frozenset[int]) -> None:
        self._socket = socket
        self._wanted = wanted
        self._typed: asyncio.Queue[bytes] = asyncio.Queue(TYPED)
        self._ended = False

    async def listen(self) -> None:
        """Take what comes until the client closes; what asks for a sign of life gets it, too."""
        while True:
            message = await self._socket.receive()
            if message.type is not WSMsgType.BINARY:
                return
            data: bytes = message.data
            if data[:1] == bytes((STDIN,)) and len(data) > 1:
                await self._typed.put(data[1:])
            elif data == bytes((CLOSE, STDIN)):
                await self._typed.put(b"")

    async def read(self) -> bytes:
        """Return what comes on stdin; nothing: its end."""
        if self._ended:
            return b""
        piece = await self._typed.get()
        self._ended = not piece
        return piece

    async def write(self, channel: int, data: bytes) -> None:
        """Send on a channel."""
        if channel in self._wanted:
            await self._socket.send_bytes(bytes((channel,)) + data)


class SpdyStreams:
    """Streams over SPDY: one of each kind, which the client opens first."""

    def __init__(self, streams: Mapping[int, Stream]) -> None:
        self._streams = streams

    async def read(self) -> bytes:
        """Return what comes on stdin; nothing: its end."""
        return await self._streams[STDIN].read() if STDIN in self._streams else b""

    async def write(self, channel: int, data: bytes) -> None:
        """Send on a channel."""
        if channel in self._streams:
            await self._streams[channel].write(data)

    async def close(self) -> None:
        """End all."""
        for stream in self._streams.values():
            await stream.close()


async def execute(streams: Streams, command: Sequence[str], host: str, *, stdin: bool, tty: bool) -> None:
    """Say what a command would, and how it ended.

    Args:
        streams: of the client.
        command: what it wants done.
        host: the Pod's name.
        stdin: whether it sends anything.
        tty: whether lines end as terminals have them.
    """
    said = canned.say(command, host)
    end = b"\r\n" if tty else b"\n"
    for on_stderr, line in said.text:
        await streams.write(STDERR if on_stderr and not tty else STDOUT, line.encode() + end)
    await asyncio.sleep(said.seconds)
    code = said.code
    if said.reads and stdin:
        code = await _sent_back(streams, code, tty=tty)
    await streams.write(ERROR, msgspec.json.encode(status(code)))


async def _sent_back(streams: Streams, code: int, *, tty: bool) -> int:
    """Send back what comes, until it ends or a line asks for an end; return with which code."""
    line = b""
    while piece := await streams.read():
        await streams.write(STDOUT, piece.replace(b"\r", b"\r\n") if tty else piece)
        *whole, line = (line + piece).replace(b"\r", b"\n").split(b"\n")
        for each in whole:
            wanted = canned.ends(each.decode(errors="replace"))
            if wanted is not None:
                return wanted
        line = line[-LONGEST_LINE:]
    return code


def status(code: int) -> dict[str, Any]:
    """Return how a command ended, as clients read it."""
    if not code:
        return {"metadata": {}, "status": "Success"}
    told = f"command terminated with non-zero exit code: exit status {code}"
    causes = [{"reason": "ExitCode", "message": str(code)}]
    details = {"causes": causes}
    return {
        "metadata": {},
        "status": "Failure",
        "message": told,
        "reason": "NonZeroExitCode",
        "details": details,
    }
