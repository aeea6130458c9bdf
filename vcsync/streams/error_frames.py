"""Removes addresses and names of a super cluster from the errors that its API server sends within WebSockets. Pure.

kube-apiserver accepts a WebSocket for exec and attach before it calls the kubelet. If it cannot, the error channel has a Status
whose message names the node's address and the super namespace. Messages of container runtimes are kept: they say why a
command does not run. Clients may choose protocols whose messages are text: a digit for the channel, and base64.
"""

import base64
import binascii
from typing import Final

import msgspec

from vcsync.patterns.linear import linear

ERROR_CHANNEL: Final = 3
"""First byte of messages of the error channel (Kubernetes' `remotecommand`)."""
EXITED: Final = b'"NonZeroExitCode"'
"""Reason of the Status of a command that failed. Its message quotes the tenant's own command."""
MAX_ERROR_BYTES: Final = 64 * 1024
"""Longest message of the error channel."""
TEXT_PROTOCOLS: Final = frozenset({"base64.channel.k8s.io", "v4.base64.channel.k8s.io"})
"""Protocols whose messages are text (`k8s.io/streaming/pkg/httpstream/wsstream/conn.go`)."""
_DIGIT = ord("0")
_TEXT, _BINARY, _CONTINUATION = 0x1, 0x2, 0x0
_FIN, _RESERVED, _OPCODE, _MASKED, _LENGTH = 0x80, 0x70, 0x0F, 0x80, 0x7F
_SHORT, _MEDIUM, _LONG = 125, 126, 127
_CONTROL = 0x8
_TELLTALE = linear(r"://|\bdial\b|\blookup\b|\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-fA-F]*:[0-9a-fA-F:]*\]")
"""Parts of messages about connections, which no other message contains."""


class MalformedFrame(ConnectionError):
    """The API server did not send frames of a WebSocket as Kubernetes' servers do."""


class ErrorFrames:
    """Rewrites the messages of the error channel in the bytes of a WebSocket from a server.

    Args:
        secret: Name that no message may contain: that of the super namespace.
        instead: Message in place of one that tells too much.
        protocol: The protocol that the server has chosen; empty: none.
        ports: Whether each port has two channels, of which the second one is for errors, as with port-forward.
    """

    def __init__(self, secret: str, instead: str, protocol: str = "", *, ports: bool = False) -> None:
        self._text = protocol in TEXT_PROTOCOLS
        self._opcode = _TEXT if self._text else _BINARY
        self._ports = ports
        self._secret = secret
        self._instead = instead
        self._head = bytearray()
        self._left = 0
        self._held: bytearray | None = None
        self._holds = False
        self._fragmented = False

    def feed(self, data: bytes) -> bytes:
        """Take bytes of the server, and return those for the client.

        Raises:
            MalformedFrame: They are no frames, or too long a message of the error channel.
        """
        out = bytearray()
        view = memoryview(data)
        while view:
            if self._left:
                piece, view = view[: self._left], view[self._left :]
                self._left -= len(piece)
                self._payload(piece, out)
                continue
            self._head += view[:1]
            view = view[1:]
            if len(self._head) > 1 and len(self._head) == self._head_bytes():
                self._begin(out)
        return bytes(out)

    def _head_bytes(self) -> int:
        """Return the bytes before the payload, with the first byte of a payload that may be of the error channel."""
        length = self._head[1] & _LENGTH
        size = 2 + {_MEDIUM: 2, _LONG: 8}.get(length, 0)
        return size + (1 if self._head[0] & _OPCODE == self._opcode and length else 0)

    def _begin(self, out: bytearray) -> None:
        """Judge a frame by its head, which is complete."""
        first, second = self._head[0], self._head[1]
        opcode, last = first & _OPCODE, bool(first & _FIN)
        if first & _RESERVED or second & _MASKED:
            raise MalformedFrame("the frame is masked, or has extensions")
        length = second & _LENGTH
        size = {_MEDIUM: 2, _LONG: 8}.get(length, 0)
        if size:
            length = int.from_bytes(self._head[2 : 2 + size], "big")
        channel = self._head[2 + size :]
        if length < len(channel):
            raise MalformedFrame("the length of the frame is not in its shortest form")
        self._left = length - len(channel)
        if opcode == _CONTINUATION and self._held is not None and self._fragmented:
            self._holds = True
        elif self._held is not None and opcode < _CONTROL:
            raise MalformedFrame("a message begins within another one")
        elif opcode == self._opcode and channel and self._is_error(channel[0]):
            self._held, self._holds = bytearray(channel), True
        else:
            out += self._head
            self._holds = False
        if self._holds:
            self._fragmented = not last
        self._head.clear()
        if not self._left:
            self._end(out)

    def _payload(self, piece: memoryview, out: bytearray) -> None:
        if not self._holds or self._held is None:
            out += piece
            return
        self._held += piece
        if len(self._held) > MAX_ERROR_BYTES:
            raise MalformedFrame("the error is too long")
        if not self._left:
            self._end(out)

    def _end(self, out: bytearray) -> None:
        """Send a held message if its last frame has ended."""
        if self._holds and self._held is not None and not self._fragmented:
            out += _frame(self._opcode, bytes(self._held[:1]) + self._rewritten(bytes(self._held[1:])))
            self._held = None

    def _is_error(self, first: int) -> bool:
        """Return whether a message is of an error channel, by its first byte."""
        channel = first - _DIGIT if self._text else first
        return channel % 2 == 1 if self._ports else channel == ERROR_CHANNEL

    def _rewritten(self, payload: bytes) -> bytes:
        if not self._text:
            return _rewritten(payload, self._secret, self._instead)
        try:
            plain = base64.b64decode(payload, validate=True)
        except binascii.Error:
            plain = self._instead.encode()
        return base64.b64encode(_rewritten(plain, self._secret, self._instead))


def _rewritten(status: bytes, secret: str, instead: str) -> bytes:
    text = status.decode(errors="replace")
    if secret not in text and not _TELLTALE.search(text):
        return status
    try:
        found = msgspec.json.decode(status, type=dict[str, msgspec.Raw])
    except msgspec.MsgspecError:
        return instead.encode()
    if secret not in text and bytes(found.get("reason", b"")) == EXITED:
        return status
    kept = {key: found[key] for key in ("kind", "apiVersion", "status", "reason", "code") if key in found}
    return msgspec.json.encode({**kept, "metadata": {}, "message": instead})


def _frame(opcode: int, payload: bytes) -> bytes:
    size = len(payload)
    if size <= _SHORT:
        head = bytes([_FIN | opcode, size])
    elif size < 1 << 16:
        head = bytes([_FIN | opcode, _MEDIUM]) + size.to_bytes(2, "big")
    else:
        head = bytes([_FIN | opcode, _LONG]) + size.to_bytes(8, "big")
    return head + payload
