"""Limits of a server's connections."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from vcsync.streams import connections
from vcsync.streams.budget import ConnectionBudget
from vcsync.streams.connections import Server


async def _answer(request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(text=request.path)


async def test_connections_above_the_share_are_closed_and_counted_until_their_end() -> None:
    budget = ConnectionBudget(4)
    async with _serving(Server("acme", budget, _answer)) as port:
        made = [await _asked(port) for _ in range(2)]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        writer.close()
        made[0][1].close()
        while not budget.take("acme"):
            await asyncio.sleep(0.01)
        made[1][1].close()


async def test_connections_count_on_the_share_of_whoever_opens_them() -> None:
    budget = ConnectionBudget(4, most=1)
    payers = iter(["one", "other"])
    async with _serving(Server(lambda _transport: next(payers), budget, _answer)) as port:
        made = [await _asked(port) for _ in range(2)]
        assert not budget.take("one")
        for _, writer in made:
            writer.close()
        while not budget.take("one"):
            await asyncio.sleep(0.01)


async def test_connections_without_a_request_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.05)
    async with _serving(Server("acme", ConnectionBudget(4), _answer)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: no")
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        writer.close()


async def test_connections_may_be_idle_after_a_request_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server("acme", ConnectionBudget(4), _answer)
    async with _serving(server) as port:
        _, writer = await _asked(port)
        assert not server._silent
        writer.close()
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0.05)
    async with _serving(Server("acme", ConnectionBudget(4), _answer)) as port:
        reader, writer = await _asked(port)
        assert await reader.read() == b""
        writer.close()


@asynccontextmanager
async def _serving(server: Server) -> AsyncIterator[int]:
    """Yield the port of a server."""
    listening = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
    async with asyncio.timeout(10):
        yield listening.sockets[0].getsockname()[1]
    listening.close()


async def _asked(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return a connection on which there was a request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /x HTTP/1.1\r\nHost: node\r\n\r\n")
    assert await reader.readuntil(b"/x")
    return reader, writer
