"""Streams to super clusters: the request that is sent, the checks before it, and what failures tell a tenant."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from api_server_kit import ApiServer, api_server
from structlog.testing import capture_logs

from vcsync.api import names
from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.kubelets import super_clusters
from vcsync.apiserver.kubelets.pool import NotInPool
from vcsync.apiserver.kubelets.super_clusters import (
    REREAD_SECONDS,
    NotMeasured,
    SuperClusters,
    TenantPods,
)
from vcsync.apiserver.kubelets.super_pods import StreamRequest
from vcsync.kube.errors import Unreachable
from vcsync.streams.budget import ConnectionBudget

KEY = "vcsync-abcdef-acme"
PLACE = f"/api/v1/namespaces/{KEY}-shop/pods/p"
PODS = TenantPods("acme", "cp-1", "shop")
LOG = StreamRequest("p", "u1", "node-0.r1", "log", "container=c")
EXEC = StreamRequest("p", "u1", "node-0.r1", "exec", "container=c&command=ls")
GET_LOG = ("GET", "1.0", ())
UPGRADE = ("GET", "1.1", ("Connection: Upgrade", "Upgrade: websocket"))
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: SPDY/3.1\r\n\r\nhello"


def copy(**changed: str) -> dict[str, Any]:
    annotations = {names.CLUSTER: KEY, names.NAMESPACE: "shop", names.UID: "u1"} | {
        {"cluster": names.CLUSTER, "namespace": names.NAMESPACE, "uid": names.UID}[key]: value
        for key, value in changed.items()
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "uid": "s", "annotations": annotations},
    }


class Pool:
    """A pool with tenant acme, whose namespace `shop` is on r1."""

    def __init__(self, kubeconfig: bytes | None) -> None:
        self.stored = kubeconfig
        self.failing = False
        self.reads = 0

    async def key_of(self, tenant: str, uid: str) -> str:
        if self.failing:
            raise Unreachable("10.0.0.9 is away", endpoint="meta")
        if (tenant, uid) != ("acme", "cp-1"):
            raise NotInPool(tenant)
        return KEY

    async def is_placed(self, key: str, namespace: str, super_id: str) -> bool:
        return (key, namespace, super_id) == (KEY, "shop", "r1")

    async def kubeconfig(self, _: str) -> bytes | None:
        self.reads += 1
        if self.failing:
            raise Unreachable("10.0.0.9 is away", endpoint="meta")
        return self.stored

    async def close(self) -> None:
        pass


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def r1() -> AsyncIterator[ApiServer]:
    async with api_server() as server:
        server.objects[PLACE] = copy()
        server.answers = {"log": b"HTTP/1.0 200 OK\r\nX-A: b\r\n\r\nline\n", "exec": SWITCHED}
        yield server


@pytest.fixture
def pool(r1: ApiServer) -> Pool:
    return Pool(r1.kubeconfig())


@pytest.fixture
def clock() -> Time:
    return Time()


@pytest.fixture
async def clusters(pool: Pool, clock: Time) -> AsyncIterator[SuperClusters]:
    made = SuperClusters(cast("Any", pool), clock)
    task = asyncio.create_task(made.run())
    await asyncio.sleep(0)
    yield made
    task.cancel()
    await asyncio.wait((task,))


async def asked(of: SuperClusters, what: StreamRequest = LOG, pods: TenantPods = PODS) -> bytes:
    async with of.opened(pods, what, GET_LOG if what.action == "log" else UPGRADE) as opened:
        return await opened.reader.read(5)


async def refused(of: SuperClusters, what: StreamRequest = LOG, pods: TenantPods = PODS) -> StatusError:
    with pytest.raises(StatusError) as caught:
        await asked(of, what, pods)
    return caught.value


async def test_a_log_is_read_from_the_copy(clusters: SuperClusters, r1: ApiServer) -> None:
    assert await asked(clusters) == b"line\n"
    assert r1.lines() == [f"GET {PLACE} HTTP/1.1", f"GET {PLACE}/log?container=c HTTP/1.0"]
    assert "Authorization: Bearer secret-token" in r1.heads[1]


async def test_an_upgraded_connection_carries_bytes_both_ways(clusters: SuperClusters, r1: ApiServer) -> None:
    async with clusters.opened(PODS, EXEC, UPGRADE) as opened:
        assert opened.header("upgrade") == "SPDY/3.1"
        assert await opened.reader.read(5) == b"hello"
        opened.writer.write(b"to it")
        await opened.writer.drain()
        assert await opened.reader.read() == b""
    assert r1.received == b"to it"
    assert r1.heads[1].endswith("Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n")


async def test_errors_within_a_websocket_are_replaced(clusters: SuperClusters, r1: ApiServer) -> None:
    error = b'\x03{"message":"dial tcp 10.0.0.5"}'
    head = SWITCHED.replace(b"SPDY/3.1", b"websocket").removesuffix(b"hello")
    r1.answers["exec"] = head + bytes([0x82, len(error)]) + error
    async with clusters.opened(PODS, EXEC, UPGRADE) as opened:
        piece = await opened.piece(65536)
    assert b"super cluster r1 did not serve the request" in piece
    assert b"10.0.0.5" not in piece


@pytest.mark.parametrize(
    "changed", [{"uid": "u0"}, {"uid": ""}, {"namespace": "other"}, {"cluster": "vcsync-abcdef-evil"}]
)
async def test_another_pod_of_that_name_is_not_reached(
    clusters: SuperClusters, r1: ApiServer, changed: dict[str, str]
) -> None:
    r1.objects[PLACE] = copy(**changed)
    missing = await refused(clusters)
    assert (missing.code, missing.message) == (404, 'pod "p" does not exist on its node')
    assert len(r1.heads) == 1


@pytest.mark.parametrize("node", ["node-0.r2", "node-0.r9", "node-0", "", "node-0.r1/..", "r1"])
async def test_a_forged_node_is_answered_like_a_missing_pod(
    clusters: SuperClusters, r1: ApiServer, pool: Pool, node: str
) -> None:
    forged = await refused(clusters, StreamRequest("p", "u1", node, "log", ""))
    del r1.objects[PLACE]
    assert forged.status() == (await refused(clusters)).status()
    assert pool.reads == 1


async def test_other_namespaces_and_tenants_are_not_reached(clusters: SuperClusters, r1: ApiServer) -> None:
    assert (await refused(clusters, pods=TenantPods("acme", "cp-1", "other"))).code == 404
    with pytest.raises(NotInPool):
        await asked(clusters, pods=TenantPods("evil", "cp-2", "shop"))
    assert r1.heads == []


async def test_a_super_cluster_that_is_away_is_named_by_its_id_only(
    clusters: SuperClusters, pool: Pool
) -> None:
    async with api_server() as away:
        pool.stored = away.kubeconfig()
    begun = time.monotonic()
    missing = await refused(clusters)
    assert time.monotonic() - begun < 5
    assert (missing.code, missing.message) == (
        503,
        "super cluster r1 cannot be reached at present; try again later",
    )


async def test_a_super_cluster_that_hangs_is_given_up(
    clusters: SuperClusters, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(super_clusters, "CONNECT_SECONDS", 0.3)
    ended = asyncio.Event()

    async def hang(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await ended.wait()
        writer.close()

    deaf = ApiServer()
    async with await asyncio.start_server(hang, "127.0.0.1", 0) as server:
        deaf.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        pool.stored = deaf.kubeconfig()
        assert "r1 cannot be reached" in (await refused(clusters)).message
        ended.set()
        await asyncio.sleep(0.05)


async def test_a_meta_cluster_that_is_away_is_not_named(clusters: SuperClusters, pool: Pool) -> None:
    pool.failing = True
    unknown = await refused(clusters)
    assert (unknown.code, unknown.message) == (
        503,
        "where this Pod runs cannot be read at present; try again later",
    )


@pytest.mark.parametrize("code", [401, 403])
async def test_refused_credentials_are_not_blamed_on_the_tenant(
    clusters: SuperClusters, r1: ApiServer, code: int
) -> None:
    r1.objects[PLACE] = code
    assert "does not permit" in (await refused(clusters)).message


async def test_a_super_cluster_without_credentials_is_refused(clusters: SuperClusters, pool: Pool) -> None:
    pool.stored = None
    assert "r1 does not permit" in (await refused(clusters)).message


async def test_new_credentials_are_used(
    clusters: SuperClusters, r1: ApiServer, pool: Pool, clock: Time
) -> None:
    await asked(clusters)
    pool.stored = r1.kubeconfig("new-token")
    await asked(clusters)
    assert "secret-token" in r1.heads[-1]
    clock.now += REREAD_SECONDS
    await asked(clusters)
    assert "new-token" in r1.heads[-1]


async def test_new_credentials_are_used_at_once_after_a_refusal(
    clusters: SuperClusters, r1: ApiServer, pool: Pool
) -> None:
    await asked(clusters)
    pool.stored = r1.kubeconfig("new-token")
    r1.objects[PLACE] = 401

    class Renewed(dict[str, Any]):
        def get(self, path: str, default: Any = None) -> Any:
            return copy() if "new-token" in r1.heads[-1] else super().get(path, default)

    r1.objects = Renewed(r1.objects)
    assert await asked(clusters) == b"line\n"
    assert "new-token" in r1.heads[-1]


async def test_credentials_stay_in_use_while_the_meta_cluster_is_away(
    clusters: SuperClusters, pool: Pool, clock: Time
) -> None:
    await asked(clusters)
    clock.now += REREAD_SECONDS
    pool.stored = b"no kubeconfig"
    assert await asked(clusters) == b"line\n"


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0\r\n\r\n", b"x" * 100_000])
async def test_an_answer_that_is_not_http_is_an_error(
    clusters: SuperClusters, r1: ApiServer, answer: bytes
) -> None:
    r1.answers["log"] = answer
    assert (await refused(clusters)).code == 503


async def test_a_refusal_tells_nothing_of_the_super_cluster(clusters: SuperClusters, r1: ApiServer) -> None:
    r1.answers["exec"] = b"HTTP/1.1 500 X\r\nContent-Length: 22\r\n\r\ndial 10.0.0.5: timeout"
    refusal = await refused(clusters, EXEC)
    assert refusal.message == "super cluster r1 did not serve the request: status 500"


async def test_an_answer_that_does_not_upgrade_is_not_a_tunnel(
    clusters: SuperClusters, r1: ApiServer
) -> None:
    r1.answers["exec"] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    assert (await refused(clusters, EXEC)).code == 502


async def test_the_streams_of_a_tenant_are_limited(
    clusters: SuperClusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "_streams", ConnectionBudget(10, 1))
    async with clusters.opened(PODS, EXEC, UPGRADE):
        assert (await refused(clusters)).code == 429
    assert await asked(clusters) == b"line\n"


async def test_a_closed_stream_closes_its_connection(clusters: SuperClusters, r1: ApiServer) -> None:
    async with clusters.opened(PODS, EXEC, UPGRADE):
        before = r1.open
    for _ in range(100):
        if r1.open < before:
            break
        await asyncio.sleep(0.01)
    assert r1.open == before - 1


async def test_no_secret_is_logged(clusters: SuperClusters, r1: ApiServer, pool: Pool) -> None:
    with capture_logs() as logs:
        r1.objects[PLACE] = 401
        await refused(clusters)
        pool.stored = b"token: secret-token"
        await refused(clusters)
    assert logs
    assert "secret-token" not in str(logs)


USAGE = f"/apis/metrics.k8s.io/v1beta1/namespaces/{KEY}-shop/pods"


async def test_usage_is_that_of_the_super_namespace(clusters: SuperClusters, r1: ApiServer) -> None:
    r1.objects[USAGE] = {"kind": "PodMetricsList", "items": []}
    assert b"PodMetricsList" in await clusters.usage(PODS, "r1")
    assert "Authorization: Bearer secret-token" in r1.heads[0]


async def test_usage_of_other_places_is_asked_of_no_super_cluster(
    clusters: SuperClusters, r1: ApiServer
) -> None:
    for pods, super_id in (
        (PODS, "r2"),
        (TenantPods("acme", "cp-1", "other"), "r1"),
        (PODS, ""),
    ):
        with pytest.raises(NotMeasured) as caught:
            await clusters.usage(pods, super_id)
        assert not caught.value.anybody
    with pytest.raises(NotInPool):
        await clusters.usage(TenantPods("acme", "cp-2", "shop"), "r1")
    assert r1.heads == []


@pytest.mark.parametrize(("answer", "anybody"), [(403, False), (404, True), (401, True), (500, True)])
async def test_usage_that_a_super_cluster_does_not_tell(
    clusters: SuperClusters, r1: ApiServer, answer: int, anybody: bool
) -> None:
    r1.objects[USAGE] = answer
    with pytest.raises(NotMeasured) as caught:
        await clusters.usage(PODS, "r1")
    assert caught.value.anybody == anybody


async def test_usage_needs_a_pool_that_can_be_read(clusters: SuperClusters, pool: Pool) -> None:
    pool.failing = True
    with pytest.raises(StatusError) as caught:
        await clusters.usage(PODS, "r1")
    assert caught.value.code == 503


@pytest.mark.parametrize("slow", [0.0, 0.05], ids=["opened at once", "opened late"])
async def test_a_refused_pod_leaves_no_connection(
    r1: ApiServer, clusters: SuperClusters, monkeypatch: pytest.MonkeyPatch, slow: float
) -> None:
    """The connection is opened while the super cluster is asked for the Pod."""
    writers: list[asyncio.StreamWriter] = []
    dial = super_clusters.dialled

    async def dialled(*arguments: Any) -> Any:
        await asyncio.sleep(slow)
        opened = await dial(*arguments)
        writers.append(opened[1])
        return opened

    monkeypatch.setattr(super_clusters, "dialled", dialled)
    r1.objects[PLACE] = copy(uid="another")
    for _ in range(3):
        assert (await refused(clusters, EXEC)).code == 404
    await asyncio.sleep(2 * slow)
    assert all(each.transport.is_closing() for each in writers)
