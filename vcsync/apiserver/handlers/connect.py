"""The connect verb and logs: logs, exec, attach and port-forward of Pods, which their kubelets answer.

Behaviour: Kubernetes' `pkg/registry/core/pod/rest/{log,subresources}.go`, and apimachinery's
`pkg/util/proxy/upgradeaware.go`. WebSockets end at the kubelet, as with the feature gate ExtendWebSocketsToKubelet.
"""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Self

import msgspec

from vcsync.apimachinery import errors
from vcsync.apiserver.discovery.served import Spaces
from vcsync.apiserver.handlers.request import Request
from vcsync.apiserver.kubelets.client import Kubelets
from vcsync.apiserver.kubelets.location import KubeletRequest, NodePlace, PodPlace, logs, streamed
from vcsync.apiserver.kubelets.log_options import log_options
from vcsync.apiserver.kubelets.raw_response import RawResponse
from vcsync.apiserver.registry.reading import Reader
from vcsync.apiserver.request.reply import BytesIn, BytesOut, Reply, Stream, Tunnel

PLAIN = "text/plain"
PIECE_BYTES = 64 * 1024
"""Largest piece to read from a connection."""
BEARER = "base64url.bearer.authorization.k8s.io."
"""Prefix of the token that browsers put into the list of WebSocket protocols. It is not sent to kubelets."""
FORWARDED = frozenset(
    {
        "upgrade",
        "connection",
        "sec-websocket-key",
        "sec-websocket-version",
        "sec-websocket-extensions",
        "x-stream-protocol-version",
    }
)
"""Headers that are sent to a kubelet: those of the upgrade, and no credentials."""
RETURNED = frozenset(
    {
        "upgrade",
        "connection",
        "sec-websocket-accept",
        "sec-websocket-protocol",
        "sec-websocket-extensions",
        "x-stream-protocol-version",
    }
)
"""Headers of a kubelet's answer that are sent to the client."""


class Streaming:
    """Answers requests that kubelets serve.

    Args:
        kubelets: Connects to kubelets.
        reader: Reads Pods and Nodes.
        spaces: Finds the kind of Nodes.
    """

    def __init__(self, kubelets: Kubelets, reader: Reader, spaces: Spaces) -> None:
        self._kubelets = kubelets
        self._reader = reader
        self._spaces = spaces

    def serves(self, tenant: str) -> bool:
        """Tell whether the operator allows connections to a tenant's kubelets."""
        return self._kubelets.serves(tenant)

    async def answer(self, request: Request) -> Reply | Stream:
        """Answer a request for a Pod's log, or for exec, attach or port-forward.

        Raises:
            StatusError: The Pod or its node does not exist, or the kubelet refuses or cannot be reached.
        """
        if request.info.subresource == "log":
            return await self._log(request)
        return await self._upgraded(request)

    async def _log(self, request: Request) -> Reply | Stream:
        scope, query = request.scope, request.query
        options = log_options(scope.name, query)
        pod = await self._pod(request)
        container = (query.get("container") or ("",))[0]
        question = logs(pod, scope.namespace, scope.name, container, options)
        if not question.node:
            return Reply(200, [], PLAIN)
        node = await self._node(request, question)
        stack = AsyncExitStack()
        try:
            asked = self._kubelets.opened(scope.tenant, node, question, ("GET", "1.0", ()))
            opened = await stack.enter_async_context(asked)
            await _check(opened, scope.name)
        except BaseException:
            await stack.aclose()
            raise
        return Stream(PLAIN, _LogStream(stack, opened))

    async def _upgraded(self, request: Request) -> Reply | Stream:
        scope = request.scope
        pod = await self._pod(request)
        question = streamed(pod, scope.namespace, scope.name, request.info.subresource, request.query)
        node = await self._node(request, question)
        wanted = request.headers.all
        if "upgrade" not in wanted.get("Connection", "").lower() or not wanted.get("Upgrade"):
            raise errors.bad_request("Upgrade request required")
        stack = AsyncExitStack()
        try:
            method = "GET" if request.info.verb == "get" else "POST"
            lines = upgrade_lines(wanted)
            if method == "POST":
                lines.append("Content-Length: 0")
            asked = self._kubelets.opened(scope.tenant, node, question, (method, "1.1", lines))
            opened = await stack.enter_async_context(asked)
            if opened.status != 101:
                body = (await opened.text()).encode()
                return await _closed(
                    stack, Reply(opened.status, [body], opened.header("content-type") or PLAIN)
                )
        except BaseException:
            await stack.aclose()
            raise
        return tunnel(stack, opened)

    async def _pod(self, request: Request) -> PodPlace:
        found = await self._reader.get(request.scope)
        return msgspec.json.decode(found.value, type=PodPlace)

    async def _node(self, request: Request, question: KubeletRequest) -> NodePlace:
        kind = self._spaces.kind(request.scope.tenant, "", "v1", "nodes")
        if kind is None:
            raise errors.page_not_found()
        scope = replace(request.scope, kind=kind, namespace="", name=question.node, subresource="")
        return msgspec.json.decode((await self._reader.get(scope)).value, type=NodePlace)


def upgrade_lines(sent: Mapping[str, str]) -> list[str]:
    """Return the header lines of a client's upgrade request that are sent on; see `FORWARDED`."""
    lines = [f"{name}: {value}" for name, value in sent.items() if name.lower() in FORWARDED]
    offered = [value for name, value in sent.items() if name.lower() == "sec-websocket-protocol"]
    protocols = [each.strip() for value in offered for each in value.split(",")]
    kept = ", ".join(each for each in protocols if each and not each.startswith(BEARER))
    if kept:
        lines.append(f"Sec-WebSocket-Protocol: {kept}")
    return lines


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
        piece = await self._opened.reader.read(PIECE_BYTES)
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


def tunnel(stack: AsyncExitStack, opened: RawResponse) -> Tunnel:
    """Return the answer that connects a client with an upgraded connection. `stack` closes that connection."""
    lines = [f"{name}: {value}" for name, value in opened.headers if name.lower() in RETURNED]
    head = "\r\n".join(["HTTP/1.1 101 Switching Protocols", *lines, "", ""]).encode("latin-1")

    async def carry(source: BytesIn, sink: BytesOut) -> None:
        async with stack:
            directions = {
                asyncio.create_task(_from_server(opened, sink)),
                asyncio.create_task(_to_server(source, opened)),
            }
            try:
                await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in directions:
                    each.cancel()
                await asyncio.gather(*directions, return_exceptions=True)

    return Tunnel("", _EmptyStream(stack), head=head, carry=carry)


async def _from_server(opened: RawResponse, sink: BytesOut) -> None:
    while piece := await opened.reader.read(PIECE_BYTES):
        await sink.write(piece)


async def _to_server(source: BytesIn, opened: RawResponse) -> None:
    while piece := await source.read():
        opened.writer.write(piece)
        await opened.writer.drain()
