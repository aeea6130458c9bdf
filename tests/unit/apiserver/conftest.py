"""A control plane on a store in a file, with everybody allowed, asked without HTTP."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest
from asked_plane import Everybody, Response, ask, go

from vcsync.apiserver.assembly.server import ControlPlane, assemble
from vcsync.apiserver.request.caller import ALL
from vcsync.apiserver.request.reply import Stream
from vcsync.apiserver.storage.sqlite import open_sqlite


class Api:
    """Asks one control plane."""

    def __init__(self, control_plane: ControlPlane) -> None:
        self.control_plane = control_plane
        self.chain = control_plane.server.chain

    async def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Response:
        return await ask(self.chain, method, path, body, **headers)

    async def _go(self, method, path, body, headers):
        outgoing = await go(self.chain, method, path, body, **headers)
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


__all__ = ["ALL", "Api", "Response"]
