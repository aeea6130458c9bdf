"""Garbage collection of Pods: of missing nodes, finished ones above a limit, and those that no kubelet will stop."""

from typing import Any

import pytest
from controllers_world import World

from vcsync.controllers.framework.mirror import placed
from vcsync.controllers.framework.plan import Controller
from vcsync.controllers.framework.worker import ReconcileContext, Worker
from vcsync.controllers.podgc.podgc_plan import PodGarbage, pod_garbage_collector
from vcsync.fairqueue import ObjectName
from vcsync.kube.cache import Change
from vcsync.kube.errors import NotFound, Status
from vcsync.kube.resources import NAMESPACES, NODES, PODS, Resource
from vcsync.objects.envelope import Envelope, encode, parse
from vcsync.objects.merge_patch import merge_patch

NOW = "2026-01-01T00:00:00Z"


class Server:
    """A tenant's API as the controller uses it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.unseen: set[str] = set()
        self.failed: dict[str, Any] = {}
        self.deleted: list[str] = []

    def metadata_only(self) -> "Server":
        return self

    async def get(self, _resource: Resource, name: str) -> None:
        if name not in self.unseen:
            raise NotFound(Status(404))

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: dict[str, Any],
        namespace: str,
        *,
        kind: str,
        subresource: str,
    ) -> None:
        assert (kind, subresource) == ("strategic", "status")
        there = self.world.body(resource, name, namespace)
        assert patch["metadata"]["uid"] == there["metadata"]["uid"]
        self.failed[name] = patch["status"]
        self.world.put(resource, merge_patch(there, {"status": patch["status"]}), namespace)

    async def delete(
        self, resource: Resource, name: str, namespace: str, *, uid: str, grace_seconds: int
    ) -> None:
        assert grace_seconds == 0
        assert uid == self.world.body(resource, name, namespace)["metadata"]["uid"]
        self.deleted.append(name)
        self.world.remove(resource, name, namespace)


@pytest.fixture
def controller() -> Worker:
    return pod_garbage_collector(2)


@pytest.fixture
def world(controller: Worker) -> World:
    reads = Controller("reads", controller.watches, lambda *_: None, controller.reads)  # type: ignore[arg-type]
    made = World([reads])
    made.put(NAMESPACES, {"metadata": {"name": "default"}})
    return made


def pod(
    name: str, *, node: str = "", phase: str = "Running", reason: str = "", **metadata: Any
) -> dict[str, Any]:
    status = {"phase": phase, "reason": reason}
    return {"metadata": {"name": name, **metadata}, "spec": {"nodeName": node}, "status": status}


async def work(
    controller: Worker, world: World, server: Server, noted: list[tuple[Any, ...]] | None = None
) -> float | None:
    timeline: list[tuple[Any, ...]] = [] if noted is None else noted
    context = ReconcileContext(world.view(), server, note=lambda *each: timeline.append(each))  # type: ignore[arg-type]
    return await controller.work(context, world.key("", ""))


async def test_pods_of_a_missing_node_fail_and_are_deleted(controller: Worker, world: World) -> None:
    world.put(NODES, {"metadata": {"name": "here"}})
    world.put(PODS, pod("lost", node="gone"))
    world.put(PODS, pod("fine", node="here"))
    world.put(PODS, pod("pending", phase="Pending"))
    server = Server(world)
    assert await work(controller, world, server) == 20
    assert server.deleted == []
    world.pass_time(41)
    version = world.body(PODS, "lost")["metadata"]["resourceVersion"]
    noted: list[tuple[Any, ...]] = []
    await work(controller, world, server, noted)
    assert server.deleted == ["lost"]
    assert noted == [(ObjectName("pods", "default", "lost"), "deleted", version)]
    [condition] = server.failed["lost"]["conditions"]
    assert (condition["type"], condition["reason"]) == ("DisruptionTarget", "DeletionByPodGC")
    world.pass_time(21)
    assert await work(controller, world, server) is None


async def test_a_node_that_appears_in_time_keeps_its_pods(controller: Worker, world: World) -> None:
    world.put(PODS, pod("a", node="late"))
    server = Server(world)
    await work(controller, world, server)
    server.unseen = {"late"}
    world.pass_time(60)
    await work(controller, world, server)
    world.put(NODES, {"metadata": {"name": "late"}})
    world.pass_time(60)
    await work(controller, world, server)
    world.remove(NODES, "late")
    server.unseen = set()
    world.pass_time(30)
    await work(controller, world, server)
    assert server.deleted == []


async def test_finished_pods_above_the_limit_are_deleted_evicted_ones_first(
    controller: Worker, world: World
) -> None:
    for position, name in enumerate(("old", "older", "newest", "evicted")):
        phase, reason = ("Failed", "Evicted") if name == "evicted" else ("Succeeded", "")
        made = ("2026-01-01", "2025-01-01", "2026-01-03", "2026-01-02")[position] + "T00:00:00Z"
        world.put(PODS, pod(name, phase=phase, reason=reason, creationTimestamp=made))
    server = Server(world)
    await work(controller, world, server)
    assert server.deleted == ["evicted", "older"]
    assert server.failed == {}


async def test_terminating_pods_without_a_kubelet_are_deleted(controller: Worker, world: World) -> None:
    taint = {"key": "node.kubernetes.io/out-of-service"}
    down = {"conditions": [{"type": "Ready", "status": "False"}]}
    up = {"conditions": [{"type": "Ready", "status": "True"}]}
    for name, taints, status in (("out", [taint], down), ("ready", [taint], up), ("down", [], down)):
        world.put(NODES, {"metadata": {"name": name}, "spec": {"taints": taints}, "status": status})
        world.put(PODS, pod(f"on-{name}", node=name, deletionTimestamp=NOW))
    world.put(PODS, pod("nowhere", deletionTimestamp=NOW))
    world.put(PODS, pod("stays"))
    server = Server(world)
    await work(controller, world, server)
    assert set(server.deleted) == {"on-out", "nowhere"}
    assert server.failed["nowhere"] == {"phase": "Failed"}


async def test_a_tenant_is_processed_at_most_every_20_seconds(controller: Worker, world: World) -> None:
    server = Server(world)
    assert await work(controller, world, server) is None
    world.pass_time(5)
    world.put(PODS, pod("nowhere", deletionTimestamp=NOW))
    assert await work(controller, world, server) == 15
    assert server.deleted == []


def test_only_possible_garbage_queues_a_tenant(controller: Worker, world: World) -> None:
    world.put(NODES, {"metadata": {"name": "here"}})
    nodes, watched = controller.watches

    def wakes(body: dict[str, Any]) -> bool:
        new: Envelope = placed(parse(encode(body)), "acme")
        return list(watched.keys(Change(None, new), world.view())) == [world.key("", "")]

    assert wakes(pod("a", node="gone"))
    assert wakes(pod("a", phase="Succeeded"))
    assert wakes(pod("a", deletionTimestamp=NOW))
    assert not wakes(pod("a", node="here"))
    assert not wakes(pod("a", node="here", deletionTimestamp=NOW))
    node = placed(parse(encode({"metadata": {"name": "here"}})), "acme")
    assert list(nodes.keys(Change(node, None), world.view())) == [world.key("", "")]
    assert list(nodes.keys(Change(None, node), world.view())) == []


async def test_the_state_of_a_deleted_tenant_is_dropped(world: World) -> None:
    garbage = PodGarbage()
    world.put(NODES, {"metadata": {"name": "here"}})
    world.put(PODS, pod("lost", node="gone"))
    server = Server(world)
    key = world.key("", "")
    await garbage.work(ReconcileContext(world.view(), server), key)  # type: ignore[arg-type]
    world.remove(NAMESPACES, "default", "")
    assert await garbage.work(ReconcileContext(world.view(), server), key) is None  # type: ignore[arg-type]
    assert (garbage._last, garbage._missing) == ({}, {})
