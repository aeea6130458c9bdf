"""Channels over one WebSocket, as kubelets serve them.

Behaviour: Kubernetes' `k8s.io/streaming/pkg/httpstream/wsstream/conn.go`.
"""

import base64
import binascii
from collections.abc import Iterable

from aiohttp import WSMsgType, web

CLOSE = 255
"""Channel on which a client of `v5.channel.k8s.io` closes another one."""
RAW, BASE64 = "channel.k8s.io", "base64.channel.k8s.io"
V4, V4_BASE64, V5 = f"v4.{RAW}", f"v4.{BASE64}", f"v5.{RAW}"
TERMINALS = (V5, V4, V4_BASE64, RAW, BASE64)
"""Protocols of exec and attach. A client may also offer none, which means `RAW`."""
PORTS = (V4, V4_BASE64)
"""Protocols of port-forward that have channels. A client may also offer none, which means `V4`."""
_DIGIT = ord("0")


class ChannelSocket:
    """Messages that begin with the number of their channel: bytes, or base64 after a digit.

    Args:
        socket: the connection, whose protocol has been chosen.
    """

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket
        self.protocol = socket.ws_protocol or RAW
        self._digits = self.protocol in (BASE64, V4_BASE64)

    async def receive(self) -> tuple[int, bytes] | None:
        """Return the next message with its channel; None: the client has closed the connection.

        A message may be text or bytes whatever the protocol, as Go's package for WebSockets takes both.
        """
        while True:
            message = await self._socket.receive()
            if message.type not in (WSMsgType.TEXT, WSMsgType.BINARY):
                return None
            data = message.data.encode() if isinstance(message.data, str) else bytes(message.data)
            if not data:
                continue
            if not self._digits:
                return data[0], data[1:]
            try:
                return data[0] - _DIGIT, base64.b64decode(data[1:], validate=True)
            except binascii.Error:
                continue

    async def send(self, channel: int, data: bytes) -> None:
        """Send a message on a channel."""
        if self._digits:
            await self._socket.send_str(f"{channel}{base64.b64encode(data).decode()}")
        else:
            await self._socket.send_bytes(bytes((channel,)) + data)


def offers(header: str, known: Iterable[str]) -> bool:
    """Return whether a client offers no protocol, or a known one.

    Args:
        header: value of `Sec-WebSocket-Protocol`; empty: the request has none.
        known: the known protocols.
    """
    named = [each.strip() for each in header.split(",") if each.strip()]
    return not named or any(each in known for each in named)
