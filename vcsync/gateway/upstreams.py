"""The connections to external API servers: one pool for each tenant, shared by all of its users.

A pool ends when the record of its tenant changes, and with it every request that it serves: their answers may come from
a server, or by a credential, that the operator no longer wants.
"""

import asyncio
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import aiohttp

from vcsync.apiserver.storage.interface import Change
from vcsync.apiserver.tenants.records import TENANTS, Upstream, decode
from vcsync.apiserver.tenants.registry import TenantRegistry
from vcsync.kube import tls
from vcsync.kube.connector import Connector
from vcsync.kube.kubeconfig import server_url
from vcsync.streams.connection import open_connection
from vcsync.streams.raw_response import keep_alive

HTTPS = 443
CONNECT_SECONDS = 4.0
"""Timeout of TCP and TLS together."""
FREE_SECONDS = 10.0
"""Time to wait for a free connection, besides."""
IDLE_SECONDS = 30.0
"""Time for which an idle connection is kept. It is shorter than that of API servers, which is 90 seconds or more."""
MAX_CONNECTIONS = 1000
"""Connections to one API server, including those of watches. Upgraded ones are as many again at most."""
MAX_HEADER = 16 * 1024
"""Longest header of an answer, in bytes."""
BUFFER_BYTES = 64 * 1024
"""Bytes of an answer that are read ahead of the client."""


@dataclass(eq=False, slots=True)
class Pool:
    """The connections to the API server of one tenant.

    Attributes:
        tenant: The tenant.
        upstream: Address and credential of the server.
        url: URL of the server without a trailing slash.
        context: TLS context.
        session: Connections for requests and watches.
        streams: Functions that end the answers and upgraded connections that are open.
        failing: Whether the last request did not reach the server.
        probe: Asks whether the server answers at all; see `liveness`.
    """

    tenant: str
    upstream: Upstream
    url: str
    context: ssl.SSLContext
    session: aiohttp.ClientSession
    streams: set[Callable[[], None]] = field(default_factory=set)
    failing: bool = False
    probe: asyncio.Task[bool] | None = None

    @property
    def server_name(self) -> str | None:
        """Name that the server's certificate must carry, or None for the host of the URL."""
        return self.upstream.server_name or None

    async def close(self) -> None:
        """End everything that is open, and close all connections."""
        if self.probe is not None:
            self.probe.cancel()
        for end in list(self.streams):
            end()
        await self.session.close()


class Upstreams:
    """The pools of all external tenants. Each is opened with the first request of its tenant.

    Args:
        tenants: All tenants.

    Attributes:
        on_drop: Called with each tenant whose connections are closed.
    """

    def __init__(self, tenants: TenantRegistry) -> None:
        self.on_drop: Callable[[str], None] = lambda _tenant: None
        self._tenants = tenants
        self._pools: dict[str, Pool] = {}
        self._outdated: list[Pool] = []
        self._wake = asyncio.Event()

    def serves(self, tenant: str) -> bool:
        """Tell whether the requests of a tenant are forwarded."""
        return self._tenants.is_external(tenant)

    async def pool(self, tenant: str) -> Pool | None:
        """Return the connections of a tenant, or None if it has no external control plane any more.

        Raises:
            StoreError: The store cannot be read.
        """
        found = await self._tenants.credentials(tenant)
        upstream = found.record.upstream if found is not None else None
        if upstream is None:
            self._drop(tenant)
            return None
        pool = self._pools.get(tenant)
        if pool is None or pool.upstream != upstream:
            self._drop(tenant)
            pool = self._pools[tenant] = _open(tenant, upstream)
        return pool

    def changed(self, changes: Iterable[Change]) -> None:
        """Close the connections of tenants whose API server has changed or is gone."""
        for change in changes:
            if not self._pools or not change.key.startswith(TENANTS):
                continue
            tenant = change.key.removeprefix(TENANTS)
            pool = self._pools.get(tenant)
            record = decode(change.value) if change.value is not None else None
            if pool is not None and (record is None or record.upstream != pool.upstream):
                self._drop(tenant)

    def forget(self, tenant: str) -> None:
        """Close the connections of a tenant, because a change of its record may have been missed."""
        self._drop(tenant)

    def forget_all(self) -> None:
        """Close all connections, because changes may have been missed."""
        for tenant in list(self._pools):
            self._drop(tenant)

    def _drop(self, tenant: str) -> None:
        pool = self._pools.pop(tenant, None)
        if pool is not None:
            self._outdated.append(pool)
            self.on_drop(tenant)
            self._wake.set()

    async def run(self) -> None:
        """Close outdated connections until cancelled, and then all of them."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self._outdated:
                    await self._outdated.pop().close()
        finally:
            for pool in (*self._outdated, *self._pools.values()):
                await pool.close()
            self._outdated.clear()
            self._pools.clear()


def _open(tenant: str, upstream: Upstream) -> Pool:
    context = tls.client_context(ca=upstream.authority.encode())
    session = aiohttp.ClientSession(
        connector=Connector(
            ssl=context,
            limit=MAX_CONNECTIONS,
            keepalive_timeout=IDLE_SECONDS,
            prepare=keep_alive,
        ),
        timeout=aiohttp.ClientTimeout(total=None, connect=FREE_SECONDS, sock_connect=CONNECT_SECONDS),
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        auto_decompress=False,
        read_bufsize=BUFFER_BYTES,
        max_line_size=MAX_HEADER,
        max_field_size=MAX_HEADER,
        skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
    )
    return Pool(tenant, upstream, server_url(upstream.server), context, session)


async def connected(pool: Pool, limit: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a connection of its own to the API server of a pool.

    Args:
        pool: Connections of the tenant.
        limit: Bytes that are read ahead, and longest head of an answer.

    Raises:
        OSError: The server cannot be reached.
    """
    parts = urlsplit(pool.url)
    host = parts.hostname or ""
    return await open_connection(
        host, parts.port or HTTPS, tls=pool.context, server_hostname=pool.server_name or host, limit=limit
    )
