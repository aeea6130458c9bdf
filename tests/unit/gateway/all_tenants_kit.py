"""An external API server with ConfigMaps in memory: lists with pages and snapshots, watches, and errors on demand."""

import asyncio
import copy
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
from door_kit import ApiServer, Door, Received

Object = dict[str, Any]
PATH = "/api/v1/namespaces/shop/configmaps"


@dataclass
class Maps:
    """The ConfigMaps of one external control plane.

    Attributes:
        asked: Path and query of every request.
        headers: Headers of the last one.
        refuse: Returns the status with which a request is refused, or None.
        raw: Answers every request with these bytes, if there are any.
        oldest: Changes up to this version are forgotten.
        more: Returns the continue token of a page that has none otherwise. Such a token begins again.
    """

    version: int = 100
    objects: dict[str, Object] = field(default_factory=dict)
    history: list[tuple[int, str, Object]] = field(default_factory=list)
    snapshots: dict[int, list[Object]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    refuse: Callable[[str], int | None] = lambda _: None
    raw: bytes = b""
    oldest: int = 0
    more: Callable[[], str] | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    writers: set[asyncio.StreamWriter] = field(default_factory=set)

    def put(self, name: str, **metadata: Any) -> None:
        self.version += 1
        old = self.objects.get(name)
        uid = old["metadata"]["uid"] if old else f"uid-{name}-{self.version}"
        found = {
            "namespace": "shop",
            "name": name,
            "uid": uid,
            "resourceVersion": str(self.version),
            **metadata,
        }
        self.objects[name] = {"metadata": found, "data": {}}
        self._told("MODIFIED" if old else "ADDED", self.objects[name])

    def delete(self, name: str) -> None:
        self.version += 1
        gone = copy.deepcopy(self.objects.pop(name))
        gone["metadata"]["resourceVersion"] = str(self.version)
        self._told("DELETED", gone)

    def forget(self) -> None:
        """Forget all changes, as a compaction does, and end the watches."""
        self.oldest = self.version
        self.snapshots.clear()
        self.cut()

    def cut(self) -> None:
        for writer in list(self.writers):
            writer.transport.abort()

    def _told(self, kind: str, obj: Object) -> None:
        self.history.append((self.version, kind, copy.deepcopy(obj)))
        self.changed.set()
        self.changed = asyncio.Event()

    async def answer(self, request: Received, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = request.line.split()[1]
        self.asked.append(target)
        self.headers = dict(request.headers)
        query = {key: values[0] for key, values in parse_qs(urlsplit(target).query).items()}
        if self.raw:
            writer.write(self.raw)
        elif (status := self.refuse(target)) is not None:
            _reply(writer, status, {"kind": "Status", "code": status})
        elif "watch" in query:
            await self._watch(int(query["resourceVersion"]), writer)
        else:
            self._list(query, writer)
        await writer.drain()

    def _list(self, query: dict[str, str], writer: asyncio.StreamWriter) -> None:
        self.snapshots[self.version] = [copy.deepcopy(self.objects[name]) for name in sorted(self.objects)]
        version, start = int(query.get("resourceVersion", self.version)), 0
        if "continue" in query and self.more is None:
            version, start = map(int, query["continue"].split("-"))
        if version not in self.snapshots:
            _reply(writer, 410, {"kind": "Status", "code": 410})
            return
        found, limit = self.snapshots[version][start:], int(query["limit"])
        metadata = {"resourceVersion": str(version)}
        if len(found) > limit:
            metadata["continue"] = f"{version}-{start + limit}"
        elif self.more is not None:
            metadata["continue"] = self.more()
        body = {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": metadata, "items": found[:limit]}
        _reply(writer, 200, body)

    async def _watch(self, version: int, writer: asyncio.StreamWriter) -> None:
        if version < self.oldest:
            _reply(writer, 410, {"kind": "Status", "code": 410})
            return
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
        self.writers.add(writer)
        try:
            while not writer.transport.is_closing():
                changed = self.changed
                for at, kind, obj in self.history:
                    if at > version:
                        whole = {"kind": "ConfigMap", "apiVersion": "v1", **obj}
                        writer.write(msgspec.json.encode({"type": kind, "object": whole}) + b"\n")
                        version = at
                await writer.drain()
                with suppress(TimeoutError):  # to notice that the connection has ended
                    await asyncio.wait_for(changed.wait(), 0.05)
        finally:
            self.writers.discard(writer)


def _reply(writer: asyncio.StreamWriter, status: int, body: Object) -> None:
    data = msgspec.json.encode(body)
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    writer.write(head.encode() + data)


OPENED: list[asyncio.StreamWriter] = []
"""Connections of the watches of a test."""


class Watch:
    """A watch at the door, line by line."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def event(self) -> Object:
        async with asyncio.timeout(20):
            while True:
                line = (await self._reader.readline()).strip()
                if line.startswith(b"{"):
                    found: Object = msgspec.json.decode(line)
                    return found
                if line == b"0":
                    return {"type": "END", "object": {}}

    async def told(self, count: int) -> list[tuple[str, str, str]]:
        """Return type, tenant and name of the next events that are no bookmarks."""
        found = []
        while len(found) < count:
            event = await self.event()
            if event["type"] == "BOOKMARK":
                continue
            if event["type"] in ("ERROR", "END"):
                raise AssertionError(event)
            metadata = event["object"]["metadata"]
            found.append(
                (event["type"], metadata["annotations"]["tenancy.x-k8s.io/tenant"], metadata["name"])
            )
        return found

    async def bookmark(self) -> Object:
        while (event := await self.event())["type"] != "BOOKMARK":
            if event["type"] in ("ERROR", "END"):
                raise AssertionError(event)
        metadata: Object = event["object"]["metadata"]
        return metadata

    async def error(self) -> int:
        while (event := await self.event()).get("type") not in ("ERROR", "END"):
            if "code" in event:  # the watch has been refused
                return int(event["code"])
        return int(event["object"].get("code", 0))


async def watch(door: Door, query: str, tenant: str = "all+external") -> Watch:
    reader, writer = await door.connect()
    OPENED.append(writer)
    line = f"GET /tenants/{tenant}{PATH}?watch=1&{query} HTTP/1.1\r\nHost: door\r\nAuthorization: Bearer operator-token\r\n\r\n"
    writer.write(line.encode())
    return Watch(reader, writer)


async def listed(
    door: Door, query: str = "", tenant: str = "all+external", accept: str = ""
) -> tuple[int, Object, dict[str, str]]:
    headers = [("Accept", accept)] if accept else []
    line = f"GET /tenants/{tenant}{PATH}?{query}"
    status, head, body = await door.request(line, headers, token="operator-token")
    return status, msgspec.json.decode(body), head


def names(answer: Object) -> list[tuple[str, str]]:
    return [
        (each["metadata"]["annotations"]["tenancy.x-k8s.io/tenant"], each["metadata"]["name"])
        for each in answer["items"]
    ]


async def readable(door: Door, tenant: str, server: ApiServer, *resources: str) -> None:
    """Make an external tenant readable, or connect it."""
    upstream = msgspec.structs.replace(server.upstream, readable=resources or ("*",))
    if door.identity.tenants.exists(tenant):
        await door.identity.lifecycle.set_upstream(tenant, upstream)
    else:
        await door.identity.lifecycle.create(tenant, upstream=upstream)
