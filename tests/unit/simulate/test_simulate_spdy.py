"""The part of SPDY that kubelets use."""

import asyncio
import hashlib
import struct
import zlib
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.simulate.spdy import Session, SpdyError, Stream
from vcsync.simulate.spdy_words import DICTIONARY


class Pipe:
    """A connection whose client has sent some pieces."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.pieces = list(pieces)
        self.sent = b""

    async def read(self) -> bytes:
        await asyncio.sleep(0)
        return self.pieces.pop(0) if self.pieces else b""

    async def write(self, data: bytes) -> None:
        self.sent += data


class Client:
    """Makes frames."""

    def __init__(self) -> None:
        self._pack = zlib.compressobj(zdict=DICTIONARY)

    def open(self, number: int, headers: dict[str, str], flags: int = 0) -> bytes:
        raw = struct.pack("!I", len(headers))
        for pair in headers.items():
            for text in pair:
                raw += struct.pack("!I", len(text)) + text.encode()
        packed = self._pack.compress(raw) + self._pack.flush(zlib.Z_SYNC_FLUSH)
        return control(1, struct.pack("!IIBB", number, 0, 0, 0) + packed, flags)


def control(kind: int, body: bytes, flags: int = 0) -> bytes:
    return struct.pack("!HHI", 0x8003, kind, flags << 24 | len(body)) + body


def data(number: int, text: bytes, flags: int = 0) -> bytes:
    return struct.pack("!II", number, flags << 24 | len(text)) + text


def talk(*pieces: bytes) -> tuple[bytes, dict[str, bytes]]:
    """Serve a client that sends these frames; each stream echoes its input in upper case."""
    pipe, heard = Pipe(pieces), {}

    async def run() -> None:
        async with asyncio.TaskGroup() as tasks:

            async def answer(stream: Stream) -> None:
                text = b""
                while piece := await stream.read():
                    text += piece
                heard[stream.headers.get("streamtype", "")] = text
                await stream.write(text.upper())
                await stream.close()

            async def opened(stream: Stream) -> None:
                tasks.create_task(answer(stream))

            await Session(pipe, opened).run()

    asyncio.run(run())
    return pipe.sent, heard


def test_the_dictionary_is_the_specifications() -> None:
    digest = hashlib.sha256(DICTIONARY).hexdigest()
    assert digest == "51d27341373f923f3cd88e1eb7162aeaa3723d7585ff2399201dc06498407f02"


@pytest.mark.parametrize("cut", [1, 7, 1000])
def test_streams_carry_bytes_both_ways_for_any_split_of_the_data(cut: int) -> None:
    client = Client()
    sent = (
        client.open(1, {"streamType": "data", "port": "80"})
        + client.open(3, {"streamtype": "error"}, flags=1)
        + data(1, b"hello ")
        + data(1, b"there", flags=1)
    )
    back, heard = talk(*(sent[at : at + cut] for at in range(0, len(sent), cut)))
    assert heard == {"data": b"hello there", "error": b""}
    assert data(1, b"HELLO THERE") + data(1, b"", flags=1) in back
    assert back.count(struct.pack("!HH", 0x8003, 2)) == 2


def test_a_ping_is_sent_back() -> None:
    ping = control(6, struct.pack("!I", 7))
    assert talk(ping)[0] == ping


def test_unknown_frames_are_ignored_and_goaway_ends_the_connection() -> None:
    settings, window = control(4, bytes(12)), control(9, bytes(8))
    client = Client()
    back, heard = talk(settings, window, data(9, b"nobody"), control(7, bytes(8)), client.open(1, {}))
    assert (back, heard) == (b"", {})


def test_a_stream_that_is_reset_ends() -> None:
    _, heard = talk(Client().open(1, {"streamtype": "data"}), control(3, struct.pack("!II", 1, 5)))
    assert heard == {"data": b""}


@pytest.mark.parametrize(
    "sent",
    [
        control(1, b"short"),
        control(1, bytes(10) + b"not packed at all"),
        struct.pack("!HHI", 0x8002, 1, 10) + bytes(10),
        struct.pack("!HHI", 0x8003, 1, 0xFFFFFF),
    ],
)
def test_data_that_is_not_spdy_is_refused(sent: bytes) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        talk(sent)
    assert caught.group_contains(SpdyError)


@given(st.lists(st.binary(max_size=60), max_size=6))
def test_any_data_is_accepted_or_refused(pieces: list[bytes]) -> None:
    try:
        talk(*(each for each in pieces if each))
    except* SpdyError:
        pass


def test_the_size_of_decompressed_headers_is_limited() -> None:
    pack = zlib.compressobj(zdict=DICTIONARY)
    packed = pack.compress(bytes(10_000_000)) + pack.flush(zlib.Z_SYNC_FLUSH)
    with pytest.raises(ExceptionGroup) as caught:
        talk(control(1, struct.pack("!IIBB", 1, 0, 0, 0) + packed))
    assert caught.group_contains(SpdyError, match="too long")
