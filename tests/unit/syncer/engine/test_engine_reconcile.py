"""Reconciling one tenant's items: errors of APIs, outdated caches, and deletions."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from engine_paper import PaperApi, PaperCaches, PaperReflector, believed, paper_limiter, refusal

from vcsync.api import names
from vcsync.api.refusals import ADMISSION, QUOTA, REFUSED, Said, said_by
from vcsync.kube.errors import ApiError, Forbidden, Invalid, NotFound, Unreachable
from vcsync.kube.resources import CONFIG_MAPS, NAMESPACES, PODS, SECRETS, Resource
from vcsync.objects.envelope import Envelope
from vcsync.syncer.drift.detector import DriftDetector
from vcsync.syncer.drift.ledger import DriftLedger
from vcsync.syncer.executor import Executor
from vcsync.syncer.kinds.plan import (
    EMPTY,
    ConfirmAbsent,
    Create,
    Delete,
    Dependency,
    Kind,
    Notify,
    Patch,
    Placement,
    Plan,
    TenantContext,
    Wait,
)
from vcsync.syncer.ledger import Entry, Holding
from vcsync.syncer.pending import PendingPods
from vcsync.syncer.reconcile import QUOTA_SECONDS, REFUSED_AGAIN_SECONDS, Busy, Reconciler, SliceExhausted
from vcsync.syncer.store_budget import StoreBudget
from vcsync.syncer.tenant_objects import TenantObjects
from vcsync.syncer.waiting import Item, ParkedItems
from vcsync.tenancy.proof import WrongControlPlane

KEY = "vcsync-1a2b3c-acme"
PLACE = names.super_namespace(KEY, "shop")
CONTEXT = TenantContext(
    key=KEY,
    vc_name="acme",
    vc_namespace="vcsync",
    vc_uid="vc",
    super_id="r1",
    api_host="10.0.0.1",
    api_port=443,
)
POD = Item("pods", "shop", "web")
MAP = Item("configmaps", "shop", "settings")
SHOP = Item("namespaces", "", "shop")

PlanOf = Callable[[Envelope | None, Envelope | None], Plan]


class Scene:
    """A tenant with one Pod kind and one ConfigMap kind whose plans the test writes."""

    def __init__(self) -> None:
        self.tenant, self.super = PaperApi("tenant"), PaperApi("r1")
        self.plans: dict[str, PlanOf] = {}
        self.notices: list[Notify] = []
        self.enqueued: list[Item] = []
        self.waiting, self.drift = ParkedItems(), DriftLedger(lambda: 0.0)
        self.live: dict[str, Any] | None = None
        self.holding: Holding | None = Holding.PLACED
        self.bytes, self.whole = 0, 4 << 20
        self.room: int | None = 4 << 20
        self.limiter, self.prove = paper_limiter(), believed
        self.lost = (0, 1)
        self.now = 0.0
        self.lost_of: dict[str, tuple[int, int]] = {}
        kinds = {
            resource.plural: Kind(
                name=resource.plural,
                resource=resource,
                plan=lambda v, p, _context, _view, name=resource.plural: self.plans[name](v, p),
            )
            for resource in (PODS, CONFIG_MAPS, NAMESPACES)
        }
        self.tenant_caches = PaperCaches(PODS, CONFIG_MAPS, NAMESPACES)
        self.super_caches = PaperCaches(PODS, CONFIG_MAPS, NAMESPACES)
        self.objects = PaperObjects(self, kinds)
        self.noted: list[tuple[Item, str, str]] = []
        self.reconciler = Reconciler(
            objects=self.objects,
            executor=Executor(
                tenant_client=self.tenant, super_client=self.super, caches=self.objects, ensure_node=_no_node
            ),
            context=lambda: CONTEXT,
            tenant_endpoint="tenant",
            notify=lambda _kind, _item, _v, notice: self.notices.append(notice),
            budget=StoreBudget(
                stored=lambda _: self.bytes, tenant_limit=lambda: self.whole, clock=lambda: 0.0
            ),
            waiting=self.waiting,
            drift=DriftDetector(self.drift, self._read, lambda: 0.0),
            limiter=self.limiter,
            prove=self.prove,
            note=lambda item, what, version: self.noted.append((item, what, version)),
            clock=itertools.count(1.0).__next__,
        )

    async def _read(self, *_: object) -> dict[str, Any] | None:
        return self.live

    def v(self, resource: Resource, name: str, *, cached: bool = True, **meta: Any) -> Envelope:
        stored = self.tenant.put(
            resource, {"metadata": {"name": name, "namespace": "shop", **meta}, "spec": {}}
        )
        if cached:
            self.tenant_caches.reflectors[resource].observe(stored)
        return stored

    def p(self, resource: Resource, name: str, of: str, *, cached: bool = True) -> Envelope:
        annotations = {names.CLUSTER: KEY, names.NAMESPACE: "shop", names.UID: of}
        stored = self.super.put(
            resource, {"metadata": {"name": name, "namespace": PLACE, "annotations": annotations}, "spec": {}}
        )
        if cached:
            self.super_caches.reflectors[resource].observe(stored)
        return stored


class PaperObjects(TenantObjects):
    """A objects over caches filled by hand."""

    def __init__(self, scene: Scene, kinds: dict[str, Kind]) -> None:
        self.key, self.super_id, self.kinds = KEY, "r1", kinds
        self.tenant_caches, self.super_caches = scene.tenant_caches, scene.super_caches
        self._scene = scene
        self.pending = PendingPods(lambda: scene.now)
        self.ready = True

    def enqueue(self, tenant: str, item: Item) -> None:
        self._scene.enqueued.append(item)

    def entry(self, item: Item) -> Entry | None:
        holding = self._scene.holding
        if holding is None:
            return None
        return Entry("t", "shop", "ns", holding, 1, None, "np", self._scene.room)

    async def count_orphans(self, kind: Kind, side: str) -> tuple[int, int]:
        return self._scene.lost_of.get(kind.name, self._scene.lost)

    def _reflector(self, side: str, resource: Resource) -> PaperReflector | None:
        return (self.tenant_caches if side == "tenant" else self.super_caches).reflectors.get(resource)


async def _no_node(_node: str, _context: TenantContext) -> None:
    raise AssertionError("no node is wanted here")


@pytest.fixture
def scene() -> Scene:
    return Scene()


def creating(resource: Resource, name: str) -> Plan:
    body = {
        "metadata": {
            "name": name,
            "annotations": {names.CLUSTER: KEY, names.NAMESPACE: "shop", names.UID: "u"},
        }
    }
    return Plan((Create("super", resource, PLACE, body),))


async def test_a_created_object_is_cached_before_the_watch_reports_it(scene: Scene) -> None:
    scene.v(CONFIG_MAPS, "settings")
    scene.plans["configmaps"] = lambda v, p: creating(CONFIG_MAPS, "settings") if p is None else EMPTY
    assert await scene.reconciler.reconcile(MAP) is None
    assert scene.super_caches.get(CONFIG_MAPS, PLACE, "settings") is not None


async def test_actions_are_in_the_timeline_with_the_version_of_the_object(
    scene: Scene,
) -> None:
    v = scene.v(CONFIG_MAPS, "settings")
    scene.plans["configmaps"] = lambda v, p: creating(CONFIG_MAPS, "settings") if p is None else EMPTY
    await scene.reconciler.reconcile(MAP)
    assert scene.noted == [(MAP, "creating the ConfigMap in the super cluster", v.resource_version)]


async def test_an_existing_object_of_the_name_is_read_and_planned_again(scene: Scene) -> None:
    scene.v(CONFIG_MAPS, "settings")
    stranger = scene.super.put(CONFIG_MAPS, {"metadata": {"name": "settings", "namespace": PLACE}})
    seen: list[Envelope | None] = []

    def plan(v: Envelope | None, p: Envelope | None) -> Plan:
        seen.append(p)
        return creating(CONFIG_MAPS, "settings") if p is None else EMPTY

    scene.plans["configmaps"] = plan
    await scene.reconciler.reconcile(MAP)
    assert [p.uid if p else None for p in seen] == [None, stranger.uid]
    assert scene.super.writes() == [("create", "configmaps", PLACE, "settings")]


async def test_a_conflict_rereads_and_plans_again(scene: Scene) -> None:
    v = scene.v(CONFIG_MAPS, "settings")
    old = scene.p(CONFIG_MAPS, "settings", v.uid)
    new = scene.super.put(
        CONFIG_MAPS, {"metadata": {"name": "settings", "namespace": PLACE, "uid": "another"}}
    )

    def plan(v: Envelope | None, p: Envelope | None) -> Plan:
        if p is None or p.uid == new.uid:
            return EMPTY
        return Plan((Patch("super", CONFIG_MAPS, PLACE, "settings", p.uid, {"metadata": {"uid": p.uid}}),))

    scene.plans["configmaps"] = plan
    assert old.uid != new.uid
    assert await scene.reconciler.reconcile(MAP) is None
    assert scene.super_caches.get(CONFIG_MAPS, PLACE, "settings").uid == "another"  # type: ignore[union-attr]


async def test_an_object_that_changes_all_the_time_is_retried_with_backoff(scene: Scene) -> None:
    scene.v(CONFIG_MAPS, "settings")
    scene.super.failures["patch configmaps"] = refusal(NotFound, "gone", "r1", code=404)
    scene.plans["configmaps"] = lambda v, p: Plan(
        (Patch("super", CONFIG_MAPS, PLACE, "settings", "u", {"metadata": {"uid": "u"}}),)
    )
    with pytest.raises(Busy):
        await scene.reconciler.reconcile(MAP)


# --- deletions nobody asked for ---


def deleting_p(v: Envelope | None, p: Envelope | None) -> Plan:
    if p is None:
        return EMPTY
    return Plan((Delete("super", PODS, PLACE, p.name, p.uid, confirm=True),)) if v is None else EMPTY


async def test_a_pod_is_deleted_once_its_source_is_confirmed_gone(scene: Scene) -> None:
    scene.p(PODS, "web", "gone-uid")
    scene.plans["pods"] = deleting_p
    await scene.reconciler.reconcile(POD)
    assert not scene.super.has(PODS, "web", PLACE)


async def test_an_outdated_cache_deletes_nothing(scene: Scene) -> None:
    v = scene.v(PODS, "web", cached=False, labels={names.SUPER_CLUSTER: "r1"})
    scene.p(PODS, "web", v.uid)
    scene.plans["pods"] = deleting_p
    await scene.reconciler.reconcile(POD)
    assert scene.super.has(PODS, "web", PLACE)
    assert scene.tenant_caches.get(PODS, "shop", "web") is not None, "the cache has caught up"


async def test_a_pod_of_the_same_name_is_another_pod(scene: Scene) -> None:
    scene.v(PODS, "web", cached=False, labels={names.SUPER_CLUSTER: "r1"})
    scene.p(PODS, "web", "the-one-before")
    scene.plans["pods"] = deleting_p
    await scene.reconciler.reconcile(POD)
    assert not scene.super.has(PODS, "web", PLACE)


async def test_nothing_is_deleted_because_the_source_could_not_be_read(scene: Scene) -> None:
    scene.p(PODS, "web", "uid")
    scene.plans["pods"] = deleting_p
    scene.tenant.failures["get pods"] = Unreachable("refused", endpoint="tenant")  # type: ignore[assignment]
    with pytest.raises(Unreachable):
        await scene.reconciler.reconcile(POD)
    assert scene.super.has(PODS, "web", PLACE)


async def test_a_tenant_that_relabels_a_running_pod_does_not_end_it(scene: Scene) -> None:
    stored = {"metadata": {"name": "web", "namespace": "shop", "labels": {names.SUPER_CLUSTER: "r2"}}}
    v = scene.tenant.put(PODS, stored | {"spec": {"nodeName": "node-1.r1"}})
    scene.p(PODS, "web", v.uid)
    scene.plans["pods"] = deleting_p
    assert await scene.reconciler.reconcile(POD) is not None
    assert scene.super.has(PODS, "web", PLACE)
    assert names.SUPER_CLUSTER in scene.waiting.reason(KEY, POD).reason  # type: ignore[union-attr]
    assert scene.tenant_caches.get(PODS, "shop", "web") is None, "it is not in our selection"


async def test_a_pod_that_was_moved_before_it_ran_is_removed(scene: Scene) -> None:
    v = scene.v(PODS, "web", cached=False, labels={names.SUPER_CLUSTER: "r2"})
    scene.p(PODS, "web", v.uid)
    scene.plans["pods"] = deleting_p
    await scene.reconciler.reconcile(POD)
    assert not scene.super.has(PODS, "web", PLACE)


async def test_a_pod_that_was_moved_is_removed_however_many_others_are_missing(scene: Scene) -> None:
    """A syncer that was restarted has not seen the Pods leave. The tenant's API shows where they belong."""
    scene.plans["pods"] = deleting_p
    scene.lost = (200, 200)
    scene.p(PODS, "web", "gone")
    assert await scene.reconciler.reconcile(POD) == 60.0
    assert scene.limiter.braked
    v = scene.v(PODS, "moved", cached=False, labels={names.SUPER_CLUSTER: "r2"})
    scene.p(PODS, "moved", v.uid)
    assert await scene.reconciler.reconcile(Item("pods", "shop", "moved")) is None
    assert not scene.super.has(PODS, "moved", PLACE)
    assert scene.super.has(PODS, "web", PLACE)


async def test_the_tenants_pod_is_kept_while_its_copy_exists(scene: Scene) -> None:
    v = scene.v(PODS, "web")
    scene.p(PODS, "web", v.uid, cached=False)
    scene.plans["pods"] = lambda v, p: (
        Plan((Delete("tenant", PODS, "shop", "web", v.uid, 0, confirm=True),)) if v and p is None else EMPTY
    )
    await scene.reconciler.reconcile(POD)
    assert scene.tenant.has(PODS, "web", "shop")


async def test_the_tenants_pod_terminates_with_its_copy(scene: Scene) -> None:
    v = scene.v(PODS, "web")
    annotations = {names.CLUSTER: KEY, names.NAMESPACE: "shop", names.UID: v.uid}
    ending = {"name": "web", "namespace": PLACE, "annotations": annotations}
    ending["deletionTimestamp"] = "2026-05-01T12:00:00Z"
    p = scene.super.put(PODS, {"metadata": ending, "spec": {}})
    scene.super_caches.reflectors[PODS].observe(p)
    scene.plans["pods"] = lambda v, p: (
        Plan((Delete("tenant", PODS, "shop", "web", v.uid, 60, confirm=True),)) if v and p else EMPTY
    )
    await scene.reconciler.reconcile(POD)
    assert not scene.tenant.has(PODS, "web", "shop"), "on paper it is gone at once"


# --- refusals ---


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (refusal(Invalid, "spec.x: bad", "r1", code=422), "FailedCreate"),
        (refusal(Forbidden, "admission webhook denied", "r1"), "FailedCreate"),
    ],
)
async def test_a_refused_object_is_reported_in_the_tenant_and_retried_later(
    scene: Scene, error: ApiError, reason: str
) -> None:
    scene.v(CONFIG_MAPS, "settings")
    scene.super.failures["create configmaps"] = error
    scene.plans["configmaps"] = lambda v, p: creating(CONFIG_MAPS, "settings")
    again = await scene.reconciler.reconcile(MAP)
    assert again is not None
    assert again >= 30
    [notice] = scene.notices
    assert notice.reason == reason
    assert notice.message.startswith(f"Error creating: {error.status.message}; change the ConfigMap")
    assert "was refused" in scene.waiting.reason(KEY, MAP).reason  # type: ignore[union-attr]


async def test_dependents_of_a_refused_object_report_the_reason_and_are_woken(
    scene: Scene,
) -> None:
    scene.v(PODS, "web")
    missing = Dependency("super", CONFIG_MAPS, PLACE, "settings")
    scene.plans["pods"] = lambda v, p: Plan(wait=Wait("waits for ConfigMap settings", (missing,)))
    await scene.reconciler.reconcile(POD)
    assert scene.notices == [], "waiting a moment is nothing to report"

    v = scene.v(CONFIG_MAPS, "settings")
    scene.super.failures["create configmaps"] = refusal(Invalid, "data: bad", "r1", code=422)
    scene.plans["configmaps"] = lambda v, p: creating(CONFIG_MAPS, "settings") if v else EMPTY
    await scene.reconciler.reconcile(MAP)
    assert scene.enqueued[-1] == POD
    scene.notices.clear()
    await scene.reconciler.reconcile(POD)
    assert [
        (n.reason, "ConfigMap settings" in n.message, "data: bad" in n.message) for n in scene.notices
    ] == [("WaitsFor", True, True)]

    scene.enqueued.clear()
    scene.tenant_caches.reflectors[CONFIG_MAPS].observe_gone("shop", "settings", v.uid)
    await scene.reconciler.reconcile(MAP)
    assert POD in scene.enqueued


async def test_reserved_names_on_a_tenants_object_are_reported_once(scene: Scene) -> None:
    scene.v(
        CONFIG_MAPS,
        "settings",
        labels={names.CONTROLLED: "false", "app": "x"},
        annotations={names.UID: "f", names.SUPER_CLUSTER: "r9"},
        finalizers=[names.drain_finalizer("r1")],
    )
    scene.plans["configmaps"] = lambda v, p: creating(CONFIG_MAPS, "settings") if p is None else EMPTY
    await scene.reconciler.reconcile(MAP)
    await scene.reconciler.reconcile(MAP)
    [notice] = scene.notices
    assert notice.reason == "ReservedNames"
    for key in (
        f"label {names.CONTROLLED}",
        f"annotation {names.UID}",
        f"finalizer {names.drain_finalizer('r1')}",
    ):
        assert key in notice.message
    assert names.SUPER_CLUSTER not in notice.message, "that is the tenant's to set"


async def test_what_a_write_notes_as_left_out_is_reported_once(scene: Scene) -> None:
    scene.v(CONFIG_MAPS, "settings")

    def noting(v: Envelope | None, p: Envelope | None) -> Plan:
        create = creating(CONFIG_MAPS, "settings")
        if p is None and isinstance(create.actions[0], Create):
            create.actions[0].body["metadata"]["annotations"] = {
                names.LEFT_OUT: "metadata.annotations a.io/b"
            }
        return create if p is None else EMPTY

    scene.plans["configmaps"] = noting
    await scene.reconciler.reconcile(MAP)
    await scene.reconciler.reconcile(MAP)
    [notice] = scene.notices
    assert notice.reason == "AnnotationsLeftOut"
    assert notice.message.endswith(": metadata.annotations a.io/b")
    assert "podPolicy.annotations" in notice.message


async def test_no_name_of_the_super_cluster_reaches_the_tenant(scene: Scene) -> None:
    scene.v(CONFIG_MAPS, "settings")
    scene.super.failures["create configmaps"] = refusal(Forbidden, f"no, not in {PLACE} of {KEY}", "r1")
    scene.plans["configmaps"] = lambda v, p: creating(CONFIG_MAPS, "settings")
    await scene.reconciler.reconcile(MAP)
    assert KEY not in scene.notices[0].message
    assert "shop" in scene.notices[0].message


async def test_a_pod_waits_for_slices_that_are_still_in_use(scene: Scene) -> None:
    scene.v(PODS, "web")
    scene.super.failures["create pods"] = refusal(Forbidden, "exceeded quota: vcsync-slices", "r1")
    scene.plans["pods"] = lambda v, p: creating(PODS, "web")
    with pytest.raises(SliceExhausted):
        await scene.reconciler.reconcile(POD)
    assert scene.notices == []


def said_of_pod(scene: Scene) -> Said:
    found = scene.tenant.objects[(PODS.plural, "shop", "web")]["metadata"]
    return said_by(found.get("annotations", {}), "r1")


async def test_a_pod_that_is_not_admitted_says_so_once(scene: Scene) -> None:
    scene.v(PODS, "web", labels={names.SUPER_CLUSTER: "r1"})
    scene.super.failures["create pods"] = refusal(Forbidden, "admission webhook denied", "r1")
    scene.plans["pods"] = lambda v, p: creating(PODS, "web")
    for _ in range(3):
        assert await scene.reconciler.reconcile(POD) == REFUSED_AGAIN_SECONDS
    assert said_of_pod(scene) == Said(REFUSED, 0, ADMISSION)
    assert len(scene.tenant.writes()) == 1


async def test_a_pod_that_meets_a_full_quota_says_so_if_that_lasts(scene: Scene) -> None:
    scene.v(PODS, "web", labels={names.SUPER_CLUSTER: "r1"})
    scene.super.failures["create pods"] = refusal(Forbidden, "exceeded quota: vcsync-slices", "r1")
    scene.plans["pods"] = lambda v, p: creating(PODS, "web")
    for scene.now, state in ((0.0, ""), (QUOTA_SECONDS / 2, ""), (QUOTA_SECONDS, REFUSED)):
        with pytest.raises(SliceExhausted):
            await scene.reconciler.reconcile(POD)
        assert said_of_pod(scene).state == state
    assert said_of_pod(scene).reason == QUOTA


async def test_a_refusal_that_cannot_be_written_does_not_hide_the_reason(scene: Scene) -> None:
    scene.v(PODS, "web", labels={names.SUPER_CLUSTER: "r1"})
    scene.super.failures["create pods"] = refusal(Forbidden, "admission webhook denied", "r1")
    scene.tenant.failures["patch pods"] = refusal(Forbidden, "no right", "tenant")
    scene.plans["pods"] = lambda v, p: creating(PODS, "web")
    assert await scene.reconciler.reconcile(POD) == REFUSED_AGAIN_SECONDS
    assert "admission webhook denied" in str(scene.waiting.reason(KEY, POD))


async def test_objects_beyond_the_quota_are_reported_with_a_remedy(
    scene: Scene,
) -> None:
    scene.v(CONFIG_MAPS, "settings")
    scene.super.failures["create configmaps"] = refusal(Forbidden, "exceeded quota: vcsync-slices", "r1")
    scene.plans["configmaps"] = lambda v, p: creating(CONFIG_MAPS, "settings")
    await scene.reconciler.reconcile(MAP)
    [notice] = scene.notices
    assert notice.reason == "FailedCreate"
    assert "remove another ConfigMap, or have the namespace hold more slices" in notice.message


async def test_objects_beyond_the_byte_limit_are_reported_with_a_remedy(
    scene: Scene,
) -> None:
    scene.v(CONFIG_MAPS, "settings")
    scene.bytes = 4 << 20
    scene.plans["configmaps"] = lambda v, p: creating(CONFIG_MAPS, "settings")
    assert await scene.reconciler.reconcile(MAP) == REFUSED_AGAIN_SECONDS
    assert scene.super.writes() == []
    [notice] = scene.notices
    assert notice.reason == "FailedCreate"
    assert "take 4.0 MiB of the 4.0 MiB that its slices have room for" in notice.message
    assert "remove objects or make them smaller, or have the namespace hold more slices" in notice.message
    assert "this would take 3 KiB more" in str(scene.waiting.reason(KEY, MAP))
    scene.room = None
    assert await scene.reconciler.reconcile(MAP) is None
    assert scene.super.has(CONFIG_MAPS, "settings", PLACE)


async def test_too_fast_writes_wait_with_the_reason(scene: Scene) -> None:
    scene.v(CONFIG_MAPS, "settings", annotations={"much": "x" * 10_000})
    scene.p(CONFIG_MAPS, "settings", "tenant-1")
    scene.room = scene.whole = 5_000
    scene.plans["configmaps"] = lambda v, p: Plan(
        actions=(Patch("super", CONFIG_MAPS, PLACE, "settings", p.uid, {"data": {"a": "b"}}),)
    )
    assert await scene.reconciler.reconcile(MAP) is None
    assert (await scene.reconciler.reconcile(MAP) or 0) > 0
    assert "the tenant writes faster than the store removes" in str(scene.waiting.reason(KEY, MAP))


async def test_an_item_waits_for_a_missing_super_namespace(scene: Scene) -> None:
    scene.v(CONFIG_MAPS, "settings")
    scene.super.failures["create configmaps"] = refusal(NotFound, "namespace not found", "r1", code=404)
    scene.plans["configmaps"] = lambda v, p: creating(CONFIG_MAPS, "settings")
    assert await scene.reconciler.reconcile(MAP) is not None
    parked = scene.waiting.reason(KEY, MAP)
    assert parked is not None
    assert [(d.resource, d.name) for d in parked.on] == [(NAMESPACES, PLACE)]


# --- placements ---


async def test_nothing_is_created_in_a_drained_namespace(scene: Scene) -> None:
    scene.holding = Holding.DRAINING
    scene.v(PODS, "web")
    scene.plans["pods"] = lambda v, p: creating(PODS, "web")
    await scene.reconciler.reconcile(POD)
    assert scene.super.calls == []
    assert "has no slices" in scene.waiting.reason(KEY, POD).reason  # type: ignore[union-attr]


async def test_objects_that_are_not_placed_here_are_ignored(scene: Scene) -> None:
    scene.holding = None
    scene.v(CONFIG_MAPS, "settings")
    scene.plans["configmaps"] = lambda v, p: creating(CONFIG_MAPS, "settings")
    assert await scene.reconciler.reconcile(MAP) is None
    assert scene.super.calls == []


@pytest.mark.parametrize("holding", [Holding.DRAINING, None])
async def test_a_tenants_pod_is_deleted_even_without_a_ledger_entry(
    scene: Scene, holding: Holding | None
) -> None:
    """The drain does not wait for tenants: one that could not be reached meanwhile learns of it later."""
    scene.holding = holding
    scene.v(PODS, "web")
    scene.plans["pods"] = lambda v, p: (
        Plan((Delete("tenant", PODS, "shop", "web", v.uid, 0, confirm=True),)) if v and p is None else EMPTY
    )
    await scene.reconciler.reconcile(POD)
    assert not scene.tenant.has(PODS, "web", "shop")


async def test_a_pod_is_not_created_without_a_placement(scene: Scene) -> None:
    scene.holding = None
    scene.v(PODS, "web")
    scene.plans["pods"] = lambda v, p: creating(PODS, "web")
    await scene.reconciler.reconcile(POD)
    assert scene.super.calls == []


async def test_a_repair_of_drift_is_recorded(scene: Scene) -> None:
    v = scene.v(CONFIG_MAPS, "settings")
    p = scene.p(CONFIG_MAPS, "settings", v.uid)
    scene.plans["configmaps"] = lambda v, p: EMPTY
    await scene.reconciler.reconcile(MAP)
    assert scene.drift.total == 0
    patch = {"metadata": {"uid": p.uid}, "data": {"a": "1"}}
    scene.plans["configmaps"] = lambda v, p: Plan(
        (Patch("super", CONFIG_MAPS, PLACE, "settings", p.uid, patch),) if p else ()
    )
    await scene.reconciler.reconcile(MAP)
    [repair] = scene.drift.latest()
    assert (repair.kind, repair.namespace, repair.name, repair.cause) == (*MAP, "changed")
    assert [(each.field, each.restored) for each in repair.changes] == [("data.a", "1")]


def _patching(p: Envelope) -> PlanOf:
    patch = {"metadata": {"uid": p.uid}, "data": {"a": "1", "b": None}}
    return lambda _, p: Plan((Patch("super", CONFIG_MAPS, PLACE, "settings", p.uid, patch),) if p else ())


async def test_a_repair_that_failed_is_recorded_when_it_succeeds(scene: Scene) -> None:
    v = scene.v(CONFIG_MAPS, "settings")
    p = scene.p(CONFIG_MAPS, "settings", v.uid)
    scene.plans["configmaps"] = lambda v, p: EMPTY
    await scene.reconciler.reconcile(MAP)
    scene.plans["configmaps"] = _patching(p)
    scene.super.failures["patch configmaps"] = refusal(Invalid, "no", "r1", code=422)
    await scene.reconciler.reconcile(MAP)
    assert scene.drift.total == 0
    scene.super.failures.clear()
    await scene.reconciler.reconcile(MAP)
    assert scene.drift.total == 1


@pytest.mark.parametrize(("manager", "fields"), [("kubectl-edit", ["data.b"]), ("vcsync/syncer", [])])
async def test_a_change_while_no_syncer_ran_is_a_repair_if_somebody_else_wrote_the_field(
    scene: Scene, manager: str, fields: list[str]
) -> None:
    """The tenant may have changed its object meanwhile."""
    v = scene.v(CONFIG_MAPS, "settings")
    p = scene.p(CONFIG_MAPS, "settings", v.uid)
    owned = {"f:data": {"f:b": {}}}
    managed = {"manager": manager, "time": "2026-11-27T10:00:00Z", "fieldsV1": owned}
    scene.live = {"metadata": {"managedFields": [managed]}, "data": {"b": "2"}}
    scene.plans["configmaps"] = _patching(p)
    await scene.reconciler.reconcile(MAP)
    assert [each.field for repair in scene.drift.latest() for each in repair.changes] == fields


async def test_a_deletion_keeps_objects_of_a_namespace_with_the_same_hashed_name(
    scene: Scene,
) -> None:
    one, other = (f"{'x' * 45}-{number}" for number in ("00416", "00744"))
    place = names.super_namespace(KEY, one)
    assert names.super_namespace(KEY, other) == place
    annotations = {names.CLUSTER: KEY, names.NAMESPACE: one, names.UID: "of-one"}
    meta = {"name": "web", "namespace": place, "annotations": annotations}
    scene.super_caches.reflectors[PODS].observe(scene.super.put(PODS, {"metadata": meta, "spec": {}}))
    kind = scene.objects.kinds["pods"]
    assert scene.objects.pair(kind, Item("pods", one, "web"), {}).p is not None
    assert scene.objects.pair(kind, Item("pods", other, "web"), {}) == (None, None)


async def test_objects_of_a_recreated_namespace_are_not_repairs(scene: Scene) -> None:
    v = scene.v(CONFIG_MAPS, "settings")
    p = scene.p(CONFIG_MAPS, "settings", v.uid)
    scene.plans["configmaps"] = lambda v, p: EMPTY if p else creating(CONFIG_MAPS, "settings")
    await scene.reconciler.reconcile(MAP)
    scene.holding = None
    del scene.super.objects[CONFIG_MAPS.plural, PLACE, "settings"]
    scene.super_caches.reflectors[CONFIG_MAPS].observe_gone(PLACE, "settings", p.uid)
    await scene.reconciler.reconcile(MAP)
    scene.holding = Holding.PLACED
    await scene.reconciler.reconcile(MAP)
    assert scene.super.has(CONFIG_MAPS, "settings", PLACE)
    assert scene.drift.total == 0


async def test_the_state_of_an_object_gone_on_both_sides_is_removed(scene: Scene) -> None:
    v = scene.v(CONFIG_MAPS, "settings")
    p = scene.p(CONFIG_MAPS, "settings", v.uid)
    scene.plans["configmaps"] = lambda v, p: EMPTY
    await scene.reconciler.reconcile(MAP)
    scene.tenant_caches.reflectors[CONFIG_MAPS].observe_gone("shop", "settings", v.uid)
    await scene.reconciler.reconcile(MAP)
    assert MAP in scene.reconciler._settled, "one side stands"
    scene.super_caches.reflectors[CONFIG_MAPS].observe_gone(PLACE, "settings", p.uid)
    await scene.reconciler.reconcile(MAP)
    assert not scene.reconciler._settled


async def test_the_state_of_an_object_without_ledger_entry_is_removed(scene: Scene) -> None:
    scene.v(CONFIG_MAPS, "settings")
    scene.plans["configmaps"] = lambda v, p: creating(CONFIG_MAPS, "settings") if p is None else EMPTY
    await scene.reconciler.reconcile(MAP)
    other = MAP._replace(name="other")
    scene.v(CONFIG_MAPS, "other")
    scene.plans["configmaps"] = lambda v, p: creating(CONFIG_MAPS, "other")
    scene.super.failures["create configmaps"] = refusal(Invalid, "no", "r1", code=422)
    await scene.reconciler.reconcile(other)
    scene.holding = None
    for item in (MAP, other):
        await scene.reconciler.reconcile(item)
    assert not scene.reconciler._settled
    assert not scene.reconciler._refusals


async def test_changed_slices_and_tokens_of_finished_pods_are_not_repairs(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    v = scene.v(PODS, "web")
    p = scene.p(PODS, "web", v.uid)
    scene.super.put(SECRETS, {"metadata": {"name": "token", "namespace": PLACE, "uid": "s"}})
    scene.plans["pods"] = lambda v, p: EMPTY
    await scene.reconciler.reconcile(POD)
    scene.plans["pods"] = lambda v, p: Plan((Delete("super", SECRETS, PLACE, "token", "s"),))
    await scene.reconciler.reconcile(POD)
    assert scene.drift.total == 0, "the tokens of a Pod that has ended"
    patch = {"metadata": {"uid": p.uid, "annotations": {"a": "b"}}}
    scene.plans["pods"] = lambda v, p: (
        Plan((Patch("super", PODS, PLACE, "web", p.uid, patch),)) if p else EMPTY
    )
    placed = Placement({"r1": 2}, {}, {"pods": "2"})
    entry = Entry("t", "shop", "ns", Holding.PLACED, 2, placed, "np")
    monkeypatch.setattr(scene.objects, "entry", lambda _: entry)
    await scene.reconciler.reconcile(POD)
    assert scene.drift.total == 0, "its namespace has other slices than when both agreed"
    await scene.reconciler.reconcile(POD)
    assert scene.drift.total == 1


def _delete_without_source(p: Envelope | None, v: Envelope | None) -> Plan:
    return Plan((Delete("super", PODS, PLACE, "web", p.uid, confirm=True),)) if v is None and p else EMPTY


async def test_too_many_unobserved_deletions_wait_for_an_operator(scene: Scene) -> None:
    scene.p(PODS, "web", "gone")
    scene.plans["pods"] = lambda v, p: _delete_without_source(p, v)
    scene.lost = (200, 200)

    assert await scene.reconciler.reconcile(POD) == 60.0

    assert scene.super.has(PODS, "web", PLACE)
    parked = scene.waiting.reason(KEY, POD)
    assert parked is not None
    assert f"vcsync brake release {KEY}" in parked.reason


async def test_nothing_is_asked_of_a_control_plane_that_is_not_believed_anyway(scene: Scene) -> None:
    _lost_namespace(scene)
    scene.lost = (200, 200)
    assert await scene.reconciler.reconcile(SHOP) == 60.0
    reads = len(scene.tenant.calls)
    assert await scene.reconciler.reconcile(SHOP) == 60.0
    assert len(scene.tenant.calls) == reads


def _lost_namespace(scene: Scene) -> Envelope:
    annotations = {names.CLUSTER: KEY, names.NAMESPACE: "shop", names.UID: "ns"}
    stored = scene.super.put(NAMESPACES, {"metadata": {"name": PLACE, "annotations": annotations}})
    scene.super_caches.reflectors[NAMESPACES].observe(stored)
    scene.plans["namespaces"] = lambda v, p: (
        Plan((Delete("super", NAMESPACES, "", PLACE, p.uid, confirm=True),)) if v is None and p else EMPTY
    )
    return stored


async def test_a_namespace_with_too_many_objects_waits_for_an_operator(scene: Scene) -> None:
    """A control plane that was restored lacks a namespace with all that is in it."""
    _lost_namespace(scene)
    scene.p(PODS, "web", "gone")
    scene.lost_of = {"namespaces": (1, 5), "pods": (200, 200), "configmaps": (0, 0)}

    assert await scene.reconciler.reconcile(SHOP) == 60.0

    assert scene.super.has(NAMESPACES, PLACE)
    parked = scene.waiting.reason(KEY, SHOP)
    assert parked is not None
    assert "200 of 200 pods in super cluster r1 would be deleted" in parked.reason


@pytest.mark.parametrize("departed", [{"gone"}, {"ns"}])
async def test_a_namespace_whose_objects_were_observed_to_be_deleted_is_deleted(
    scene: Scene, departed: set[str]
) -> None:
    _lost_namespace(scene)
    scene.p(PODS, "web", "gone")
    scene.lost_of = {"namespaces": (1, 5), "pods": (200, 200), "configmaps": (0, 0)}
    scene.tenant_caches.departed |= departed

    assert await scene.reconciler.reconcile(SHOP) is None

    assert not scene.super.has(NAMESPACES, PLACE)


async def test_observed_deletions_are_not_braked(scene: Scene) -> None:
    scene.p(PODS, "web", "gone")
    scene.plans["pods"] = lambda v, p: _delete_without_source(p, v)
    scene.lost = (200, 200)
    scene.tenant_caches.departed.add("gone")

    assert await scene.reconciler.reconcile(POD) is None

    assert not scene.super.has(PODS, "web", PLACE)


async def test_a_wrong_control_plane_deletes_nothing(scene: Scene) -> None:
    async def other() -> None:
        raise WrongControlPlane("the control plane is not the one that was registered")

    scene.reconciler._prove = other
    scene.p(PODS, "web", "gone")
    scene.plans["pods"] = lambda v, p: _delete_without_source(p, v)

    assert await scene.reconciler.reconcile(POD) == 60.0

    assert scene.super.has(PODS, "web", PLACE)
    parked = scene.waiting.reason(KEY, POD)
    assert parked is not None
    assert "not the one that was registered" in parked.reason


async def test_the_brake_is_released_when_the_objects_are_back(scene: Scene) -> None:
    p = scene.p(PODS, "web", "back")
    scene.plans["pods"] = lambda v, p: _delete_without_source(p, v)
    scene.lost = (200, 200)
    await scene.reconciler.reconcile(POD)
    assert scene.limiter.braked

    scene.v(PODS, "web", uid="back")
    await scene.reconciler.reconcile(POD)

    assert not scene.limiter.braked
    assert scene.super.has(PODS, p.name, PLACE)


# --- Deletions of one version, after which something else is given up ---


def of_version(v: Envelope | None, p: Envelope | None) -> Plan:
    if p is None or v is None:
        return EMPTY
    return Plan((Delete("super", PODS, PLACE, "web", p.uid, resource_version=p.resource_version),))


async def test_a_deletion_of_one_version_is_planned_again_if_the_object_has_changed(scene: Scene) -> None:
    v = scene.v(PODS, "web")
    old = scene.p(PODS, "web", v.uid)
    seen: list[str] = []

    def plan(v: Envelope | None, p: Envelope | None) -> Plan:
        seen.append(p.resource_version if p is not None else "")
        return of_version(v, p) if len(seen) == 1 else EMPTY

    scene.plans["pods"] = plan
    new = scene.super.put(PODS, {"metadata": {**scene.super.objects["pods", PLACE, "web"]["metadata"]}})
    assert new.resource_version != old.resource_version
    await scene.reconciler.reconcile(POD)
    assert seen == [old.resource_version, new.resource_version]
    assert scene.super.has(PODS, "web", PLACE)


async def test_a_deletion_of_one_version_is_no_repair(scene: Scene) -> None:
    v = scene.v(PODS, "web")
    scene.p(PODS, "web", v.uid)
    scene.plans["pods"] = lambda v, p: EMPTY
    await scene.reconciler.reconcile(POD)
    scene.plans["pods"] = of_version
    await scene.reconciler.reconcile(POD)
    assert not scene.super.has(PODS, "web", PLACE)
    assert not scene.drift.latest()


@pytest.mark.parametrize("exists", [False, True])
async def test_what_follows_a_confirmation_happens_only_if_the_object_is_gone(
    scene: Scene, exists: bool
) -> None:
    scene.v(CONFIG_MAPS, "settings")
    if exists:
        scene.p(CONFIG_MAPS, "settings", "u", cached=False)
    gone = ConfirmAbsent("super", CONFIG_MAPS, PLACE, "settings")
    notice = Notify("Warning", "GivenBack", "gone")
    seen: list[Envelope | None] = []

    def plan(v: Envelope | None, p: Envelope | None) -> Plan:
        seen.append(p)
        return Plan((gone, notice)) if p is None else EMPTY

    scene.plans["configmaps"] = plan
    await scene.reconciler.reconcile(MAP)
    assert scene.notices == ([] if exists else [notice])
    assert [p is not None for p in seen] == ([False, True] if exists else [False])


async def test_nothing_follows_a_confirmation_that_failed(scene: Scene) -> None:
    scene.v(CONFIG_MAPS, "settings")
    scene.super.failures["get configmaps"] = Unreachable("refused", endpoint="r1")  # type: ignore[assignment]
    gone = ConfirmAbsent("super", CONFIG_MAPS, PLACE, "settings")
    scene.plans["configmaps"] = lambda v, p: Plan((gone, Notify("Warning", "GivenBack", "gone")))
    with pytest.raises(Unreachable):
        await scene.reconciler.reconcile(MAP)
    assert not scene.notices


async def test_objects_that_are_gone_already_need_no_permission(scene: Scene) -> None:
    scene.plans["pods"] = lambda v, p: _delete_without_source(p, v)
    scene.p(PODS, "web", "gone")
    scene.super.objects.clear()
    scene.lost = (200, 200)

    assert await scene.reconciler.reconcile(POD) is None

    assert not scene.limiter.braked


async def test_the_brake_does_not_wait_for_a_namespace_that_has_left_the_super_cluster(scene: Scene) -> None:
    scene.p(PODS, "web", "gone")
    scene.plans["pods"] = lambda v, p: _delete_without_source(p, v)
    scene.lost = (200, 200)
    await scene.reconciler.reconcile(POD)
    assert scene.limiter.braked

    scene.reconciler._forget(scene.reconciler._objects.kinds["pods"], POD)

    assert not scene.limiter.braked
