"""Logs, exec, attach and port-forward of Pods: found, refused or carried to their kubelet and back.

Behaviour: Kubernetes' `pkg/registry/core/pod/rest/{log,subresources}.go`, and apimachinery's
`pkg/util/proxy/upgradeaware.go` with WebSockets that the kubelet speaks itself (ExtendWebSocketsToKubelet).
"""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Self

import msgspec

from vcsync.controlplane import errors
from vcsync.controlplane.kubelets.client import Kubelets, Opened
from vcsync.controlplane.kubelets.location import NodePlace, PodPlace, Question, logs, streamed
from vcsync.controlplane.kubelets.log_options import log_options
from vcsync.controlplane.rest.reading import Reader
from vcsync.controlplane.rest.reply import BytesIn, BytesOut, Reply, Stream, Tunnel
from vcsync.controlplane.rest.space import Spaces
from vcsync.controlplane.rest.verbs import Request

PLAIN = "text/plain"
PIECE = 64 * 1024
BEARER = "base64url.bearer.authorization.k8s.io."
"""How browsers put their token into the list of WebSocket protocols; no kubelet is to see it."""
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
"""Headers that a kubelet is sent: of the upgrade, no credentials."""
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


class Streaming:
    """Answers requests for what kubelets have."""

    def __init__(self, kubelets: Kubelets, reader: Reader, spaces: Spaces) -> None:
        """Take who calls kubelets, and who finds Pods and Nodes."""
        self._kubelets = kubelets
        self._reader = reader
        self._spaces = spaces

    def serves(self, tenant: str) -> bool:
        """Whether kubelets of a space may be called at all."""
        return self._kubelets.serves(tenant)

    async def answer(self, request: Request) -> Reply | Stream:
        """Answer a request for a Pod's log, or to exec, attach or forward ports.

        Raises:
            StatusError: whatever stands in the way.
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
        return Stream(PLAIN, _Log(stack, opened))

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
            asked = self._kubelets.opened(scope.tenant, node, question, (method, "1.1", _lines(request)))
            opened = await stack.enter_async_context(asked)
            if opened.status != 101:
                body = (await opened.text()).encode()
                return await _closed(
                    stack, Reply(opened.status, [body], opened.header("content-type") or PLAIN)
                )
        except BaseException:
            await stack.aclose()
            raise
        return _tunnel(stack, opened)

    async def _pod(self, request: Request) -> PodPlace:
        found = await self._reader.get(request.scope)
        return msgspec.json.decode(found.value, type=PodPlace)

    async def _node(self, request: Request, question: Question) -> NodePlace:
        kind = self._spaces.kind(request.scope.tenant, "", "v1", "nodes")
        if kind is None:
            raise errors.page_not_found()
        scope = replace(request.scope, kind=kind, namespace="", name=question.node, subresource="")
        return msgspec.json.decode((await self._reader.get(scope)).value, type=NodePlace)


def _lines(request: Request) -> Sequence[str]:
    """Return the header lines that a kubelet is sent: those of the upgrade, no credentials."""
    sent = request.headers.all
    lines = [f"{name}: {value}" for name, value in sent.items() if name.lower() in FORWARDED]
    offered = [value for name, value in sent.items() if name.lower() == "sec-websocket-protocol"]
    protocols = [each.strip() for value in offered for each in value.split(",")]
    kept = ", ".join(each for each in protocols if each and not each.startswith(BEARER))
    if kept:
        lines.append(f"Sec-WebSocket-Protocol: {kept}")
    return lines if request.info.verb == "get" else [*lines, "Content-Length: 0"]


async def _check(opened: Opened, name: str) -> None:
    """Refuse what a kubelet refuses (apiserver's `pkg/registry/generic/rest/response_checker.go`).

    Raises:
        StatusError: it does.
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
    await stack.aclose()
    return reply


class _Log:
    """What a kubelet sends, until it or the client ends."""

    def __init__(self, stack: AsyncExitStack, opened: Opened) -> None:
        self._stack = stack
        self._opened = opened

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        piece = await self._opened.reader.read(PIECE)
        if not piece:
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        """End the connection to the kubelet."""
        await self._stack.aclose()


class _Nothing:
    """What a tunnel sends to those who cannot take a connection over."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """End the connection to the kubelet."""
        await self._stack.aclose()


def _tunnel(stack: AsyncExitStack, opened: Opened) -> Tunnel:
    lines = [f"{name}: {value}" for name, value in opened.headers if name.lower() in RETURNED]
    head = "\r\n".join(["HTTP/1.1 101 Switching Protocols", *lines, "", ""]).encode("latin-1")

    async def carry(source: BytesIn, sink: BytesOut) -> None:
        async with stack:
            ways = {
                asyncio.create_task(_down(opened, sink)),
                asyncio.create_task(_up(source, opened)),
            }
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)

    return Tunnel("", _Nothing(stack), head=head, carry=carry)


async def _down(opened: Opened, sink: BytesOut) -> None:
    while piece := await opened.reader.read(PIECE):
        await sink.write(piece)


async def _up(source: BytesIn, opened: Opened) -> None:
    while piece := await source.read():
        opened.writer.write(piece)
        await opened.writer.drain()
