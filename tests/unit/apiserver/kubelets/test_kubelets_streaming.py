"""Streaming requests to kubelets: forwarded headers, upgrades and errors."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from multidict import CIMultiDict

from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.handlers.connect import Streaming
from vcsync.apiserver.request.reply import Reply, Tunnel
from vcsync.streams.raw_response import RawResponse

POD = {"spec": {"nodeName": "n1", "containers": [{"name": "c"}]}}
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Key": "k",
    "Sec-WebSocket-Version": "13",
}


@dataclass
class Scope:
    tenant: str = "r1"
    kind: Any = None
    namespace: str = "n"
    name: str = "p"
    subresource: str = "exec"


class Kubelets:
    """Kubelets that always return the same response, and record requests."""

    def __init__(self, status: int, body: bytes = b"", headers: Sequence[tuple[str, str]] = ()) -> None:
        self._answer = (status, body, headers)
        self.asked: Any = None
        self.open = 0

    def serves(self, tenant: str) -> bool:
        return tenant == "r1"

    @asynccontextmanager
    async def opened(self, tenant: str, node: Any, question: Any, request: Any) -> AsyncIterator[RawResponse]:
        status, body, headers = self._answer
        self.asked, self.open = (question, request), self.open + 1
        reader = asyncio.StreamReader()
        reader.feed_data(body)
        reader.feed_eof()
        writer: Any = SimpleNamespace(write=lambda _: None)
        try:
            yield RawResponse(status, headers, reader, writer)
        finally:
            self.open -= 1


async def answer(
    kubelets: Kubelets,
    subresource: str = "exec",
    verb: str = "get",
    headers: Any = None,
    pod: Any = None,
) -> Any:
    async def get(scope: Scope) -> Any:
        value = (pod or POD) if scope.name == "p" else {}
        return SimpleNamespace(value=msgspec.json.encode(value))

    reader: Any = SimpleNamespace(get=get)
    spaces: Any = SimpleNamespace(kind=lambda *_: "nodes")
    given: Any = kubelets
    request: Any = SimpleNamespace(
        info=SimpleNamespace(subresource=subresource, verb=verb),
        query={"command": ["ls"]},
        scope=Scope(),
        headers=SimpleNamespace(all=CIMultiDict(UPGRADE if headers is None else headers)),
    )
    return await Streaming(given, reader, spaces).answer(request)


async def test_no_credential_reaches_a_kubelet() -> None:
    kubelets = Kubelets(101)
    secret = "base64url.bearer.authorization.k8s.io.c2VjcmV0"
    headers = [
        *UPGRADE.items(),
        ("Authorization", "Bearer secret"),
        ("Cookie", "secret"),
        ("Impersonate-User", "secret"),
        ("Sec-WebSocket-Protocol", f"{secret}, v5.channel.k8s.io"),
        ("Sec-WebSocket-Protocol", "v4.channel.k8s.io"),
    ]
    made = await answer(kubelets, headers=headers)
    method, version, lines = kubelets.asked[1]
    assert (method, version) == ("GET", "1.1")
    assert "Sec-WebSocket-Protocol: v5.channel.k8s.io, v4.channel.k8s.io" in lines
    assert "Upgrade: websocket" in lines
    assert not [each for each in lines if "secret" in each or "c2Vj" in each]
    await made.pieces.aclose()


async def test_the_response_of_an_upgrade_has_only_its_headers() -> None:
    kubelets = Kubelets(
        101, b"first bytes", [("Upgrade", "websocket"), ("Set-Cookie", "x"), ("Sec-WebSocket-Accept", "a")]
    )
    made = await answer(kubelets)
    assert isinstance(made, Tunnel)
    head = made.head.decode().split("\r\n")
    assert head == [
        "HTTP/1.1 101 Switching Protocols",
        "Upgrade: websocket",
        "Sec-WebSocket-Accept: a",
        "",
        "",
    ]
    sent = []

    class Client:
        async def read(self) -> bytes:
            await asyncio.Event().wait()
            return b""

        async def write(self, data: bytes) -> None:
            sent.append(data)

    assert made.carry is not None
    await made.carry(Client(), Client())
    assert (sent, kubelets.open) == ([b"first bytes"], 0)


async def test_a_request_without_an_upgrade_is_refused() -> None:
    kubelets = Kubelets(101)
    with pytest.raises(StatusError, match="Upgrade request required"):
        await answer(kubelets, headers={})
    assert kubelets.asked is None


async def test_the_error_of_a_kubelet_is_quoted() -> None:
    kubelets = Kubelets(404, b"pod does not exist", [("Content-Type", "text/plain")])
    made = await answer(kubelets, verb="create")
    assert isinstance(made, Reply)
    assert (made.status, list(made.body), made.content_type) == (404, [b"pod does not exist"], "text/plain")
    assert kubelets.open == 0
    assert "Content-Length: 0" in kubelets.asked[1][2]


async def test_a_log_is_streamed() -> None:
    kubelets = Kubelets(200, b"one\ntwo\n")
    made = await answer(kubelets, "log", headers={})
    assert (made.content_type, kubelets.asked[1][:2]) == ("text/plain", ("GET", "1.0"))
    assert b"".join([piece async for piece in made.pieces]) == b"one\ntwo\n"
    await made.pieces.aclose()
    assert kubelets.open == 0


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (400, 400, "why"),
        (500, 500, "Internal error occurred: why"),
        (404, 404, "the server could not find the requested resource ( pods/log p)"),
    ],
)
async def test_errors_of_logs_are_those_of_kube_apiserver(status: int, code: int, message: str) -> None:
    kubelets = Kubelets(status, b"why\n")
    with pytest.raises(StatusError) as caught:
        await answer(kubelets, "log", headers={})
    assert (caught.value.code, caught.value.message, kubelets.open) == (code, message, 0)


async def test_the_log_of_a_pod_without_a_node_is_empty() -> None:
    kubelets = Kubelets(200)
    made = await answer(kubelets, "log", headers={}, pod={"spec": {"containers": [{"name": "c"}]}})
    assert (made.status, list(made.body), kubelets.asked) == (200, [], None)


class Client:
    """A client that sends nothing, and keeps what it receives."""

    def __init__(self) -> None:
        self.received = b""

    async def read(self) -> bytes:
        await asyncio.Event().wait()
        return b""

    async def write(self, data: bytes) -> None:
        self.received += data


async def test_a_log_is_sent_in_the_messages_of_a_websocket() -> None:
    kubelets = Kubelets(200, b"one\ntwo\n")
    made = await answer(kubelets, "log", headers={**UPGRADE, "Sec-WebSocket-Protocol": "binary.k8s.io"})
    assert isinstance(made, Tunnel)
    assert made.head.startswith(b"HTTP/1.1 101 ")
    assert made.head.endswith(b"Sec-WebSocket-Protocol: binary.k8s.io\r\n\r\n")
    client = Client()
    assert made.carry is not None
    await made.carry(client, client)
    assert client.received == b"\x82\x00\x82\x08one\ntwo\n\x88\x02\x03\xe8"
    assert kubelets.open == 0


async def test_a_log_in_an_unknown_protocol_is_refused_before_the_kubelet_is_asked() -> None:
    kubelets = Kubelets(200, b"one\n")
    with pytest.raises(StatusError, match="Sec-WebSocket-Protocol must be") as refused:
        await answer(kubelets, "log", headers={**UPGRADE, "Sec-WebSocket-Protocol": "chat"})
    assert (refused.value.code, kubelets.asked) == (403, None)
