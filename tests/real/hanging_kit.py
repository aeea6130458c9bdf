"""API servers in memory behind real connections; some of them hang or answer slowly."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from vcsync.objects.merge_patch import merge_patch

Json = dict[str, Any]


async def at_once() -> None:
    """Wait for nothing."""


async def for_ever() -> None:
    """Wait forever."""
    await asyncio.Event().wait()


class Api:
    """An API server in memory: lists, watches and writes.

    `before(verb)` is awaited before each answer to a `get`, a `list` (or watch) or a `write`. `created(plural, body)` is
    called after each creation. `unanswered` is the number of requests without an answer yet.
    """

    def __init__(self, before: Callable[[str], Awaitable[None]] = lambda _verb: at_once()) -> None:
        self.before = before
        self.created: Callable[[str, Json], None] = lambda _plural, _body: None
        self.unanswered = 0
        self.objects: dict[tuple[str, str, str], Json] = {}
        self._version = 0
        self._streams: list[tuple[str, asyncio.Queue[Json]]] = []

    def put(self, plural: str, body: Json, namespace: str = "") -> Json:
        """Store an object and send it to the watches."""
        name = body["metadata"]["name"]
        kind = "MODIFIED" if (plural, namespace, name) in self.objects else "ADDED"
        self._version += 1
        metadata = {"uid": f"uid-{plural}-{namespace}-{name}", "namespace": namespace} | body["metadata"]
        whole = body | {"metadata": metadata | {"resourceVersion": str(self._version)}}
        self.objects[plural, namespace, name] = whole
        for watched, stream in self._streams:
            if watched == plural:
                stream.put_nowait({"type": kind, "object": whole})
        return whole

    async def answer(self, request: web.Request, path: str) -> web.StreamResponse:
        """Answer one request, unless `before` hangs."""
        parts = path.strip("/").split("/")
        if parts == ["version"]:
            await self._wait("get")
            return web.json_response({"gitVersion": "v1.36.3"})
        rest = parts[2:] if parts[0] == "api" else parts[3:]
        namespace = rest[1] if rest[0] == "namespaces" and len(rest) > 2 and rest[2] != "status" else ""
        plural, *named = rest[2:] if namespace else rest
        await self._wait("write" if request.method != "GET" else "get" if named else "list")
        if request.method == "GET" and not named:
            return await self._collection(request, plural)
        if request.method == "POST":
            return self._posted(plural, namespace, named, await request.json())
        found = self.objects.get((plural, namespace, named[0]))
        if found is None:
            return web.json_response({"kind": "Status", "code": 404, "reason": "NotFound"}, status=404)
        if request.method == "PATCH":
            change = json.loads(await request.text())
            change.get("metadata", {}).pop("resourceVersion", None)
            found = self.put(plural, merge_patch(found, change), namespace)
        return web.json_response(found)

    async def _wait(self, verb: str) -> None:
        self.unanswered += 1
        await self.before(verb)
        self.unanswered -= 1

    def _posted(self, plural: str, namespace: str, named: list[str], body: Json) -> web.Response:
        if named and named[1:] == ["binding"]:
            pod = self.objects[plural, namespace, named[0]]
            self.put(plural, merge_patch(pod, {"spec": {"nodeName": body["target"]["name"]}}), namespace)
            return web.json_response({"kind": "Status", "status": "Success"}, status=201)
        if (plural, namespace, body["metadata"]["name"]) in self.objects:
            return web.json_response({"kind": "Status", "code": 409, "reason": "AlreadyExists"}, status=409)
        made = self.put(plural, body, namespace)
        self.created(plural, made)
        return web.json_response(made, status=201)

    async def _collection(self, request: web.Request, plural: str) -> web.StreamResponse:
        if "sendInitialEvents" in request.query:
            status = {
                "kind": "Status",
                "code": 422,
                "reason": "Invalid",
                "message": "sendInitialEvents is forbidden",
            }
            return web.json_response(status, status=422)
        if "watch" not in request.query:
            items = [body for (kind, _, _), body in self.objects.items() if kind == plural]
            metadata = {"resourceVersion": str(self._version)}
            return web.json_response({"metadata": metadata, "items": items})
        stream: asyncio.Queue[Json] = asyncio.Queue()
        since = int(request.query["resourceVersion"])
        for (kind, _, _), body in self.objects.items():
            if kind == plural and int(body["metadata"]["resourceVersion"]) > since:
                stream.put_nowait({"type": "ADDED", "object": body})
        self._streams.append((plural, stream))
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(json.dumps(await stream.get()).encode() + b"\n")


class Turns:
    """Lets slow servers answer after a number of answers of fast ones (`every`), independent of the clock."""

    def __init__(self, every: int) -> None:
        self._every = every
        self._answered = 0
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    async def fast(self, _verb: str) -> None:
        """Answer immediately, and count the answer for slow servers."""
        self._answered += 1
        while self._waiting and self._waiting[0][0] <= self._answered:
            _, slow = self._waiting.pop(0)
            if not slow.done():
                slow.set_result(None)

    async def slow(self, _verb: str) -> None:
        """Wait until fast servers have answered `every` more requests."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((self._answered + self._every, turn))
        await turn


def kubeconfig(url: str) -> bytes:
    """Return a kubeconfig for a server without authentication."""
    return json.dumps(
        {
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    ).encode()


class Deaf(asyncio.Protocol):
    """A server that accepts connections and never answers."""

    def __init__(self, accepted: Callable[[], None]) -> None:
        self._accepted = accepted

    def connection_made(self, _transport: asyncio.BaseTransport) -> None:
        """Count it."""
        self._accepted()


@asynccontextmanager
async def served(
    handle: Callable[[web.Request], Awaitable[web.StreamResponse]], accepted: Callable[[], None]
) -> AsyncIterator[tuple[str, str]]:
    """Run an HTTP server and a server that never answers.

    Args:
        handle: answers a request.
        accepted: called for each connection to the server that never answers.

    Yields:
        the URLs of both.
    """
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
    deaf = await asyncio.get_running_loop().create_server(
        lambda: Deaf(accepted), "127.0.0.1", 0, backlog=1024
    )
    try:
        yield (
            f"http://127.0.0.1:{runner.addresses[0][1]}",
            f"http://127.0.0.1:{deaf.sockets[0].getsockname()[1]}",
        )
    finally:
        deaf.close()
        await runner.cleanup()
