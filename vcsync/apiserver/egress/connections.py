"""Keeps idle connections for further calls. Tenants share none, nor do calls with different trusted authorities."""

import asyncio
import hashlib
import ssl
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp

from vcsync.apiserver.egress import tls
from vcsync.kube.connector import Connector
from vcsync.streams.raw_response import keep_alive

KEEP_SECONDS = 15.0
"""Time for which an idle connection is kept."""
MAX_IDLE_POOLS = 256
"""Pools beyond which idle ones are closed without delay."""
MAX_HEADER_BYTES = 8190
"""Longest line or field in the head of a response."""


@dataclass(slots=True)
class _Pool:
    session: aiohttp.ClientSession
    users: int = 0
    idle_since: float = 0.0


class Connections:
    """Lends sessions. Their requests must name IP addresses, so that sessions never resolve host names.

    Args:
        clock: Returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._pools: OrderedDict[tuple[str, bytes], _Pool] = OrderedDict()

    @asynccontextmanager
    async def session(
        self, tenant: str, bundle: bytes, identity: tls.Identity | None = None
    ) -> AsyncIterator[aiohttp.ClientSession]:
        """Lend a session for the duration of the block.

        Args:
            tenant: Tenant of the call.
            bundle: Trusted authorities in PEM. Empty: those of the system.
            identity: The client certificate. None: there is none.

        Raises:
            CallFailed: The bundle is invalid.
        """
        own = b"" if identity is None else f"{identity.id} {identity.insecure}".encode()
        key, context = (tenant, hashlib.sha256(bundle).digest() + own), None
        if identity is not None and key not in self._pools:
            context = await asyncio.to_thread(tls.context, bundle, identity)
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = _Pool(_session(context or tls.context(bundle, identity)))
        self._pools.move_to_end(key)
        pool.users += 1
        try:
            yield pool.session
        finally:
            pool.users -= 1
            pool.idle_since = self._clock()
            await self._sweep()

    async def _sweep(self) -> None:
        """Close pools that have been idle for `KEEP_SECONDS`, and those idle for the longest time if there are too many."""
        now, left = self._clock(), len(self._pools)
        for key, pool in list(self._pools.items()):
            if pool.users:
                continue
            if left <= MAX_IDLE_POOLS and now - pool.idle_since < KEEP_SECONDS:
                return
            del self._pools[key]
            left -= 1
            await pool.session.close()

    async def close(self) -> None:
        """Close all connections."""
        pools, self._pools = self._pools, OrderedDict()
        for pool in pools.values():
            await pool.session.close()


def _session(context: ssl.SSLContext) -> aiohttp.ClientSession:
    connector = Connector(
        ssl=context, limit=0, use_dns_cache=False, keepalive_timeout=KEEP_SECONDS, prepare=keep_alive
    )
    return aiohttp.ClientSession(
        connector=connector,
        trust_env=False,
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        max_line_size=MAX_HEADER_BYTES,
        max_field_size=MAX_HEADER_BYTES,
        timeout=aiohttp.ClientTimeout(total=None),
    )
