"""The subresource `proxy` of Pods and Services: HTTP requests to programs in Pods on super clusters.

The API server of the super cluster connects to the Pod. A request for a Service goes to one of its Pods.

Behaviour: Kubernetes' `pkg/registry/core/pod/rest/subresources.go`, `pkg/registry/core/service/proxy.go`, and apimachinery's
`pkg/util/proxy/upgradeaware.go`. Differences: bodies of requests are read as a whole, requests with an upgrade have none, and
cookies do not pass.
"""

import random
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from urllib.parse import unquote

import msgspec

from vcsync.apimachinery import errors
from vcsync.apiserver.discovery.served import Spaces
from vcsync.apiserver.handlers.connect import DEFAULT_LIMITS, not_served, supported_protocol, tunnel
from vcsync.apiserver.handlers.exchange import Incoming
from vcsync.apiserver.handlers.request import Request
from vcsync.apiserver.handlers.stream_objects import StreamObjects
from vcsync.apiserver.kubelets.location import PodPlace
from vcsync.apiserver.kubelets.pool import NotInPool
from vcsync.apiserver.kubelets.proxied_headers import SANDBOX, returned_headers, sent_headers
from vcsync.apiserver.kubelets.proxy_location import (
    PodAddresses,
    ProxyTarget,
    ServiceEndpoints,
    ServicePorts,
    no_endpoints,
    port_number,
    proxy_target,
    service_addresses,
    service_port,
)
from vcsync.apiserver.kubelets.super_clusters import SuperClusters
from vcsync.apiserver.kubelets.super_pods import StreamRequest
from vcsync.apiserver.registry.reading import Reader
from vcsync.apiserver.request.reply import Reply, Stream, headers_by_name
from vcsync.apiserver.request.request_info import RequestInfo
from vcsync.apiserver.request.scope import Scope
from vcsync.streams.limits import StreamLimits
from vcsync.streams.proxied_links import proxied_path
from vcsync.streams.raw_response import RawResponse
from vcsync.streams.tunnel import PIECE_BYTES
from vcsync.streams.upgrade_headers import forwarded_upgrade

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})
BODILESS = frozenset({"GET", "HEAD"})
EMPTY = frozenset({204, 304})
MAX_DIGITS = 18
"""Digits of the length of an answer."""
WITH_BODY = (
    "a request that upgrades its connection must not have a body: leave out the body or the header Upgrade"
)
OK, SWITCHING, REFUSED = 200, 101, 400


class PodProxy:
    """Answers requests for the subresource `proxy`.

    Args:
        reader: Reads Pods, Services and Endpoints.
        spaces: Finds their kinds.
        pool: Connects to super clusters. None: they are not reached.
        limits: When upgraded connections end.
    """

    def __init__(
        self,
        reader: Reader,
        spaces: Spaces,
        pool: SuperClusters | None = None,
        limits: StreamLimits = DEFAULT_LIMITS,
    ) -> None:
        self._objects = StreamObjects(reader, spaces)
        self._pool = pool
        self._limits = limits

    async def answer(self, incoming: Incoming, request: Request) -> Reply | Stream:
        """Answer a request.

        Raises:
            StatusError: The Pod or Service does not exist, no Pod serves the Service, or whoever runs the Pod refuses or cannot
                be reached.
        """
        if incoming.method not in METHODS:
            raise errors.method_not_allowed()
        scope = request.scope
        pod, target = await self._located(scope)
        if self._pool is None:
            raise not_served(request)
        protocol = supported_protocol(incoming.headers)
        if protocol and _has_body(incoming.headers):
            # A server that does not upgrade would take it for the next request on a connection with our credentials.
            raise errors.bad_request(WITH_BODY)
        path, shown = _paths(incoming.path, request.info)
        if not path and incoming.method in {"GET", "HEAD"}:
            return _to_directory(incoming)
        asked = StreamRequest(
            target.name,
            pod.metadata.uid,
            pod.spec.node_name,
            "proxy",
            incoming.query,
            target=target.text,
            path=path,
            body=b"" if protocol or incoming.method in BODILESS else await request.body(),
            shown=shown,
        )
        if not asked.node:
            raise errors.bad_request("address not allowed")
        if incoming.seat is not None:
            # Seats are for the work of this server. Connections to super clusters are limited for each tenant.
            incoming.seat.leave()
        return await self._asked(self._pool, incoming, request, asked, protocol)

    async def _located(self, scope: Scope) -> tuple[PodPlace, ProxyTarget]:
        """Return the Pod of a request, and its name in the request to the super cluster."""
        if scope.kind.resource.plural == "pods":
            target = proxy_target(scope.name, "pod")
            found = await self._objects.read(scope, "pods", target.name, scope.namespace)
            return msgspec.json.decode(found, type=PodPlace), target
        target = proxy_target(scope.name, "service")
        port = target.port
        if port_number(port) is not None:
            found = await self._objects.read(scope, "services", target.name, scope.namespace)
            port = service_port(msgspec.json.decode(found, type=ServicePorts), target)
        endpoints = msgspec.json.decode(await self._endpoints(scope, target.name), type=ServiceEndpoints)
        if not endpoints.subsets:
            raise no_endpoints(target.name)
        for each in service_addresses(endpoints, scope.namespace, port, random.randrange):
            try:
                found = await self._objects.read(scope, "pods", each.pod, scope.namespace)
            except errors.StatusError:
                continue
            if msgspec.json.decode(found, type=PodAddresses).has(each.ip):
                place = msgspec.json.decode(found, type=PodPlace)
                return place, ProxyTarget(target.scheme, each.pod, str(each.port))
        raise no_endpoints(scope.name)

    async def _endpoints(self, scope: Scope, name: str) -> bytes:
        """Return the Endpoints of a Service.

        Raises:
            StatusError: 404. As upstream's, it names the resource of the request.
        """
        try:
            return await self._objects.read(scope, "endpoints", name, scope.namespace)
        except errors.StatusError as error:
            raise errors.not_found("services", "", name) if error.code == 404 else error from None

    async def _asked(
        self,
        pool: SuperClusters,
        incoming: Incoming,
        request: Request,
        asked: StreamRequest,
        protocol: str,
    ) -> Reply | Stream:
        """Send a request, and return the program's answer. `protocol`: to which it upgrades the connection, if not empty."""
        headers = incoming.headers
        lines = [f"{name}: {value}" for name, value in sent_headers(headers)]
        if protocol:
            upgrade = forwarded_upgrade(headers, protocol)
            own = {line.partition(":")[0].lower() for line in upgrade}
            lines = [line for line in lines if line.partition(":")[0].lower() not in own] + upgrade
        if incoming.method not in BODILESS:
            lines.append(f"Content-Length: {len(asked.body)}")
        sent = (incoming.method, "1.1" if protocol else "1.0", lines)
        stack = AsyncExitStack()
        try:
            pods = await self._objects.tenant_pods(request.scope)
            opened = await stack.enter_async_context(pool.opened(pods, asked, sent))
        except NotInPool:
            raise not_served(request) from None
        try:
            if opened.status == SWITCHING and protocol:
                return tunnel(stack, opened, self._limits)
            if protocol:
                _check_refusal(opened.status)
            return await _passed_on(stack, opened, incoming.method, foreign=_is_foreign(request.scope))
        except BaseException:
            await stack.aclose()
            raise


def _check_refusal(status: int) -> None:
    """Check the status of a server that has not upgraded a connection.

    Raises:
        StatusError: 500. As in kube-apiserver, only an error is passed on.
    """
    if status < REFUSED:
        raise errors.internal(f"invalid upgrade response: status code {status}")


def _is_foreign(scope: Scope) -> bool:
    """Tell whether the caller is no user of the tenant."""
    return scope.caller.system or bool(scope.caller.home)


def _has_body(headers: Mapping[str, str]) -> bool:
    return "Transfer-Encoding" in headers or headers.get("Content-Length", "0").strip("0") != ""


def _paths(path: str, info: RequestInfo) -> tuple[str, str]:
    """Return the percent-encoded path after the subresource, and the client's path up to it.

    Args:
        path: The client's path, percent-encoded.
        info: What the request is about.
    """
    segments = path.split("/")
    decoded = [unquote(each) for each in segments]
    wanted = [info.resource, info.name, info.subresource]
    end = next(each for each in range(3, len(decoded) + 1) if decoded[each - 3 : each] == wanted)
    below = "".join(f"/{each}" for each in decoded[end:])
    return proxied_path(below), "/".join(segments[:end])


def _to_directory(incoming: Incoming) -> Reply:
    """Return the redirect to the same path with a slash at its end, by which relative links work."""
    query = f"?{incoming.query}" if incoming.query else ""
    return Reply(301, [], "", {"Location": f"{incoming.path}/{query}"})


async def _passed_on(
    stack: AsyncExitStack, opened: RawResponse, method: str, *, foreign: bool
) -> Reply | Stream:
    headers = headers_by_name(returned_headers(opened.headers)) | (SANDBOX if foreign else {})
    content_type = opened.header("content-type")
    # Only answers to upgrades can have chunks; other requests are of HTTP/1.0.
    if method == "HEAD" or opened.status in EMPTY or opened.header("transfer-encoding"):
        await stack.aclose()
        return Reply(opened.status, [], content_type, headers)
    body = _Body(stack, opened)
    if opened.status == OK:
        return Stream(content_type, body, headers=headers)
    return Reply(opened.status, [], content_type, headers, rest=body, verbatim=True)


class _Body:
    """The pieces of an answer, until the program or the client ends it."""

    def __init__(self, stack: AsyncExitStack, opened: RawResponse) -> None:
        self._stack = stack
        self._opened = opened
        length = opened.header("content-length")
        is_number = length.isascii() and length.isdigit() and len(length) <= MAX_DIGITS
        opened.left = int(length) if is_number else None

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        """Return the next piece.

        Raises:
            ConnectionAbortedError: The connection broke, so that the answer is incomplete.
        """
        try:
            piece = await self._opened.piece(PIECE_BYTES)
        except OSError as error:
            raise ConnectionAbortedError("the answer was cut off") from error
        if not piece:
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stack.aclose()
