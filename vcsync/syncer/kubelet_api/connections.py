"""Limits the open connections of the kubelet APIs of a syncer, and ends those on which nobody asks anything."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from vcsync.streams.budget import ConnectionBudget

MAX_CONNECTIONS = 10_000
"""Connections of all tenants of a syncer."""
FILES_EACH = 2
"""A stream has a connection to the super cluster as well."""
REQUEST_SECONDS = 30.0
"""Timeout until the first request of a connection."""
IDLE_SECONDS = 120.0
"""Timeout until the next one. Kubernetes' API server closes idle connections to kubelets after 90 seconds."""
Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
"""Answers one request."""


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
