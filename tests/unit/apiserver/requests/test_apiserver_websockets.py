"""Watches over WebSockets, and tokens that browsers send among the protocols."""

import asyncio
import base64
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.filters.websocket_token import take_token
from vcsync.apiserver.handlers.exchange import Incoming
from vcsync.apiserver.serving.connections import WRITE_SECONDS, WriteDeadlines
from vcsync.streams.upgrade_headers import BEARER

BASE = "/api/v1/namespaces/default/configmaps"
PROTOCOL = "Sec-WebSocket-Protocol"
UPGRADE = {
    "Connection": "keep-alive, Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
}
TEXT, BINARY, CLOSE = 1, 2, 8


class Socket:
    """The client's side of one WebSocket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def head(self) -> list[str]:
        return (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")

    async def message(self) -> tuple[int, bytes]:
        async with asyncio.timeout(20):
            first, size = await self._reader.readexactly(2)
            if size == 126:
                size = int.from_bytes(await self._reader.readexactly(2), "big")
            return first & 15, await self._reader.readexactly(size)

    async def ended(self) -> bool:
        return await self._reader.read() == b""


@pytest.fixture
async def socket(plane, api):
    opened: list[Socket] = []

    async def connect(path: str, headers: Mapping[str, str]) -> Socket:
        reader, writer = await asyncio.open_connection("127.0.0.1", plane.server.port)
        lines = [f"GET {path} HTTP/1.1", "Host: x", *(f"{name}: {value}" for name, value in headers.items())]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        opened.append(Socket(reader, writer))
        return opened[-1]

    yield connect
    for each in opened:
        each.writer.close()


async def test_each_event_is_a_message_of_text(api, socket, config_map):
    await api("POST", BASE, config_map("a"))
    watch = await socket(f"{BASE}?watch=true", UPGRADE)
    assert (await watch.head())[0] == "HTTP/1.1 101 Switching Protocols"
    await api("POST", BASE, config_map("b"))
    seen = []
    for _ in range(2):
        opcode, data = await watch.message()
        event = msgspec.json.decode(data)
        seen.append((opcode, event["type"], event["object"]["metadata"]["name"]))
    assert seen == [(TEXT, "ADDED", "a"), (TEXT, "ADDED", "b")]


async def test_many_events_at_once_are_a_message_each(api, socket, config_map):
    for number in range(50):
        await api("POST", BASE, config_map(f"c{number:02}"))
    watch = await socket(f"{BASE}?watch=true", UPGRADE)
    await watch.head()
    names = [msgspec.json.decode((await watch.message())[1])["object"]["metadata"]["name"] for _ in range(50)]
    assert names == [f"c{number:02}" for number in range(50)]


async def test_a_watch_ends_with_a_close_frame_after_its_time(socket):
    watch = await socket(f"{BASE}?watch=true&timeoutSeconds=1", UPGRADE)
    await watch.head()
    assert await watch.message() == (CLOSE, bytes.fromhex("03e8"))
    assert await watch.ended()


async def test_a_client_that_closes_ends_the_watch(socket):
    watch = await socket(f"{BASE}?watch=true", UPGRADE)
    await watch.head()
    watch.writer.write(bytes.fromhex("8880 00000000"))
    assert (await watch.message())[0] == CLOSE


async def test_events_in_protobuf_are_binary_and_have_no_length_before_them(api, socket, config_map):
    await api("POST", BASE, config_map("a"))
    watch = await socket(f"{BASE}?watch=true", {**UPGRADE, "Accept": "application/vnd.kubernetes.protobuf"})
    await watch.head()
    opcode, data = await watch.message()
    assert (opcode, data[:7]) == (BINARY, b"\x0a\x05ADDED")


@pytest.mark.parametrize(
    ("change", "code", "chosen"),
    [
        ({}, "101", None),
        ({PROTOCOL: "chat"}, "101", "chat"),
        ({PROTOCOL: "chat, talk"}, "400", None),
        ({"Sec-WebSocket-Version": "8"}, "400", None),
        ({"Sec-WebSocket-Key": ""}, "400", None),
    ],
)
async def test_a_handshake_is_answered_as_by_kube_apiserver(socket, change, code, chosen):
    watch = await socket(f"{BASE}?watch=true", UPGRADE | change)
    first, *headers = await watch.head()
    assert first.split()[1] == code
    assert [each.partition(": ")[2] for each in headers if each.startswith(PROTOCOL)] == (
        [chosen] if chosen else []
    )


async def test_a_client_that_does_not_read_is_disconnected() -> None:
    aborted, full = asyncio.Event(), asyncio.Event()

    class Full:
        """A connection whose buffer stays full until it is aborted."""

        async def read(self) -> bytes:
            return b""

        async def write(self, _: bytes) -> None:
            full.set()
            await aborted.wait()
            raise ConnectionResetError

    class Transport:
        def abort(self) -> None:
            aborted.set()

    deadlines = WriteDeadlines()
    transport: Any = Transport()
    written = asyncio.create_task(deadlines.guarded(Full(), transport).write(b"x"))
    await full.wait()
    now = asyncio.get_running_loop().time()
    deadlines.sweep(now)
    assert not aborted.is_set()
    deadlines.sweep(now + WRITE_SECONDS + 1)
    with pytest.raises(ConnectionResetError):
        await written


async def test_other_upgrades_get_lines(api, socket, config_map):
    await api("POST", BASE, config_map("a"))
    h2c = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAMAAABk"}
    assert (await (await socket(f"{BASE}?watch=true", h2c)).head())[0] == "HTTP/1.1 200 OK"


def encoded(token: str) -> str:
    return BEARER + base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")


def asked(protocols: str, **headers: str) -> Incoming:
    async def body(_: Any) -> bytes:
        return b""

    sent = UPGRADE | {PROTOCOL: protocols} | headers
    return Incoming("GET", "/", "", sent, None, body)


@pytest.mark.parametrize("token", ["t", "ab", "a.b-c_d", "x" * 2000])
async def test_the_token_among_the_protocols_is_that_of_the_request(token: str) -> None:
    incoming = asked(f"{encoded(token)}, base64.binary.k8s.io")
    take_token(incoming)
    assert incoming.headers["Authorization"] == f"Bearer {token}"
    assert incoming.headers[PROTOCOL] == "base64.binary.k8s.io"


async def test_the_header_comes_before_the_protocols() -> None:
    incoming = asked(f"v4.channel.k8s.io,{encoded('other')}", Authorization="Bearer own")
    take_token(incoming)
    assert incoming.headers["Authorization"] == "Bearer own"
    assert incoming.headers[PROTOCOL] == "v4.channel.k8s.io"


@pytest.mark.parametrize(
    "protocols",
    [
        encoded("t"),
        f"{encoded('t')}, {encoded('u')}, chat",
        f"{BEARER}!!!!, chat",
        f"{BEARER}dA==, chat",
        f"{BEARER}_w, chat",
        f"{encoded('two words')}, chat",
        f"{encoded('line' + chr(10) + 'Impersonate-User: admin')}, chat",
    ],
)
async def test_a_token_that_is_no_token_is_refused(protocols: str) -> None:
    incoming = asked(protocols)
    with pytest.raises(StatusError) as refused:
        take_token(incoming)
    assert refused.value.code == 401
    assert BEARER not in incoming.headers.get(PROTOCOL, "")


async def test_a_certificate_is_enough_without_a_token_that_can_be_read() -> None:
    incoming = asked(f"{BEARER}!!!!, chat")
    incoming.certificate = b"der"
    take_token(incoming)
    assert "Authorization" not in incoming.headers
    assert incoming.headers[PROTOCOL] == "chat"


@pytest.mark.parametrize("headers", [{"Upgrade": "SPDY/3.1"}, {"Connection": "close"}])
async def test_only_a_websocket_has_such_a_token(headers: dict[str, str]) -> None:
    incoming = asked(f"{encoded('t')}, chat", **headers)
    take_token(incoming)
    assert "Authorization" not in incoming.headers
