"""Logs in the messages of a WebSocket: the handshake, frames in both directions, and their end."""

import asyncio
import base64
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.streams.log_messages import BASE64, BINARY, Handshake, handshake, send_log
from vcsync.streams.websockets import CLOSE, BadHandshake, ClientFrames, MalformedFrames

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
"""Example of RFC 6455, section 1.3."""
ASKED = {"Connection": "keep-alive, Upgrade", "Upgrade": "WebSocket", "Sec-WebSocket-Version": "13"}
ASKED |= {"Sec-WebSocket-Key": KEY}
TEXT, BYTES, CLOSING, PING, PONG = 0x1, 0x2, 0x8, 0x9, 0xA


def client_frame(opcode: int, payload: bytes = b"", mask: bytes = b"\x01\x02\x03\x04") -> bytes:
    size = len(payload)
    length = bytes([0x80 | size]) if size <= 125 else bytes([0x80 | 126]) + size.to_bytes(2, "big")
    return (
        bytes([0x80 | opcode])
        + length
        + mask
        + bytes(each ^ mask[index % 4] for index, each in enumerate(payload))
    )


@pytest.mark.parametrize(
    "headers", [{}, {"Upgrade": "websocket"}, {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}]
)
def test_other_requests_get_a_log_without_messages(headers: dict[str, str]) -> None:
    assert handshake(headers) is None


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        ("", ""),
        (BINARY, BINARY),
        (f"v4.channel.k8s.io, {BASE64} ,{BINARY}", BASE64),
        (f"base64url.bearer.authorization.k8s.io.dG9rZW4, {BINARY}", BINARY),
        ("base64url.bearer.authorization.k8s.io.dG9rZW4", ""),
    ],
)
def test_the_first_known_protocol_is_chosen(offered: str, chosen: str) -> None:
    accepted = handshake({**ASKED, "Sec-WebSocket-Protocol": offered} if offered else ASKED)
    assert accepted == Handshake(KEY, chosen)


def test_a_handshake_is_accepted_as_the_standard_says() -> None:
    lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade"]
    lines.append(f"Sec-WebSocket-Accept: {ACCEPT}")
    assert Handshake(KEY, "").head() == "\r\n".join([*lines, "", ""]).encode()
    lines.append(f"Sec-WebSocket-Protocol: {BINARY}")
    assert Handshake(KEY, BINARY).head() == "\r\n".join([*lines, "", ""]).encode()


@pytest.mark.parametrize(
    ("changed", "code", "message"),
    [
        ({"Sec-WebSocket-Key": ""}, 400, "Sec-WebSocket-Key is missing"),
        ({"Sec-WebSocket-Version": "8"}, 400, "Sec-WebSocket-Version must be 13"),
        ({"Sec-WebSocket-Protocol": "chat"}, 403, "must be binary.k8s.io or base64.binary.k8s.io"),
    ],
)
def test_a_handshake_that_upstream_refuses_is_refused(
    changed: dict[str, str], code: int, message: str
) -> None:
    with pytest.raises(BadHandshake, match=message) as refused:
        handshake({**ASKED, **changed})
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("size", "head"), [(0, "8200"), (125, "827d"), (126, "827e007e"), (65535, "827effff"), (65536, "827f0000000000010000")]
)  # fmt: skip
def test_a_piece_is_one_message(size: int, head: str) -> None:
    assert Handshake(KEY, BINARY).message(b"x" * size) == bytes.fromhex(head) + b"x" * size


def test_base64_is_sent_as_text() -> None:
    assert Handshake(KEY, BASE64).message(b"line\n") == bytes.fromhex("8108") + base64.b64encode(b"line\n")


@given(st.lists(st.binary(max_size=300), max_size=4), st.integers(1, 7))
def test_data_of_the_client_is_dropped_however_it_is_cut(sent: list[bytes], size: int) -> None:
    frames = ClientFrames()
    data = b"".join(client_frame(BYTES, each) for each in sent) + client_frame(PING, b"still there?")
    found = [frames.feed(data[start : start + size]) for start in range(0, len(data), size)]
    assert b"".join(answer for answer, _ in found) == bytes([0x80 | PONG, 12]) + b"still there?"
    assert not any(closed for _, closed in found)


def test_the_client_closes_with_a_frame() -> None:
    assert ClientFrames().feed(client_frame(TEXT, b"x") + client_frame(CLOSING, b"\x03\xe8")) == (b"", True)


@pytest.mark.parametrize(
    "data", [b"\x82\x01x" + bytes(5), bytes([0x80 | PING, 0x80 | 126, 1, 0]) + bytes(300)]
)
def test_frames_that_no_client_sends_end_the_connection(data: bytes) -> None:
    with pytest.raises(MalformedFrames):
        ClientFrames().feed(data)


class Client:
    """A client that sends pieces, and keeps what it receives."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = list(pieces)
        self.received = b""

    async def read(self) -> bytes:
        if not self._pieces:
            await asyncio.Event().wait()
        return self._pieces.pop(0)

    async def write(self, data: bytes) -> None:
        self.received += data


async def lines(*pieces: bytes, error: OSError | None = None, endless: bool = False) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
    if error is not None:
        raise error
    if endless:
        await asyncio.Event().wait()


async def test_a_log_is_sent_after_an_empty_message_and_then_closed() -> None:
    client, accepted = Client(), Handshake(KEY, BINARY)
    await send_log(client, client, lines(b"one\n", b"two\n"), accepted)
    assert client.received == b"".join(map(accepted.message, (b"", b"one\n", b"two\n"))) + CLOSE


@pytest.mark.parametrize("last", [client_frame(CLOSING), b""])
async def test_a_client_ends_an_endless_log(last: bytes) -> None:
    client = Client(last)
    await send_log(client, client, lines(endless=True), Handshake(KEY, BINARY))
    assert client.received.endswith(CLOSE)


async def test_a_log_that_breaks_is_not_closed_as_if_it_were_whole() -> None:
    client, accepted = Client(), Handshake(KEY, BINARY)
    await send_log(client, client, lines(b"one\n", error=ConnectionResetError()), accepted)
    assert client.received == accepted.message(b"") + accepted.message(b"one\n")
