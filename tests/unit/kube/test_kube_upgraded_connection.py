"""The raw connection after an upgrade: both directions, flow control and its end."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from vcsync.kube import upgraded_connection as takeover
from vcsync.kube.upgraded_connection import MAX_BUFFERED, Connection, HijackedResponse, take_over

UPGRADE = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: bytes\r\n\r\n"
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\n\r\n"


@asynccontextmanager
async def serving(
    work: Callable[[Connection], Awaitable[None]],
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Connect to a server that takes the connection over."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        connection = take_over(request)
        await connection.write(SWITCHED)
        await work(connection)
        return HijackedResponse()

    runner = web.ServerRunner(web.Server(handle))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(UPGRADE)
    assert await reader.readexactly(len(SWITCHED)) == SWITCHED
    try:
        async with asyncio.timeout(30):
            yield reader, writer
    finally:
        writer.close()
        await runner.cleanup()


async def test_bytes_go_both_ways_until_one_side_ends() -> None:
    async def echo(connection: Connection) -> None:
        while piece := await connection.read():
            await connection.write(piece.upper())

    async with serving(echo) as (reader, writer):
        for text in (b"one", b"two"):
            writer.write(text)
            assert await reader.readexactly(len(text)) == text.upper()
        writer.write_eof()
        assert await reader.read() == b"", "nothing else is sent, no head of an answer either"


async def test_a_sender_faster_than_the_reader_waits() -> None:
    begin, whole = asyncio.Event(), asyncio.Event()
    got = bytearray()
    held: list[int] = []

    async def slow(connection: Connection) -> None:
        await begin.wait()
        held.append(connection._buffered)
        while len(got) < 40 * MAX_BUFFERED:
            got.extend(await connection.read())
        whole.set()

    async with serving(slow) as (_, writer):
        sent = bytes(range(256)) * (40 * MAX_BUFFERED // 256)
        writer.write(sent)
        for _ in range(200):
            await asyncio.sleep(0.001)
        begin.set()
        await whole.wait()
    assert bytes(got) == sent
    assert MAX_BUFFERED <= held[0] < 4 * MAX_BUFFERED


class Transport:
    """A transport that records whether reading is paused."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def pause_reading(self) -> None:
        self.said.append("pause")

    def resume_reading(self) -> None:
        self.said.append("resume")


class Request:
    """A request with this transport."""

    def __init__(self, transport: Transport | None) -> None:
        self.protocol, self.transport = object(), transport


async def test_receiving_pauses_at_the_limit_and_resumes_below_half_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(takeover, "MAX_BUFFERED", 8)
    transport = Transport()
    connection = Connection(Request(transport))  # type: ignore[arg-type]
    connection.feed_data(b"1234567")
    assert transport.said == []
    connection.feed_data(b"8")
    connection.feed_data(b"9012")
    assert transport.said == ["pause"]
    assert await connection.read() == b"1234567"
    assert transport.said == ["pause"], "five are held, more than half"
    assert await connection.read() == b"8"
    assert transport.said == ["pause"], "four are held, which is half"
    assert await connection.read() == b"9012"
    assert transport.said == ["pause", "resume"]
    connection.feed_eof()
    assert await connection.read() == b""


async def test_writing_to_a_closed_connection_raises() -> None:
    connection = Connection(Request(None))  # type: ignore[arg-type]
    assert await connection.read() == b""
    with pytest.raises(ConnectionResetError, match=r"^the connection is closed$"):
        await connection.write(b"x")


async def test_writing_raises_when_the_other_side_closes() -> None:
    ended: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

    async def pour(connection: Connection) -> None:
        try:
            while True:
                await connection.write(b"x" * MAX_BUFFERED)
        except ConnectionError as error:
            ended.set_result(error)

    async with serving(pour) as (reader, writer):
        assert await reader.readexactly(10) == b"x" * 10
        writer.transport.abort()
        assert isinstance(await ended, ConnectionError)
