"""Connections that are kept for further calls, each for one tenant and one set of trusted authorities only."""

import hashlib
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp

from vcsync.controlplane.egress import tls
from vcsync.kube.connector import Connector

KEEP_SECONDS = 15.0
"""How long an idle connection is kept."""
MOST_POOLS = 256
"""Pools that are kept while nobody uses them."""
LONGEST_HEADER = 8190


@dataclass(slots=True)
class _Pool:
    session: aiohttp.ClientSession
    users: int = 0
    idle_since: float = 0.0


class Connections:
    """Gives out sessions. Their requests name addresses, never hosts: nothing is resolved in them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Take the clock, in seconds."""
        self._clock = clock
        self._pools: OrderedDict[tuple[str, bytes], _Pool] = OrderedDict()

    @asynccontextmanager
    async def session(self, tenant: str, bundle: bytes) -> AsyncIterator[aiohttp.ClientSession]:
        """Lend the session of a tenant and its authorities (PEM; empty: the system's).

        Raises:
            CallFailed: the authorities cannot be read.
        """
        key = (tenant, hashlib.sha256(bundle).digest())
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = _Pool(_session(bundle))
        self._pools.move_to_end(key)
        pool.users += 1
        try:
            yield pool.session
        finally:
            pool.users -= 1
            pool.idle_since = self._clock()
            await self._sweep()

    async def _sweep(self) -> None:
        """Let go of what has been idle for long, and of the longest idle when there are too many."""
        now, left = self._clock(), len(self._pools)
        for key, pool in list(self._pools.items()):
            if pool.users:
                continue
            if left <= MOST_POOLS and now - pool.idle_since < KEEP_SECONDS:
                return
            del self._pools[key]
            left -= 1
            await pool.session.close()

    async def close(self) -> None:
        """End all."""
        pools, self._pools = self._pools, OrderedDict()
        for pool in pools.values():
            await pool.session.close()


def _session(bundle: bytes) -> aiohttp.ClientSession:
    connector = Connector(
        ssl=tls.context(bundle), limit=0, use_dns_cache=False, keepalive_timeout=KEEP_SECONDS
    )
    return aiohttp.ClientSession(
        connector=connector,
        trust_env=False,
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        max_line_size=LONGEST_HEADER,
        max_field_size=LONGEST_HEADER,
        timeout=aiohttp.ClientTimeout(total=None),
    )
