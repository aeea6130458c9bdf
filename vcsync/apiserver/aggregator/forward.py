"""Forwards requests to aggregated API servers, and streams the answers.

Behaviour: kube-aggregator's `pkg/apiserver/handler_proxy.go`. The answers come from programs of a tenant, so that only what
`vcsync.gateway.headers` lists passes, and redirects do not.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass

import aiohttp

from vcsync.apimachinery.errors import (
    method_not_allowed,
    too_many_requests,
)
from vcsync.apiserver.aggregator.failures import not_available, not_upgraded, redirected, too_late
from vcsync.apiserver.aggregator.remote_user import remote_user_headers
from vcsync.apiserver.aggregator.servers import MALFORMED, Request, Servers
from vcsync.apiserver.audit.request_log import HEADER, is_long_running
from vcsync.apiserver.discovery.remote_api_services import RemoteApiService
from vcsync.apiserver.egress.failure import CallFailed
from vcsync.apiserver.handlers.exchange import Incoming
from vcsync.apiserver.request.caller import Caller
from vcsync.apiserver.request.reply import Reply, Stream, headers_by_name
from vcsync.apiserver.request.request_info import Query, RequestInfo
from vcsync.gateway.bodies import AnswerBody, RequestBody, arrived_body, whole_body
from vcsync.gateway.failures import RETRY_SECONDS
from vcsync.gateway.forward import (
    BODILESS,
    EMPTY,
    METHODS,
    OK,
    PROXY_UNAUTHORIZED,
    UNAUTHORIZED,
)
from vcsync.gateway.headers import body_length, request_headers, response_headers
from vcsync.gateway.paths import forwarded_target
from vcsync.streams.upgrade_headers import wanted_protocol

REDIRECTS = range(300, 400)
NOT_MODIFIED = 304
NOT_ACCEPTED = "the server does not accept the certificate of this control plane"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of forwarded requests.

    Attributes:
        tenant: Most open requests of one tenant, including watches.
        total: Most open requests of all tenants.
        answer_seconds: Time until an answer begins.
        body_seconds: Time until an answer that is not a stream has ended.
        system_bytes: Most bytes of such an answer for a system caller, because controllers have it in memory as a whole.
    """

    tenant: int = 128
    total: int = 2048
    answer_seconds: float = 60.0
    body_seconds: float = 300.0
    system_bytes: int = 8 << 20


DEFAULT_BOUNDS = Bounds()


class Forwarder:
    """Forwards requests.

    Args:
        servers: Sends requests.
        bounds: Limits.
    """

    def __init__(self, servers: Servers, bounds: Bounds = DEFAULT_BOUNDS) -> None:
        self._servers = servers
        self._bounds = bounds
        self._open: Counter[str] = Counter()
        self._streams: set[Callable[[], None]] = set()

    def close(self) -> None:
        """End all open answers."""
        for end in list(self._streams):
            end()

    async def forward(
        self, service: RemoteApiService, incoming: Incoming, info: RequestInfo, query: Query, caller: Caller
    ) -> Reply | Stream:
        """Forward a request to the server of an available APIService, and return the answer.

        Raises:
            StatusError: 400, 403, 405 or 501, the request cannot be forwarded; 429, too many requests are open; 502, the server
                redirects; 503 or 504, it does not answer.
        """
        if incoming.method not in METHODS:
            raise method_not_allowed()
        # A watch is read as lines, of which the filter chain makes messages.
        lines = info.verb == "watch" and wanted_protocol(incoming.headers) == "websocket"
        upgrades = "upgrade" in incoming.headers.get("Connection", "").lower() and incoming.headers.get(
            "Upgrade"
        )
        if upgrades and not lines:
            raise not_upgraded(service)
        target = forwarded_target(incoming.method, incoming.path, incoming.query, info, query)
        headers = [
            *request_headers(incoming.headers),
            *remote_user_headers(caller.user),
            (HEADER, incoming.audit_id),
        ]
        body = None
        length = 0 if incoming.method in BODILESS else body_length(incoming.headers)
        if length != 0:
            body = RequestBody(incoming.pieces or whole_body(incoming.read))
            headers = headers if length is None else [*headers, ("Content-Length", str(length))]
        stack = AsyncExitStack()
        try:
            stack.enter_context(self._slot(service.tenant))
            request = Request(incoming.method, target, headers, body)
            response = await self._sent(stack, service, request)
            most = self._bounds.system_bytes if caller.system else None
            answer = self._answer(stack, response, request.method, most, long_running=is_long_running(info))
        except BaseException:
            await stack.aclose()
            raise
        if isinstance(answer, Reply) and answer.rest is None:
            await stack.aclose()
        return answer

    @contextmanager
    def _slot(self, tenant: str) -> Iterator[None]:
        """Count a request as open while the block runs.

        Raises:
            StatusError: 429, too many are open.
        """
        if self._open[tenant] >= self._bounds.tenant or self._open.total() >= self._bounds.total:
            raise too_many_requests(
                "too many requests to aggregated API servers are open, please try again later", RETRY_SECONDS
            )
        self._open[tenant] += 1
        try:
            yield
        finally:
            self._open[tenant] -= 1
            if not self._open[tenant]:
                del self._open[tenant]

    async def _sent(
        self, stack: AsyncExitStack, service: RemoteApiService, request: Request
    ) -> aiohttp.ClientResponse:
        """Send a request and return the answer, whose body follows.

        Raises:
            StatusError: The client does not send its body, or there is no answer that can be passed on.
        """
        try:
            async with asyncio.timeout(self._bounds.answer_seconds):
                endpoints = await self._servers.endpoints(service)
                response = await self._servers.send(stack, service, request, endpoints)
        except (CallFailed, TimeoutError) as error:
            if request.body is not None and request.body.error is not None:
                raise request.body.error from error
            if isinstance(error, CallFailed):
                raise not_available(service, str(error), RETRY_SECONDS) from error
            raise too_late(service) from error
        if response.status in (UNAUTHORIZED, PROXY_UNAUTHORIZED):
            # A 401 would blame the credentials of the client.
            raise not_available(service, NOT_ACCEPTED, RETRY_SECONDS)
        if response.status < OK:
            raise not_available(service, MALFORMED, RETRY_SECONDS)
        if response.status in REDIRECTS and response.status != NOT_MODIFIED:
            raise redirected(service)
        return response

    def _answer(
        self,
        stack: AsyncExitStack,
        response: aiohttp.ClientResponse,
        method: str,
        most: int | None,
        *,
        long_running: bool,
    ) -> Reply | Stream:
        headers = headers_by_name(response_headers(response.headers.items()))
        content_type = response.headers.get("Content-Type", "")
        if method == "HEAD" or response.status in EMPTY:
            response.release()
            return Reply(response.status, [], content_type, headers)
        if long_running and response.status == OK:
            body = AnswerBody(response, self._streams, stack)
            return Stream(content_type, body, headers=headers)
        if (arrived := arrived_body(response)) is not None:
            return Reply(response.status, [arrived], content_type, headers, verbatim=True)
        body = AnswerBody(response, self._streams, stack, self._bounds.body_seconds, most)
        return Reply(response.status, [], content_type, headers, rest=body, verbatim=True)
