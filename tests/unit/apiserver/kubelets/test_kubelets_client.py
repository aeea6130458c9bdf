"""Calls to kubelets need certificates of the tenant's CA on both sides, and an address that the operator names."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.egress.networks import Allowed, Networks, parse_network
from vcsync.apiserver.kubelets import client
from vcsync.apiserver.kubelets.client import Kubelets
from vcsync.apiserver.kubelets.location import KubeletRequest, NodePlace
from vcsync.apiserver.tenants import pki
from vcsync.apiserver.tenants.records import Authority

NOW = time.time()
"""TLS verifies certificates by the clock of the machine."""
SPACE = "r1"
ASKED = KubeletRequest("node-0", "/containerLogs/n/p/c", "tailLines=1")
GET = ("GET", "1.0", ("X-Test: yes",))


@pytest.fixture(scope="module")
def authority() -> Authority:
    return pki.new_authority("r1", NOW)


def kubelets(authority: Authority, *networks: str, space: str = SPACE) -> Kubelets:
    async def credentials(_tenant: str) -> Any:
        return SimpleNamespace(record=SimpleNamespace(authority=authority))

    registry = SimpleNamespace(credentials=credentials)
    allowed = tuple(Allowed(parse_network(each), space) for each in networks)
    return Kubelets(cast("Any", registry), Networks(allowed), lambda: NOW)


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def kubelet(
    folder: Path, authority: Authority, serve: Serve, name: str = "127.0.0.1"
) -> AsyncIterator[NodePlace]:
    """Serve as a kubelet with a certificate for a name, and yield its node."""
    pair = pki.issue_serving(authority, [name], NOW)
    (folder / "pair.pem").write_text(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "pair.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=authority.certificate)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        yield node(server.sockets[0].getsockname()[1])


def node(port: int, address: str = "127.0.0.1") -> NodePlace:
    status = {
        "addresses": [{"type": "InternalIP", "address": address}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    return msgspec.convert({"status": status}, NodePlace)


def saying(answer: bytes, heard: list[Any]) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(writer.get_extra_info("peercert")["subject"])
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        await writer.drain()
        writer.close()

    return serve


async def asked(of: Kubelets, at: NodePlace, space: str = SPACE) -> tuple[int, str, bytes]:
    async with of.opened(space, at, ASKED, GET) as opened:
        return opened.status, opened.header("x-a"), await opened.reader.read()


async def test_a_request_is_sent_and_the_response_read(tmp_path: Path, authority: Authority) -> None:
    heard: list[Any] = []
    answer = saying(b"HTTP/1.0 200 OK\r\nX-A: b\r\n\r\nline\n", heard)
    async with kubelet(tmp_path, authority, answer) as at:
        assert await asked(kubelets(authority, "127.0.0.1"), at) == (200, "b", b"line\n")
    subject, head = heard
    assert ((("commonName", client.USER),)) in subject
    lines = head.decode().split("\r\n")
    assert lines[0] == "GET /containerLogs/n/p/c?tailLines=1 HTTP/1.0"
    assert "X-Test: yes" in lines


@pytest.mark.parametrize(
    ("networks", "space", "address"),
    [
        ((), SPACE, "127.0.0.1"),
        (("10.0.0.0/8",), SPACE, "127.0.0.1"),
        (("0.0.0.0/0",), SPACE, "127.0.0.1"),
        (("127.0.0.1",), "acme", "127.0.0.1"),
        (("127.0.0.1",), SPACE, "127.0.0.2"),
        (("127.0.0.1",), SPACE, "localhost"),
        (("127.0.0.1",), SPACE, "169.254.169.254"),
        (("127.0.0.1",), SPACE, "::ffff:127.0.0.2"),
    ],
)
async def test_kubelets_that_the_operator_does_not_name_are_not_called(
    authority: Authority, networks: tuple[str, ...], space: str, address: str
) -> None:
    with pytest.raises(StatusError) as caught:
        await asked(kubelets(authority, *networks), node(1, address), space)
    assert caught.value.code == 503
    assert "node-0" in caught.value.message


async def test_a_kubelet_of_another_ca_receives_no_request(tmp_path: Path, authority: Authority) -> None:
    heard: list[Any] = []
    async with kubelet(tmp_path, pki.new_authority("r2", NOW), saying(b"", heard)) as at:
        with pytest.raises(StatusError, match="unknown authority"):
            await asked(kubelets(authority, "127.0.0.1"), at)
    assert heard == []


async def test_a_kubelets_certificate_must_be_for_its_address(tmp_path: Path, authority: Authority) -> None:
    heard: list[Any] = []
    async with kubelet(tmp_path, authority, saying(b"", heard), "127.0.0.9") as at:
        with pytest.raises(StatusError, match=r"not valid for 127\.0\.0\.1"):
            await asked(kubelets(authority, "127.0.0.1"), at)
    assert heard == []


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0\r\n\r\n", b"HTTP/1.1 ok\r\n\r\n", b"x" * 100_000])
async def test_a_response_that_is_not_http_is_an_error(
    tmp_path: Path, authority: Authority, answer: bytes
) -> None:
    async with kubelet(tmp_path, authority, saying(answer, [])) as at:
        with pytest.raises(StatusError, match="no HTTP answer"):
            await asked(kubelets(authority, "127.0.0.1"), at)


async def test_a_closed_port_is_an_error(tmp_path: Path, authority: Authority) -> None:
    async with kubelet(tmp_path, authority, saying(b"", [])) as at:
        pass
    with pytest.raises(StatusError, match="error dialing backend: dial tcp 127"):
        await asked(kubelets(authority, "127.0.0.1"), at)


async def test_the_streams_of_a_tenant_are_limited(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "MAX_STREAMS", 1)
    of = kubelets(authority, "127.0.0.1")
    async with kubelet(tmp_path, authority, saying(b"HTTP/1.0 200 OK\r\n\r\n", [])) as at:
        async with of.opened(SPACE, at, ASKED, GET):
            with pytest.raises(StatusError) as caught:
                await asked(of, at)
            assert caught.value.code == 429
        assert (await asked(of, at))[0] == 200
