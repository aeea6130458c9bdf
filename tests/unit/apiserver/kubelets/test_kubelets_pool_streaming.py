"""Streaming requests for Pods of the pool: what reaches a super cluster, and what is answered without one."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from multidict import CIMultiDict

from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.handlers.connect import Streaming
from vcsync.apiserver.kubelets.pool import NotInPool
from vcsync.apiserver.kubelets.super_clusters import TenantPods
from vcsync.apiserver.kubelets.super_pods import StreamRequest
from vcsync.apiserver.request.reply import Reply, Tunnel
from vcsync.streams.raw_response import RawResponse

POD = {"metadata": {"uid": "u1"}, "spec": {"nodeName": "n.r1", "containers": [{"name": "c"}]}}
KIND: Any = SimpleNamespace(resource=SimpleNamespace(plural="pods"))
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Key": "k",
    "Sec-WebSocket-Version": "13",
}


@dataclass
class Scope:
    tenant: str = "acme"
    kind: Any = field(default_factory=lambda: KIND)
    namespace: str = "shop"
    name: str = "p"
    subresource: str = "exec"


class Kubelets:
    """Kubelets that are called for no tenant but r1."""

    def serves(self, tenant: str) -> bool:
        return tenant == "r1"


class Pool:
    """A pool that always returns the same answer, and records requests."""

    def __init__(self, status: int = 200, headers: Sequence[tuple[str, str]] = ()) -> None:
        self._answer = (status, headers)
        self.member = True
        self.asked: Any = None
        self.open = 0

    @asynccontextmanager
    async def opened(
        self, pods: TenantPods, question: StreamRequest, request: Any
    ) -> AsyncIterator[RawResponse]:
        if not self.member:
            raise NotInPool(pods.tenant)
        self.asked, self.open = (pods, question, request), self.open + 1
        reader = asyncio.StreamReader()
        reader.feed_data(b"one\n")
        reader.feed_eof()
        writer: Any = SimpleNamespace(write=lambda _: None)
        try:
            yield RawResponse(*self._answer, reader, writer)
        finally:
            self.open -= 1


async def answer(
    pool: Pool, subresource: str, verb: str = "get", *, pod: Any = POD, headers: Any = UPGRADE, **query: Any
) -> Any:
    async def get(scope: Scope) -> Any:
        stored = {"p": pod, "kube-system": {"metadata": {"uid": "cp-1"}}}[scope.name]
        return SimpleNamespace(value=msgspec.json.encode(stored))

    given: Any = (
        Kubelets(),
        SimpleNamespace(get=get),
        SimpleNamespace(kind=lambda *_: "namespaces"),
        pool,
    )
    request: Any = SimpleNamespace(
        info=SimpleNamespace(subresource=subresource, verb=verb),
        query=query,
        scope=Scope(),
        headers=SimpleNamespace(all=CIMultiDict(headers)),
    )
    return await Streaming(*given).answer(request)


async def test_a_log_is_streamed_from_the_pool() -> None:
    pool = Pool()
    made = await answer(pool, "log", headers={}, tailLines=["3"])
    assert b"".join([piece async for piece in made.pieces]) == b"one\n"
    await made.pieces.aclose()
    pods, question, request = pool.asked
    assert pods == TenantPods("acme", "cp-1", "shop")
    assert question == StreamRequest("p", "u1", "n.r1", "log", "container=c&tailLines=3")
    assert (request, pool.open) == (("GET", "1.0", []), 0)


async def test_an_upgrade_is_tunnelled_without_credentials() -> None:
    pool = Pool(101, [("Upgrade", "websocket"), ("Set-Cookie", "x"), ("Server", "10.0.0.5")])
    headers = [
        *UPGRADE.items(),
        ("Authorization", "Bearer secret"),
        ("Cookie", "secret"),
        ("Impersonate-User", "secret"),
        ("X-Remote-User", "secret"),
        ("Sec-WebSocket-Protocol", "base64url.bearer.authorization.k8s.io.secret, v5.channel.k8s.io"),
    ]
    made = await answer(pool, "exec", "create", headers=headers, command=["ls"])
    assert isinstance(made, Tunnel)
    assert made.head == b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"
    method, version, lines = pool.asked[2]
    assert (method, version) == ("POST", "1.1")
    assert "Sec-WebSocket-Protocol: v5.channel.k8s.io" in lines
    assert "Content-Length: 0" in lines
    assert not [each for each in lines if "secret" in each]
    await made.pieces.aclose()
    assert pool.open == 0


async def test_a_pod_without_a_node_is_answered_as_upstream() -> None:
    pool, pod = Pool(), {"spec": {"containers": [{"name": "c"}]}}
    made = await answer(pool, "log", pod=pod)
    assert isinstance(made, Reply)
    assert (made.status, list(made.body)) == (200, [])
    with pytest.raises(StatusError, match="pod p does not have a host assigned"):
        await answer(pool, "exec", pod=pod)
    assert pool.asked is None


@pytest.mark.parametrize("protocol", ["h2c", "HTTP/2.0", "TLS/1.3", "websocket2", "websocket, h2c"])
async def test_other_protocols_do_not_reach_the_pool(protocol: str) -> None:
    pool = Pool(101)
    with pytest.raises(StatusError, match=r"only upgrades to websocket and SPDY/3\.1 are supported"):
        await answer(pool, "exec", headers={"Connection": "Upgrade", "Upgrade": protocol})
    assert pool.asked is None


async def test_a_proxy_before_the_super_cluster_is_told_to_drop_no_header() -> None:
    pool = Pool(101)
    headers = {
        "Connection": "Upgrade, Authorization",
        "Upgrade": "spdy/3.1",
        "Sec-WebSocket-Extensions": "permessage-deflate",  # errors within the stream must be readable
    }
    made = await answer(pool, "exec", headers=headers)
    assert pool.asked[2][2] == ["Connection: Upgrade", "Upgrade: SPDY/3.1"]
    await made.pieces.aclose()


async def test_a_request_without_an_upgrade_does_not_reach_the_pool() -> None:
    pool = Pool()
    with pytest.raises(StatusError, match="Upgrade request required"):
        await answer(pool, "exec", headers={})
    assert pool.asked is None


@pytest.mark.parametrize("subresource", ["log", "exec"])
async def test_pods_of_no_pool_are_not_reached(subresource: str) -> None:
    pool = Pool()
    pool.member = False
    with pytest.raises(StatusError) as caught:
        await answer(pool, subresource)
    assert (caught.value.code, f"pods/{subresource}: " in caught.value.message) == (501, True)


def test_the_pool_serves_all_but_the_operators_space() -> None:
    given: Any = (Kubelets(), None, None)
    pool: Any = Pool()
    assert [Streaming(*given, pool).serves(each) for each in ("acme", "r1", "system")] == [True, True, False]
    assert [Streaming(*given).serves(each) for each in ("acme", "r1", "system")] == [False, True, False]
