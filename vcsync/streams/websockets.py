"""WebSockets (RFC 6455) of a server that sends messages and receives control frames only. Pure, except for `send_messages`.

Behaviour: golang.org/x/net/websocket, as API servers use it for logs and watches.
"""

import asyncio
import base64
import contextlib
import hashlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Final

from vcsync.streams.duplex import BytesIn, BytesOut
from vcsync.streams.upgrade_headers import BEARER, wanted_protocol

VERSION: Final = "13"
TEXT: Final = 0x1
BINARY: Final = 0x2
"""Opcodes of messages."""
CLOSE: Final = bytes.fromhex("8802 03e8")
"""The frame that ends a WebSocket normally (status 1000)."""
_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_FIN, _OPCODE, _MASKED, _LENGTH = 0x80, 0x0F, 0x80, 0x7F
_CLOSE, _PING, _PONG = 0x8, 0x9, 0xA
_CONTROL = 0x8
_MASK_BYTES = 4
_SHORT = 125
_MEDIUM, _LONG = 126, 127


class BadHandshake(Exception):
    """The request is no valid handshake of a WebSocket; the text says why.

    Attributes:
        code: HTTP status code of the answer.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class MalformedFrames(ConnectionError):
    """The client did not send frames of a WebSocket."""


@dataclass(frozen=True, slots=True)
class Offer:
    """The key and the protocols that the handshake of a client offers.

    Attributes:
        key: Its `Sec-WebSocket-Key`.
        protocols: The protocols, without one that carries a token.
    """

    key: str
    protocols: tuple[str, ...]


def offer(headers: Mapping[str, str]) -> Offer | None:
    """Return what a request offers; None: it does not ask for a WebSocket.

    Args:
        headers: Headers of the request, by names of which case does not matter.

    Raises:
        BadHandshake: It asks for one in a way that Kubernetes' servers refuse.
    """
    if wanted_protocol(headers) != "websocket":
        return None
    sent = {name.lower(): value.strip() for name, value in headers.items()}
    if not sent.get("sec-websocket-key"):
        raise BadHandshake(400, "Sec-WebSocket-Key is missing")
    if sent.get("sec-websocket-version") != VERSION:
        raise BadHandshake(400, f"Sec-WebSocket-Version must be {VERSION}")
    named = (each.strip() for each in sent.get("sec-websocket-protocol", "").split(","))
    return Offer(
        sent["sec-websocket-key"], tuple(each for each in named if each and not each.startswith(BEARER))
    )


def accepting_head(key: str, protocol: str) -> bytes:
    """Return the head of the response that accepts a handshake.

    Args:
        key: The client's `Sec-WebSocket-Key`.
        protocol: The chosen protocol; empty for none.
    """
    accept = base64.b64encode(hashlib.sha1(key.encode() + _GUID).digest()).decode()  # noqa: S324 - RFC 6455
    lines = [
        "HTTP/1.1 101 Switching Protocols",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Accept: {accept}",
    ]
    if protocol:
        lines.append(f"Sec-WebSocket-Protocol: {protocol}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


class ClientFrames:
    """Reads the frames of a client, and drops what is no control frame."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._left = 0
        self._ended = False

    def feed(self, data: bytes) -> tuple[bytes, bool]:
        """Take bytes of the client, and return the frames that answer its pings and whether it closes the WebSocket.

        Raises:
            MalformedFrames: They are no frames of a client.
        """
        answers, view = bytearray(), memoryview(data)
        while view and not self._ended:
            if self._left:
                dropped = min(self._left, len(view))
                self._left -= dropped
                view = view[dropped:]
                continue
            self._head += view[:1]
            view = view[1:]
            if len(self._head) > 1 and len(self._head) == self._size():
                answers += self._judge()
                self._head.clear()
        return bytes(answers), self._ended

    def _size(self) -> int:
        """Return the bytes of the frame that are kept: its head, and the payload of a control frame."""
        length = self._head[1] & _LENGTH
        head = 2 + {_MEDIUM: 2, _LONG: 8}.get(length, 0) + _MASK_BYTES
        return head + length if self._head[0] & _CONTROL else head

    def _judge(self) -> bytes:
        opcode, length = self._head[0] & _OPCODE, self._head[1] & _LENGTH
        if not self._head[1] & _MASKED or (opcode & _CONTROL and length > _SHORT):
            raise MalformedFrames("the frame is not masked, or a control frame is too long")
        if not opcode & _CONTROL:
            size = {_MEDIUM: 2, _LONG: 8}.get(length, 0)
            self._left = int.from_bytes(self._head[2 : 2 + size], "big") if size else length
            return b""
        self._ended = opcode == _CLOSE
        mask, payload = self._head[2 : 2 + _MASK_BYTES], self._head[2 + _MASK_BYTES :]
        plain = bytes(byte ^ mask[index % _MASK_BYTES] for index, byte in enumerate(payload))
        return frame(_PONG, plain) if opcode == _PING else b""


async def send_messages(source: BytesIn, sink: BytesOut, frames: AsyncIterator[bytes]) -> None:
    """Send the frames of messages until there are no more, or until the client closes the WebSocket.

    Args:
        source: The client's bytes.
        sink: The way to the client.
        frames: The frames; several may be in one piece.
    """

    async def receive() -> None:
        received = ClientFrames()
        while data := await source.read():
            answers, closed = received.feed(data)
            if answers:
                await sink.write(answers)
            if closed:
                return

    async def send() -> None:
        async for piece in frames:
            await sink.write(piece)

    both = [asyncio.create_task(receive()), asyncio.create_task(send())]
    try:
        done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        # A connection that broke ends the other one without a last frame.
        with contextlib.suppress(OSError):
            for each in done:
                each.result()
            await sink.write(CLOSE)
    finally:
        for each in both:
            each.cancel()
        await asyncio.gather(*both, return_exceptions=True)


def frame(opcode: int, payload: bytes) -> bytes:
    """Return an unmasked frame that is a whole message."""
    size = len(payload)
    if size <= _SHORT:
        length = bytes([size])
    elif size < 1 << 16:
        length = bytes([_MEDIUM]) + size.to_bytes(2, "big")
    else:
        length = bytes([_LONG]) + size.to_bytes(8, "big")
    return bytes([_FIN | opcode]) + length + payload
