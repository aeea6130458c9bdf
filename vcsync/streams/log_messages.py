"""Logs as the messages of a WebSocket, as API servers send them. Pure, except for `send_log`.

Behaviour: Kubernetes' `wsstream.Reader` (`k8s.io/streaming/pkg/httpstream/wsstream/stream.go`): an empty message, then pieces of
the log. The client sends nothing but control frames.
"""

import base64
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Final

from vcsync.streams import websockets
from vcsync.streams.duplex import BytesIn, BytesOut
from vcsync.streams.websockets import BadHandshake, accepting_head, frame, offer, send_messages

BINARY: Final = "binary.k8s.io"
BASE64: Final = "base64.binary.k8s.io"
"""Protocol whose messages are text: base64 of the log."""


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
        return accepting_head(self.key, self.protocol)

    def message(self, piece: bytes) -> bytes:
        """Return the frame with a piece of the log."""
        if self.protocol == BASE64:
            return frame(websockets.TEXT, base64.b64encode(piece))
        return frame(websockets.BINARY, piece)


def handshake(headers: Mapping[str, str]) -> Handshake | None:
    """Return the handshake of a request; None: it does not ask for a WebSocket.

    Args:
        headers: Headers of the request, by names of which case does not matter.

    Raises:
        BadHandshake: It asks for one in a way that Kubernetes' servers refuse.
    """
    offered = offer(headers)
    if offered is None:
        return None
    chosen = next((each for each in offered.protocols if each in (BINARY, BASE64)), "")
    if offered.protocols and not chosen:
        raise BadHandshake(403, f"Sec-WebSocket-Protocol must be {BINARY} or {BASE64}")
    return Handshake(offered.key, chosen)


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

    async def frames() -> AsyncIterator[bytes]:
        yield accepted.message(b"")
        async for piece in pieces:
            yield accepted.message(piece)

    await send_messages(source, sink, frames())
