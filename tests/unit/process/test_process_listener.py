"""TLS handshakes are limited in number and rate per address, while open connections are served."""

import asyncio
import socket
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime

import pytest
from aiohttp import web

from hack.testbed.pki import Authority
from vcsync.process.listener import ConnectionRate, Listener
from vcsync.syncer.kubelet_api.certificates import self_signed, server_context


def test_a_burst_is_accepted_and_later_connections_are_delayed():
    limit = ConnectionRate(rate=10.0, burst=3)
    assert [limit.delay("a", 100.0) for _ in range(5)] == pytest.approx([0.0, 0.0, 0.0, 0.1, 0.2])
    assert limit.delay("b", 100.0) == 0.0
    # A second later all that was counted is over.
    assert [limit.delay("a", 101.0) for _ in range(4)] == pytest.approx([0.0, 0.0, 0.0, 0.1])


def test_refused_connections_are_not_counted():
    limit = ConnectionRate(rate=1.0, burst=1)
    assert [limit.delay("a", 5.0) for _ in range(2)] == [0.0, 1.0]
    limit.undo("a")
    assert limit.delay("a", 5.0) == 1.0


def test_a_rate_of_zero_means_unlimited():
    limit = ConnectionRate(rate=0.0)
    assert {limit.delay("a", 0.0) for _ in range(1000)} == {0.0}


@asynccontextmanager
async def listening(tls=None, **settings):
    async def hello(request):
        return web.Response(text="hello")

    runner = web.ServerRunner(web.Server(hello), handle_signals=False)
    await runner.setup()
    listener = Listener(runner, "127.0.0.1", 0, tls, **settings)
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


async def test_open_connections_are_served_while_new_ones_are_delayed():
    async with listening(rate=ConnectionRate(rate=200.0, burst=1)) as (port, _), asyncio.timeout(30):
        answers = await asyncio.gather(*(ask(port) for _ in range(10)))
    assert all(b"200 OK" in each for each in answers)


async def test_one_address_has_at_most_half_of_the_delayed_connections():
    async with (
        listening(rate=ConnectionRate(rate=0.2, burst=1), handshakes=4) as (port, _),
        asyncio.timeout(30),
    ):
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


async def test_closing_ends_connections_before_and_during_their_handshake():
    identity = self_signed("127.0.0.1", datetime.now(UTC))
    tls = server_context(identity, Authority("x", datetime.now(UTC)).pair.certificate)
    made = []
    async with listening(tls, rate=ConnectionRate(rate=0.2, burst=2)) as (port, _):
        made.extend([await asyncio.open_connection("127.0.0.1", port) for _ in range(3)])
        await asyncio.sleep(0.05)
    async with asyncio.timeout(30):
        for reader, writer in made:
            with suppress(ConnectionError):
                assert await reader.read() == b""
            writer.close()


async def test_the_address_may_be_a_host_name_and_is_released_at_the_end():
    async with listening() as (port, _), asyncio.timeout(30):
        assert b"hello" in await ask(port)
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", port))
