"""What a peer may send on a connection before anybody knows who it is."""

import asyncio
import gc
import logging
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from aiohttp import web

from vcsync.process import http_connection
from vcsync.process.http_connection import BoundedServer
from vcsync.process.shared_bytes import SharedBytes

QUIET = logging.Logger("quiet")
HEAD = b"GET / HTTP/1.1\r\nHost: x\r\n"
FIELD = b"X: " + b"a" * 997 + b"\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
TOO_LARGE = b"HTTP/1.1 431 "
UPGRADE = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "LINGER_SECONDS", 0.1)


@asynccontextmanager
async def serving(answer=None, **settings) -> AsyncIterator[int]:
    async def echo(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text=f"{len(await request.read())} bytes")

    settings = {"max_line_size": 144 * 1024, "max_field_size": 16 * 1024, "auto_decompress": False} | settings
    runner = web.ServerRunner(
        BoundedServer(answer or echo, access_log=None, logger=QUIET, **settings), shutdown_timeout=0.1
    )
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        async with asyncio.timeout(60):
            yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def sent(port: int, *pieces: bytes) -> bytes:
    """Send pieces, each by itself, and return all that comes back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with suppress(ConnectionError):
        for each in pieces:
            writer.write(each)
            await writer.drain()
            await asyncio.sleep(0)
    got = b""
    with suppress(ConnectionError):
        while piece := await reader.read(65536):
            got += piece
    writer.close()
    return got


LAST = b"Connection: close\r\n\r\n"


async def test_headers_have_a_limit_in_sum() -> None:
    async with serving() as port:
        assert (await sent(port, HEAD + FIELD * 60 + LAST)).startswith(b"HTTP/1.1 200 ")
        assert (await sent(port, HEAD + FIELD * 110)).startswith(TOO_LARGE)
        assert (await sent(port, HEAD, *[FIELD] * 110)).startswith(TOO_LARGE)


async def test_a_long_first_line_does_not_count() -> None:
    line = b"GET /?" + b"a" * 143_000 + HEAD.removeprefix(b"GET /")
    async with serving() as port:
        assert (await sent(port, line + FIELD * 60 + LAST)).startswith(b"HTTP/1.1 200 ")
        assert (await sent(port, line + FIELD * 110)).startswith(TOO_LARGE)


async def test_headers_have_a_limit_in_number() -> None:
    async with serving() as port:
        assert (await sent(port, HEAD + b"X: a\r\n" * 100 + LAST)).startswith(b"HTTP/1.1 200 ")
        assert (await sent(port, HEAD + b"X: a\r\n" * 130)).startswith(TOO_LARGE)


async def test_empty_lines_before_a_request_count() -> None:
    async with serving() as port:
        assert (await sent(port, b"\r\n" * 60_000)).startswith(TOO_LARGE)


async def test_each_request_of_a_connection_is_counted_anew() -> None:
    request = HEAD + FIELD * 40 + b"\r\n"
    async with serving() as port:
        answers = await sent(port, *[request] * 8, HEAD + LAST)
        assert answers.count(b"HTTP/1.1 200 ") == 9
        body = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n" + b"a\n" * 150_000
        answers = await sent(port, body + body + request, HEAD + LAST)
        assert answers.count(b"HTTP/1.1 200 ") == 4


async def test_the_limit_holds_after_other_requests_and_bodies() -> None:
    body = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n" + b"a\n" * 150_000
    async with serving() as port:
        assert TOO_LARGE in await sent(port, HEAD + b"\r\n", HEAD + FIELD * 120)
        assert TOO_LARGE in await sent(port, body, HEAD + FIELD * 120)


async def test_trailers_and_extensions_have_a_limit() -> None:
    async with serving() as port:
        few = CHUNKED + b"2;a=b\r\n{}\r\n0\r\n" + FIELD * 10 + b"\r\n"
        assert b"2 bytes" in await sent(port, few)
        for many in (b"0\r\n" + FIELD * 110, b"2;" + b"a" * 200_000):
            assert await sent(port, CHUNKED + many) == b""


@pytest.mark.parametrize("size", [1, 3, 1000, 100_000])
async def test_bodies_of_many_chunks_are_read(size: int) -> None:
    chunk = b"%016x\r\n%b\r\n" % (size, b"a" * size)
    count = 300_000 // size // (20 if size == 1 else 1)
    async with serving() as port:
        got = await sent(port, CHUNKED + chunk * count + b"0\r\n\r\n")
        assert b"%d bytes" % (count * size) in got


async def test_a_body_that_nobody_reads_is_not_taken_for_framing() -> None:
    async def late(request: web.BaseRequest) -> web.StreamResponse:
        for _ in range(50):
            await asyncio.sleep(0)
        return web.Response(text=f"{len(await request.read())} bytes")

    async with serving(late, read_bufsize=1024) as port:
        got = await sent(port, CHUNKED, *[b"10000\r\n" + b"a" * 65536 + b"\r\n"] * 10, b"0\r\n\r\n")
        assert b"655360 bytes" in got


async def test_few_requests_are_read_while_one_is_answered() -> None:
    free, seen = asyncio.Event(), []

    async def held(request: web.BaseRequest) -> web.StreamResponse:
        seen.append(request.protocol)
        await free.wait()
        return web.Response()

    async with serving(held) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write((HEAD + FIELD * 50 + b"\r\n") * 30)
        while not seen:
            await asyncio.sleep(0.01)
        for _ in range(10):
            await asyncio.sleep(0.01)
        assert len(seen[0]._messages) <= http_connection.QUEUED_REQUESTS + 1
        free.set()
        for _ in range(30):
            assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
        writer.close()


async def test_the_head_of_a_request_has_to_end_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "HEAD_SECONDS", 0.05)
    async with serving() as port:
        assert await sent(port, HEAD) == b""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(3):  # A request ends the time, and an idle connection has none.
            writer.write(HEAD)
            await writer.drain()
            writer.write(b"\r\n")
            assert b" 200 " in await reader.readuntil(b"\r\n\r\n0 bytes")
            await asyncio.sleep(0.08)
        writer.close()


async def test_unfinished_heads_of_one_address_have_a_limit_in_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = SharedBytes(400_000)
    monkeypatch.setattr(http_connection, "HEADS", shared)
    async with serving() as port:
        made = []
        for _ in range(12):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            made.append((reader, writer))
            writer.write(HEAD + FIELD * 50)
        ended = 0
        for reader, _ in made:
            with suppress(TimeoutError):
                try:
                    async with asyncio.timeout(0.5):
                        ended += await reader.read() == b""
                except ConnectionError:
                    ended += 1
        assert 7 <= ended <= 10
        # Usual requests are answered meanwhile.
        assert (await sent(port, HEAD, FIELD * 5, LAST)).startswith(b"HTTP/1.1 200 ")
        for _, writer in made:
            writer.close()
        while shared._free < 400_000:
            await asyncio.sleep(0.01)
        assert not shared._used


async def test_nothing_is_parsed_after_an_upgrade_that_was_declined() -> None:
    async with serving() as port:
        got = await sent(port, UPGRADE + HEAD + b"\r\n" + CHUNKED + b"0\r\nY: z\r\n\r\n" + HEAD + LAST)
        assert got.count(b"HTTP/1.1 ") == 1
        assert b"Connection: close" in got


class Upgraded:
    """A protocol that aiohttp does not know: it counts what it receives, and answers at the end."""

    def __init__(self, request: web.BaseRequest, size: int) -> None:
        assert request.transport is not None
        self.transport, self.left = request.transport, size

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self.left -= len(data)
        if self.left <= 0:
            self.transport.write(b"all received")
        return False, b""

    def feed_eof(self) -> None:
        self.transport.close()


async def test_what_follows_an_upgrade_is_not_taken_for_a_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """aiohttp sees upgrades to WebSocket alone. Streams of kubectl may be SPDY."""
    monkeypatch.setattr(http_connection, "HEAD_SECONDS", 0.05)

    async def upgrade(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(status=101, headers={"Connection": "Upgrade", "Upgrade": "SPDY/3.1"})
        await response.prepare(request)
        request.protocol.set_parser(Upgraded(request, 100 * 1024 + 5))  # type: ignore[arg-type]
        await asyncio.sleep(10)
        return response

    async with serving(upgrade) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(UPGRADE.replace(b"websocket", b"SPDY/3.1"))
        assert await reader.readuntil(b"\r\n\r\n")
        writer.write(b"first")
        await asyncio.sleep(0.2)  # Longer than a head may take.
        writer.write(b"a" * 100 * 1024)
        assert await reader.readexactly(12) == b"all received"
        writer.close()


async def test_the_memory_of_a_connection_does_not_grow_with_what_it_sends() -> None:
    """Each header of 16,000 bytes would be kept twice."""

    async def kept(fields: int) -> float:
        async with serving() as port:
            gc.collect()
            tracemalloc.start()
            made = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
            for _, writer in made:
                writer.write(HEAD + (b"X: " + b"a" * 15_900 + b"\r\n") * fields)
                with suppress(ConnectionError):
                    await writer.drain()
            for _ in range(20):
                await asyncio.sleep(0.01)
            size = tracemalloc.get_traced_memory()[0]
            tracemalloc.stop()
            for _, writer in made:
                writer.transport.abort()
        return size / 5

    assert await kept(100) < await kept(3) + 100_000
    assert await kept(3) < 300_000


def test_one_address_leaves_as_many_bytes_as_it_has() -> None:
    shared = SharedBytes(100)
    assert shared.take("a", 50)
    assert not shared.take("a", 1)
    assert shared.take("b", 25)
    shared.give_back("a", 50)
    assert shared.take("b", 10)
    shared.give_back("b", 35)
    assert not shared._used
