"""The resource metrics API of a tenant: discovery, lists, objects, and who serves it."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from asked_plane import Everybody, Response, ask
from served_definitions import DEFINITIONS, until

from vcsync.apimachinery import errors
from vcsync.apiserver.assembly.server import assemble
from vcsync.apiserver.kubelets.super_clusters import NotMeasured, TenantPods
from vcsync.apiserver.storage.sqlite import open_sqlite
from vcsync.resourcemetrics.documents import ContainerUsage, Usage

API = "/tenants/a/apis/metrics.k8s.io/v1beta1"
SHOP = f"{API}/namespaces/shop/pods"


class Pool:
    """Super clusters that tell what a test has put here, by namespace and super cluster."""

    def __init__(self) -> None:
        self.told: dict[tuple[str, str], dict[str, str]] = {}
        self.error: Exception | None = None
        self.asked: list[tuple[TenantPods, str]] = []

    async def usage(self, pods: TenantPods, super_id: str) -> bytes:
        self.asked.append((pods, super_id))
        if self.error is not None:
            raise self.error
        if (pods.namespace, super_id) not in self.told:
            raise NotMeasured("nothing here")
        items = [
            {
                "metadata": {"name": name, "namespace": "vcsync-a-shop", "labels": {"their": "label"}},
                "timestamp": "2026-01-01T00:00:00Z",
                "window": "15s",
                "containers": [{"name": "c", "usage": {"cpu": cpu, "memory": "1Mi"}}],
            }
            for name, cpu in self.told[pods.namespace, super_id].items()
        ]
        return msgspec.json.encode({"items": items})


def simulated(pod: bytes) -> Usage | None:
    if b'"hollow"' not in pod:
        return None
    return Usage("2026-01-01T00:00:00Z", "15s", (ContainerUsage("c", {"cpu": "7m", "memory": "7Mi"}),))


class World:
    """A control plane with a pool."""

    def __init__(self, chain: Any, pool: Pool) -> None:
        self.chain, self.pool = chain, pool

    async def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Response:
        return await ask(self.chain, method, path, body, **headers)

    async def put(self, path: str, name: str, **fields: Any) -> None:
        made = await self("POST", f"/tenants/a/api/v1/{path}", {"metadata": {"name": name}, **fields})
        assert made.status == 201, made.body

    async def pod(self, name: str, node: str, namespace: str = "shop", **labels: str) -> None:
        body = {
            "metadata": {"name": name, "labels": labels},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]},
        }
        made = await self("POST", f"/tenants/a/api/v1/namespaces/{namespace}/pods", body)
        assert made.status == 201, made.body

    async def names(self, path: str) -> list[str]:
        found = await self("GET", path)
        assert found.status == 200, found.body
        return [each["metadata"]["name"] for each in found["items"]]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    pool = Pool()
    store = await open_sqlite(tmp_path / "store")
    made = assemble(store, Everybody(), pool=pool, simulated=simulated)  # type: ignore[arg-type]
    await made.start("127.0.0.1", 0, None)
    world = World(made.server.chain, pool)
    for name in ("kube-system", "shop", "blog"):
        await world.put("namespaces", name)
    for name in ("n.r1", "n.r2", "m.r1"):
        await world.put("nodes", name)
    yield world
    await made.stop()
    await store.close()


async def test_pods_on_super_clusters_have_the_usage_that_these_tell(world: World) -> None:
    await world.pod("web", "n.r1", app="web")
    await world.pod("db", "n.r2", app="db")
    await world.pod("new", "n.r1")
    await world.pod("idle", "")
    await world.pod("post", "n.r1", "blog")
    world.pool.told = {
        ("shop", "r1"): {"web": "5m", "foreign": "1"},
        ("shop", "r2"): {"db": "6m"},
        ("blog", "r1"): {"post": "7m"},
    }
    assert await world.names(SHOP) == ["db", "web"]
    assert await world.names(f"{API}/pods") == ["post", "db", "web"]
    assert await world.names(f"{SHOP}?labelSelector=app%3Dweb") == ["web"]
    assert await world.names(f"{SHOP}?fieldSelector=metadata.name%3Ddb") == ["db"]
    one = await world("GET", f"{SHOP}/web")
    assert one["metadata.labels"] == {"app": "web"}
    assert one["containers"] == [{"name": "c", "usage": {"cpu": "5m", "memory": "1Mi"}}]
    uid = (await world("GET", "/tenants/a/api/v1/namespaces/kube-system"))["metadata.uid"]
    assert (TenantPods("a", uid, "shop"), "r1") in world.pool.asked


async def test_pods_without_known_usage_are_not_found(world: World) -> None:
    await world.pod("web", "n.r1")
    for name in ("web", "other"):
        assert (await world("GET", f"{SHOP}/{name}")).status == 404
    missing = await world("GET", f"{SHOP}/web")
    assert missing["message"] == 'pods.metrics.k8s.io "shop/web" not found'


async def test_the_usage_of_a_node_is_that_of_the_tenants_pods_on_it(world: World) -> None:
    await world.pod("web", "n.r1")
    await world.pod("post", "n.r1", "blog")
    world.pool.told = {("shop", "r1"): {"web": "5m"}, ("blog", "r1"): {"post": "7m"}}
    found = {
        each["metadata"]["name"]: each["usage"] for each in (await world("GET", f"{API}/nodes"))["items"]
    }
    nothing = {"cpu": "0", "memory": "0"}
    assert found == {"m.r1": nothing, "n.r1": {"cpu": "12m", "memory": "2048Ki"}, "n.r2": nothing}
    assert (await world("GET", f"{API}/nodes/n.r1"))["usage.cpu"] == "12m"
    assert (await world("GET", f"{API}/nodes/other")).status == 404


async def test_pods_of_hollow_nodes_have_simulated_usage(world: World) -> None:
    await world.pod("web", "node-1", kind="hollow")
    await world.pod("real", "node-1")
    assert await world.names(SHOP) == ["web"]
    assert world.pool.asked == []


async def test_a_pool_that_cannot_be_read_is_said_to_be(world: World) -> None:
    await world.pod("web", "n.r1")
    world.pool.error = errors.unavailable("the pool is away")
    assert (await world("GET", SHOP)).status == 503


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", f"{API}/services", 404),
        ("GET", f"{API}/namespaces/shop/pods/web/log", 404),
        ("GET", f"{API}/namespaces/shop/nodes", 404),
        ("GET", f"{SHOP}?watch=true", 405),
        ("POST", SHOP, 405),
        ("DELETE", f"{SHOP}/web", 405),
        ("POST", API, 405),
        ("GET", f"{SHOP}?labelSelector=%3D%3D", 400),
        ("GET", f"{SHOP}?fieldSelector=spec.wrong%3Dx", 400),
        ("GET", "/tenants/a/apis/metrics.k8s.io/v1", 404),
        ("GET", "/tenants/system/apis/metrics.k8s.io/v1beta1/nodes", 404),
        ("GET", "/apis/metrics.k8s.io/v1beta1/tenants/all/pods", 404),
    ],
)
async def test_other_requests_are_refused(world: World, method: str, path: str, status: int) -> None:
    assert (await world(method, path)).status == status


async def test_discovery_lists_the_api(world: World) -> None:
    listed = await world("GET", "/tenants/a/apis")
    assert [each["name"] for each in listed["groups"]].count("metrics.k8s.io") == 1
    group = await world("GET", "/tenants/a/apis/metrics.k8s.io")
    assert group["preferredVersion.groupVersion"] == "metrics.k8s.io/v1beta1"
    resources = await world("GET", API)
    assert [(each["name"], each["kind"], each["verbs"]) for each in resources["resources"]] == [
        ("nodes", "NodeMetrics", ["get", "list"]),
        ("pods", "PodMetrics", ["get", "list"]),
    ]


async def test_a_definition_of_the_tenant_takes_the_place_of_the_api(world: World) -> None:
    version = {
        "name": "v1beta1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    definition = {
        "metadata": {
            "name": "pods.metrics.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
        },
        "spec": {
            "group": "metrics.k8s.io",
            "scope": "Namespaced",
            "names": {"plural": "pods", "kind": "PodMetrics"},
            "versions": [version],
        },
    }
    assert (await world("POST", f"/tenants/a{DEFINITIONS}", definition)).status == 201

    async def is_listed() -> bool:
        return [each["kind"] for each in (await world("GET", API))["resources"]] == ["PodMetrics"]

    await until(is_listed)
    await world.pod("web", "n.r1")
    world.pool.told = {("shop", "r1"): {"web": "5m"}}
    assert await world.names(SHOP) == []
    assert world.pool.asked == []


async def test_without_a_pool_there_is_no_such_api(tmp_path: Path) -> None:
    store = await open_sqlite(tmp_path / "store")
    chain = assemble(store, Everybody()).server.chain  # type: ignore[arg-type]
    assert (await ask(chain, "GET", SHOP)).status == 404
    listed = await ask(chain, "GET", "/tenants/a/apis")
    assert "metrics.k8s.io" not in [each["name"] for each in listed["groups"]]
    await store.close()
