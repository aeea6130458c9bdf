"""Forwards authenticated requests to the API server of their tenant, and streams the answers."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import aiohttp

from vcsync.apimachinery.errors import (
    StatusError,
    forbidden,
    method_not_allowed,
    unauthorized,
    unavailable,
)
from vcsync.apiserver.audit.request_log import HEADER, is_long_running
from vcsync.apiserver.authentication.authenticator import bearer
from vcsync.apiserver.handlers.connect import supported_protocol
from vcsync.apiserver.handlers.exchange import Embedded, Incoming
from vcsync.apiserver.request.caller import Caller
from vcsync.apiserver.request.reply import Reply, Stream, headers_by_name
from vcsync.apiserver.request.request_info import Query, RequestInfo
from vcsync.gateway.access import REVIEWS, impersonated_upstream
from vcsync.gateway.bodies import AnswerBody, RequestBody, arrived_body, whole_body
from vcsync.gateway.failures import (
    NO_DECISION,
    NO_KEYS,
    NO_LONGER,
    credential_refused,
    unreachable,
    unresponsive,
)
from vcsync.gateway.headers import Pairs, body_length, request_headers, response_headers
from vcsync.gateway.impersonation import impersonation_headers
from vcsync.gateway.liveness import Unresponsive, answer_of
from vcsync.gateway.paths import forwarded_target
from vcsync.gateway.requests import credential, logged, request
from vcsync.gateway.upgrades import UPGRADED, upgraded
from vcsync.gateway.upstreams import Pool, Upstreams
from vcsync.streams.upgrade_headers import wanted_protocol

ANSWER_SECONDS = 75.0
"""Time until an answer begins. An API server itself gives up after 60 seconds."""
REVIEW_SECONDS = 10.0
"""Timeout of a request that the gateway makes for itself."""
MAX_REVIEW_BYTES = 64 * 1024
"""Longest answer to such a request."""
KEY_SET = "/openid/v1/jwks"
"""Path of the keys that sign ServiceAccount tokens (Kubernetes, "ServiceAccount issuer discovery")."""
WEBSOCKET = "websocket"
WITH_UPGRADES = frozenset({"accept", "user-agent"})
"""Headers of a client's request that are sent with an upgrade, in lower case."""
OK, CREATED, UNAUTHORIZED, PROXY_UNAUTHORIZED = 200, 201, 401, 407
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
"""Methods that are forwarded. The target of others, such as CONNECT, would not be the path."""
BODILESS = frozenset({"GET", "HEAD"})
"""Methods whose requests are forwarded without a body."""
EMPTY = frozenset({204, 304})
"""Status codes of answers without a body."""
JSON = "application/json"
ACCEPTED = f"{JSON}, application/jwk-set+json"
Refused = Callable[[], StatusError]
"""Returns the answer for a request whose credential the API server refuses."""
AllTenants = Callable[[Incoming, RequestInfo, Query, list[str], Embedded], Awaitable[Reply | Stream]]
"""Answers a list or watch over embedded and external control planes; see `all_tenants.handler.AllTenantsHandler.answer`."""


class Forwarder:
    """Forwards requests; implements `filters.external.ExternalControlPlanes`.

    Args:
        upstreams: Connections to the API servers.
        all_tenants: Answers lists and watches over all of them and the embedded ones.
    """

    def __init__(self, upstreams: Upstreams, all_tenants: AllTenants) -> None:
        self._upstreams = upstreams
        self._all_tenants = all_tenants

    def serves(self, tenant: str) -> bool:
        """Tell whether the requests of a tenant are forwarded."""
        return self._upstreams.serves(tenant)

    async def impersonate(self, caller: Caller, headers: Mapping[str, str], tenant: str) -> Caller:
        """Return the user that a caller of the tenant acts as, as its API server allows.

        Raises:
            StatusError: 403, it does not; 503 or 504, it cannot be asked.
        """
        pool = await self._pool(tenant)

        async def review(body: bytes) -> bytes:
            return await _review(pool, body)

        return await impersonated_upstream(review, caller, headers, tenant)

    async def forward(
        self, incoming: Incoming, info: RequestInfo, query: Query, tenant: str, caller: Caller
    ) -> Reply | Stream:
        """Forward a request as a user of the tenant, and return the answer.

        Raises:
            StatusError: 400, 403 or 405, the request cannot be forwarded; 503 or 504, the API server does not answer.
        """
        if caller.system:
            raise forbidden(
                "users", "", caller.user.name, "name a user of this external control plane to act as (--as)"
            )
        if incoming.method not in METHODS:
            raise method_not_allowed()
        target = forwarded_target(incoming.method, incoming.path, incoming.query, info, query)
        pool = await self._pool(tenant)
        own = [*_identity(pool, incoming, caller), (HEADER, incoming.audit_id)]
        refused = unauthorized if caller.by_control_plane else credential_refused
        if protocol := _upgrade(info, incoming.headers):
            own += [each for each in request_headers(incoming.headers) if each[0].lower() in WITH_UPGRADES]
            own.append(("Origin", pool.url))  # which kube-apiserver demands of watches, whatever it is
            answer = upgraded(pool, incoming.method, target, incoming.headers, protocol, own, refused)
            return await logged(pool, answer)
        sent = _sent(pool, incoming, target, [*request_headers(incoming.headers), *own], refused)
        response = await logged(pool, sent)
        return _answer(pool, response, incoming.method, long_running=is_long_running(info))

    async def key_set(self, tenant: str) -> bytes:
        """Return the JSON Web Key Set with which a tenant's API server signs ServiceAccount tokens.

        Raises:
            StatusError: 503 or 504, the API server does not return it.
        """
        return await _asked(await self._pool(tenant), "GET", KEY_SET, OK, NO_KEYS)

    async def all_tenants(
        self, incoming: Incoming, info: RequestInfo, query: Query, warnings: list[str], embedded: Embedded
    ) -> Reply | Stream:
        """Answer a list or watch over embedded and external control planes.

        Raises:
            StatusError: 400, 406 or 410, the request cannot be answered; 503, a control plane cannot be read.
        """
        return await self._all_tenants(incoming, info, query, warnings, embedded)

    async def _pool(self, tenant: str) -> Pool:
        pool = await self._upstreams.pool(tenant)
        if pool is None:
            raise unavailable(NO_LONGER)
        return pool


def _upgrade(info: RequestInfo, headers: Mapping[str, str]) -> str:
    """Return the protocol to which a request upgrades its connection; empty if it does not.

    Raises:
        StatusError: 400, the protocol is not supported.
    """
    if info.subresource in UPGRADED:
        return supported_protocol(headers)
    # Other requests ask for what they do not need: Java's client offers HTTP/2 with each.
    messages = (info.verb == "watch" or info.subresource == "log") and wanted_protocol(headers) == WEBSOCKET
    return WEBSOCKET if messages else ""


def _identity(pool: Pool, incoming: Incoming, caller: Caller) -> Pairs:
    """Return the headers that tell the API server who calls.

    Raises:
        StatusError: 403, the caller cannot be impersonated.
    """
    if caller.by_control_plane:
        return [("Authorization", f"Bearer {bearer(incoming.headers.get('Authorization'))}")]
    return [*credential(pool), *impersonation_headers(caller.user)]


async def _review(pool: Pool, body: bytes) -> bytes:
    """Create a SubjectAccessReview and return the answer.

    Raises:
        StatusError: 503 or 504, the API server does not answer it.
    """
    return await _asked(pool, "POST", REVIEWS, CREATED, NO_DECISION, body)


async def _asked(  # noqa: PLR0917 - the parts of a request
    pool: Pool, method: str, path: str, success: int, failure: str, body: bytes | None = None
) -> bytes:
    """Make a request as the gateway, and return the answer.

    Args:
        pool: Connections to the API server.
        method: Method of the request.
        path: Its path.
        success: Status code of an answer that can be used.
        failure: Message for other answers.
        body: Body of the request in JSON, if it has one.

    Raises:
        StatusError: 503 or 504, there is no such answer.
    """
    headers = [*credential(pool), ("Accept", ACCEPTED)]
    if body is not None:
        headers.append(("Content-Type", JSON))
    try:
        async with asyncio.timeout(REVIEW_SECONDS):
            response = await answer_of(pool, request(pool, method, path, headers, body))
            async with response:
                answer = await _read(response)
    except Unresponsive as error:
        raise unresponsive(again=True) from error
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise unreachable(error) from error
    if response.status == UNAUTHORIZED:
        raise credential_refused()
    if response.status != success:
        raise unavailable(failure)
    return answer


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """Return the body of an answer that must be short.

    Raises:
        ConnectionError: It is not.
    """
    body = bytearray()
    while piece := await response.content.readany():
        body += piece
        if len(body) > MAX_REVIEW_BYTES:
            raise ConnectionError("the answer is too long")
    return bytes(body)


async def _sent(
    pool: Pool, incoming: Incoming, target: str, headers: Pairs, refused: Refused
) -> aiohttp.ClientResponse:
    """Send a request and return the answer, whose body follows.

    Raises:
        StatusError: The client does not send its body, or the API server does not answer.
    """
    body = None
    length = 0 if incoming.method in BODILESS else body_length(incoming.headers)
    if length != 0:
        body = RequestBody(incoming.pieces or whole_body(incoming.read))
        headers = headers if length is None else [*headers, ("Content-Length", str(length))]
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            response = await answer_of(pool, request(pool, incoming.method, target, headers, body))
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        if body is not None and body.error is not None:
            raise body.error from error
        if isinstance(error, Unresponsive):
            raise unresponsive(again=incoming.method in BODILESS) from error
        raise unreachable(error) from error
    if response.status in (UNAUTHORIZED, PROXY_UNAUTHORIZED) or response.status < OK:
        response.close()
        raise refused() if response.status == UNAUTHORIZED else unreachable(ConnectionError())
    return response


def _answer(
    pool: Pool, response: aiohttp.ClientResponse, method: str, *, long_running: bool
) -> Reply | Stream:
    headers = headers_by_name(response_headers(response.headers.items()))
    content_type = response.headers.get("Content-Type", "")
    if method == "HEAD" or response.status in EMPTY:
        response.release()
        return Reply(response.status, [], content_type, headers)
    is_stream = long_running and response.status == OK
    if not is_stream and (arrived := arrived_body(response)) is not None:
        return Reply(response.status, [arrived], content_type, headers, verbatim=True)
    body = AnswerBody(response, pool.streams)
    if is_stream:
        return Stream(content_type, body, headers=headers)
    return Reply(response.status, [], content_type, headers, rest=body, verbatim=True)
