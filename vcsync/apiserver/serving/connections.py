"""Limits of connections per address and tenant, and a deadline for clients that do not read their responses."""

import asyncio
from collections import Counter
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from vcsync.apiserver.serving.http_protocol import Handler
from vcsync.process.listener import source_of
from vcsync.process.open_files import share_of_files
from vcsync.streams.duplex import Duplex

MAX_CONNECTIONS = 20_000
SHARE_OF_FILES = 0.75
"""Share of the open files for connections of clients. Streams have as many files again; see `kubelets.super_clusters`."""
WRITE_SECONDS = 60.0
"""Time that a piece of a response may wait for a client that does not read."""
SWEEP_SECONDS = 5.0
"""Time between checks for clients that do not read."""


class Connections(web.Server):
    """An HTTP server that limits its connections.

    No address and no tenant has more connections than remain free: a single one gets at most half of all, and less
    the more others connect. A new client therefore always finds room.

    Args:
        args: Arguments of `web.Server`.
        limit: Connections in total. The limit of open files may lower it.
        settings: Keyword arguments of `web.Server`.
    """

    def __init__(self, *args: Any, limit: int = MAX_CONNECTIONS, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._limit = share_of_files(SHARE_OF_FILES, limit)
        self._sources: dict[RequestHandler, str] = {}
        self._by_source: Counter[str] = Counter()
        self._owners: dict[RequestHandler, str] = {}
        self._by_owner: Counter[str] = Counter()

    def __call__(self) -> RequestHandler:
        """Return the handler of a new connection."""
        return Handler(self, loop=self._loop, **self._kwargs)

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        """Count a connection. Abort it if its address has too many."""
        super().connection_made(handler, transport)
        source = source_of(transport.get_extra_info("peername"))
        free = self._limit - len(self._sources)
        self._sources[handler] = source
        self._by_source[source] += 1
        if self._by_source[source] > free:
            transport.abort()

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        """Stop counting a connection."""
        super().connection_lost(handler, exc)
        _drop(self._sources, self._by_source, handler)
        _drop(self._owners, self._by_owner, handler)

    def keeps(self, handler: RequestHandler, tenant: str) -> bool:
        """Record the tenant of a connection's last request. Returns whether the connection may be kept for the next one."""
        if handler not in self._sources:
            return False
        if self._owners.get(handler) != tenant:
            _drop(self._owners, self._by_owner, handler)
            self._owners[handler] = tenant
            self._by_owner[tenant] += 1
        return self._by_owner[tenant] <= max(1, self._limit - len(self._sources))


def _drop(names: dict[RequestHandler, str], counts: Counter[str], handler: RequestHandler) -> None:
    name = names.pop(handler, None)
    if name is not None:
        counts[name] -= 1
        if not counts[name]:
            del counts[name]


class WriteDeadlines:
    """Aborts connections whose client does not read, so that the memory of their responses becomes free.

    Args:
        seconds: Time that one piece may take to write.
    """

    def __init__(self, seconds: float = WRITE_SECONDS) -> None:
        self._seconds = seconds
        self._started: dict[asyncio.Transport, float] = {}

    def start(self, transport: asyncio.Transport | None) -> None:
        """Start the deadline of a piece that is being written."""
        if transport is not None:
            self._started[transport] = asyncio.get_running_loop().time()

    def stop(self, transport: asyncio.Transport | None) -> None:
        """Cancel the deadline: the piece was written."""
        if transport is not None:
            self._started.pop(transport, None)

    def sweep(self, now: float) -> None:
        """Abort the connections whose deadline has passed. `now`: time of the event loop's clock."""
        for transport, started in list(self._started.items()):
            if now - started > self._seconds:
                del self._started[transport]
                transport.abort()

    def guarded(self, connection: Duplex, transport: asyncio.Transport | None) -> Duplex:
        """Return a connection whose every write has such a deadline."""
        return _Guarded(connection, self, transport)

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self.sweep(asyncio.get_running_loop().time())


class _Guarded:
    """A connection that is aborted if the client does not read what is written."""

    def __init__(
        self, connection: Duplex, deadlines: WriteDeadlines, transport: asyncio.Transport | None
    ) -> None:
        self._connection = connection
        self._deadlines = deadlines
        self._transport = transport

    async def read(self) -> bytes:
        """Return the next bytes, or nothing at the end."""
        return await self._connection.read()

    async def write(self, data: bytes) -> None:
        """Send bytes, and wait until there is room for more.

        Raises:
            ConnectionError: The connection is closed.
        """
        self._deadlines.start(self._transport)
        try:
            await self._connection.write(data)
        finally:
            self._deadlines.stop(self._transport)
