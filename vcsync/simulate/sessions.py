"""Exec and attach for simulated containers, and their streams: WebSockets or SPDY."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from vcsync.simulate import canned, channels
from vcsync.simulate.channels import ChannelSocket
from vcsync.simulate.spdy import Stream

STDIN, STDOUT, STDERR, ERROR = 0, 1, 2, 3
V4 = channels.V4
NAMES = {"stdin": STDIN, "stdout": STDOUT, "stderr": STDERR, "error": ERROR}
LONGEST_LINE = 4096
TYPED = 64
"""Maximum number of unread messages of a client."""


class _Ended(msgspec.Struct):
    message: str = ""


class Streams(Protocol):
    """The input of a client, and the streams back."""

    async def read(self) -> bytes:
        """Return the next bytes of stdin; empty: its end."""
        ...

    async def write(self, channel: int, data: bytes) -> None:
        """Send on a channel; output to a channel that the client did not request is dropped."""
        ...


class Channels:
    """Streams over a WebSocket, each of which is a channel.

    Args:
        socket: the connection.
        wanted: the channels that the client requested.
    """

    def __init__(self, socket: ChannelSocket, wanted: frozenset[int]) -> None:
        self._socket = socket
        self._wanted = wanted
        self._typed: asyncio.Queue[bytes] = asyncio.Queue(TYPED)
        self._ended = False

    async def begin(self) -> None:
        """Send an empty message, by which the client knows that the connection stands."""
        await self._socket.send(min(self._wanted - {STDIN}), b"")

    async def listen(self) -> None:
        """Receive messages until the client closes; answers pings."""
        while (message := await self._socket.receive()) is not None:
            channel, data = message
            if channel == STDIN and data:
                await self._typed.put(data)
            elif (channel, data) == (
                channels.CLOSE,
                bytes((STDIN,)),
            ) and self._socket.protocol == channels.V5:
                await self._typed.put(b"")

    async def read(self) -> bytes:
        """Return the next bytes of stdin; empty: its end."""
        if self._ended:
            return b""
        piece = await self._typed.get()
        self._ended = not piece
        return piece

    async def write(self, channel: int, data: bytes) -> None:
        """Send on a channel."""
        if channel == ERROR and self._socket.protocol in (channels.RAW, channels.BASE64):
            # Before version 4 there is text, and only of errors.
            data = msgspec.json.decode(data, type=_Ended).message.encode()
            if not data:
                return
        if channel in self._wanted:
            await self._socket.send(channel, data)


class SpdyStreams:
    """Streams over SPDY: one of each kind, which the client opens first."""

    def __init__(self, streams: Mapping[int, Stream]) -> None:
        self._streams = streams

    async def read(self) -> bytes:
        """Return the next bytes of stdin; empty: its end."""
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
    """Send a command's simulated output, and its exit.

    Args:
        streams: streams of the client.
        command: the command.
        host: the Pod's name.
        stdin: whether the client sends input.
        tty: whether lines end as on terminals.
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
    """Send back the input until it ends or a line requests an exit; return the exit code."""
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
    """Return a command's exit in the form that clients read."""
    if not code:
        return {"metadata": {}, "status": "Success"}
    message = f"command terminated with non-zero exit code: exit status {code}"
    causes = [{"reason": "ExitCode", "message": str(code)}]
    details = {"causes": causes}
    return {
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": "NonZeroExitCode",
        "details": details,
    }
