"""Handshakes are bounded in number and pace, address by address; who has a connection is served meanwhile."""

import asyncio
import socket
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from vcsync.controlplane.rest.listener import Listener, Pace


def test_a_burst_is_taken_at_once_and_what_follows_in_turn():
    pace = Pace(rate=10.0, burst=3)
    assert [pace.delay("a", 100.0) for _ in range(5)] == pytest.approx([0.0, 0.0, 0.0, 0.1, 0.2])
    assert pace.delay("b", 100.0) == 0.0
    # A second later all that was counted is over.
    assert [pace.delay("a", 101.0) for _ in range(4)] == pytest.approx([0.0, 0.0, 0.0, 0.1])


def test_what_did_not_get_its_turn_does_not_count():
    pace = Pace(rate=1.0, burst=1)
    assert [pace.delay("a", 5.0) for _ in range(2)] == [0.0, 1.0]
    pace.undo("a")
    assert pace.delay("a", 5.0) == 1.0


def test_any_number_may_come_where_there_is_no_rate():
    pace = Pace(rate=0.0)
    assert {pace.delay("a", 0.0) for _ in range(1000)} == {0.0}


@asynccontextmanager
async def listening(**settings):
    async def hello(request):
        return web.Response(text="hello")

    runner = web.ServerRunner(web.Server(hello), handle_signals=False)
    await runner.setup()
    listener = Listener(runner, "127.0.0.1", 0, None, **settings)
    await listener.start()
    try:
        yield runner.addresses[0][1], listener
    finally:
        await runner.cleanup()


async def ask(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return answer


async def test_connections_are_served_though_more_come_than_the_pace_allows():
    async with listening(pace=Pace(rate=200.0, burst=1)) as (port, _), asyncio.timeout(30):
        answers = await asyncio.gather(*(ask(port) for _ in range(10)))
    assert all(b"200 OK" in each for each in answers)


async def test_of_connections_that_wait_one_address_has_at_most_half():
    async with listening(pace=Pace(rate=0.2, burst=1), handshakes=4) as (port, _), asyncio.timeout(30):
        assert b"200 OK" in await ask(port)
        made = [await asyncio.open_connection("127.0.0.1", port) for _ in range(6)]
        # Two may wait; the others are closed at once.
        ended = 0
        for reader, _ in made[2:]:
            try:
                ended += await reader.read() == b""
            except ConnectionError:
                ended += 1
        assert ended == 4
        for _, writer in made:
            writer.close()


async def test_the_address_may_be_given_by_name_and_is_free_again_afterwards():
    async with listening() as (port, _), asyncio.timeout(30):
        assert b"hello" in await ask(port)
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", port))
