"""Draining a namespace from a super cluster."""

from typing import Any

import pytest
from engine_paper import PaperApi, PaperCaches, PaperReflector, paper_limiter
from msgspec.structs import replace

from vcsync.api import names
from vcsync.api.resources import NAMESPACE_PLACEMENTS, SUPER_CLUSTERS
from vcsync.api.specs import DEFAULT_EVICTION_SECONDS
from vcsync.kube.errors import Forbidden, NotFound, Status
from vcsync.kube.resources import (
    CONFIG_MAPS,
    ENDPOINTS,
    INGRESSES,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    RESOURCE_QUOTAS,
    SERVICES,
    VOLUME_SNAPSHOTS,
)
from vcsync.objects.envelope import Envelope
from vcsync.syncer.drain import BRAKED_SECONDS, LOOK_AGAIN_SECONDS, Drain
from vcsync.syncer.drain_waits import (
    ASK_AGAIN_SECONDS,
    LONGEST_REST_SECONDS,
    MOST_REFUSALS,
    REST_AFTER_ANSWERS,
)
from vcsync.syncer.kinds.grace import LONGEST_GRACE_SECONDS
from vcsync.syncer.ledger import Holding, Ledger

KEY = "vcsync-1a2b3c-acme"
SUPER_NAMESPACE = names.super_namespace(KEY, "shop")


class World:
    """A super cluster that holds namespace `shop` of a tenant with Pods, and the meta cluster's ledger of it."""

    def __init__(self) -> None:
        self.meta, self.super = PaperApi("meta"), PaperApi("r1")
        self.caches = PaperCaches(NAMESPACES, PODS, PERSISTENT_VOLUME_CLAIMS, VOLUME_SNAPSHOTS)
        self.ledger = Ledger(self.meta, "r1", lambda *_: None)
        self.reported: list[tuple[str, str]] = []
        self.limiter = paper_limiter()
        self.drain = Drain(
            meta=self.meta,
            super_client=self.super,
            super_id="r1",
            caches=self.caches,
            ledger=self.ledger,
            on_deleted=lambda tenant, pod: self.reported.append((tenant, pod.name)),
            evict=self.evict,
            unbound=lambda tenant, pod: tenant == KEY and pod.name in self.unbound,
            availability=self.availability,
            keeps_data=self.keeps_data,
            clock=lambda: self.now,
            limiter=self.limiter,
        )
        self.now = 0.0
        self.exists = True
        self.asked: list[str] = []
        self.unbound: set[str] = set()
        self.budgets: dict[str, str] = {}
        self.needed: dict[str, str] = {}
        self.left: list[str] = []
        self.looks = 0
        """Number of steps that asked the tenant about its Pods."""
        self.slowness = 0.0
        """Seconds that each answer takes."""

    def availability(self, _tenant: str, _namespace: str) -> "World":
        self.looks += 1
        return self

    async def why_stay(self, name: str, uid: str) -> str:
        assert uid == f"uid-{name}"
        self.now += self.slowness
        return self.needed.get(name, "")

    def note_left(self, name: str) -> None:
        self.left.append(name)

    async def keeps_data(self, tenant: str, namespace: str) -> bool:
        assert (tenant, namespace) == (KEY, "shop")
        return self.exists

    async def evict(self, tenant: str, pod: Envelope) -> str:
        assert tenant == KEY
        self.asked.append(pod.name)
        return self.budgets.get(pod.name, "")

    def place(
        self,
        placements: dict[str, int],
        *finalizers: str,
        namespace: str = "shop",
        clearing: dict[str, Any] | None = None,
        devices: str = "",
    ) -> Envelope:
        placed = self.meta.put(
            NAMESPACE_PLACEMENTS,
            {
                "metadata": {
                    "name": namespace,
                    "namespace": KEY,
                    "uid": f"np-{namespace}",
                    "finalizers": list(finalizers),
                },
                "spec": {
                    "virtualCluster": {"namespace": "vcsync", "name": "acme", "uid": "vc"},
                    "tenant": KEY,
                    "namespace": namespace,
                    "namespaceUID": "ns",
                    "sliceSize": {"cpu": "1", "memory": "1Gi"} | ({"devices": devices} if devices else {}),
                },
                "status": {"placements": placements, "clearing": clearing or {}},
            },
        )
        self.ledger.reflector.observe(placed)
        return placed

    def hold_namespace(
        self, namespace: str = "shop", *, uid: str = "", deleting: bool = False, **labels: str
    ) -> None:
        meta: dict[str, Any] = {
            "name": names.super_namespace(KEY, namespace),
            "labels": labels or {names.CONTROLLED: names.TRUE},
            "annotations": {names.CLUSTER: KEY, names.NAMESPACE: namespace, names.UID: uid},
        }
        if deleting:
            meta["deletionTimestamp"] = "2026-05-01T12:00:00Z"
        self.caches.reflectors[NAMESPACES].observe(self.super.put(NAMESPACES, {"metadata": meta}))

    def hold_pod(self, name: str, *, deleting: bool = False, grace: int = 30) -> Envelope:
        meta: dict[str, Any] = {"name": name, "namespace": SUPER_NAMESPACE}
        meta["annotations"] = {names.CLUSTER: KEY, names.NAMESPACE: "shop", names.UID: f"uid-{name}"}
        if deleting:
            meta["deletionTimestamp"] = "2026-05-01T12:00:00Z"
            meta["deletionGracePeriodSeconds"] = grace
        pod = self.super.put(PODS, {"metadata": meta, "spec": {"terminationGracePeriodSeconds": grace}})
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
    assert world.reported == [(KEY, "web")]
    world.caches.reflectors[PODS].observe_gone(pod.namespace, pod.name, pod.uid)
    assert await world.drain.step(KEY, "shop") is not None
    assert not world.super.has(NAMESPACES, SUPER_NAMESPACE)
    assert world.finalizers() == [names.drain_finalizer("r1")]


async def test_the_finalizer_is_removed_last_and_others_are_kept(world: World) -> None:
    world.place({"r2": 1}, names.drain_finalizer("r1"), names.drain_finalizer("r2"))
    assert await world.drain.step(KEY, "shop") is None
    assert world.finalizers() == [names.drain_finalizer("r2")]
    assert world.drain.reasons == {}


async def test_a_pod_without_node_in_its_tenant_is_bound_or_given_back_before_it_is_drained(
    world: World,
) -> None:
    world.place({"r2": 1}, names.drain_finalizer("r1"))
    world.hold_namespace()
    world.hold_pod("starts")
    world.hold_pod("web")
    world.unbound = {"starts"}
    assert await world.drain.step(KEY, "shop") is not None
    assert (world.asked, world.super.writes()) == (["web"], [("delete", "pods", SUPER_NAMESPACE, "web")])
    assert world.drain.reasons[KEY, "shop"] == "2 Pods have not ended yet; 1 have no node in the tenant yet"
    world.now = 2 * LOOK_AGAIN_SECONDS
    world.unbound = set()
    await world.drain.step(KEY, "shop")
    assert "starts" in world.asked


@pytest.mark.parametrize("placements", [{"r2": 1}, {}], ids=["for too long", "its Pods are to run nowhere"])
async def test_a_pod_that_is_never_bound_does_not_hold_a_drain_up(
    world: World, placements: dict[str, int]
) -> None:
    world.place(placements, names.drain_finalizer("r1"))
    world.hold_namespace()
    world.hold_pod("starts")
    world.unbound = {"starts"}
    if placements:
        await world.drain.step(KEY, "shop")
        assert world.super.writes() == []
        world.now = DEFAULT_EVICTION_SECONDS
    await world.drain.step(KEY, "shop")
    assert world.super.writes() == [("delete", "pods", SUPER_NAMESPACE, "starts")]


async def test_a_pod_being_deleted_is_not_deleted_again(world: World) -> None:
    world.place({}, names.drain_finalizer("r1"))
    world.hold_pod("web", deleting=True)
    assert await world.drain.step(KEY, "shop") is not None
    assert world.super.writes() == []
    assert world.reported == []


@pytest.mark.parametrize("deleting", [True, False])
@pytest.mark.parametrize(("grace", "asked"), [(7200, None), (2**63 - 1, LONGEST_GRACE_SECONDS)])
async def test_the_grace_period_of_a_drained_pod_is_limited(
    world: World, deleting: bool, grace: int, asked: int | None
) -> None:
    world.place({}, names.drain_finalizer("r1"))
    world.hold_pod("web", deleting=deleting, grace=grace)
    assert await world.drain.step(KEY, "shop") is not None
    assert world.super.graces == ([] if deleting and asked is None else [asked])


async def test_a_foreign_namespace_of_that_name_is_kept(world: World) -> None:
    world.place({}, names.drain_finalizer("r1"))
    world.hold_namespace(team="other")
    assert await world.drain.step(KEY, "shop") is None
    assert world.super.has(NAMESPACES, SUPER_NAMESPACE)
    assert world.finalizers() == []


async def test_another_namespace_with_the_same_hashed_name_is_kept() -> None:
    one, other = (f"{'x' * 45}-{number}" for number in ("00416", "00744"))
    place = names.super_namespace(KEY, one)
    assert names.super_namespace(KEY, other) == place
    world = World()
    annotations = {names.CLUSTER: KEY, names.NAMESPACE: one}
    held = {"name": place, "labels": {names.CONTROLLED: names.TRUE}, "annotations": annotations}
    world.caches.reflectors[NAMESPACES].observe(world.super.put(NAMESPACES, {"metadata": held}))
    pod = {"name": "web", "namespace": place, "annotations": annotations}
    world.caches.reflectors[PODS].observe(world.super.put(PODS, {"metadata": pod, "spec": {}}))
    assert await world.drain.step(KEY, other) is None
    assert world.super.writes() == []


async def test_an_orphan_is_removed_after_a_live_read_of_the_ledger(world: World) -> None:
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


async def test_a_ledger_that_lost_its_entries_removes_no_namespaces(world: World) -> None:
    for number in range(40):
        world.hold_namespace(f"n{number}")
    assert await world.drain.step(KEY, "n0") == BRAKED_SECONDS
    assert world.super.writes() == []
    assert world.drain.reasons[KEY, "n0"].startswith(
        "40 of 40 namespaces in super cluster r1 that the ledger does not know would be deleted"
    )
    for number in range(40):
        world.place({"r1": 1}, names.drain_finalizer("r1"), namespace=f"n{number}")
    assert await world.drain.step(KEY, "n0") is None
    assert world.drain.reasons == {}
    assert not world.limiter.braked, "the brake lets go when the ledger knows them again"


async def test_namespaces_that_a_tenant_makes_and_deletes_one_after_the_other_brake_nothing(
    world: World,
) -> None:
    """Each event of a removed super namespace is handled after its placement has gone, as on a busy machine."""
    for number in range(60):
        world.hold_namespace(f"build-{number}")
        world.super.objects.clear()
        assert await world.drain.step(KEY, f"build-{number}") is None
    assert not world.limiter.braked
    assert world.drain.reasons == {}


async def test_namespaces_whose_copy_is_made_after_their_end_are_removed(world: World) -> None:
    """The ledger saw their end, so that the meta cluster is not in doubt."""
    for number in range(60):
        world.place({}, names.drain_finalizer("r1"), namespace=f"build-{number}")
        assert await world.drain.step(KEY, f"build-{number}") is None
        world.hold_namespace(f"build-{number}", uid="ns")
    for number in range(60):
        assert await world.drain.step(KEY, f"build-{number}") is not None
    assert not world.super.objects.keys() & {
        (NAMESPACES.plural, "", names.super_namespace(KEY, f"build-{number}")) for number in range(60)
    }
    assert not world.limiter.braked


async def test_a_namesake_of_a_namespace_whose_end_was_seen_is_unknown(world: World) -> None:
    for number in range(40):
        world.place({}, names.drain_finalizer("r1"), namespace=f"n{number}")
        assert await world.drain.step(KEY, f"n{number}") is None
        world.hold_namespace(f"n{number}", uid="another")
    assert await world.drain.step(KEY, "n0") == BRAKED_SECONDS


async def test_a_namespace_that_is_being_deleted_needs_no_permission(world: World) -> None:
    for number in range(40):
        world.hold_namespace(f"n{number}", deleting=number == 0)
    assert await world.drain.step(KEY, "n0") == LOOK_AGAIN_SECONDS
    assert await world.drain.step(KEY, "n1") == BRAKED_SECONDS, "39 others are unknown"


async def test_the_brake_ends_when_nothing_is_left_of_what_it_holds(world: World) -> None:
    for number in range(40):
        world.hold_namespace(f"n{number}")
    assert await world.drain.step(KEY, "n0") == BRAKED_SECONDS
    assert await world.drain.step(KEY, "n1") == BRAKED_SECONDS
    world.super.objects.clear()
    assert await world.drain.step(KEY, "n0") is None
    assert world.limiter.braked
    assert await world.drain.step(KEY, "n1") is None
    assert not world.limiter.braked
    assert world.drain.reasons == {}


async def test_a_namespace_missing_only_in_the_cache_is_not_an_orphan(world: World) -> None:
    for number in range(40):
        world.hold_namespace(f"n{number}")
    world.place({"r1": 1}, names.drain_finalizer("r1"), namespace="n0")
    world.ledger.reflector.observe_gone(KEY, "n0", "np-n0", final=False)
    assert await world.drain.step(KEY, "n0") is None
    assert not world.limiter.braked


async def test_few_orphans_among_many_namespaces_are_removed(world: World) -> None:
    world.hold_namespace("orphan")
    for number in range(40):
        world.hold_namespace(f"n{number}")
        world.place({"r1": 1}, names.drain_finalizer("r1"), namespace=f"n{number}")
    assert await world.drain.step(KEY, "orphan") is not None
    assert world.super.writes() == [("delete", "namespaces", "", names.super_namespace(KEY, "orphan"))]


async def test_a_finalizer_before_a_placement_is_kept(world: World) -> None:
    world.place({}, names.drain_finalizer("r1"))
    behind = world.ledger.entry(KEY, "shop")
    placed = world.meta.objects[(NAMESPACE_PLACEMENTS.plural, KEY, "shop")]
    placed["status"] = {"placements": {"r1": 1}}
    placed["metadata"]["resourceVersion"] = "1000"
    assert behind is not None
    assert await world.drain.step(KEY, "shop") is None
    assert world.finalizers() == [names.drain_finalizer("r1")]


async def test_a_drain_stops_when_the_namespace_is_placed_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.place({"r2": 1}, names.drain_finalizer("r1"))
    world.hold_namespace()
    for name in ("a", "b"):
        world.hold_pod(name)
    delete, get = world.super.delete, world.super.get

    async def placed_with_the_first_pod_gone(*args: object, **options: object) -> object:
        world.place({"r1": 1, "r2": 1}, names.drain_finalizer("r1"))
        return await delete(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(world.super, "delete", placed_with_the_first_pod_gone)
    await world.drain.step(KEY, "shop")
    assert [call[0] for call in world.super.writes()] == ["delete"]

    async def placed_as_it_is_read(*args: object) -> object:
        world.place({"r1": 1, "r2": 1}, names.drain_finalizer("r1"))
        return await get(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(world.super, "get", placed_as_it_is_read)
    for pod in list(world.caches.items(PODS)):
        world.caches.reflectors[PODS].observe_gone(pod.namespace, pod.name, pod.uid)
    world.place({"r2": 1}, names.drain_finalizer("r1"))
    assert await world.drain.step(KEY, "shop") is None
    assert world.super.has(NAMESPACES, SUPER_NAMESPACE)
    assert names.drain_finalizer("r1") in world.finalizers()


async def test_the_name_server_is_kept_for_other_namespaces(
    world: World,
) -> None:
    place = names.super_namespace(KEY, "kube-system")
    world.caches = PaperCaches(
        NAMESPACES,
        PODS,
        CONFIG_MAPS,
        SERVICES,
        ENDPOINTS,
        INGRESSES,
        PERSISTENT_VOLUME_CLAIMS,
        VOLUME_SNAPSHOTS,
    )
    world.drain._caches = world.caches  # type: ignore[assignment]
    world.place({"r1": 1}, names.drain_finalizer("r1"))
    world.place({"r2": 1}, names.drain_finalizer("r1"), namespace="kube-system")
    meta = {"labels": {names.CONTROLLED: names.TRUE}, "annotations": {names.CLUSTER: KEY}}
    for resource, name in (
        (CONFIG_MAPS, "coredns"),
        (SERVICES, "kube-dns"),
        (SERVICES, "metrics"),
        (ENDPOINTS, "kube-dns"),
        (INGRESSES, "web"),
    ):
        held = world.super.put(resource, {"metadata": {"name": name, "namespace": place, **meta}})
        world.caches.reflectors[resource].observe(held)
    of_the_operator = world.super.put(INGRESSES, {"metadata": {"name": "own", "namespace": place}})
    world.caches.reflectors[INGRESSES].observe(of_the_operator)
    assert await world.drain.step(KEY, "kube-system") is None
    assert world.super.writes() == [
        ("delete", "configmaps", place, "coredns"),
        ("delete", "services", place, "metrics"),
        ("delete", "ingresses", place, "web"),
    ]
    entry = world.ledger.entry(KEY, "kube-system")
    assert entry is not None
    assert entry.holding is Holding.NAME_SERVER


async def test_a_replaced_object_does_not_stop_the_removal_of_others(world: World) -> None:
    place = names.super_namespace(KEY, "kube-system")
    world.caches = PaperCaches(NAMESPACES, PODS, CONFIG_MAPS, PERSISTENT_VOLUME_CLAIMS, VOLUME_SNAPSHOTS)
    world.drain._caches = world.caches  # type: ignore[assignment]
    world.place({"r1": 1}, names.drain_finalizer("r1"))
    world.place({"r2": 1}, names.drain_finalizer("r1"), namespace="kube-system")
    meta = {"namespace": place, "labels": {names.CONTROLLED: names.TRUE}, "annotations": {names.CLUSTER: KEY}}
    for name in ("exchanged", "gone", "stands"):
        held = world.super.put(CONFIG_MAPS, {"metadata": {"name": name, **meta}})
        world.caches.reflectors[CONFIG_MAPS].observe(held)
    world.super.put(CONFIG_MAPS, {"metadata": {"name": "exchanged", "uid": "another", **meta}})
    del world.super.objects["configmaps", place, "gone"]
    await world.drain.step(KEY, "kube-system")
    assert world.super.has(CONFIG_MAPS, "exchanged", place), (
        "it is another object than the one that was judged"
    )
    assert not world.super.has(CONFIG_MAPS, "stands", place)
    known = [each.name for each in world.caches.reflectors[CONFIG_MAPS].cache.items(place)]
    assert known == ["exchanged", "stands"], "of what is gone no watch may ever tell"


GIVEN_UP = {"r1": {"cpu": "2"}}


@pytest.mark.parametrize(
    ("hard", "used", "given_back"),
    [
        ({"requests.cpu": "1", "requests.memory": "1Gi"}, {"requests.cpu": "1"}, True),
        ({"requests.cpu": "1000m", "requests.memory": "1Gi"}, {}, True),
        ({"requests.cpu": "1", "requests.memory": "1Gi"}, {"requests.cpu": "1500m"}, False),
        ({"requests.cpu": "3", "requests.memory": "3Gi"}, {"requests.cpu": "1"}, False),
        ({}, {}, False),
    ],
)
async def test_slices_are_freed_when_the_usage_is_within_the_rest(
    world: World, hard: dict[str, str], used: dict[str, str], given_back: bool
) -> None:
    drain, clear = names.drain_finalizer("r1"), names.clear_finalizer("r1")
    world.caches = PaperCaches(NAMESPACES, PODS, RESOURCE_QUOTAS)
    world.drain._caches = world.caches  # type: ignore[assignment]
    world.place({"r1": 1}, drain, clear, clearing=GIVEN_UP)
    meta = {"name": names.SUPER_QUOTA_NAME, "namespace": SUPER_NAMESPACE}
    quota = world.super.put(RESOURCE_QUOTAS, {"metadata": meta, "status": {"hard": hard, "used": used}})
    world.caches.reflectors[RESOURCE_QUOTAS].observe(quota)
    again = await world.drain.step(KEY, "shop")
    assert (again is None) is given_back
    assert world.finalizers() == ([drain] if given_back else [drain, clear])
    assert world.super.writes() == [], "what runs goes on"
    assert bool(world.drain.reasons) is not given_back


GPUS = "gpu.deviceclass.resource.k8s.io/devices"


@pytest.mark.parametrize(
    ("hard", "used", "limit", "given_back"),
    [
        pytest.param({GPUS: "4"}, {GPUS: "4"}, "4", True, id="within"),
        pytest.param({GPUS: "4"}, {}, "4", True, id="not counted yet"),
        pytest.param({GPUS: "4"}, {GPUS: "5"}, "4", False, id="claims use more"),
        pytest.param({GPUS: "8"}, {GPUS: "4"}, "4", False, id="claims may use more"),
        pytest.param(
            {GPUS: "4", "n.deviceclass.resource.k8s.io/devices": "8"}, {}, "4", False, id="two classes"
        ),
        pytest.param({GPUS: "8"}, {GPUS: "8"}, "", True, id="an earlier limit"),
        pytest.param({"services": "5"}, {"services": "9"}, "4", True, id="no part of a slice"),
    ],
)
async def test_slices_are_freed_though_the_quota_limits_more_than_a_slice_has(
    world: World, hard: dict[str, str], used: dict[str, str], limit: str, given_back: bool
) -> None:
    drain, clear = names.drain_finalizer("r1"), names.clear_finalizer("r1")
    world.caches = PaperCaches(NAMESPACES, PODS, RESOURCE_QUOTAS)
    world.drain._caches = world.caches  # type: ignore[assignment]
    world.place({"r1": 1}, drain, clear, clearing=GIVEN_UP, devices=limit)
    meta = {"name": names.SUPER_QUOTA_NAME, "namespace": SUPER_NAMESPACE}
    hard = {"requests.cpu": "1", "requests.memory": "1Gi", **hard}
    quota = world.super.put(RESOURCE_QUOTAS, {"metadata": meta, "status": {"hard": hard, "used": used}})
    world.caches.reflectors[RESOURCE_QUOTAS].observe(quota)
    await world.drain.step(KEY, "shop")
    assert world.finalizers() == ([drain] if given_back else [drain, clear])


async def test_a_finalizer_before_a_clearing_is_kept(world: World) -> None:
    drain, clear = names.drain_finalizer("r1"), names.clear_finalizer("r1")
    world.place({"r1": 3}, drain, clear)
    assert await world.drain.step(KEY, "shop") is None
    assert world.finalizers() == [drain, clear]


async def test_a_drain_removes_the_clear_finalizer_too(world: World) -> None:
    world.place({"r2": 1}, names.drain_finalizer("r1"), names.clear_finalizer("r1"), clearing=GIVEN_UP)
    assert await world.drain.step(KEY, "shop") is None
    assert world.finalizers() == []


BUDGET = "The disruption budget web needs 2 healthy pods and has 2 currently"


def leaving(world: World, *pods: str, **super_spec: Any) -> None:
    """Namespace `shop` moves away from r1."""
    world.place({"r2": 1}, names.drain_finalizer("r1"))
    world.hold_namespace()
    for pod in pods:
        world.hold_pod(pod)
    if super_spec:
        spec = {"id": "r1", "kubeconfigSecretRef": {"name": "super-r1"}, **super_spec}
        world.meta.put(SUPER_CLUSTERS, {"metadata": {"name": "r1"}, "spec": spec})


def deleted(world: World) -> list[str]:
    return [call[3] for call in world.super.writes() if call[:2] == ("delete", "pods")]


async def test_budgets_delay_evictions_and_the_reason_is_shown(world: World) -> None:
    leaving(world, "a", "b")
    world.budgets["b"] = BUDGET
    assert await world.drain.step(KEY, "shop") is not None
    assert deleted(world) == ["a"]
    assert world.drain.reasons[KEY, "shop"] == (
        f"2 Pods have not ended yet; waits for PodDisruptionBudgets: {BUDGET}"
    )
    world.budgets.clear()
    world.now += ASK_AGAIN_SECONDS
    await world.drain.step(KEY, "shop")
    assert deleted(world)[-1] == "b"


@pytest.mark.parametrize(("spec", "patience"), [({}, 3600), ({"evictionSeconds": 60}, 60)])
async def test_budgets_are_ignored_after_the_operators_limit(
    world: World, spec: dict[str, Any], patience: int
) -> None:
    leaving(world, "a", **spec)
    world.budgets["a"] = BUDGET
    for world.now in (10.0, 10.0 + patience - 1):
        await world.drain.step(KEY, "shop")
        assert deleted(world) == []
    world.now = 10.0 + patience
    await world.drain.step(KEY, "shop")
    assert deleted(world) == ["a"]


async def test_an_operator_may_disable_budgets(world: World) -> None:
    leaving(world, "a", evictionSeconds=0)
    world.budgets["a"] = BUDGET
    await world.drain.step(KEY, "shop")
    assert (world.asked, deleted(world)) == ([], ["a"])


async def test_a_deleted_namespace_ignores_budgets(world: World) -> None:
    placed = world.place({"r1": 1}, names.drain_finalizer("r1"))
    stored = world.meta.objects[NAMESPACE_PLACEMENTS.plural, KEY, "shop"]
    stored["metadata"]["deletionTimestamp"] = "2026-05-01T12:00:00Z"
    world.ledger.reflector.observe(world.meta.put(NAMESPACE_PLACEMENTS, stored))
    assert placed.name == "shop"
    world.hold_pod("a")
    world.budgets["a"] = BUDGET
    await world.drain.step(KEY, "shop")
    assert (world.asked, deleted(world)) == ([], ["a"])


async def test_pods_that_have_ended_or_are_being_deleted_are_not_evicted(world: World) -> None:
    leaving(world)
    world.hold_pod("ends", deleting=True)
    ended = {
        "metadata": {"name": "ended", "namespace": SUPER_NAMESPACE},
        "spec": {},
        "status": {"phase": "Failed"},
    }
    world.caches.reflectors[PODS].observe(world.super.put(PODS, ended))
    await world.drain.step(KEY, "shop")
    assert (world.asked, deleted(world)) == ([], ["ended"])


async def test_many_refused_evictions_do_not_block_others(world: World) -> None:
    pods = [f"held-{number:02}" for number in range(MOST_REFUSALS + 5)]
    leaving(world, *pods, "other")
    world.budgets = dict.fromkeys(pods, BUDGET)
    await world.drain.step(KEY, "shop")
    assert len(world.asked) == MOST_REFUSALS
    assert deleted(world) == []
    world.now += ASK_AGAIN_SECONDS
    await world.drain.step(KEY, "shop")
    assert deleted(world) == ["other"]


NEEDED = "Deployment web has 2 of 3 Pods ready"


async def test_pods_that_their_controllers_need_stay_and_the_reason_is_shown(world: World) -> None:
    leaving(world, "a", "b", "c")
    world.needed = {"a": NEEDED, "b": NEEDED}
    world.budgets["c"] = BUDGET
    await world.drain.step(KEY, "shop")
    assert (world.asked, deleted(world), world.left) == (["c"], [], [])
    assert world.drain.reasons[KEY, "shop"] == (
        f"3 Pods have not ended yet; waits for PodDisruptionBudgets: {BUDGET}; waits for replacements elsewhere: {NEEDED}"
    )
    world.needed.clear()
    world.budgets.clear()
    world.now += ASK_AGAIN_SECONDS
    await world.drain.step(KEY, "shop")
    assert sorted(deleted(world)) == sorted(world.left) == ["a", "b", "c"]


async def test_many_pods_of_one_controller_do_not_block_others(world: World) -> None:
    pods = [f"held-{number:02}" for number in range(MOST_REFUSALS + 5)]
    leaving(world, *pods, "other")
    world.needed = dict.fromkeys(pods, NEEDED)
    await world.drain.step(KEY, "shop")
    assert deleted(world) == ["other"]


async def test_changes_of_pods_make_the_tenant_say_no_more_than_once_a_second_which_are_ready(
    world: World,
) -> None:
    leaving(world, "a", "b")
    world.needed = {"a": NEEDED, "b": NEEDED}
    assert await world.drain.step(KEY, "shop") == LOOK_AGAIN_SECONDS
    shown = world.drain.reasons[KEY, "shop"]
    world.needed.clear()
    for world.now in (0.25, 0.5, 0.75):
        assert await world.drain.step(KEY, "shop") == ASK_AGAIN_SECONDS - world.now
        assert (world.looks, deleted(world), world.drain.reasons[KEY, "shop"]) == (1, [], shown)
    world.now = ASK_AGAIN_SECONDS
    await world.drain.step(KEY, "shop")
    assert (world.looks, deleted(world)) == (2, ["a", "b"])


@pytest.mark.parametrize(
    ("answer", "rest"),
    [(1.0, REST_AFTER_ANSWERS), (0.125, ASK_AGAIN_SECONDS), (1000.0, LONGEST_REST_SECONDS)],
)
async def test_a_tenant_is_asked_less_often_the_longer_it_takes(
    world: World, answer: float, rest: float
) -> None:
    leaving(world, "a", evictionSeconds=100_000)
    world.needed = {"a": NEEDED}
    world.slowness = answer
    await world.drain.step(KEY, "shop")
    world.now = answer + rest - 0.125
    assert await world.drain.step(KEY, "shop") == 0.125
    assert world.looks == 1
    world.now = answer + rest
    await world.drain.step(KEY, "shop")
    assert world.looks == 2


async def test_pods_that_nobody_is_asked_about_leave_while_the_tenant_is_left_in_peace(world: World) -> None:
    leaving(world, "a")
    world.needed = {"a": NEEDED}
    await world.drain.step(KEY, "shop")
    ended = {
        "metadata": {"name": "ended", "namespace": SUPER_NAMESPACE},
        "spec": {},
        "status": {"phase": "Failed"},
    }
    world.caches.reflectors[PODS].observe(world.super.put(PODS, ended))
    await world.drain.step(KEY, "shop")
    assert (world.looks, deleted(world)) == (1, ["ended"])


async def test_the_operators_limit_ends_a_rest(world: World) -> None:
    leaving(world, "a", evictionSeconds=60)
    world.needed = {"a": NEEDED}
    await world.drain.step(KEY, "shop")
    world.slowness = 1000.0
    world.now = 59.0
    await world.drain.step(KEY, "shop")
    assert deleted(world) == []
    world.now = 60.0
    await world.drain.step(KEY, "shop")
    assert deleted(world) == ["a"]


async def test_the_operators_limit_begins_again_with_every_pod_that_leaves(world: World) -> None:
    leaving(world, "a", "b", evictionSeconds=60)
    world.needed = {"a": NEEDED, "b": NEEDED}
    await world.drain.step(KEY, "shop")
    world.now = 50.0
    del world.needed["a"]
    await world.drain.step(KEY, "shop")
    (ended,) = (pod for pod in world.caches.items(PODS) if pod.name == "a")
    world.caches.reflectors[PODS].observe_gone(ended.namespace, ended.name, ended.uid)
    world.now = 109.0
    await world.drain.step(KEY, "shop")
    assert deleted(world) == ["a"]
    world.now = 110.0
    await world.drain.step(KEY, "shop")
    assert deleted(world)[-1] == "b"


async def test_a_tenant_that_lets_single_pods_go_delays_a_drain_for_a_limited_time(world: World) -> None:
    pods = [f"p{number}" for number in range(9)]
    leaving(world, *pods, evictionSeconds=60)
    world.needed = dict.fromkeys(pods, NEEDED)
    await world.drain.step(KEY, "shop")
    for number, name in enumerate(pods[:4], 1):
        world.now = number * 50.0
        del world.needed[name]
        await world.drain.step(KEY, "shop")
        (ended,) = (pod for pod in world.caches.items(PODS) if pod.name == name)
        world.caches.reflectors[PODS].observe_gone(ended.namespace, ended.name, ended.uid)
    assert deleted(world) == pods[:4]
    world.now = 240.0
    await world.drain.step(KEY, "shop")
    assert set(deleted(world)) == set(pods)


async def test_the_operators_limit_begins_again_after_the_namespace_was_back(world: World) -> None:
    leaving(world, "a", evictionSeconds=60)
    world.needed["a"] = NEEDED
    await world.drain.step(KEY, "shop")
    world.place({"r1": 1}, names.drain_finalizer("r1"))
    await world.drain.step(KEY, "shop")
    world.now = 100.0
    world.place({"r2": 1}, names.drain_finalizer("r1"))
    await world.drain.step(KEY, "shop")
    assert deleted(world) == []


async def test_a_suspended_tenant_has_no_budgets(world: World) -> None:
    leaving(world, "a")
    stored = world.meta.objects[NAMESPACE_PLACEMENTS.plural, KEY, "shop"]
    since = "2026-01-01T00:00:00Z"
    stored["status"]["conditions"] = [
        {"type": "Placed", "status": "False", "reason": "Suspended", "lastTransitionTime": since}
    ]
    world.ledger.reflector.observe(world.meta.put(NAMESPACE_PLACEMENTS, stored))
    world.budgets["a"] = BUDGET
    await world.drain.step(KEY, "shop")
    assert (world.asked, deleted(world)) == ([], ["a"])


def hold_claim(world: World, phase: str) -> None:
    metadata = {"name": "data", "namespace": SUPER_NAMESPACE, "uid": "c"}
    body = {"metadata": metadata, "status": {"phase": phase}}
    world.caches.reflectors[PERSISTENT_VOLUME_CLAIMS].observe(world.super.put(PERSISTENT_VOLUME_CLAIMS, body))


def removals(world: World) -> list[Any]:
    return [call for call in world.super.calls if call[0] == "delete"]


async def test_a_drain_waits_for_claims_with_volumes(world: World) -> None:
    world.place({"r2": 1}, names.drain_finalizer("r1"))
    world.hold_namespace()
    hold_claim(world, "Bound")
    assert await world.drain.step(KEY, "shop")
    assert "claims data;" in world.drain.reasons[(KEY, "shop")]
    assert removals(world) == []
    assert world.finalizers() == [names.drain_finalizer("r1")]
    hold_claim(world, "Pending")
    await world.drain.step(KEY, "shop")
    assert [call[1] for call in removals(world)] == ["namespaces"]


async def test_a_drain_waits_for_snapshots(world: World) -> None:
    world.place({"r2": 1}, names.drain_finalizer("r1"))
    world.hold_namespace()
    hold_claim(world, "Bound")
    taken = world.super.put(VOLUME_SNAPSHOTS, {"metadata": {"name": "monday", "namespace": SUPER_NAMESPACE}})
    world.caches.reflectors[VOLUME_SNAPSHOTS].observe(taken)
    assert await world.drain.step(KEY, "shop")
    assert "claims data, snapshots monday;" in world.drain.reasons[(KEY, "shop")]
    hold_claim(world, "Pending")
    assert await world.drain.step(KEY, "shop")
    assert "lost: snapshots monday;" in world.drain.reasons[(KEY, "shop")]
    assert removals(world) == []
    world.exists = False
    await world.drain.step(KEY, "shop")
    assert [call[1] for call in removals(world)] == ["namespaces"]


@pytest.mark.parametrize(
    ("answer", "waits"),
    [
        (["monday"], True),
        ([], False),
        (NotFound(Status(404)), False),
        (Forbidden(Status(403)), False),
    ],
)
async def test_a_drain_asks_the_super_cluster_if_snapshots_have_not_been_read(
    world: World, monkeypatch: pytest.MonkeyPatch, answer: Any, waits: bool
) -> None:
    """Its caches have none as long as a super cluster lacks the kind."""

    async def found(resource: Any, namespace: str, *, label_selector: str) -> list[Envelope]:
        assert (resource, namespace) == (VOLUME_SNAPSHOTS, SUPER_NAMESPACE)
        assert label_selector == f"{names.CONTROLLED}={names.TRUE}"
        if isinstance(answer, Exception):
            raise answer
        return [Envelope(each, namespace, "uid", "1") for each in answer]

    monkeypatch.setattr(world.super, "list", found, raising=False)
    world.caches.reflectors[VOLUME_SNAPSHOTS].synced = False
    world.place({"r2": 1}, names.drain_finalizer("r1"))
    world.hold_namespace()
    await world.drain.step(KEY, "shop")
    assert ("snapshots monday" in world.drain.reasons[(KEY, "shop")]) == waits
    assert bool(removals(world)) != waits


@pytest.mark.parametrize("exists", [True, False])
async def test_only_the_namespace_itself_takes_its_claims_with_it(world: World, exists: bool) -> None:
    """The ledger's entry is deleted as soon as the namespace has no ResourceQuota."""
    placed = world.place({}, names.drain_finalizer("r1"))
    world.ledger.reflector.observe(
        replace(placed, resource_version="9999", deletion_timestamp="2026-05-01T12:00:00Z")
    )
    world.hold_namespace()
    hold_claim(world, "Bound")
    world.exists = exists
    await world.drain.step(KEY, "shop")
    assert [call[1] for call in removals(world)] == ([] if exists else ["namespaces"])


@pytest.mark.parametrize(("used", "waits"), [("2", True), ("0", False), (None, False)])
async def test_a_drain_asks_the_quota_if_claims_cannot_be_read(
    world: World, used: str | None, waits: bool
) -> None:
    world.caches.reflectors[RESOURCE_QUOTAS] = PaperReflector()
    world.caches.reflectors[PERSISTENT_VOLUME_CLAIMS].synced = False
    world.place({"r2": 1}, names.drain_finalizer("r1"))
    world.hold_namespace()
    if used is not None:
        status = {"used": {"persistentvolumeclaims": used}}
        metadata = {"name": names.SUPER_QUOTA_NAME, "namespace": SUPER_NAMESPACE}
        quota = world.super.put(RESOURCE_QUOTAS, {"metadata": metadata, "status": status})
        world.caches.reflectors[RESOURCE_QUOTAS].observe(quota)
    await world.drain.step(KEY, "shop")
    assert bool(removals(world)) is not waits


@pytest.mark.parametrize(("slices", "asks"), [(0, False), (2, True)])
async def test_a_namespace_that_is_to_run_nowhere_ignores_budgets(
    world: World, slices: int, asks: bool
) -> None:
    world.place({"r1": 1}, names.drain_finalizer("r1"))
    stored = world.meta.objects[NAMESPACE_PLACEMENTS.plural, KEY, "shop"]
    stored["spec"]["slices"] = slices
    stored["status"]["placements"] = {}
    world.ledger.reflector.observe(world.meta.put(NAMESPACE_PLACEMENTS, stored))
    world.hold_pod("a")
    await world.drain.step(KEY, "shop")
    assert deleted(world) == ["a"]
    assert (world.asked != []) is asks
