"""A client of running control planes: requests and watches with a kubeconfig."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from hack.embedded import ControlPlane
from hack.parity import sides
from vcsync.kube.connector import Connector

MERGE = "application/merge-patch+json"


class Caller:
    """A client with the credentials of a kubeconfig; its paths are relative to the server, not to the tenant."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self.url = url

    async def __call__(
        self, verb: str, path: str, body: Any = None, content: str = "application/json"
    ) -> tuple[int, Any]:
        data = None if body is None else msgspec.json.encode(body)
        headers = {"Content-Type": content} if data else {}
        async with self._session.request(verb, self.url + path, data=data, headers=headers) as answer:
            return answer.status, msgspec.json.decode(await answer.read())

    @asynccontextmanager
    async def watch(self, path: str) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
        async with self._session.get(self.url + path) as answer:
            assert answer.status == 200, await answer.read()

            async def events() -> AsyncIterator[dict[str, Any]]:
                async for line in answer.content:
                    yield msgspec.json.decode(line)

            yield events()


@asynccontextmanager
async def calling(plane: ControlPlane, kubeconfig: Path) -> AsyncIterator[Caller]:
    context = sides.side("", kubeconfig).users["admin"].context
    connector = Connector(ssl=context)
    async with aiohttp.ClientSession(connector=connector, read_bufsize=2**20) as session:
        yield Caller(session, plane.url)
    # The loop reports closed connections to their transports in its next iteration.
    await asyncio.sleep(0)


async def first(events: AsyncIterator[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    async with asyncio.timeout(60):
        return [await anext(events) for _ in range(count)]
