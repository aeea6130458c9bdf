"""The connect verb and logs: logs, exec, attach and port-forward of Pods, which kubelets or super clusters answer.

A space with nodes of its own calls their kubelets. Pods of tenants run on super clusters of the pool, whose API servers take
the same requests.

Behaviour: Kubernetes' `pkg/registry/core/pod/rest/{log,subresources}.go`, and apimachinery's
`pkg/util/proxy/upgradeaware.go`. WebSockets end at the kubelet, as with the feature gate ExtendWebSocketsToKubelet.
"""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Self

import msgspec

from vcsync.api.without_effect import NO_STREAMS
from vcsync.apimachinery import errors
from vcsync.apiserver.discovery.served import Spaces
from vcsync.apiserver.handlers.request import Request
from vcsync.apiserver.handlers.stream_objects import StreamObjects
from vcsync.apiserver.kubelets.client import Kubelets
from vcsync.apiserver.kubelets.location import KubeletRequest, NodePlace, PodPlace, logs, streamed
from vcsync.apiserver.kubelets.log_options import log_options
from vcsync.apiserver.kubelets.pool import NotInPool
from vcsync.apiserver.kubelets.super_clusters import SuperClusters
from vcsync.apiserver.kubelets.super_pods import StreamRequest, log_request, stream_request
from vcsync.apiserver.registry.reading import Reader
from vcsync.apiserver.request.caller import SYSTEM
from vcsync.apiserver.request.reply import Reply, Stream, Tunnel
from vcsync.streams.duplex import BytesIn, BytesOut
from vcsync.streams.limits import StreamLimits
from vcsync.streams.log_messages import Handshake, handshake, send_log
from vcsync.streams.raw_response import RawResponse
from vcsync.streams.tunnel import PIECE_BYTES, carry, switching_head
from vcsync.streams.upgrade_headers import (
    UNSUPPORTED,
    forwarded_upgrade,
    upgrade_lines,
    wanted_protocol,
)
from vcsync.streams.websockets import BadHandshake

PLAIN = "text/plain"
DEFAULT_LIMITS = StreamLimits()
Opened = AbstractAsyncContextManager[RawResponse]
"""An answer that is read while the connection it comes from is open."""
Asked = tuple[str, str, list[str]]
"""Method, HTTP version and further header lines of a request that is sent on."""


class Streaming:
    """Answers requests for logs and streams of Pods.

    Args:
        kubelets: Connects to kubelets.
        reader: Reads Pods, Nodes and Namespaces.
        spaces: Finds their kinds.
        pool: Connects to super clusters. None: they are not reached.
        limits: When exec, attach and port-forward end.
    """

    def __init__(
        self,
        kubelets: Kubelets,
        reader: Reader,
        spaces: Spaces,
        pool: SuperClusters | None = None,
        limits: StreamLimits = DEFAULT_LIMITS,
    ) -> None:
        self._kubelets = kubelets
        self._reader = reader
        self._objects = StreamObjects(reader, spaces)
        self._pool = pool
        self._limits = limits

    def serves(self, tenant: str) -> bool:
        """Tell whether Pods of a tenant may be reached: through kubelets that the operator allows, or in the pool."""
        return self._kubelets.serves(tenant) or (self._pool is not None and tenant != SYSTEM)

    async def answer(self, request: Request) -> Reply | Stream:
        """Answer a request for a Pod's log, or for exec, attach or port-forward.

        Raises:
            StatusError: The Pod or its node does not exist, or whoever runs the Pod refuses or cannot be reached.
        """
        try:
            if request.info.subresource == "log":
                return await self._log(request)
            return await self._upgraded(request)
        except NotInPool:
            raise not_served(request) from None

    async def _log(self, request: Request) -> Reply | Stream:
        scope, query = request.scope, request.query
        options = log_options(scope.name, query)
        pod = await self._pod(request)
        container = (query.get("container") or ("",))[0]
        sent: Asked = ("GET", "1.0", [])
        asked: Opened
        if self._pool is not None and not self._kubelets.serves(scope.tenant):
            wanted = log_request(pod, scope.name, container, options)
            if not wanted.node:
                return Reply(200, [], PLAIN)
            asked = self._pool.opened(await self._objects.tenant_pods(request.scope), wanted, sent)
        else:
            question = logs(pod, scope.namespace, scope.name, container, options)
            if not question.node:
                return Reply(200, [], PLAIN)
            asked = self._kubelets.opened(scope.tenant, await self._node(request, question), question, sent)
        messages = _messages(request.headers.all)
        stack = AsyncExitStack()
        try:
            opened = await stack.enter_async_context(asked)
            await _check(opened, scope.name)
        except BaseException:
            await stack.aclose()
            raise
        return _log_answer(messages, stack, opened)

    async def _upgraded(self, request: Request) -> Reply | Stream:
        scope = request.scope
        pod = await self._pod(request)
        action = request.info.subresource
        in_pool: StreamRequest | None = None
        if self._pool is not None and not self._kubelets.serves(scope.tenant):
            in_pool = stream_request(pod, scope.name, action, request.query)
        else:
            question = streamed(pod, scope.namespace, scope.name, action, request.query)
            node = await self._node(request, question)
        wanted = request.headers.all
        if "upgrade" not in wanted.get("Connection", "").lower() or not wanted.get("Upgrade"):
            raise errors.bad_request("Upgrade request required")
        protocol = supported_protocol(wanted) if in_pool is not None else ""
        stack = AsyncExitStack()
        try:
            method = "GET" if request.info.verb == "get" else "POST"
            lines = (
                forwarded_upgrade(wanted, protocol, extensions=False) if protocol else upgrade_lines(wanted)
            )
            if method == "POST":
                lines.append("Content-Length: 0")
            sent: Asked = (method, "1.1", lines)
            asked: Opened
            if self._pool is not None and in_pool is not None:
                asked = self._pool.opened(await self._objects.tenant_pods(request.scope), in_pool, sent)
            else:
                asked = self._kubelets.opened(scope.tenant, node, question, sent)
            opened = await stack.enter_async_context(asked)
            if opened.status != 101:
                body = (await opened.text()).encode()
                return await _closed(
                    stack, Reply(opened.status, [body], opened.header("content-type") or PLAIN)
                )
        except BaseException:
            await stack.aclose()
            raise
        return tunnel(stack, opened, self._limits)

    async def _pod(self, request: Request) -> PodPlace:
        found = await self._reader.get(request.scope)
        return msgspec.json.decode(found.value, type=PodPlace)

    async def _node(self, request: Request, question: KubeletRequest) -> NodePlace:
        found = await self._objects.read(request.scope, "nodes", question.node)
        return msgspec.json.decode(found, type=NodePlace)


def supported_protocol(headers: Mapping[str, str]) -> str:
    """Return the protocol to which a request upgrades its connection, or an empty text if it does not.

    Raises:
        StatusError: 400, the protocol is not supported.
    """
    protocol = wanted_protocol(headers)
    if protocol is None:
        raise errors.bad_request(UNSUPPORTED)
    return protocol


def not_served(request: Request) -> errors.StatusError:
    """Return the answer to a request for a log or a stream that is served nowhere: 501."""
    what = f"{request.scope.kind.resource.plural}/{request.info.subresource}"
    return errors.StatusError(501, "NotImplemented", f"{what}: {NO_STREAMS}")


async def _check(opened: RawResponse, name: str) -> None:
    """Return if the kubelet answers with a log (apiserver's `pkg/registry/generic/rest/response_checker.go`).

    Raises:
        StatusError: The kubelet refuses.
    """
    status = opened.status
    if 200 <= status <= 206:
        return
    text = await opened.text()
    if status == 500:
        raise errors.internal(text)
    if status == 400:
        raise errors.bad_request(text)
    reason, about = {404: ("NotFound", "the server could not find the requested resource")}.get(
        status,
        ("InternalError" if status > 500 else "", f"the server responded with the status code {status}"),
    )
    message = f"{about} ( pods/log {name})"
    raise errors.StatusError(
        status,
        reason,
        message,
        {"name": name, "kind": "pods/log"},
        (errors.Cause("UnexpectedServerResponse", text),),
    )


async def _closed(stack: AsyncExitStack, reply: Reply) -> Reply:
    """Return a reply after closing the connection that it was read from."""
    await stack.aclose()
    return reply


class _LogStream:
    """The pieces of a log, until the kubelet or the client ends it."""

    def __init__(self, stack: AsyncExitStack, opened: RawResponse) -> None:
        self._stack = stack
        self._opened = opened

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        piece = await self._opened.piece(PIECE_BYTES)
        if not piece:
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        """Close the connection to the kubelet."""
        await self._stack.aclose()


class _EmptyStream:
    """An empty stream, for servers that cannot hand a connection over."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Close the connection to the kubelet."""
        await self._stack.aclose()


def _messages(headers: Mapping[str, str]) -> Handshake | None:
    """Return the handshake of a client that reads a log from a WebSocket, or None.

    Raises:
        StatusError: 400 or 403, the handshake is refused.
    """
    try:
        return handshake(headers)
    except BadHandshake as error:
        raise refused_handshake(error) from None


def refused_handshake(error: BadHandshake) -> errors.StatusError:
    """Return the answer to a handshake that is refused."""
    reason = {400: "BadRequest", 403: "Forbidden"}[error.code]
    return errors.StatusError(error.code, reason, str(error))


def _log_answer(messages: Handshake | None, stack: AsyncExitStack, opened: RawResponse) -> Stream:
    """Return the answer with a log, in the messages of a WebSocket if the client asks for one. `stack` ends the log."""
    pieces = _LogStream(stack, opened)
    if messages is None:
        return Stream(PLAIN, pieces)

    async def connect(source: BytesIn, sink: BytesOut) -> None:
        async with stack:
            await send_log(source, sink, pieces, messages)

    return Tunnel("", _EmptyStream(stack), head=messages.head(), carry=connect)


def tunnel(stack: AsyncExitStack, opened: RawResponse, limits: StreamLimits) -> Tunnel:
    """Return the answer that connects a client with an upgraded connection. `stack` closes that connection."""

    async def connect(source: BytesIn, sink: BytesOut) -> None:
        async with stack:
            await carry(source, sink, opened, limits)

    return Tunnel("", _EmptyStream(stack), head=switching_head(opened), carry=connect)
