"""A stand-in for an API server in the loop of the test: ConfigMaps in memory, lists, watches, and faults on request."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def status(code: int, reason: str = "", message: str = "no", **details: Any) -> dict[str, Any]:
    """Return a Status object."""
    whole = {"kind": "Status", "apiVersion": "v1", "code": code, "reason": reason, "message": message}
    return {**whole, "details": details} if details else whole


def refuse(
    code: int, reason: str = "", message: str = "no", *, headers: dict[str, str] | None = None, **details: Any
) -> Handler:
    """Return a handler that responds with a Status."""

    async def handle(_: web.Request) -> web.StreamResponse:
        return web.json_response(status(code, reason, message, **details), status=code, headers=headers)

    return handle


async def hang_up(request: web.Request) -> web.StreamResponse:
    """Handle a request by closing the connection without a response."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def kubeconfig(url: str, **user: object) -> bytes:
    """Return a kubeconfig for one server and user."""
    return json.dumps(
        {
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    ).encode()


class StandIn:
    """The server. Handlers of `once` and `always` override its own behaviour."""

    def __init__(self) -> None:
        self.url = ""
        self.version = 100
        self.streaming_lists = True
        self.ignores_streaming = False
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.history: list[tuple[int, str, dict[str, Any]]] = []
        self.oldest = 0  # watches from before this version get 410
        self.requests: list[web.Request] = []
        self.peers: list[object] = []
        self.seen: Counter[str] = Counter()
        self._once: list[tuple[str, Handler]] = []
        self._always: list[tuple[str, Handler]] = []
        self._streams: set[asyncio.Queue[bytes | None]] = set()
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        self.end_watches()
        if self._runner is not None:
            await self._runner.cleanup()

    def once(self, kind: str, handler: Handler, times: int = 1) -> None:
        """Set the handler of the next request of a kind: a method in capitals, `LIST`, `PAGE`, `WATCH` or `STREAM`."""
        self._once += [(kind, handler)] * times

    def always(self, kind: str, handler: Handler) -> None:
        self._always.append((kind, handler))

    # The tenant's hand

    def put(
        self, namespace: str, name: str, labels: dict[str, str] | None = None, **data: str
    ) -> dict[str, Any]:
        """Create or change an object."""
        self.version += 1
        before = self.objects.get((namespace, name))
        uid = before["metadata"]["uid"] if before else f"uid-{self.version}"
        item = {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": uid,
                "resourceVersion": str(self.version),
                "labels": labels or {},
            },
            "data": data,
        }
        self.objects[namespace, name] = item
        self._publish("MODIFIED" if before else "ADDED", item)
        return item

    def remove(self, namespace: str, name: str) -> None:
        self.version += 1
        item = self.objects.pop((namespace, name))
        item = {**item, "metadata": {**item["metadata"], "resourceVersion": str(self.version)}}
        self._publish("DELETED", item)

    def compact(self) -> None:
        """Drop the history, so that watches from old versions and continue tokens get 410."""
        self.version += 1
        self.oldest = self.version
        self.history.clear()

    def end_watches(self, last: bytes | None = None) -> None:
        """End all streams. With `last`, send these bytes first, and omit the end of the chunked body."""
        for stream in self._streams:
            if last is not None:
                stream.put_nowait(last)
                stream.put_nowait(b"CUT")
            stream.put_nowait(None)

    def bookmark(self) -> None:
        for stream in self._streams:
            stream.put_nowait(_event("BOOKMARK", {"metadata": {"resourceVersion": str(self.version)}}))

    def raw(self, line: bytes) -> None:
        for stream in self._streams:
            stream.put_nowait(line)

    @property
    def watches(self) -> int:
        """Number of open streams."""
        return len(self._streams)

    def _publish(self, type_: str, item: dict[str, Any]) -> None:
        self.history.append((self.version, type_, item))
        self.raw(_event(type_, item))

    # Requests

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        self.peers.append(request.transport and request.transport.get_extra_info("peername"))
        kinds = _kinds(request)
        self.seen[kinds[0]] += 1
        for position, (kind, handler) in enumerate(self._once):
            if kind in kinds:
                del self._once[position]
                return await handler(request)
        for kind, handler in self._always:
            if kind in kinds:
                return await handler(request)
        if "WATCH" in kinds or "STREAM" in kinds:
            return await self._watch(request)
        return self._list(request)

    def _selected(self, request: web.Request) -> list[dict[str, Any]]:
        parts = request.path.split("/")
        namespace = parts[parts.index("namespaces") + 1] if "namespaces" in parts else ""
        items = [item for (ns, _), item in sorted(self.objects.items()) if namespace in ("", ns)]
        if selector := request.query.get("labelSelector"):
            key, _, value = selector.partition("=")
            items = [item for item in items if item["metadata"]["labels"].get(key) == value]
        return items

    def _list(self, request: web.Request) -> web.StreamResponse:
        items = self._selected(request)
        limit = int(request.query.get("limit", 0)) or len(items) or 1
        start = 0
        version = self.version
        if token := request.query.get("continue"):
            version, start = (int(part) for part in token.split("-"))
            if version < self.oldest:
                return web.json_response(status(410, "Expired"), status=410)
        metadata: dict[str, Any] = {"resourceVersion": str(version)}
        if start + limit < len(items):
            metadata["continue"] = f"{version}-{start + limit}"
            metadata["remainingItemCount"] = len(items) - start - limit
        return web.json_response({"metadata": metadata, "items": items[start : start + limit]})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        initial = "sendInitialEvents" in request.query
        if initial and not self.streaming_lists:
            return web.json_response(status(422, "Invalid", "sendInitialEvents is forbidden"), status=422)
        since = int(request.query.get("resourceVersion") or 0)
        response = web.StreamResponse()
        await response.prepare(request)
        stream: asyncio.Queue[bytes | None] = asyncio.Queue()
        if initial:
            for item in self._selected(request):
                stream.put_nowait(_event("ADDED", item))
            end: dict[str, Any] = {"metadata": {"resourceVersion": str(self.version)}}
            if not self.ignores_streaming:
                end["metadata"]["annotations"] = {"k8s.io/initial-events-end": "true"}
            stream.put_nowait(_event("BOOKMARK", end))
        elif since < self.oldest:
            stream.put_nowait(_event("ERROR", status(410, "Expired", "too old resource version")))
            stream.put_nowait(None)
        else:
            for version, type_, item in self.history:
                if version > since:
                    stream.put_nowait(_event(type_, item))
        self._streams.add(stream)
        try:
            while (line := await stream.get()) is not None:
                if line == b"CUT":
                    assert request.transport is not None
                    request.transport.abort()
                    return response
                await response.write(line)
        finally:
            self._streams.discard(stream)
        return response


def _event(type_: str, item: dict[str, Any]) -> bytes:
    return json.dumps({"type": type_, "object": item}).encode() + b"\n"


def _kinds(request: web.Request) -> tuple[str, ...]:
    query = request.query
    if "watch" in query:
        return ("STREAM",) if "sendInitialEvents" in query else ("WATCH",)
    if request.method == "GET" and request.path.endswith("/configmaps"):
        return ("PAGE", "LIST", "GET") if "continue" in query else ("LIST", "GET")
    return (request.method,)
