"""An HTTP server that limits its open connections, and ends those on which nobody asks anything."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from vcsync.process.http_connection import BoundedServer
from vcsync.streams.budget import ConnectionBudget

REQUEST_SECONDS = 30.0
"""Timeout until the first request of a connection."""
IDLE_SECONDS = 120.0
"""Timeout until the next one. Kubernetes' API server closes idle connections after 90 seconds."""
Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
"""Answers one request."""
Payer = Callable[[asyncio.Transport], str]
"""Returns on whose share a connection counts."""


class Server(BoundedServer):
    """The server.

    Args:
        payer: Cluster key of its only tenant, or a function that returns on whose share a connection counts.
        budget: Limits the connections of each share.
        answer: Answers requests.
        settings: Keyword arguments of `web.Server`.
    """

    def __init__(self, payer: str | Payer, budget: ConnectionBudget, answer: Answer, **settings: Any) -> None:
        super().__init__(self._answer, keepalive_timeout=IDLE_SECONDS, **settings)
        self._answering = answer
        self._payer = payer
        self._budget = budget
        self._counted: dict[RequestHandler, str] = {}
        self._silent: dict[RequestHandler, asyncio.TimerHandle] = {}

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        """Count a connection. Abort it if its share is used."""
        super().connection_made(handler, transport)
        payer = self._payer if isinstance(self._payer, str) else self._payer(transport)
        if not self._budget.take(payer):
            transport.abort()
            return
        self._counted[handler] = payer
        loop = asyncio.get_running_loop()
        self._silent[handler] = loop.call_later(REQUEST_SECONDS, transport.abort)

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        """Stop counting a connection."""
        super().connection_lost(handler, exc)
        self._spoken(handler)
        payer = self._counted.pop(handler, None)
        if payer is not None:
            self._budget.give_back(payer)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self._spoken(request.protocol)
        return await self._answering(request)

    def _spoken(self, handler: RequestHandler) -> None:
        """Stop waiting for the first request of a connection."""
        timer = self._silent.pop(handler, None)
        if timer is not None:
            timer.cancel()
