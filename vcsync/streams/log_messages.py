"""Logs as the messages of a WebSocket, as API servers send them. Pure, except for `send_log`.

Behaviour: Kubernetes' `wsstream.Reader` (`k8s.io/streaming/pkg/httpstream/wsstream/stream.go`): an empty message, then pieces of
the log. The client sends nothing but control frames.
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

BINARY: Final = "binary.k8s.io"
BASE64: Final = "base64.binary.k8s.io"
"""Protocol whose messages are text: base64 of the log."""
VERSION: Final = "13"
CLOSE: Final = bytes.fromhex("8802 03e8")
"""The frame that ends a WebSocket normally (status 1000)."""
_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_FIN, _OPCODE, _MASKED, _LENGTH = 0x80, 0x0F, 0x80, 0x7F
_TEXT, _BINARY, _CLOSE, _PING, _PONG = 0x1, 0x2, 0x8, 0x9, 0xA
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
class Handshake:
    """A handshake that a client has asked for.

    Attributes:
        key: Its `Sec-WebSocket-Key`.
        protocol: Chosen protocol, empty if the client offers none.
    """

    key: str
    protocol: str

    def head(self) -> bytes:
        """Return the head of the response that accepts it."""
        accept = base64.b64encode(hashlib.sha1(self.key.encode() + _GUID).digest()).decode()  # noqa: S324 - RFC 6455
        lines = [
            "HTTP/1.1 101 Switching Protocols",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Accept: {accept}",
        ]
        if self.protocol:
            lines.append(f"Sec-WebSocket-Protocol: {self.protocol}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    def message(self, piece: bytes) -> bytes:
        """Return the frame with a piece of the log."""
        if self.protocol == BASE64:
            return _frame(_TEXT, base64.b64encode(piece))
        return _frame(_BINARY, piece)


def handshake(headers: Mapping[str, str]) -> Handshake | None:
    """Return the handshake of a request; None: it does not ask for a WebSocket.

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
    named = [each.strip() for each in sent.get("sec-websocket-protocol", "").split(",")]
    offered = [each for each in named if each and not each.startswith(BEARER)]
    chosen = next((each for each in offered if each in (BINARY, BASE64)), "")
    if offered and not chosen:
        raise BadHandshake(403, f"Sec-WebSocket-Protocol must be {BINARY} or {BASE64}")
    return Handshake(sent["sec-websocket-key"], chosen)


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
        return _frame(_PONG, plain) if opcode == _PING else b""


async def send_log(
    source: BytesIn, sink: BytesOut, pieces: AsyncIterator[bytes], accepted: Handshake
) -> None:
    """Send a log until it ends, or until the client closes the WebSocket.

    Args:
        source: The client's bytes.
        sink: The way to the client.
        pieces: The log.
        accepted: The handshake whose head the client has received.
    """

    async def receive() -> None:
        frames = ClientFrames()
        while data := await source.read():
            answers, closed = frames.feed(data)
            if answers:
                await sink.write(answers)
            if closed:
                return

    async def send() -> None:
        await sink.write(accepted.message(b""))
        async for piece in pieces:
            await sink.write(accepted.message(piece))

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


def _frame(opcode: int, payload: bytes) -> bytes:
    """Return an unmasked frame that is a whole message."""
    size = len(payload)
    if size <= _SHORT:
        length = bytes([size])
    elif size < 1 << 16:
        length = bytes([_MEDIUM]) + size.to_bytes(2, "big")
    else:
        length = bytes([_LONG]) + size.to_bytes(8, "big")
    return bytes([_FIN | opcode]) + length + payload
