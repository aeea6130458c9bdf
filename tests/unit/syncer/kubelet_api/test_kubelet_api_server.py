"""The kubelet API of a tenant's virtual nodes, over TLS, with a super cluster that answers what a test wants."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from api_server_kit import ApiServer, api_server

from hack.testbed.pki import Authority
from vcsync.api import names
from vcsync.api.rbac import PART_OF, PROJECT
from vcsync.kube.client import Client
from vcsync.kube.tls import client_context
from vcsync.resourcemetrics.documents import Described
from vcsync.syncer.kubelet_api import server as kubelet_server
from vcsync.syncer.kubelet_api import service
from vcsync.syncer.kubelet_api.server import SuperPod
from vcsync.syncer.kubelet_api.service import KubeletApi, ServedTenant
from vcsync.syncer.kubelet_api.settings import Endpoint, KubeletSettings
from vcsync.syncer.metrics_api.tenant_usage import RunningPod

CONFIG = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
SUPER = "/api/v1/namespaces/acme-shop/pods/web"
OURS = Authority("acme-ca", datetime.now(UTC))
FOREIGN = Authority("acme-ca", datetime.now(UTC))
FRONT_PROXY = Authority("front-proxy-ca", datetime.now(UTC))
CALLER = OURS.client("kube-apiserver-kubelet-client", "system:masters")
UPGRADE = "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n"
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Secret: node-7\r\n\r\n"


@dataclass
class World:
    """A tenant's control plane, a super cluster, and the kubelet API between them."""

    plane: ApiServer
    below: ApiServer
    pods: dict[tuple[str, str], SuperPod] = field(default_factory=dict)
    opened: list[Endpoint | None] = field(default_factory=list)
    ports: tuple[int, int] = (0, 0)
    api: KubeletApi | None = None
    serves_metrics: bool = False
    leaves: bool = False

    def metrics(self) -> dict[tuple[str, ...], float]:
        """Return the samples about tenants, by name and direction."""
        assert self.api is not None
        return {
            (sample.name, *filter(None, [sample.labels.get("direction")])): sample.value
            for family in self.api.metrics()
            for sample in family.samples
        }

    async def leaving(self) -> bool:
        return self.leaves

    def running(self) -> list[RunningPod]:
        return [
            RunningPod(Described(name, namespace, {"app": name}), place.node, place.namespace)
            for (namespace, name), place in self.pods.items()
        ]

    def publish(self, authority: Authority | None) -> None:
        data = {} if authority is None else {"client-ca-file": authority.pair.certificate}
        if self.serves_metrics:
            data["requestheader-client-ca-file"] = FRONT_PROXY.pair.certificate
            data["requestheader-allowed-names"] = '["front-proxy-client"]'
        name = {"name": "extension-apiserver-authentication", "namespace": "kube-system"}
        self.plane.objects[CONFIG] = {"metadata": name, "data": data}

    def allow(self, allowed: bool) -> None:
        self.plane.objects[REVIEWS] = {"kind": "SubjectAccessReview", "status": {"allowed": allowed}}

    async def endpoint(self) -> Endpoint:
        async with asyncio.timeout(10):
            while not self.opened or self.opened[-1] is None:
                await asyncio.sleep(0.01)
            return self.opened[-1]

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["World"]:
        settings = KubeletSettings(address="127.0.0.1", ports=self.ports)
        async with (
            Client(self.plane.connection(), name="acme") as client,
            Client(self.below.connection(), name="r1") as super_client,
        ):
            api = self.api = KubeletApi(settings, "r1", super_client)
            tenant = ServedTenant(
                "acme",
                client,
                lambda *name: self.pods.get(name),
                self.running,
                self.opened.append,
                self.leaving,
            )
            task = asyncio.create_task(api.serve(tenant))
            try:
                yield self
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def connect(self, identity: Any = CALLER) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        endpoint = await self.endpoint()
        pair = (identity.certificate.encode(), identity.key.encode()) if identity else (b"", b"")
        context = client_context(certificate=pair[0], key=pair[1], insecure=True)
        return await asyncio.open_connection(endpoint.address, endpoint.port, ssl=context)

    async def ask(self, line: str, headers: str = "", identity: Any = CALLER) -> tuple[int, str]:
        """Return status and text of an answer."""
        reader, writer = await self.connect(identity)
        writer.write(f"{line} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n{headers}\r\n".encode())
        async with asyncio.timeout(10):
            answer = (await reader.read()).decode()
        writer.close()
        head, _, body = answer.partition("\r\n\r\n")
        return int(head.split(" ", 2)[1]), body


@pytest.fixture
async def world(free_ports: Callable[[int], int]) -> AsyncIterator[World]:
    async with api_server() as plane, api_server() as below:
        made = World(plane, below, {("shop", "web"): SuperPod("n.r1", "acme-shop")})
        first = free_ports(3)
        made.ports = (first, first + 2)
        made.publish(OURS)
        made.allow(True)
        async with made.serving():
            yield made


@pytest.fixture
def free_ports() -> Iterator[Callable[[int], int]]:
    """Return the first of several free ports in a row."""

    def found(count: int) -> int:
        while True:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                first = int(probe.getsockname()[1])
            try:
                for port in range(first, first + count):
                    with socket.socket() as probe:
                        probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return first

    return found


async def test_a_log_is_that_of_the_super_clusters_pod(world: World) -> None:
    world.below.answers["log"] = b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\none\ntwo\n"
    status, body = await world.ask("GET /containerLogs/shop/web/app?follow=true&tailLines=2")
    assert (status, "one\ntwo\n" in body) == (200, True)
    assert world.below.lines() == [f"GET {SUPER}/log?container=app&follow=true&tailLines=2 HTTP/1.0"]
    assert "Authorization: Bearer secret-token" in world.below.heads[0]


async def test_a_stream_passes_bytes_in_both_directions(world: World) -> None:
    world.below.answers["exec"] = SWITCHED + b"from the Pod"
    reader, writer = await world.connect()
    head = f"POST /exec/shop/web/app?command=sh&input=1 HTTP/1.1\r\nHost: node\r\n{UPGRADE}"
    writer.write(f"{head}Authorization: Bearer of-the-caller\r\nContent-Length: 0\r\n\r\n".encode())
    answer = (await reader.readuntil(b"\r\n\r\n")).decode()
    assert answer.startswith("HTTP/1.1 101 ")
    assert "node-7" not in answer
    assert await reader.readexactly(12) == b"from the Pod"
    writer.write(b"from the client")
    async with asyncio.timeout(10):
        assert await reader.read() == b""
    assert world.below.received == b"from the client"
    sent = world.below.heads[0]
    assert world.metrics() == {
        ("vcsync_syncer_streams",): 0.0,
        ("vcsync_syncer_stream_bytes_total", "in"): 15.0,
        ("vcsync_syncer_stream_bytes_total", "out"): 12.0,
    }
    assert sent.startswith(f"POST {SUPER}/exec?container=app&stdin=true&command=sh HTTP/1.1")
    assert "of-the-caller" not in sent
    assert "X-Stream-Protocol-Version: v4.channel.k8s.io" in sent


@pytest.mark.parametrize(
    "identity", [None, FOREIGN.client("kube-apiserver-kubelet-client", "system:masters")]
)
async def test_callers_without_a_certificate_of_the_control_plane_get_no_answer(
    world: World, identity: Any
) -> None:
    with pytest.raises((ssl.SSLError, OSError, IndexError)):
        await world.ask("GET /containerLogs/shop/web/app", identity=identity)
    assert world.below.heads == []


async def test_callers_that_the_control_plane_does_not_allow_are_refused(world: World) -> None:
    world.allow(False)
    status, body = await world.ask("GET /containerLogs/shop/web/app", identity=OURS.client("alice"))
    assert (status, body) == (
        403,
        "Forbidden (user=alice, verb=get, resource=nodes, subresource(s)=[proxy])\n",
    )
    world.plane.objects[REVIEWS] = 403
    assert (await world.ask("GET /containerLogs/shop/web/app", identity=OURS.client("bob")))[0] == 500
    assert world.below.heads == []


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("GET /containerLogs/shop/other/app", (400, 'pod "other" does not exist on its node\n')),
        ("GET /containerLogs/acme-shop/web/app", (400, 'pod "web" does not exist on its node\n')),
        ("POST /containerLogs/shop/web/app", (404, "404 page not found\n")),
        ("DELETE /exec/shop/web/app", (404, "404 page not found\n")),
        ("GET /pods", (404, "404 page not found\n")),
        ("GET /exec/shop/other/app", (404, 'pod "other" does not exist on its node\n')),
        ("GET /exec/shop/web/app", (400, "Upgrade request required\n")),
    ],
)
async def test_only_the_tenants_own_pods_are_reached(
    world: World, line: str, answer: tuple[int, str]
) -> None:
    assert await world.ask(line) == answer
    assert world.below.heads == []


async def test_other_protocols_are_refused(world: World) -> None:
    reader, writer = await world.connect()
    writer.write(
        b"POST /exec/shop/web/app HTTP/1.1\r\nHost: n\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    )
    assert (await reader.readline()).startswith(b"HTTP/1.1 400 ")
    writer.close()


@pytest.mark.parametrize(
    ("answer", "code", "text"),
    [
        (b"HTTP/1.1 400 Bad\r\n\r\n" + b'container "app" in pod "web" is waiting to start: ContainerCreating',
         400, 'container "app" in pod "web" is waiting to start: ContainerCreating'),
        (b"HTTP/1.1 500 Error\r\n\r\ndial tcp 10.0.0.5:10250", 500, "super cluster r1 did not serve the request: status 500"),
        (b"HTTP/1.1 403 No\r\n\r\nUser vcsync-syncer cannot", 500,
         "super cluster r1 does not permit logs, exec, attach and port-forward; ask its operator"),
        (b"", 500, "super cluster r1 cannot be reached at present; try again later"),
    ],
)  # fmt: skip
async def test_refusals_tell_nothing_about_the_super_cluster(
    world: World, answer: bytes, code: int, text: str
) -> None:
    world.below.answers["log"] = answer
    assert await world.ask("GET /containerLogs/shop/web/app") == (code, f"{text}\n")


async def test_streams_are_limited(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubelet_server, "MAX_STREAMS", 1)
    world.below.answers["attach"] = SWITCHED
    reader, writer = await world.connect()
    writer.write(
        f"POST /attach/shop/web/app HTTP/1.1\r\nHost: n\r\n{UPGRADE}Content-Length: 0\r\n\r\n".encode()
    )
    assert (await reader.readline()).startswith(b"HTTP/1.1 101 ")
    assert await world.ask("GET /containerLogs/shop/web/app") == (
        400,
        "too many streams are open, please try again later\n",
    )
    writer.close()
    world.below.answers["log"] = b"HTTP/1.0 200 OK\r\n\r\n"
    async with asyncio.timeout(10):
        while (await world.ask("GET /containerLogs/shop/web/app"))[0] == 400:
            await asyncio.sleep(0.01)


async def test_streams_end_with_the_session(free_ports: Callable[[int], int]) -> None:
    async with api_server() as plane, api_server() as below:
        first = free_ports(1)
        world = World(plane, below, {("shop", "web"): SuperPod("n.r1", "acme-shop")}, ports=(first, first))
        world.publish(OURS)
        world.allow(True)
        below.answers["attach"] = SWITCHED
        async with world.serving():
            reader, writer = await world.connect()
            writer.write(f"POST /attach/shop/web/app HTTP/1.1\r\nHost: n\r\n{UPGRADE}\r\n".encode())
            await reader.readuntil(b"\r\n\r\n")
        async with asyncio.timeout(10):
            assert await reader.read() == b""
            while below.open:
                await asyncio.sleep(0.01)
        writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", first)


async def test_the_api_is_served_as_soon_as_there_is_an_authority(
    free_ports: Callable[[int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "READ_SECONDS", 0.02)
    monkeypatch.setattr(service, "RETRY_SECONDS", 0.02)
    async with api_server() as plane, api_server() as below:
        first = free_ports(1)
        world = World(plane, below, ports=(first, first))
        world.allow(True)
        async with world.serving():
            for published in (None, Authority("x", datetime.now(UTC))):
                world.publish(published)
                await asyncio.sleep(0.1)
            assert await world.endpoint() == Endpoint("127.0.0.1", first)
            with pytest.raises((ssl.SSLError, OSError, IndexError)):
                await world.ask("GET /pods")
            world.publish(OURS)
            async with asyncio.timeout(10):
                while True:
                    try:
                        assert (await world.ask("GET /pods"))[0] == 404
                        break
                    except (ssl.SSLError, OSError, IndexError):
                        await asyncio.sleep(0.02)
        assert world.opened == [Endpoint("127.0.0.1", first)]


async def test_a_port_that_is_in_use_is_left_out(free_ports: Callable[[int], int]) -> None:
    first = free_ports(2)
    async with api_server() as plane, api_server() as below:
        taken = [await asyncio.start_server(lambda *_: None, "127.0.0.1", first)]
        world = World(plane, below, ports=(first, first + 1))
        world.publish(OURS)
        async with world.serving():
            assert await world.endpoint() == Endpoint("127.0.0.1", first + 1)
        taken.append(await asyncio.start_server(lambda *_: None, "127.0.0.1", first + 1))
        world.opened.clear()
        async with world.serving():
            async with asyncio.timeout(10):
                while not world.opened:
                    await asyncio.sleep(0.01)
            assert world.opened == [None]
        for each in taken:
            each.close()


async def test_malformed_requests_leave_no_trace_in_the_log(
    world: World, capfd: pytest.CaptureFixture[str]
) -> None:
    for head in ("GET / HTTP/1.1\r\nA: b\r\n c: d\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"):
        reader, writer = await world.connect()
        writer.write(head.encode())
        assert b" 400 " in await reader.readline()
        writer.close()
    assert "Traceback" not in capfd.readouterr().err


API_SERVICE = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.metrics.k8s.io"
METRICS = "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods"


@asynccontextmanager
async def measuring(first: int) -> AsyncIterator[World]:
    """Yield a world whose super cluster measures the tenant's Pod."""
    async with api_server() as plane, api_server() as below:
        pods = {("shop", "web"): SuperPod("n.r1", "acme-shop")}
        made = World(plane, below, pods, ports=(first, first), serves_metrics=True)
        item = {
            "metadata": {"name": "web", "namespace": "acme-shop"},
            "timestamp": "2026-01-01T00:00:00Z",
            "window": "15s",
            "containers": [{"name": "c", "usage": {"cpu": "5m"}}],
        }
        below.objects["/apis/metrics.k8s.io/v1beta1/pods"] = {"items": [item]}
        plane.objects |= {
            API_SERVICE: {"metadata": {"name": "x"}},
            "/api/v1/nodes": {"metadata": {"resourceVersion": "1"}, "items": []},
        }
        made.publish(OURS)
        made.allow(True)
        yield made


@pytest.fixture
async def measured(free_ports: Callable[[int], int]) -> AsyncIterator[World]:
    async with measuring(free_ports(1)) as made, made.serving():
        yield made


async def test_requests_that_the_control_plane_forwards_get_usage(measured: World) -> None:
    status, body = await measured.ask(f"GET {METRICS}", identity=FRONT_PROXY.client("front-proxy-client"))
    assert status == 200
    [item] = msgspec.json.decode(body)["items"]
    assert item["metadata"]["namespace"] == "shop"
    assert item["containers"] == [{"name": "c", "usage": {"cpu": "5m"}}]


@pytest.mark.parametrize("identity", [CALLER, OURS.client("front-proxy-client"), FRONT_PROXY.client("alice")])
async def test_usage_is_told_to_nobody_else(measured: World, identity: Any) -> None:
    assert (await measured.ask(f"GET {METRICS}", identity=identity))[0] == 403


async def test_other_syncers_are_told_usage_as_a_kubelets_caller(measured: World) -> None:
    status, body = await measured.ask("GET /usage")
    assert (status, [each["node"] for each in msgspec.json.decode(body)]) == (200, ["n.r1"])
    measured.allow(False)
    assert (await measured.ask("GET /usage", identity=OURS.client("bob")))[0] == 403
    assert (await measured.ask("GET /usage", identity=FRONT_PROXY.client("front-proxy-client")))[0] == 403


async def test_without_a_front_proxy_usage_is_told_to_nobody(world: World) -> None:
    assert (await world.ask(f"GET {METRICS}"))[0] == 403


async def test_a_server_of_the_tenants_own_is_left_alone(measured: World) -> None:
    await measured.endpoint()
    async with asyncio.timeout(10):
        while not any(API_SERVICE in line for line in measured.plane.lines()):
            await asyncio.sleep(0.01)
    assert not any(line.startswith("PATCH") for line in measured.plane.lines())


@pytest.mark.parametrize("leaves", [False, True])
async def test_a_registration_is_removed_when_the_tenant_leaves(
    free_ports: Callable[[int], int], leaves: bool
) -> None:
    labels, annotations = {PART_OF: PROJECT}, {names.METRICS_PUBLISHER: "r1"}
    async with measuring(free_ports(1)) as world:
        world.plane.objects[API_SERVICE] = {
            "metadata": {"name": "x", "labels": labels, "annotations": annotations}
        }
        world.leaves = leaves
        async with world.serving():
            await world.endpoint()
        deleted = [line for line in world.plane.lines() if f"DELETE {API_SERVICE}" in line]
        assert bool(deleted) == leaves


async def test_heads_and_queries_of_requests_have_limits(world: World) -> None:
    field = "X: " + "a" * 997 + "\r\n"
    assert (await world.ask("GET /exec/shop/web/app", field * 60))[0] == 400  # no upgrade
    assert (await world.ask("GET /exec/shop/web/app", field * 110))[0] == 431
    assert (await world.ask("GET /exec/shop/web/app?command=" + "a" * 200_000))[0] == 400
    status, text = await world.ask("GET /exec/shop/web/app?" + "&" * 2_000)
    assert (status, text) == (400, "the request has more than 2000 query parameters\n")
