"""A control plane on a store in a file, with everybody allowed, asked without HTTP."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from vcsync.controlplane.behaviour import User
from vcsync.controlplane.identity.caller import ALL, Caller
from vcsync.controlplane.rest.assemble import ControlPlane, assemble
from vcsync.controlplane.rest.reply import Reply, Stream
from vcsync.controlplane.rest.way import Incoming
from vcsync.controlplane.store.sqlite import open_sqlite

JSON = {"Content-Type": "application/json", "Accept": "application/json"}


class Everybody:
    """Lets everybody do everything; the tenants are a and b."""

    async def authenticate(self, certificate, authorization, tenant):
        return Caller(User("tester", groups=("system:masters",)), "a", True)

    def exists(self, tenant):
        return tenant in ("a", "b")

    def tenants(self):
        return ["a", "b"]

    async def impersonate(self, caller, headers, tenant, info):
        return caller

    async def authorize(self, caller, info, audit):
        return None

    async def create(self, caller, tenant, plural, namespace, body):
        return {**body, "status": {"allowed": True}}

    async def token_request(self, tenant, namespace, name, body):
        return {**body, "status": {"token": f"{tenant}/{namespace}/{name}"}}

    async def openid(self, tenant, *, keys):
        return {"keys": []} if keys else {"issuer": tenant}

    async def administer(self, caller, method, path, query, body):
        raise NotImplementedError


@dataclass
class Told:
    """An answer."""

    status: int
    body: Any
    headers: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    raw: bytes = b""

    def __getitem__(self, path: str) -> Any:
        found = self.body
        for key in path.split("."):
            found = found[int(key)] if isinstance(found, list) else found.get(key)
        return found


class Api:
    """Asks one control plane."""

    def __init__(self, control_plane: ControlPlane) -> None:
        self.control_plane = control_plane
        self.way = control_plane.server._way

    async def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Told:
        answer, warnings = await self._go(method, path, body, headers)
        assert isinstance(answer, Reply), answer
        raw = b"".join(answer.body)
        json = answer.content_type == "application/json"
        return Told(
            answer.status, msgspec.json.decode(raw) if json else raw, dict(answer.headers), warnings, raw
        )

    async def _go(self, method, path, body, headers):
        sent = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)

        async def read() -> bytes:
            return sent

        told = {**JSON, **{key.replace("_", "-").title(): value for key, value in headers.items()}}
        raw, _, query = path.partition("?")
        outgoing = await self.way.go(Incoming(method, raw, query, told, None, read))
        return outgoing.answer, outgoing.warnings

    async def watch(self, path: str, count: int, **headers: str) -> list[dict[str, Any]]:
        """Return the next so many events."""
        stream = await self.stream(path, **headers)
        try:
            return [event async for event in take(stream, count)]
        finally:
            await stream.aclose()

    async def stream(self, path: str, **headers: str) -> AsyncIterator[dict[str, Any]]:
        """Open a watch."""
        answer, _ = await self._go("GET", path, None, headers)
        assert isinstance(answer, Stream), answer

        async def events() -> AsyncIterator[dict[str, Any]]:
            try:
                async for piece in answer.pieces:
                    for line in piece.splitlines():
                        yield msgspec.json.decode(line)
            finally:
                await answer.pieces.aclose()

        return events()


async def take(stream: AsyncIterator[Any], count: int) -> AsyncIterator[Any]:
    """Give so many, within bounds."""
    async with asyncio.timeout(20):
        for _ in range(count):
            yield await anext(stream)


@pytest.fixture
async def store(tmp_path):
    opened = await open_sqlite(tmp_path / "store.db", sweep_seconds=None)
    yield opened
    await opened.close()


@pytest.fixture
def everybody():
    """Lets tests make such an identity of their own."""
    return Everybody


@pytest.fixture
async def plane(store):
    made = assemble(store, Everybody())
    await made.start("127.0.0.1", 0, None)
    yield made
    await made.stop()


@pytest.fixture
async def api(plane) -> Api:
    found = Api(plane)
    for path in ("", "/tenants/b"):
        for name in ("default", "other"):
            made = await found("POST", f"{path}/api/v1/namespaces", {"metadata": {"name": name}})
            assert made.status == 201, made.body
    return found


@pytest.fixture
def config_map() -> Callable[..., dict[str, Any]]:
    numbers = itertools.count(1)

    def made(name: str = "", **labels: str) -> dict[str, Any]:
        name = name or f"cm-{next(numbers)}"
        return {"metadata": {"name": name, "labels": labels}, "data": {"k": "v"}}

    return made


__all__ = ["ALL", "Api", "Told"]
