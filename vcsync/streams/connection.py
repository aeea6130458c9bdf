"""Connections that lose no data when the other side closes them.

uvloop 0.23 drops what a paused TLS transport has received and not passed on when the connection ends, up to 256 KiB. So the
transport below TLS is paused here. The end of the connection is then read after all data.
"""

import asyncio
import ssl
from typing import cast


class _Below:
    """The part of a TCP transport that readers use, also after its end."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def pause_reading(self) -> None:
        """Receive nothing for now."""
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Receive again."""
        if not self._transport.is_closing():
            self._transport.resume_reading()


class _Reader(asyncio.StreamReader):
    """A reader that pauses another transport than the one that it reads from."""

    def __init__(self, limit: int, below: _Below) -> None:
        super().__init__(limit=limit)
        self._below = below

    def set_transport(self, transport: asyncio.BaseTransport) -> None:  # noqa: ARG002 - of the base class
        """Use the transport below."""
        super().set_transport(cast("asyncio.BaseTransport", self._below))


async def open_connection(
    host: str, port: int, *, tls: ssl.SSLContext | None, server_hostname: str, limit: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a connection, as `asyncio.open_connection` does.

    Args:
        host: Host name or address.
        port: Port.
        tls: TLS context. None: no TLS.
        server_hostname: Name that the server's certificate must have.
        limit: Bytes that are read ahead, and longest line.

    Raises:
        OSError: The server cannot be reached, or TLS fails.
    """
    if tls is None:
        return await asyncio.open_connection(host, port, limit=limit)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_connection(asyncio.Protocol, host, port)
    reader = _Reader(limit, _Below(transport))
    protocol = asyncio.StreamReaderProtocol(reader)
    try:
        encrypted = await loop.start_tls(transport, protocol, tls, server_hostname=server_hostname)
    except BaseException:
        transport.abort()
        raise
    if encrypted is None:
        raise ConnectionAbortedError("the server closed the connection")
    protocol.connection_made(encrypted)
    return reader, asyncio.StreamWriter(encrypted, protocol, reader, loop)
