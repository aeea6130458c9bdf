"""The server of hollow kubelets: TLS, and only the API servers of their cluster as clients."""

import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from vcsync.apiserver.tenants import pki
from vcsync.apiserver.tenants.records import Authority
from vcsync.cli.hollow.kubelets import CERTIFICATE, KEY, kubelet_tls
from vcsync.kube.connector import Connector
from vcsync.objects.envelope import Envelope, encode, parse
from vcsync.simulate.kubelet_server import CALLER, KubeletServer

HOST = "127.0.0.1"
NOW = datetime(2026, 1, 1, 0, 0, 9, tzinfo=UTC)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return pki.new_authority("r1", time.time())


def pod(*command: str) -> Envelope:
    running = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    container = {"name": "c", "command": list(command)}
    body = {
        "metadata": {"name": "p", "namespace": "n"},
        "spec": {"containers": [container, {"name": "waits"}]},
        "status": {"containerStatuses": [{"name": "c", "state": running}]},
    }
    return parse(encode(body))


@asynccontextmanager
async def calling(
    folder: Path, authority: Authority, *command: str, user: str = CALLER
) -> AsyncIterator[Any]:
    """Serve one Pod; yield a function that sends a request for a path, with `socket` to open a WebSocket."""
    found = {("n", "p"): pod(*command)}
    server = KubeletServer(lambda namespace, name: found.get((namespace, name)), lambda: NOW)
    tls = kubelet_tls({CERTIFICATE: authority.certificate, KEY: authority.key}, HOST)
    port = await server.start(HOST, 0, tls)
    pair = pki.issue_client(authority, user, ("system:masters",), time.time())
    (folder / "pair.pem").write_text(pair.certificate + pair.key)
    context = ssl.create_default_context(cadata=authority.certificate)
    context.load_cert_chain(folder / "pair.pem")
    try:
        async with aiohttp.ClientSession(
            f"https://{HOST}:{port}", connector=Connector(ssl=context)
        ) as session:

            async def ask(path: str) -> tuple[int, str]:
                async with session.get(path) as answer:
                    return answer.status, await answer.text()

            ask.socket = session.ws_connect  # type: ignore[attr-defined]
            yield ask
    finally:
        await server.stop()


async def test_only_an_api_server_is_answered(tmp_path: Path, authority: Authority) -> None:
    async with calling(tmp_path, authority) as ask:
        assert await ask("/healthz") == (200, "ok\n")
    async with calling(tmp_path, authority, user="admin") as ask:
        assert await ask("/containerLogs/n/p/c") == (403, "Forbidden\n")


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/containerLogs/n/p/c?tailLines=2", 200, "p c: line 9\np c: line 10\n"),
        ("/containerLogs/n/p/c?tailLines=2&limitBytes=15", 200, "p c: line 9\np c"),
        ("/containerLogs/n/p/c?sinceSeconds=0", 200, "p c: line 10\n"),
        (
            "/containerLogs/n/p/c?tailLines=1&timestamps=true",
            200,
            "2026-01-01T00:00:09.000000000Z p c: line 10\n",
        ),
        (
            "/containerLogs/n/p/waits",
            400,
            'container "waits" in pod "p" is waiting to start: ContainerCreating\n',
        ),
        ("/containerLogs/n/p/c?tailLines=x", 400, '{"message": "Unable to decode query."}\n'),
        ("/containerLogs/n/q/c", 404, 'pod "q" does not exist\n'),
        ("/exec/n/p/waits?command=ls", 500, 'container not found ("waits")\n'),
        ("/exec/n/p/c?command=ls", 400, "you must specify"),
        ("/exec/n/p/c?command=" + "a" * 100_000, 400, "you must specify"),
        ("/portForward/n/p", 400, "unable to upgrade"),
        ("/exec/n/p", 404, "404 page not found\n"),
        ("/pods", 404, "404 page not found\n"),
        ("/run/n/p/c", 404, "404 page not found\n"),
    ],
)
async def test_responses_of_the_kubelet(
    tmp_path: Path, authority: Authority, path: str, status: int, text: str
) -> None:
    async with calling(tmp_path, authority) as ask:
        found = await ask(path)
    assert found[0] == status
    assert found[1].startswith(text)


async def test_exec_over_a_websocket_echoes_input(tmp_path: Path, authority: Authority) -> None:
    path = "/exec/n/p/c?command=cat&input=1&output=1"
    async with (
        calling(tmp_path, authority) as ask,
        ask.socket(path, protocols=("v5.channel.k8s.io",)) as socket,
    ):
        assert socket.protocol == "v5.channel.k8s.io"
        assert await socket.receive_bytes() == b"\x01", "the connection stands"
        await socket.send_bytes(b"\x00hello")
        assert await socket.receive_bytes() == b"\x01hello"
        await socket.ping()
        await socket.send_bytes(b"\xff\x00")
        assert await socket.receive_bytes() == b'\x03{"metadata":{},"status":"Success"}'


@pytest.mark.parametrize(
    ("protocol", "first", "said", "failed"),
    [
        ("v5.channel.k8s.io", b"\x01", b"\x01hi\n", b'\x03{"metadata":{},"status":"Failure"'),
        ("v4.channel.k8s.io", b"\x01", b"\x01hi\n", b'\x03{"metadata":{},"status":"Failure"'),
        ("channel.k8s.io", b"\x01", b"\x01hi\n", b"\x03command terminated with non-zero exit code"),
        ("", b"\x01", b"\x01hi\n", b"\x03command terminated with non-zero exit code"),
        ("v4.base64.channel.k8s.io", "1", "1aGkK", "3eyJtZXRhZGF0YSI6e30sInN0YXR1cyI6IkZhaWx1cmUi"),
        ("base64.channel.k8s.io", "1", "1aGkK", "3Y29tbWFuZCB0ZXJtaW5hdGVk"),
    ],
)
async def test_exec_speaks_every_protocol_of_kubelets(
    tmp_path: Path, authority: Authority, protocol: str, first: Any, said: Any, failed: Any
) -> None:
    protocols = (protocol,) if protocol else ()
    async with calling(tmp_path, authority) as ask:
        async with ask.socket("/exec/n/p/c?command=echo&command=hi&output=1", protocols=protocols) as socket:
            assert (socket.protocol or "") == protocol
            assert [(await socket.receive()).data for _ in range(2)] == [first, said]
        async with ask.socket("/exec/n/p/c?command=false&output=1", protocols=protocols) as socket:
            assert (await socket.receive()).data == first
            assert (await socket.receive()).data[: len(failed)] == failed


@pytest.mark.parametrize(
    ("protocol", "typed"),
    [
        ("v5.channel.k8s.io", "\x00hello\n"),
        ("v4.channel.k8s.io", "\x00hello\n"),
        ("v4.base64.channel.k8s.io", "0aGVsbG8K"),
        ("v4.base64.channel.k8s.io", b"0aGVsbG8K"),
    ],
)
async def test_input_may_be_text_or_bytes_whatever_the_protocol(
    tmp_path: Path, authority: Authority, protocol: str, typed: Any
) -> None:
    """Python's client sends the input of exec as text."""
    async with (
        calling(tmp_path, authority) as ask,
        ask.socket("/exec/n/p/c?command=cat&input=1&output=1", protocols=(protocol,)) as socket,
    ):
        await socket.receive()
        await (socket.send_str(typed) if isinstance(typed, str) else socket.send_bytes(typed))
        assert (await socket.receive()).data in (b"\x01hello\n", "1aGVsbG8K")


@pytest.mark.parametrize(
    ("query", "first"), [("output=1&error=1", b"\x01"), ("error=1", b"\x02"), ("input=1", b"\x03")]
)
async def test_the_first_message_is_empty_on_the_lowest_channel(
    tmp_path: Path, authority: Authority, query: str, first: bytes
) -> None:
    async with (
        calling(tmp_path, authority) as ask,
        ask.socket(f"/exec/n/p/c?command=cat&{query}", protocols=("v4.channel.k8s.io",)) as socket,
    ):
        assert await socket.receive_bytes() == first


@pytest.mark.parametrize("path", ["/exec/n/p/c?command=ls&output=1", "/portForward/n/p?port=80"])
async def test_other_protocols_are_refused(tmp_path: Path, authority: Authority, path: str) -> None:
    async with calling(tmp_path, authority) as ask:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await ask.socket(path, protocols=("chat",))
    assert refused.value.status == 403


@pytest.mark.parametrize(
    ("protocol", "ports", "asked", "answered"),
    [
        (
            "v4.channel.k8s.io",
            [b"\x00\x50\x00", b"\x01\x50\x00", b"\x02\x90\x1f", b"\x03\x90\x1f"],
            (b"\x02GET / HTTP/1.1", b"\x00GET / HTTP/1.1"),
            (b"\x02HTTP/1.1 200", b"\x00HTTP/1.1 200"),
        ),
        (
            "",
            [b"\x00\x50\x00", b"\x01\x50\x00", b"\x02\x90\x1f", b"\x03\x90\x1f"],
            (b"\x02GET / HTTP/1.1", b"\x00GET / HTTP/1.1"),
            (b"\x02HTTP/1.1 200", b"\x00HTTP/1.1 200"),
        ),
        (
            "v4.base64.channel.k8s.io",
            ["0UAA=", "1UAA=", "2kB8=", "3kB8="],
            ("2R0VU", "0R0VU"),
            ("2SFRU", "0SFRU"),
        ),
    ],
)
async def test_ports_are_forwarded_over_channels(
    tmp_path: Path, authority: Authority, protocol: str, ports: list[Any], asked: Any, answered: Any
) -> None:
    async with (
        calling(tmp_path, authority) as ask,
        ask.socket("/portForward/n/p?port=80,8080", protocols=(protocol,) if protocol else ()) as socket,
    ):
        assert (socket.protocol or "") == protocol
        assert [(await socket.receive()).data for _ in range(4)] == ports
        for question, answer in zip(asked, answered, strict=True):
            await (socket.send_str(question) if isinstance(question, str) else socket.send_bytes(question))
            assert (await socket.receive()).data[: len(answer)] == answer
        assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE


@pytest.mark.parametrize("query", ["", "?port=", "?port=0", "?port=65536", "?port=80,x", "?port=-1"])
async def test_a_port_forward_over_channels_names_its_ports(
    tmp_path: Path, authority: Authority, query: str
) -> None:
    async with calling(tmp_path, authority) as ask:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await ask.socket(f"/portForward/n/p{query}", protocols=("v4.channel.k8s.io",))
    assert refused.value.status == 400
