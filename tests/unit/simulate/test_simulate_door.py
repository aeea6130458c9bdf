"""The door to a server: shut, it closes all connections; open, it forwards them."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from vcsync.simulate.door import Door


@pytest.fixture
async def echo() -> AsyncIterator[int]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(1000):
            writer.write(chunk)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


async def said(port: int, text: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(text)
        writer.write_eof()
        return await reader.read()
    except ConnectionError:
        return b"cut off"
    finally:
        writer.transport.abort()


async def test_an_open_door_lets_everything_through(echo: int) -> None:
    async with Door("127.0.0.1", echo) as door:
        long = bytes(range(256)) * 2000
        assert await said(door.port, long) == long


async def test_a_shut_door_closes_connections_and_an_opened_one_accepts_them_again(echo: int) -> None:
    async with Door("127.0.0.1", echo) as door:
        reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        await door.shut()
        with pytest.raises((ConnectionError, EOFError)):
            await reader.readexactly(1)
        writer.transport.abort()
        assert await said(door.port, b"x") in (b"", b"cut off")
        door.open()
        assert await said(door.port, b"x") == b"x"


async def test_an_absent_server_acts_like_a_shut_door() -> None:
    async with Door("127.0.0.1", 1) as door:
        assert await said(door.port, b"x") in (b"", b"cut off")
