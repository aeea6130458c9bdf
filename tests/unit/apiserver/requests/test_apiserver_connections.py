"""Connections are limited, and aborted if the client does not read."""

import asyncio

import pytest

from vcsync.apiserver.serving.connections import Connections, WriteDeadlines
from vcsync.process.listener import source_of


class Transport:
    def __init__(self, peer=("10.0.0.1", 5)):
        self.peer = peer
        self.aborted = False

    def get_extra_info(self, _):
        return self.peer

    def abort(self):
        self.aborted = True


class Handler:
    _task_handler = None


async def nothing(_):
    raise NotImplementedError


def connect(server, address, count):
    made = [(Handler(), Transport((address, 1))) for _ in range(count)]
    for handler, transport in made:
        server.connection_made(handler, transport)
    return made


async def test_one_address_has_at_most_half_of_the_connections():
    server = Connections(nothing, limit=8)
    greedy = connect(server, "10.0.0.1", 6)
    for handler, transport in greedy:
        if transport.aborted:
            server.connection_lost(handler)
    assert [transport.aborted for _, transport in greedy] == [False] * 4 + [True] * 2
    assert not connect(server, "10.0.0.2", 1)[0][1].aborted


async def test_closed_connections_are_not_counted():
    server = Connections(nothing, limit=4)
    for _ in range(10):
        for handler, transport in connect(server, "10.0.0.1", 2):
            assert not transport.aborted
            server.connection_lost(handler)


async def test_a_tenant_keeps_at_most_half_of_the_connections():
    server = Connections(nothing, limit=6)
    made = [connect(server, f"10.0.0.{number}", 1)[0][0] for number in range(4)]
    assert [server.keeps(each, "a") for each in made] == [True, True, False, False]
    assert server.keeps(made[3], "b")
    for each in made:
        server.connection_lost(each)
    assert not server.keeps(made[0], "a")


@pytest.mark.parametrize(
    ("peer", "source"),
    [
        (("10.0.0.1", 5), "10.0.0.1"),
        (("2001:db8:1:2:3:4:5:6", 5, 0, 0), "2001:db8:1:2::/64"),
        (("::ffff:10.0.0.1", 5, 0, 0), "10.0.0.1"),
        (("fe80::1%eth0", 5, 0, 2), "fe80::/64"),
        ("/run/socket", ""),
        (None, ""),
    ],
)
def test_an_address_counts_with_its_network(peer, source):
    assert source_of(peer) == source


async def test_a_response_that_is_not_read_is_aborted():
    deadlines, slow, done = WriteDeadlines(seconds=60), Transport(), Transport()
    deadlines.start(slow)
    deadlines.start(done)
    deadlines.stop(done)
    now = asyncio.get_running_loop().time()
    deadlines.sweep(now + 59)
    assert not slow.aborted
    deadlines.sweep(now + 61)
    assert (slow.aborted, done.aborted) == (True, False)
