"""Upgraded connections end when only pings pass for too long, or after a set time."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.streams.limits import UNLIMITED, StreamLimits
from vcsync.streams.pings import is_ping
from vcsync.streams.raw_response import RawResponse
from vcsync.streams.tunnel import Traffic, carry

SPDY_PING = bytes.fromhex("800300060000000400000001")
PING = bytes.fromhex("898001020304")
PONG = bytes.fromhex("8a00")


@pytest.mark.parametrize(
    ("piece", "ping"),
    [
        (SPDY_PING, True),
        (SPDY_PING * 3, True),
        (PING, True),
        (PONG, True),
        (bytes.fromhex("8983010203046a6b6c"), True),
        (PONG + PING + SPDY_PING, True),
        (b"", False),
        (SPDY_PING[:-1], False),
        (SPDY_PING + b"x", False),
        (b"\x89", False),
        (PING[:-1], False),
        (bytes.fromhex("89fe0100") + bytes(300), False),
        (bytes.fromhex("8200"), False),
        (bytes.fromhex("8800"), False),
        (bytes.fromhex("800300010000000400000001"), False),
        (b"hello", False),
    ],
)  # fmt: skip
def test_only_whole_pings_do_not_count_as_use(piece: bytes, ping: bool) -> None:
    assert is_ping(piece) == ping


@given(st.binary())
def test_any_bytes_are_judged(piece: bytes) -> None:
    assert is_ping(piece) in (True, False)


@pytest.mark.parametrize(
    ("limits", "began", "active", "left"),
    [
        (StreamLimits(10.0, 100.0), 0.0, 45.0, 5.0),
        (StreamLimits(10.0, 100.0), 0.0, 30.0, 0.0),
        (StreamLimits(90.0, 60.0), 0.0, 45.0, 10.0),
        (StreamLimits(0.0, 60.0), 0.0, 0.0, 10.0),
        (StreamLimits(60.0, 0.0), 0.0, 45.0, 55.0),
        (UNLIMITED, 0.0, 0.0, None),
    ],
)
def test_the_nearer_limit_counts(
    limits: StreamLimits, began: float, active: float, left: float | None
) -> None:
    assert limits.left(began, active, 50.0) == left


class Client:
    """A client that sends the same piece again and again, and keeps what it gets."""

    def __init__(self, piece: bytes, times: int = 10**9) -> None:
        self._piece = piece
        self._left = times
        self.received = b""

    async def read(self) -> bytes:
        await asyncio.sleep(0.001)
        self._left -= 1
        return self._piece if self._left >= 0 else b""

    async def write(self, data: bytes) -> None:
        self.received += data


class Upstream:
    """The other connection: it keeps what it gets, and sends what a test has put into its reader."""

    def __init__(self) -> None:
        self.received = b""
        self.reader = asyncio.StreamReader()
        self.answer = RawResponse(101, (), self.reader, self)  # type: ignore[arg-type]

    def write(self, data: bytes) -> None:
        self.received += data

    async def drain(self) -> None:
        """Never wait."""


async def carried(client: Client, limits: StreamLimits, traffic: Traffic | None = None) -> Upstream:
    upstream = Upstream()
    upstream.reader.feed_data(b"from it")
    async with asyncio.timeout(20):
        await carry(client, client, upstream.answer, limits, traffic)
    return upstream


@pytest.mark.parametrize("piece", [PING, SPDY_PING])
async def test_a_connection_with_nothing_but_pings_ends(piece: bytes) -> None:
    client = Client(piece)
    upstream = await carried(client, StreamLimits(0.1, 0.0))
    assert upstream.received.startswith(piece)
    assert client.received == b"from it"


async def test_a_connection_in_use_ends_after_the_longest_time() -> None:
    upstream = await carried(Client(b"data"), StreamLimits(0.0, 0.1))
    assert upstream.received.startswith(b"data")


async def test_bytes_are_counted_in_both_directions() -> None:
    traffic: Any = Traffic()
    upstream = await carried(Client(b"data", 3), UNLIMITED, traffic)
    assert upstream.received == b"data" * 3
    assert traffic == Traffic(12, 7)
