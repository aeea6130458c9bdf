"""Usage is collected from the own super cluster and from the syncers of others."""

from typing import Any

import msgspec
import pytest

from vcsync.kube.errors import NotFound, Status
from vcsync.objects.envelope import encode, parse
from vcsync.resourcemetrics.documents import ContainerUsage, Described, Usage
from vcsync.syncer.metrics_api.answers import PodReport
from vcsync.syncer.metrics_api.super_usage import FRESH_SECONDS, SuperUsage
from vcsync.syncer.metrics_api.tenant_usage import MOST_SUPER_CLUSTERS, RunningPod, TenantUsage, encoded

USAGE = Usage("2026-01-01T00:00:00Z", "15s", (ContainerUsage("c", {"cpu": "5m"}),))
METRICS = "/apis/metrics.k8s.io/v1beta1/pods"


class Server:
    """A client of an API server with some answers, which records requests."""

    def __init__(self, answers: dict[str, Any], nodes: tuple[str, ...] = ()) -> None:
        self.answers = answers
        self.nodes = nodes
        self.asked: list[str] = []

    async def request(self, method: str, path: str, **_: Any) -> bytes:
        self.asked.append(path)
        found = self.answers.get(path, NotFound(Status(404)))
        if isinstance(found, Exception):
            raise found
        return found if isinstance(found, bytes) else msgspec.json.encode(found)

    def metadata_only(self) -> "Server":
        return self

    async def list(self, _resource: Any, **_: Any) -> list[Any]:
        self.asked.append("nodes")
        return [parse(encode({"metadata": {"name": name, "labels": {"n": name}}})) for name in self.nodes]


def measured(*places: tuple[str, str]) -> dict[str, Any]:
    items = [
        {
            "metadata": {"namespace": namespace, "name": name},
            "timestamp": USAGE.timestamp,
            "window": USAGE.window,
            "containers": [{"name": "c", "usage": {"cpu": "5m"}}],
        }
        for namespace, name in places
    ]
    return {"items": items}


class World:
    def __init__(self, tenant: Server, below: Server) -> None:
        self.now = 100.0
        self.tenant, self.below = tenant, below
        pods = [
            RunningPod(Described("web", "shop", {"app": "web"}), "n.r1", "acme-shop"),
            RunningPod(Described("new", "shop"), "n.r1", "acme-shop"),
        ]
        super_usage = SuperUsage(below, "r1", lambda: self.now)  # type: ignore[arg-type]
        self.made = TenantUsage(tenant, "r1", lambda: pods, super_usage, lambda: self.now)  # type: ignore[arg-type]


def other(name: str, node: str) -> PodReport:
    return PodReport(Described(name, "shop"), node, USAGE)


async def test_only_the_tenants_own_pods_are_reported() -> None:
    world = World(
        Server({}),
        Server({METRICS: measured(("acme-shop", "web"), ("umbrella-shop", "web"), ("acme-shop", "x"))}),
    )
    assert await world.made.here() == [PodReport(Described("web", "shop", {"app": "web"}), "n.r1", USAGE)]
    await world.made.here()
    assert world.below.asked == [METRICS]
    world.now += FRESH_SECONDS
    await world.made.here()
    assert world.below.asked == [METRICS] * 2


async def test_other_syncers_are_asked_once_as_kubelets_of_one_of_their_nodes() -> None:
    path = "/api/v1/nodes/{}/proxy/usage"
    tenant = Server(
        {path.format("a.r2"): encoded([other("db", "a.r2"), other("lie", "n.r1"), other("lie", "")])},
        ("n.r1", "a.r2", "b.r2", "c.r3", "own"),
    )
    world = World(tenant, Server({METRICS: measured(("acme-shop", "web"))}))
    pods, nodes = await world.made.everywhere()
    assert [(each.pod.name, each.node) for each in pods] == [("web", "n.r1"), ("db", "a.r2")]
    assert [each.name for each in nodes] == ["n.r1", "a.r2", "b.r2", "c.r3", "own"]
    assert tenant.asked == ["nodes", path.format("a.r2"), path.format("c.r3")]
    await world.made.everywhere()
    assert len(tenant.asked) == 3
    world.now += FRESH_SECONDS
    await world.made.everywhere()
    assert len(tenant.asked) == 6


async def test_a_report_with_what_is_no_quantity_does_no_harm() -> None:
    odd = Usage("", "", (ContainerUsage("c", {"cpu": "x", "memory": "1Mi", "other": "1"}),))
    forged = encoded([PodReport(Described("db", "shop"), "a.r2", odd)])
    world = World(Server({"/api/v1/nodes/a.r2/proxy/usage": forged}, ("a.r2",)), Server({}))
    [found], _ = await world.made.everywhere()
    assert found.usage.containers == (ContainerUsage("c", {"memory": "1Mi"}),)


@pytest.mark.parametrize("answer", [b"<html>", {"items": 5}, NotFound(Status(404))])
async def test_what_a_super_cluster_does_not_tell_is_left_out(answer: Any) -> None:
    world = World(Server({"/api/v1/nodes/a.r2/proxy/usage": answer}, ("a.r2",)), Server({METRICS: answer}))
    pods, nodes = await world.made.everywhere()
    assert (pods, [each.name for each in nodes]) == ([], ["a.r2"])


async def test_a_control_plane_that_makes_up_nodes_has_few_of_them_asked() -> None:
    tenant = Server({}, tuple(f"n.r{number}" for number in range(2, 500)))
    world = World(tenant, Server({}))
    assert (await world.made.everywhere())[0] == []
    assert len(tenant.asked) == 1 + MOST_SUPER_CLUSTERS
