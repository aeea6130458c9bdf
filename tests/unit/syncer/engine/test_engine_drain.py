"""Draining a namespace from a super cluster."""

import pytest
from engine_paper import PaperApi, PaperCaches

from vcsync.api import names
from vcsync.api.resources import NAMESPACE_PLACEMENTS
from vcsync.kube.envelope import Envelope
from vcsync.kube.resources import NAMESPACES, PODS
from vcsync.syncer.drain import Drain
from vcsync.syncer.ledger import Ledger

KEY = "vcsync-1a2b3c-acme"
SUPER_NAMESPACE = names.super_namespace(KEY, "shop")


class World:
    """A super cluster that holds namespace `shop` of a tenant with Pods, and the meta cluster's ledger of it."""

    def __init__(self) -> None:
        self.meta, self.super = PaperApi("meta"), PaperApi("r1")
        self.caches = PaperCaches(NAMESPACES, PODS)
        self.ledger = Ledger(self.meta, "r1", lambda *_: None)
        self.drain = Drain(
            meta=self.meta, super_client=self.super, super_id="r1", caches=self.caches, ledger=self.ledger
        )

    def place(self, placements: dict[str, int], *finalizers: str) -> Envelope:
        placed = self.meta.put(
            NAMESPACE_PLACEMENTS,
            {
                "metadata": {"name": "shop", "namespace": KEY, "uid": "np", "finalizers": list(finalizers)},
                "spec": {
                    "virtualCluster": {"namespace": "vcsync", "name": "acme", "uid": "vc"},
                    "tenant": KEY,
                    "namespace": "shop",
                    "namespaceUID": "ns",
                    "sliceSize": {"cpu": "1", "memory": "1Gi"},
                },
                "status": {"placements": placements},
            },
        )
        self.ledger.reflector.observe(placed)
        return placed

    def hold_namespace(self, **labels: str) -> None:
        meta = {
            "name": SUPER_NAMESPACE,
            "labels": labels or {names.CONTROLLED: names.TRUE},
            "annotations": {names.CLUSTER: KEY, names.NAMESPACE: "shop"},
        }
        self.caches.reflectors[NAMESPACES].observe(self.super.put(NAMESPACES, {"metadata": meta}))

    def hold_pod(self, name: str, *, deleting: bool = False) -> Envelope:
        meta = {"name": name, "namespace": SUPER_NAMESPACE}
        if deleting:
            meta["deletionTimestamp"] = "2026-05-01T12:00:00Z"
        pod = self.super.put(PODS, {"metadata": meta, "spec": {}})
        self.caches.reflectors[PODS].observe(pod)
        return pod

    def finalizers(self) -> list[str]:
        return self.meta.objects[(NAMESPACE_PLACEMENTS.plural, KEY, "shop")]["metadata"]["finalizers"]


@pytest.fixture
def world() -> World:
    return World()


async def test_a_placed_namespace_is_not_drained(world: World) -> None:
    world.place({"r1": 1}, names.drain_finalizer("r1"))
    world.hold_namespace()
    assert await world.drain.step(KEY, "shop") is None
    assert world.super.calls == []


async def test_losing_a_placement_drains_pods_before_the_namespace(world: World) -> None:
    world.place({"r2": 1}, names.drain_finalizer("r1"))
    world.hold_namespace()
    pod = world.hold_pod("web")
    assert await world.drain.step(KEY, "shop") is not None
    assert world.super.writes() == [("delete", "pods", SUPER_NAMESPACE, "web")]
    assert "Pods" in world.drain.reasons[(KEY, "shop")]
    world.caches.reflectors[PODS].observe_gone(pod.namespace, pod.name, pod.uid)
    assert await world.drain.step(KEY, "shop") is not None
    assert not world.super.has(NAMESPACES, SUPER_NAMESPACE)
    assert world.finalizers() == [names.drain_finalizer("r1")]


async def test_the_finalizer_goes_last_and_leaves_those_of_others(world: World) -> None:
    world.place({"r2": 1}, names.drain_finalizer("r1"), names.drain_finalizer("r2"))
    assert await world.drain.step(KEY, "shop") is None
    assert world.finalizers() == [names.drain_finalizer("r2")]
    assert world.drain.reasons == {}


async def test_a_pod_that_is_going_already_is_waited_for_not_deleted_again(world: World) -> None:
    world.place({}, names.drain_finalizer("r1"))
    world.hold_pod("web", deleting=True)
    assert await world.drain.step(KEY, "shop") is not None
    assert world.super.writes() == []


async def test_a_strangers_namespace_of_that_name_is_left_alone(world: World) -> None:
    world.place({}, names.drain_finalizer("r1"))
    world.hold_namespace(team="other")
    assert await world.drain.step(KEY, "shop") is None
    assert world.super.has(NAMESPACES, SUPER_NAMESPACE)
    assert world.finalizers() == []


async def test_an_orphan_is_cleared_only_when_the_ledger_read_live_does_not_know_it(world: World) -> None:
    world.hold_namespace()
    world.meta.put(
        NAMESPACE_PLACEMENTS,
        {
            "metadata": {"name": "shop", "namespace": KEY, "uid": "np"},
            "spec": {
                "virtualCluster": {"namespace": "vcsync", "name": "acme", "uid": "vc"},
                "tenant": KEY,
                "namespace": "shop",
                "namespaceUID": "ns",
            },
            "status": {"placements": {"r1": 1}},
        },
    )
    assert await world.drain.step(KEY, "shop") is None
    assert world.super.has(NAMESPACES, SUPER_NAMESPACE), "the cache was behind; the placement stands"
    world.meta.objects.clear()
    world.ledger.reflector.observe_gone(KEY, "shop", "np")
    assert await world.drain.step(KEY, "shop") is not None
    assert not world.super.has(NAMESPACES, SUPER_NAMESPACE)


async def test_a_finalizer_that_only_precedes_a_placement_is_left_alone(world: World) -> None:
    world.place({}, names.drain_finalizer("r1"))
    behind = world.ledger.entry(KEY, "shop")
    placed = world.meta.objects[(NAMESPACE_PLACEMENTS.plural, KEY, "shop")]
    placed["status"] = {"placements": {"r1": 1}}
    placed["metadata"]["resourceVersion"] = "1000"
    assert behind is not None
    assert await world.drain.step(KEY, "shop") is None
    assert world.finalizers() == [names.drain_finalizer("r1")]
