"""Connections: how many an address and a tenant may have, and an end to those that do not take what they asked for."""

import asyncio
import ipaddress
import resource
from collections import Counter
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from vcsync.controlplane.rest.handling import Handler

MAX_CONNECTIONS = 20_000
SPARE_FILES = 500
"""File descriptors that are left to everything else."""
WRITE_SECONDS = 60.0
"""How long a piece of an answer may wait for a client that does not read."""
SWEEP_SECONDS = 5.0


class Connections(web.Server):
    """An HTTP server that counts its connections.

    Nobody has more than what it leaves to others: half of all alone, the less the more others come. So whoever comes
    newly always finds room.
    """

    def __init__(self, *args: Any, limit: int = MAX_CONNECTIONS, **settings: Any) -> None:
        """Take what web.Server takes, and how many connections there may be."""
        super().__init__(*args, **settings)
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._limit = min(limit, max(16, files - SPARE_FILES)) if files > 0 else limit
        self._sources: dict[RequestHandler, str] = {}
        self._by_source: Counter[str] = Counter()
        self._owners: dict[RequestHandler, str] = {}
        self._by_owner: Counter[str] = Counter()

    def __call__(self) -> RequestHandler:
        """Return what handles a new connection."""
        return Handler(self, loop=self._loop, **self._kwargs)

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        """Count a connection, or end it."""
        super().connection_made(handler, transport)
        source = source_of(transport.get_extra_info("peername"))
        free = self._limit - len(self._sources)
        self._sources[handler] = source
        self._by_source[source] += 1
        if self._by_source[source] > free:
            transport.abort()

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        """Count a connection no more."""
        super().connection_lost(handler, exc)
        _drop(self._sources, self._by_source, handler)
        _drop(self._owners, self._by_owner, handler)

    def belongs(self, handler: RequestHandler, tenant: str) -> bool:
        """Take note whose request came on a connection; False: it is not to be kept for a next one."""
        if handler not in self._sources:
            return False
        if self._owners.get(handler) != tenant:
            _drop(self._owners, self._by_owner, handler)
            self._owners[handler] = tenant
            self._by_owner[tenant] += 1
        return self._by_owner[tenant] <= max(1, self._limit - len(self._sources))


def _drop(known: dict[RequestHandler, str], counts: Counter[str], handler: RequestHandler) -> None:
    name = known.pop(handler, None)
    if name is not None:
        counts[name] -= 1
        if not counts[name]:
            del counts[name]


def source_of(peer: Any) -> str:
    """Return the address that a connection counts for; of IPv6 the network, for who has one address has all of it."""
    host = str(peer[0]) if isinstance(peer, tuple) and peer else ""
    if ":" not in host:
        return host
    address = ipaddress.IPv6Address(host.partition("%")[0])
    mapped = address.ipv4_mapped
    return str(mapped) if mapped is not None else str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))


class Stalls:
    """Answers that are being written. One that does not get on is cut off, and what it holds is free."""

    def __init__(self, seconds: float = WRITE_SECONDS) -> None:
        """Take how long a piece may take."""
        self._seconds = seconds
        self._since: dict[asyncio.Transport, float] = {}

    def begin(self, transport: asyncio.Transport | None) -> None:
        """Take note that a piece is being written."""
        if transport is not None:
            self._since[transport] = asyncio.get_running_loop().time()

    def end(self, transport: asyncio.Transport | None) -> None:
        """Take note that it was."""
        if transport is not None:
            self._since.pop(transport, None)

    def sweep(self, now: float) -> None:
        """Cut off who takes too long; `now` by the loop's clock."""
        for transport, since in list(self._since.items()):
            if now - since > self._seconds:
                del self._since[transport]
                transport.abort()

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self.sweep(asyncio.get_running_loop().time())
