"""Connections that end at once when nothing more will be said on them."""

from typing import Any

from aiohttp import TCPConnector


class Connector(TCPConnector):
    """aiohttp's connector, but a connection that cannot be used again is dropped.

    By itself aiohttp waits up to 30 seconds for the farewell of the other side of a TLS connection, and no longer
    knows of it: calls that failed against a server that hangs would leave as many connections, and the loop may
    end before them.
    """

    def _release(self, key: Any, protocol: Any, *, should_close: bool = False) -> None:
        if should_close or protocol.should_close:
            protocol.abort()
        super()._release(key, protocol, should_close=should_close)
