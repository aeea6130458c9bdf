"""Limits the open connections of the kubelet APIs of a syncer, and ends those on which nobody asks anything."""

import asyncio
import resource
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

MAX_CONNECTIONS = 10_000
"""Connections of all tenants of a syncer."""
RESERVED_FILES = 500
"""File descriptors that they leave to the rest of the process."""
FILES_PER_CONNECTION = 2
"""A stream has a connection to the super cluster as well."""
REQUEST_SECONDS = 30.0
"""Timeout until the first request of a connection."""
IDLE_SECONDS = 120.0
"""Timeout until the next one. Kubernetes' API server closes idle connections to kubelets after 90 seconds."""
Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
"""Answers one request."""


class ConnectionBudget:
    """Divides a number of connections between tenants.

    No tenant has more connections than remain free: a single one gets at most half of all, and less the more others
    have. A tenant that opens all it can leaves room for every other one.

    Args:
        limit: Connections in total.
    """

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._used: Counter[str] = Counter()

    def take(self, tenant: str) -> bool:
        """Count one more connection of a tenant. False: it has its share, and nothing is counted."""
        if self._used[tenant] >= self._free:
            return False
        self._used[tenant] += 1
        self._free -= 1
        return True

    def give_back(self, tenant: str) -> None:
        """Stop counting a connection of a tenant."""
        self._free += 1
        self._used[tenant] -= 1
        if not self._used[tenant]:
            del self._used[tenant]


def connection_limit() -> int:
    """Return how many connections the limit of open files allows."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files <= 0:
        return MAX_CONNECTIONS
    return min(MAX_CONNECTIONS, max(16, (files - RESERVED_FILES) // FILES_PER_CONNECTION))


class Server(web.Server):
    """The HTTP server of one tenant.

    Args:
        tenant: Cluster key.
        budget: Limits its connections and those of other tenants.
        answer: Answers requests.
        settings: Keyword arguments of `web.Server`.
    """

    def __init__(self, tenant: str, budget: ConnectionBudget, answer: Answer, **settings: Any) -> None:
        super().__init__(self._answer, keepalive_timeout=IDLE_SECONDS, **settings)
        self._answering = answer
        self._tenant = tenant
        self._budget = budget
        self._counted: set[RequestHandler] = set()
        self._silent: dict[RequestHandler, asyncio.TimerHandle] = {}

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        """Count a connection. Abort it if the tenant has its share."""
        super().connection_made(handler, transport)
        if not self._budget.take(self._tenant):
            transport.abort()
            return
        self._counted.add(handler)
        loop = asyncio.get_running_loop()
        self._silent[handler] = loop.call_later(REQUEST_SECONDS, transport.abort)

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        """Stop counting a connection."""
        super().connection_lost(handler, exc)
        self._spoken(handler)
        if handler in self._counted:
            self._counted.discard(handler)
            self._budget.give_back(self._tenant)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self._spoken(request.protocol)
        return await self._answering(request)

    def _spoken(self, handler: RequestHandler) -> None:
        """Stop waiting for the first request of a connection."""
        timer = self._silent.pop(handler, None)
        if timer is not None:
            timer.cancel()
