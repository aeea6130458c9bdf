"""A connector that closes unusable connections immediately, and never shares a socket with the event loop."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Any

from aiohttp import AddrInfoType, TCPConnector
from aiohttp.client_proto import ResponseHandler

Prepare = Callable[[socket.socket], None]
"""Sets options of a connected socket."""


class Connector(TCPConnector):
    """aiohttp's connector, with two differences.

    It aborts a connection that cannot be reused. By default, aiohttp waits up to 30 seconds for the TLS shutdown of the
    other side, and does not track the connection meanwhile. Each failed call to an unresponsive server would leave a
    connection, and the event loop could end before it.

    It lets the event loop create the socket. By default, aiohttp passes a connected socket to the loop. If the server
    resets the connection in that moment, uvloop 0.23 closes the file, and Python closes it again when it collects the
    socket: by then, the file's number may be another connection's, which hangs from then on. The addresses of a name are
    tried one after another, without "happy eyeballs".

    Args:
        prepare: Sets options of each connected socket.
        options: Those of aiohttp's connector.
    """

    def __init__(self, *, prepare: Prepare | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._prepare = prepare

    def _release(self, key: Any, protocol: Any, *, should_close: bool = False) -> None:
        if should_close or protocol.should_close:
            protocol.abort()
        super()._release(key, protocol, should_close=should_close)

    async def _wrap_create_connection(
        self, *args: Any, addr_infos: Sequence[AddrInfoType], **kwargs: Any
    ) -> tuple[asyncio.Transport, ResponseHandler]:
        """Connect to the first address; aiohttp calls again with the remaining ones.

        The connection is dropped if the call is cancelled in the moment that its TLS handshake completes.
        """
        factory: Callable[[], ResponseHandler] = args[0]
        created: list[ResponseHandler] = []

        def create() -> ResponseHandler:
            created.append(factory())
            return created[-1]

        family, _, protocol, _, address = addr_infos[0]
        try:
            transport, handler = await self._wrap_existing_connection(
                create,
                *_numeric(address),
                family=family,
                proto=protocol,
                flags=socket.AI_NUMERICHOST,
                **kwargs,
            )
        except BaseException:
            for each in created:
                each.abort()
            raise
        if self._prepare is not None:
            self._prepare(transport.get_extra_info("socket"))
        return transport, handler


def _numeric(address: Any) -> tuple[str, int]:
    """Return the host, with the scope of a link-local IPv6 address, and the port of a socket address."""
    host, port, *more = address
    scope = more[1] if len(more) > 1 else 0
    return (f"{host}%{scope}" if scope and "%" not in host else host), port
