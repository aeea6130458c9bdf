"""The syncer reports the progress of a drain while its super cluster drains."""

from __future__ import annotations

import json
from typing import Any

import pytest
from engine_paper import PaperApi, PaperCaches

from vcsync.api import names
from vcsync.api.objects import SuperCluster
from vcsync.api.resources import NAMESPACE_PLACEMENTS, SUPER_CLUSTERS
from vcsync.api.specs import DrainCount, DrainProgress
from vcsync.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from vcsync.objects.envelope import parse
from vcsync.syncer.drain_progress import Key
from vcsync.syncer.drain_report import DrainReport
from vcsync.syncer.ledger import Ledger

ACME, OTHER = "vcsync-1a2b3c-acme", "vcsync-1a2b3c-other"


class World:
    """A super cluster with Pods and claims of two tenants, and its SuperCluster in the meta cluster."""

    def __init__(self) -> None:
        self.meta = PaperApi("meta")
        self.caches = PaperCaches(PODS, PERSISTENT_VOLUME_CLAIMS)
        self.ledger = Ledger(self.meta, "r1", lambda *_: None)  # type: ignore[arg-type]
        self.blocked: dict[Key, str] = {}
        self.now = 0.0
        self.set(drain=True)
        self.begin()

    def begin(self, *shard: int) -> None:
        """A syncer starts."""
        self.report = DrainReport(
            meta=self.meta,  # type: ignore[arg-type]
            super_id="r1",
            shard=shard or (1, 1),  # type: ignore[arg-type]
            caches=self.caches,  # type: ignore[arg-type]
            ledger=self.ledger,
            blocked=lambda: self.blocked,
            owns=lambda tenant: tenant == ACME if shard else bool(tenant),
            found=self.found,
            clock=lambda: self.now,
        )

    def set(self, *, drain: bool) -> None:
        status = self.meta.objects.get((SUPER_CLUSTERS.plural, "", "r1"), {}).get("status", {})
        body = {"metadata": {"name": "r1"}, "spec": {"id": "r1", "drain": drain}, "status": status}
        self.meta.put(SUPER_CLUSTERS, body)

    def found(self) -> SuperCluster:
        stored = self.meta.objects[SUPER_CLUSTERS.plural, "", "r1"]
        return SuperCluster.from_envelope(parse(json.dumps(stored).encode()))

    def place(self, namespace: str, slices: int, tenant: str = ACME, **status: Any) -> None:
        placed = self.meta.put(
            NAMESPACE_PLACEMENTS,
            {
                "metadata": {
                    "name": namespace,
                    "namespace": tenant,
                    "uid": f"np-{tenant}-{namespace}",
                    "finalizers": [names.drain_finalizer("r1")],
                },
                "spec": {
                    "virtualCluster": {"namespace": "vcsync", "name": "acme", "uid": "vc"},
                    "tenant": tenant,
                    "namespace": namespace,
                    "namespaceUID": "ns",
                    "slices": 1,
                    "sliceSize": {"cpu": "1", "memory": "1Gi"},
                },
                "status": {"placements": {"r1": slices} if slices else {"r2": 1}, **status},
            },
        )
        self.ledger.reflector.observe(placed)

    def hold(self, resource: Any, name: str, phase: str, tenant: str = ACME) -> None:
        meta = {
            "name": name,
            "namespace": names.super_namespace(tenant, "shop"),
            "annotations": {names.CLUSTER: tenant, names.NAMESPACE: "shop"},
        }
        body = {"metadata": meta, "status": {"phase": phase}}
        self.caches.reflectors[resource].observe(self.meta.put(resource, body))

    def end(self, name: str, tenant: str = ACME) -> None:
        place = names.super_namespace(tenant, "shop")
        pod = self.caches.get(PODS, place, name)
        assert pod is not None
        self.caches.reflectors[PODS].observe_gone(place, name, pod.uid)

    async def progress(self, shard: str = "1/1") -> DrainProgress:
        await self.report.look()
        return self.found().status.drain[shard]


@pytest.fixture
def world() -> World:
    return World()


async def test_what_is_there_is_counted(world: World) -> None:
    world.place("shop", 1)
    world.place("left", 0)
    world.place("theirs", 1, OTHER)
    for name, phase in (("a", "Running"), ("b", "Pending"), ("done", "Succeeded")):
        world.hold(PODS, name, phase)
    world.hold(PERSISTENT_VOLUME_CLAIMS, "data", "Bound")
    world.hold(PERSISTENT_VOLUME_CLAIMS, "later", "Pending")
    reached = await world.progress()
    assert reached.namespaces == DrainCount(total=3, left=3)
    assert reached.pods == DrainCount(total=2, left=2)
    assert reached.claims == DrainCount(total=1, left=1)


async def test_a_new_syncer_continues_the_progress(world: World) -> None:
    for name in ("a", "b", "c", "d"):
        world.hold(PODS, name, "Running")
    before = await world.progress()
    world.end("a")
    world.now = 60.0
    assert (await world.progress()).pods_per_hour == 60
    world.begin()
    world.end("b")
    after = await world.progress()
    assert (after.since, after.pods) == (before.since, DrainCount(total=4, left=2))


async def test_nothing_is_written_that_has_not_changed(world: World) -> None:
    world.hold(PODS, "a", "Running")
    await world.report.look()
    written = len(world.meta.writes())
    await world.report.look()
    assert len(world.meta.writes()) == written


async def test_the_progress_ends_with_the_drain(world: World) -> None:
    world.set(drain=False)
    await world.report.look()
    assert world.meta.writes() == []
    world.set(drain=True)
    await world.report.look()
    world.set(drain=False)
    await world.report.look()
    assert world.found().status.drain == {}


async def test_blocked_namespaces_are_told_with_the_reasons(world: World) -> None:
    full = {"superCluster": "r2", "refusedBy": ["Capacity"], "reason": "no room"}
    world.place("large", 1, explanation=[full])
    world.place("next", 1, explanation=[full, {"superCluster": "r3"}])
    world.place("left", 0)
    world.blocked = {(ACME, "left"): "it has volumes here"}
    reached = await world.progress()
    assert [(each.namespace, each.reason) for each in reached.blocked] == [
        ("large", "no other super cluster takes its slices: r2: no room"),
        ("left", "it has volumes here"),
    ]


async def test_a_shard_reports_its_own_tenants(world: World) -> None:
    world.begin(2, 2)
    world.place("shop", 1)
    world.place("shop", 1, OTHER)
    world.hold(PODS, "a", "Running")
    world.hold(PODS, "b", "Running", OTHER)
    world.blocked = {(OTHER, "shop"): "not ours"}
    reached = await world.progress("2/2")
    assert (reached.namespaces.left, reached.pods.left, reached.blocked) == (1, 1, ())
