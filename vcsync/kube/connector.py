"""A connector that closes unusable connections immediately."""

import asyncio
from collections.abc import Callable
from typing import Any

from aiohttp import TCPConnector
from aiohttp.client_proto import ResponseHandler


class Connector(TCPConnector):
    """aiohttp's connector, which aborts a connection that cannot be reused.

    By default, aiohttp waits up to 30 seconds for the TLS shutdown of the other side, and does not track the connection
    meanwhile. Each failed call to an unresponsive server would leave a connection, and the event loop could end before it.
    """

    def _release(self, key: Any, protocol: Any, *, should_close: bool = False) -> None:
        if should_close or protocol.should_close:
            protocol.abort()
        super()._release(key, protocol, should_close=should_close)

    async def _wrap_create_connection(
        self, *args: Any, **kwargs: Any
    ) -> tuple[asyncio.Transport, ResponseHandler]:
        """Connect, and drop the connection if the call is cancelled in the moment that its TLS handshake completes."""
        factory: Callable[[], ResponseHandler] = args[0]
        created: list[ResponseHandler] = []

        def create() -> ResponseHandler:
            created.append(factory())
            return created[-1]

        try:
            return await super()._wrap_create_connection(create, *args[1:], **kwargs)
        except BaseException:
            for protocol in created:
                protocol.abort()
            raise
