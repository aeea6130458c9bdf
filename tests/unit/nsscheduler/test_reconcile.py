import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.api import names
from vcsync.api.fields import Quantity
from vcsync.api.objects import VirtualCluster
from vcsync.api.specs import VirtualClusterSpec, VirtualClusterStatus
from vcsync.nsscheduler.commit import commit
from vcsync.nsscheduler.reconcile import Inputs, Plan, counted_hard, default_quota, reconcile
from vcsync.objects.envelope import Envelope
from vcsync.scheduling.ledger import Entry, Ledger
from vcsync.scheduling.place import Transfer
from vcsync.scheduling.resources import from_quantities
from vcsync.scheduling.snapshot import Health, SuperView
from vcsync.tenancy.distribution import entry_of

from .fakes import NAMESPACE, ROOT, Interrupted, Meta, Tenant

KEY = (ROOT, NAMESPACE)
SLICE = '{"cpu":"100m","memory":"100Mi"}'
SMALL = {"cpu": "200m", "memory": "200Mi"}


def view(super_id: str, cpu: str = "1", memory: str = "1Gi", pods: str = "", **fields: Any) -> SuperView:
    fields.setdefault("health", Health.READY)
    amounts = {"cpu": cpu, "memory": memory} | ({"pods": pods} if pods else {})
    return SuperView(super_id, capacity=from_quantities(amounts), **fields)


class Stage:
    """One namespace with all around it; `turn` reconciles it once, as the role does."""

    def __init__(self, **spec: Any) -> None:
        self.meta = Meta()
        self.tenant = Tenant()
        self.views = {"r1": view("r1"), "r2": view("r2")}
        self.others = Ledger()
        self.leaving: dict[str, int] = {}
        self.transfers: tuple[Transfer, ...] = ()
        self.spec: dict[str, Any] = spec
        self.annotate(SLICE)

    def annotate(self, text: str | None) -> None:
        metadata = self.tenant.objects.get(NAMESPACE, {}).get("metadata", {"uid": "uid-1"})
        annotations = {**metadata.get("annotations", {}), names.SLICE: text}
        metadata["annotations"] = {key: value for key, value in annotations.items() if value is not None}
        self.tenant.put(NAMESPACE, {"metadata": metadata})

    def inputs(self) -> Inputs:
        entry = self.meta.entry()
        ledger = Ledger()
        for key, other in self.others._entries.items():
            ledger.put(key, other)
        if entry is not None:
            ledger.put(KEY, entry_of(entry))
        owner = VirtualCluster(
            name="vc",
            namespace="vcsync",
            uid="vc-uid",
            spec=VirtualClusterSpec(**self.spec),
            status=VirtualClusterStatus(cluster_namespace=ROOT),
        )
        return Inputs(
            KEY,
            owner,
            self.tenant.read(NAMESPACE),
            tuple(self.tenant.hards),
            entry,
            self.views,
            ledger,
            from_quantities({"cpu": "2", "memory": "4Gi"}),
            "spread",
            "2026-01-01T00:00:00Z",
            leaving=self.leaving,
            transfers=self.transfers,
        )

    def turn(self) -> Plan:
        inputs = self.inputs()
        plan = reconcile(inputs)
        asyncio.run(commit(inputs, plan, self.meta.ledger(), self.tenant.control_plane()))
        return plan

    def drained(self, *super_ids: str) -> None:
        """The syncers of these super clusters take their finalizers off."""
        entry = self.meta.entry()
        assert entry is not None
        kept = [item for item in entry.finalizers if names.super_id_of_finalizer(item) not in super_ids]
        self.meta.patch(NAMESPACE, {"metadata": {"finalizers": kept}})

    def placements(self) -> dict[str, int] | None:
        entry = self.meta.entry()
        return None if entry is None else dict(entry.status.placements)

    def mirror(self) -> Any:
        metadata = self.tenant.objects[NAMESPACE]["metadata"]
        text = metadata.get("annotations", {}).get(names.PLACEMENTS)
        labels = {key.rpartition("/")[2]: int(value) for key, value in metadata.get("labels", {}).items()}
        shown = None if text is None else json.loads(text)
        assert labels == (shown or {})
        return shown


@pytest.fixture
def stage() -> Stage:
    return Stage()


def writes(stage: Stage) -> list[str]:
    return [what for what, _ in stage.meta.writes] + [what for what, _ in stage.tenant.writes]


def test_a_quota_becomes_placements_ledger_first_and_mirror_last(stage):
    stage.tenant.hards = [SMALL]
    plan = stage.turn()
    assert writes(stage) == ["create", "status", "namespace"]
    assert stage.placements() == {"r1": 1, "r2": 1} == stage.mirror()
    entry = stage.meta.entry()
    assert entry.finalizers == ("tenancy.x-k8s.io/drain-r1", "tenancy.x-k8s.io/drain-r2")
    size = dict(entry.spec.slice_size)
    assert (entry.spec.slices, size["cpu"], size["memory"]) == (2, "100m", "100Mi")
    assert entry.spec.namespace_uid == "uid-1"
    assert plan.event == ("Normal", "Scheduled", "2 slices placed (r1: 1, r2: 1)")
    [condition] = entry.status.conditions
    assert (condition.type, condition.status, condition.reason) == ("Placed", "True", "Scheduled")


def test_the_event_of_a_namespace_that_leaves_a_lost_super_cluster_says_so(stage):
    stage.tenant.hards = [SMALL]
    stage.turn()
    stage.views["r2"], stage.leaving = view("r2", health=Health.LOST), {"r2": 0}
    message = "2 slices placed (r1: 2); 1 moved from r2, which is lost"
    assert stage.turn().event == ("Normal", "Scheduled", message)
    assert stage.turn().event is None


def test_slices_that_leave_a_lost_super_cluster_are_remembered_until_they_come_back(stage):
    stage.tenant.hards = [SMALL]
    stage.turn()
    stage.views["r2"], stage.leaving = view("r2", health=Health.LOST), {"r2": 0}
    stage.turn()
    assert stage.meta.entry().status.away == {"r2": 1}
    stage.views["r2"], stage.leaving = view("r2"), {}
    stage.drained("r2")
    stage.turn()
    assert stage.meta.entry().status.away == {"r2": 1}
    stage.transfers = (Transfer("r1", "r2", 1, 1),)
    stage.turn()
    assert stage.placements() == {"r1": 1, "r2": 1}
    assert stage.meta.entry().status.away == {}


def test_a_suspended_tenant_has_no_slices_away(stage):
    stage.tenant.hards = [SMALL]
    stage.turn()
    stage.views["r2"], stage.leaving = view("r2", health=Health.LOST), {"r2": 0}
    stage.turn()
    stage.spec["suspended"] = True
    stage.turn()
    assert stage.meta.entry().status.away == {}


def test_finalizers_are_written_before_slices(stage):
    stage.tenant.hards = [{"cpu": "100m", "memory": "100Mi"}]
    stage.turn()
    stage.tenant.hards = [SMALL]
    stage.meta.writes.clear()
    stage.turn()
    [(first, patch), (second, status)] = stage.meta.writes
    assert (first, second) == ("patch", "status")
    assert "tenancy.x-k8s.io/drain-r2" in patch["metadata"]["finalizers"]
    assert status["status"]["placements"] == {"r2": 1}
    assert patch["metadata"]["resourceVersion"]
    assert status["metadata"]["resourceVersion"]


def test_nothing_is_written_when_nothing_differs(stage):
    stage.tenant.hards = [SMALL]
    stage.turn()
    done = writes(stage)
    plan = stage.turn()
    assert writes(stage) == done
    assert plan.event is None


def test_the_use_of_other_namespaces_alone_changes_no_status(stage):
    stage.tenant.hards = [SMALL]
    stage.views = {"r1": view("r1", "100m")}
    stage.turn()
    done = writes(stage)
    stage.views = {"r1": view("r1", "150m")}
    assert stage.turn().event is None
    assert writes(stage) == done


def test_waiting_slices_have_a_reason_for_operators_and_one_for_the_tenant(stage):
    stage.tenant.hards = [SMALL]
    stage.views = {"r1": view("r1", "120m")}
    plan = stage.turn()
    entry = stage.meta.entry()
    assert stage.placements() == {"r1": 1} == stage.mirror()
    assert entry.status.waiting == 1
    assert plan.waiting
    [condition] = entry.status.conditions
    assert condition.message == "1 of 2 slices wait: r1: cpu 100m asked, 20m of 120m free; placed: r1: 1"
    assert plan.event == (
        "Warning",
        "FailedScheduling",
        "1 of 2 slices wait: r1: too little cpu free for a slice; placed: r1: 1",
    )
    [explained] = entry.status.explanation
    assert (explained.super_cluster, explained.slices, explained.refused_by) == ("r1", 1, ("Capacity",))


def test_without_quota_nothing_is_placed_and_an_event_says_why(stage):
    plan = stage.turn()
    assert (plan.reason, stage.placements(), stage.mirror()) == ("NoQuota", None, None)
    assert writes(stage) == []
    assert plan.event[:2] == ("Warning", "NoQuota")


@pytest.mark.parametrize(
    ("hards", "what"),
    [
        ([], "it has no ResourceQuota on cpu or memory"),
        ([{"pods": "5"}], "it has no ResourceQuota on cpu or memory"),
        ([{"cpu": "0", "memory": "0"}], "its ResourceQuota allows no cpu and memory"),
    ],
)
def test_the_event_of_a_namespace_without_slices_names_the_missing_quota(stage, hards, what):
    stage.tenant.hards = hards
    message = f"nothing is placed: {what}; create one, e.g. with hard.cpu and hard.memory"
    assert stage.turn().event == ("Warning", "NoQuota", message)


def test_a_default_quota_is_assumed_and_shown(stage):
    stage = Stage(default_quota={"cpu": "200m", "memory": "200Mi"})
    stage.tenant.hards = [{"cpu": "100m"}]
    stage.turn()
    assert stage.mirror() == {"r1": 1, "r2": 1}
    annotations = stage.tenant.objects[NAMESPACE]["metadata"]["annotations"]
    assert annotations[names.DEFAULT_QUOTA] == '{"memory":"200Mi"}'
    stage.tenant.hards = [SMALL]
    stage.turn()
    assert names.DEFAULT_QUOTA not in stage.tenant.objects[NAMESPACE]["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("namespace", "placed"),
    [
        ("default", True),
        ("kube-system", True),
        ("kube-public", False),
        ("kube-node-lease", False),
        ("vcsync-system", False),
    ],
)
def test_empty_namespaces_have_no_default_quota(namespace: str, placed: bool) -> None:
    two = {"cpu": Quantity("2")}
    owner = VirtualCluster(name="acme", spec=VirtualClusterSpec(default_quota=two))
    assert default_quota(owner, Envelope(namespace)) == (two if placed else {})


def test_a_namespace_that_opts_out_of_the_default_quota_is_not_placed(stage):
    stage = Stage(default_quota={"cpu": "200m", "memory": "200Mi"})
    stage.tenant.objects[NAMESPACE]["metadata"]["annotations"] = {names.WITHOUT_DEFAULT_QUOTA: "true"}
    assert stage.turn().reason == "NoQuota"
    assert not stage.mirror()
    stage.tenant.hards = [SMALL]
    stage.turn()
    assert stage.mirror() != {}


def test_a_removed_quota_takes_the_slices_away_but_only_if_the_server_confirms_it(stage):
    stage.tenant.hards = [SMALL]
    stage.turn()
    inputs = stage.inputs()
    stale = Inputs(*(getattr(inputs, name) if name != "hards" else () for name in Inputs.__struct_fields__))
    plan = reconcile(stale)
    asyncio.run(commit(stale, plan, stage.meta.ledger(), stage.tenant.control_plane()))
    assert stage.placements() == {"r1": 1, "r2": 1}  # the cache had been wrong
    stage.turn()
    stage.tenant.hards = []
    plan = stage.turn()
    assert plan.event[:2] == ("Warning", "NoQuota")
    entry = stage.meta.entry()
    assert not entry.deleting
    assert (entry.spec.slices, dict(entry.spec.quota), stage.placements(), stage.mirror()) == (
        0,
        {},
        {},
        None,
    )
    assert {super_id: amounts["cpu"] for super_id, amounts in entry.status.clearing.items()} == {
        "r1": "100m",
        "r2": "100m",
    }
    [condition] = entry.status.conditions
    assert (condition.status, condition.reason) == ("False", "NoQuota")
    done = writes(stage)
    stage.turn()
    assert writes(stage) == done


def test_an_entry_without_a_quota_is_deleted_once_it_is_drained(stage):
    stage.tenant.hards = [SMALL]
    stage.turn()
    stage.tenant.hards = []
    stage.turn()
    stage.drained("r1")
    stage.turn()
    assert dict(stage.meta.entry().status.clearing).keys() == {"r2"}
    stage.drained("r2")
    stage.turn()
    assert stage.meta.entry() is None


def test_a_quota_that_comes_back_gets_its_slices_where_the_namespace_still_has_objects(stage):
    stage.views = {"r1": view("r1"), "r2": view("r2"), "r3": view("r3")}
    stage.tenant.hards = [SMALL]
    stage.turn()
    assert stage.placements() == {"r1": 1, "r2": 1}
    stage.tenant.hards = []
    stage.turn()
    stage.drained("r1")
    stage.tenant.hards = [{"cpu": "100m", "memory": "100Mi"}]
    assert stage.turn().reason == "Scheduled"
    assert stage.placements() == {"r2": 1} == stage.mirror()
    assert not stage.meta.entry().status.clearing


def test_a_namespace_without_quota_still_counts_against_the_tenants_cap_until_it_is_drained():
    stage = Stage(quota={"cpu": "300m", "memory": "1Gi"})
    held = from_quantities({"cpu": "200m", "memory": "1Mi"})
    stage.others.put((ROOT, "other"), Entry(held, {}, {"r1": held}))
    stage.tenant.hards = [SMALL]
    stage.turn()
    assert sum(stage.placements().values()) == 1
    stage.others.drop((ROOT, "other"))
    stage.turn()
    assert sum(stage.placements().values()) == 2
    stage.others.put((ROOT, "other"), Entry(held, {}, {"r1": held}))
    stage.turn()
    assert sum(stage.placements().values()) == 2


def test_an_entry_is_deleted_with_its_namespace_and_created_for_a_new_one(stage):
    stage.tenant.hards = [SMALL]
    stage.turn()
    stage.tenant.objects.clear()
    stage.turn()
    assert stage.placements() == {}
    stage.tenant.put(NAMESPACE, {"metadata": {"uid": "uid-2", "annotations": {names.SLICE: SLICE}}})
    assert stage.turn().reason == "Draining"
    stage.drained("r1", "r2")
    stage.turn()
    assert stage.meta.entry().spec.namespace_uid == "uid-2"


def test_an_entry_of_an_earlier_namespace_of_the_same_name_loses_its_slices(stage):
    stage.tenant.hards = [SMALL]
    stage.turn()
    stage.tenant.put(NAMESPACE, {"metadata": {"uid": "uid-2"}})
    stage.turn()
    assert (stage.placements(), stage.meta.entry().status.former) == ({}, ("r1", "r2"))


def test_an_entry_that_is_being_deleted_is_waited_for(stage):
    stage.tenant.hards = [SMALL]
    stage.turn()
    stage.meta.patch(NAMESPACE, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    assert stage.turn().message == "its former placement is being cleared by r1, r2"
    stage.drained("r1", "r2")
    stage.turn()
    stage.turn()
    assert stage.placements() == {"r1": 1, "r2": 1}


def test_a_namespace_missing_in_the_cache_only_keeps_its_entry(stage):
    stage.tenant.hards = [SMALL]
    stage.turn()
    inputs = stage.inputs()
    stale = Inputs(
        *(getattr(inputs, name) if name != "namespace" else None for name in Inputs.__struct_fields__)
    )
    asyncio.run(commit(stale, reconcile(stale), stage.meta.ledger(), stage.tenant.control_plane()))
    assert not stage.meta.entry().deleting


def test_a_terminating_namespace_keeps_its_placement_without_quotas(stage):
    stage.tenant.hards = [SMALL]
    stage.turn()
    stage.tenant.hards = []
    metadata = stage.tenant.objects[NAMESPACE]["metadata"]
    stage.tenant.put(NAMESPACE, {"metadata": metadata | {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    assert stage.turn().reason == "Terminating"
    assert stage.placements() == {"r1": 1, "r2": 1}
    assert not stage.meta.entry().deleting


@pytest.mark.parametrize(
    ("annotation", "says"), [("{", "not JSON"), ('{"cpu":"1","memory":"0"}', "field 'memory'")]
)
def test_an_invalid_slice_annotation_moves_nothing_and_gets_one_event(stage, annotation, says):
    stage.tenant.hards = [SMALL]
    stage.turn()
    stage.annotate(annotation)
    plan = stage.turn()
    assert plan.event[:2] == ("Warning", "InvalidSlice")
    assert says in plan.event[2]
    assert stage.placements() == {"r1": 1, "r2": 1} == stage.mirror()
    [condition] = stage.meta.entry().status.conditions
    assert (condition.status, condition.reason) == ("False", "InvalidSlice")
    done = writes(stage)
    assert stage.turn().event is None
    assert writes(stage) == done
    stage.annotate(SLICE)
    assert stage.turn().reason == "Scheduled"


def test_an_invalid_slice_annotation_before_the_first_placement_places_nothing(stage):
    stage.tenant.hards = [SMALL]
    stage.annotate("[]")
    assert stage.turn().reason == "InvalidSlice"
    assert stage.placements() is None


@pytest.mark.parametrize("placed", [True, False])
def test_the_mirror_follows_the_ledger_while_a_slice_annotation_is_invalid(stage, placed):
    if placed:
        stage.tenant.hards = [SMALL]
        stage.turn()
    stage.tenant.hards = [SMALL]
    stage.tenant.patch(
        NAMESPACE,
        {
            "metadata": {
                "annotations": {names.PLACEMENTS: '{"x":1}'},
                "labels": {names.placement_label("x"): "1"},
            }
        },
    )
    stage.annotate("{")
    stage.turn()
    assert stage.mirror() == ({"r1": 1, "r2": 1} if placed else None)


def test_an_operators_pins_are_kept_and_applied(stage):
    stage.tenant.hards = [SMALL]
    stage.turn()
    stage.meta.patch(NAMESPACE, {"spec": {"pins": {"r2": 2}}})
    stage.turn()
    assert stage.placements() == {"r2": 2} == stage.mirror()
    entry = stage.meta.entry()
    assert dict(entry.spec.pins) == {"r2": 2}
    assert "tenancy.x-k8s.io/drain-r1" in entry.finalizers  # r1 still has to clear


def test_the_operators_cap_counts_all_namespaces_of_the_tenant(stage):
    stage = Stage(quota={"cpu": "300m", "memory": "1Gi"})
    stage.others.put((ROOT, "other"), Entry(from_quantities({"cpu": "200m", "memory": "1Mi"}), {"r1": 1}))
    stage.others.put(
        ("foreign", "other"), Entry(from_quantities({"cpu": "300m", "memory": "1Mi"}), {"r1": 1})
    )
    stage.tenant.hards = [SMALL]
    plan = stage.turn()
    assert sum(stage.placements().values()) == 1
    assert plan.event[2] == (
        "1 of 2 slices wait: the tenant's quota: cpu 200m asked, 100m left to this namespace; placed: r2: 1"
    )


def test_a_smaller_slice_keeps_the_proportions(stage):
    stage.tenant.hards = [SMALL]
    stage.turn()
    stage.annotate('{"cpu":"50m","memory":"50Mi"}')
    stage.turn()
    assert stage.placements() == {"r1": 2, "r2": 2}


def test_the_mirror_is_corrected_with_one_patch(stage):
    stage.tenant.hards = [SMALL]
    stage.turn()
    forged = {names.PLACEMENTS: '{"x":1}', names.DEFAULT_QUOTA: "{}"}
    labels = {
        names.placement_label("x"): "1",
        names.placement_label("r1"): "7",
        names.placement_label("r2"): None,
    }
    stage.tenant.patch(NAMESPACE, {"metadata": {"annotations": forged, "labels": labels}})
    stage.tenant.writes.clear()
    stage.turn()
    assert stage.mirror() == {"r1": 1, "r2": 1}
    assert len(stage.tenant.writes) == 1


@pytest.mark.parametrize(
    ("spec", "hard"),
    [
        ({"hard": {"cpu": "1"}}, {"cpu": "1"}),
        ({"hard": {"cpu": 1}}, {"cpu": "1"}),
        ({"hard": {"cpu": "1"}, "scopes": ["BestEffort"]}, None),
        ({"hard": {"cpu": "1"}, "scopeSelector": {"matchExpressions": []}}, None),
        ({}, None),
        (None, None),
    ],
)
def test_only_quotas_over_all_pods_count(spec, hard):
    assert counted_hard(spec) == hard


steps = st.lists(
    st.sampled_from(["grow", "shrink", "remove", "slice", "pin", "drain", "cordon", "recreate"]), max_size=6
)


def change(stage: Stage, step: str) -> None:
    entry = stage.meta.entry()
    match step:
        case "grow":
            stage.tenant.hards = [{"cpu": "500m", "memory": "300Mi"}]
        case "shrink":
            stage.tenant.hards = [{"cpu": "100m", "memory": "100Mi"}]
        case "remove":
            stage.tenant.hards = []
        case "slice":
            stage.annotate('{"cpu":"70m","memory":"70Mi"}')
        case "pin" if entry is not None:
            stage.meta.patch(NAMESPACE, {"spec": {"pins": {"r2": 3}}})
        case "drain" if entry is not None:
            idle = {"r1", "r2"} - (set() if entry.deleting else set(entry.status.placements))
            stage.drained(*idle)
        case "cordon":
            stage.views = {"r1": view("r1", cordoned=True), "r2": view("r2")}
        case "recreate":
            stage.tenant.put(NAMESPACE, {"metadata": {"uid": f"uid-{len(stage.tenant.writes)}"}})
        case _:
            pass


@given(steps, st.integers(0, 4), st.booleans())
def test_reconciling_recovers_from_an_interruption_at_any_write(todo, crash, in_tenant):
    stage = Stage()
    stage.tenant.hards = [SMALL]
    for step in ["grow", *todo]:
        change(stage, step)
        server = stage.tenant if in_tenant else stage.meta
        server.fail_at = len(server.writes) + crash
        try:
            stage.turn()
        except Interrupted:
            pass
        finally:
            server.fail_at = None
        entry = stage.meta.entry()
        if entry is not None:
            held = {names.super_id_of_finalizer(item) for item in entry.finalizers}
            assert set(entry.status.placements) <= held, "slices on a super cluster that nobody would clear"
    for _ in range(3):
        stage.turn()
    done = writes(stage)
    stage.turn()
    assert writes(stage) == done, "it does not settle"
    entry = stage.meta.entry()
    assert stage.mirror() == ((entry and not entry.deleting and dict(entry.status.placements)) or None)


# How many Pods a slice has room for


def slots(stage: Stage) -> str | None:
    entry = stage.meta.entry()
    return None if entry is None else entry.spec.slice_size.get("pods")


def test_a_slice_has_the_pods_of_its_share_of_the_pool(stage):
    stage.views = {
        "r1": view("r1", memory="1000Mi", pods="100"),
        "r2": view("r2", memory="1000Mi", pods="300"),
    }
    stage.tenant.hards = [SMALL]
    stage.turn()
    assert slots(stage) == "20"
    assert stage.placements() == {"r1": 1, "r2": 1}


def test_pods_of_other_namespaces_are_not_distributed_again(stage):
    stage.views = {"r1": view("r1", memory="1000Mi", pods="100")}
    stage.others.put((ROOT, "other"), Entry(from_quantities({"pods": "85"}), {"r1": 1}))
    stage.tenant.hards = [SMALL]
    plan = stage.turn()
    assert (slots(stage), stage.placements(), plan.status.waiting) == ("10", {"r1": 1}, 1)
    assert "pods 10 asked, 5 of 100 free" in plan.message


def test_small_changes_of_the_pool_do_not_change_the_pods_of_a_slice(stage):
    stage.tenant.hards = [SMALL]
    for pods, found in (("100", "10"), ("110", "10"), ("200", "20"), ("170", "20"), ("100", "10")):
        stage.views = {"r1": view("r1", memory="1000Mi", pods=pods)}
        stage.turn()
        assert (slots(stage), stage.placements()) == (found, {"r1": 2})


@pytest.mark.parametrize(
    "views",
    [
        pytest.param({}, id="no super cluster"),
        pytest.param({"r1": SuperView("r1", Health.SUSPECT, {})}, id="no node is ready"),
        pytest.param(
            {"r1": SuperView("r1", Health.SUSPECT, {}), "r2": view("r2", memory="1000Mi", pods="900")},
            id="only another kind of super cluster is well",
        ),
    ],
)
def test_the_pods_of_slices_are_kept_while_the_pool_is_not_healthy(stage, views):
    stage.views = {"r1": view("r1", memory="1000Mi", pods="100")}
    stage.tenant.hards = [SMALL]
    stage.turn()
    assert slots(stage) == "10"
    stage.views = views
    stage.turn()
    assert slots(stage) == "10"


def test_present_slices_are_kept_when_they_get_a_number_of_pods(stage):
    stage.tenant.hards = [{"cpu": "1", "memory": "1000Mi"}]
    stage.views = {"r1": view("r1", memory="1000Mi")}
    stage.turn()
    assert (slots(stage), stage.placements()) == (None, {"r1": 10})
    stage.others.put((ROOT, "other"), Entry(from_quantities({"pods": "50"}), {"r1": 1}))
    stage.views = {"r1": view("r1", memory="1000Mi", pods="100")}
    stage.turn()
    assert (slots(stage), stage.placements()) == ("5", {"r1": 10}), "as many as others leave"


@pytest.mark.parametrize(
    "fields", [{"cordoned": True}, {"draining": True}, {"health": Health.LOST}, {"health": Health.RECOVERING}]
)
def test_a_quota_that_is_created_again_elsewhere_waits_for_what_is_not_freed(fields):
    stage = Stage(quota={"cpu": "1"})
    stage.views = {"r1": view("r1")}
    stage.tenant.hards = [{"cpu": "900m"}]
    stage.turn()
    stage.tenant.hards = []
    stage.turn()
    stage.views = {"r1": view("r1", **fields), "r2": view("r2")}
    stage.tenant.hards = [{"cpu": "900m"}]
    text = "8 of 9 slices wait: the tenant's quota: cpu 900m asked, 100m left to this namespace; "
    assert stage.turn().event == (
        "Warning",
        "FailedScheduling",
        text + "it has not freed 900m on r1 yet; placed: r2: 1",
    )
    stage.drained("r1")
    assert stage.turn().event == ("Normal", "Scheduled", "9 slices placed (r2: 9)")


def test_an_invalid_annotation_does_not_count_again_what_has_been_freed(stage):
    stage.tenant.hards = [{"cpu": "400m"}]
    stage.turn()
    stage.tenant.hards = [SMALL]
    stage.turn()
    assert set(stage.meta.entry().status.clearing) == {"r1", "r2"}
    finalizers = [names.drain_finalizer("r1"), names.drain_finalizer("r2"), names.clear_finalizer("r2")]
    stage.meta.patch(NAMESPACE, {"metadata": {"finalizers": finalizers}})
    stage.annotate("x")
    assert stage.turn().reason == "InvalidSlice"
    assert set(stage.meta.entry().status.clearing) == {"r2"}
    assert list(stage.meta.entry().finalizers) == finalizers


def test_slices_on_a_full_super_cluster_get_no_more_pods_when_another_one_joins(stage):
    stage.tenant.hards = [{"cpu": "1", "memory": "1000Mi"}]
    stage.views = {"r1": view("r1", memory="1000Mi", pods="11")}
    stage.turn()
    assert (slots(stage), stage.placements()) == ("1", {"r1": 10})
    stage.views["r2"] = view("r2", memory="1000Mi", pods="100")
    stage.turn()
    assert (slots(stage), stage.placements()) == ("1", {"r1": 10})
    stage.views["r1"] = view("r1", memory="1000Mi", pods="30")
    stage.turn()
    assert (slots(stage), stage.placements()) == ("3", {"r1": 10})
    stage.transfers = (Transfer("r1", "r2", 10, 0),)
    stage.turn()
    assert (slots(stage), stage.placements()) == ("6", {"r2": 10}), "the share of the pool"


def test_the_operator_may_set_the_pods_of_a_slice():
    stage = Stage(slice_size={"cpu": "200m", "memory": "200Mi", "pods": "30"})
    stage.views = {"r1": view("r1", pods="100")}
    stage.tenant.hards = [SMALL]
    stage.turn()
    assert slots(stage) == "15"  # by its annotation a slice is half as large
    stage.annotate(None)
    stage.turn()
    assert slots(stage) == "30"


def test_a_tenant_cannot_set_the_pods_of_a_slice(stage):
    stage.annotate('{"cpu":"100m","memory":"100Mi","pods":"1000"}')
    stage.tenant.hards = [SMALL]
    assert stage.turn().reason == "InvalidSlice"


def test_tiny_slices_get_no_more_pods_than_the_tenants_cap_allows():
    stage = Stage(quota={"cpu": "200m", "memory": "200Mi", "pods": "13"})
    stage.views = {"r1": view("r1", memory="1000Mi", pods="100")}
    stage.annotate('{"cpu":"1m","memory":"1Mi"}')
    stage.tenant.hards = [SMALL]
    plan = stage.turn()
    assert (slots(stage), stage.placements()) == ("1", {"r1": 13})
    assert "the tenant's quota: pods 20 asked, 13 left to this namespace" in plan.message


@pytest.mark.parametrize("own", [None, {"cpu": "200m", "memory": "200Mi", "pods": "20"}])
def test_tiny_slices_are_enlarged_until_each_has_a_pod(own):
    stage = Stage(**({} if own is None else {"slice_size": own}))
    stage.views = {
        "r1": view("r1", memory="1000Mi", pods="100"),
        "r2": view("r2", memory="1000Mi", pods="100"),
    }
    stage.annotate('{"cpu":"1m","memory":"1Mi"}')
    stage.tenant.hards = [SMALL]
    stage.turn()
    entry = stage.meta.entry()
    assert entry is not None
    assert (entry.spec.slice_size["cpu"], entry.spec.slice_size["memory"]) == ("10m", "10Mi")
    assert (slots(stage), stage.placements()) == ("1", {"r1": 10, "r2": 10})
    before = len(writes(stage))
    stage.turn()
    assert len(writes(stage)) == before


def test_the_slices_of_an_older_version_are_enlarged_where_they_are():
    """They had a Pod each, however small, and each of all objects."""
    stage = Stage()
    stage.tenant.hards = [SMALL]
    stage.annotate('{"cpu":"1m","memory":"1Mi"}')
    stage.turn()
    old = {"cpu": "1m", "memory": "1Mi", "pods": "1", "services.loadbalancers": "1"}
    assert stage.placements() == {"r1": 100, "r2": 100}
    stage.meta.patch(NAMESPACE, {"spec": {"sliceSize": old}})
    stage.meta.patch(NAMESPACE, {"status": {"sliceSize": old}}, status=True)
    stage.views = {
        "r1": view("r1", memory="1000Mi", pods="100"),
        "r2": view("r2", memory="1000Mi", pods="100"),
    }
    stage.turn()
    entry = stage.meta.entry()
    assert entry is not None
    assert (slots(stage), stage.placements()) == ("1", {"r1": 10, "r2": 10})
    assert {super_id: dict(left) for super_id, left in entry.status.clearing.items()} == {
        "r1": {"pods": "90"},
        "r2": {"pods": "90"},
    }


def test_the_size_of_slices_is_kept_while_the_pool_is_not_healthy():
    stage = Stage()
    stage.tenant.hards = [SMALL]
    stage.annotate('{"cpu":"1m","memory":"1Mi"}')
    stage.views = {"r1": view("r1", memory="1000Mi", pods="100")}
    stage.turn()
    assert stage.placements() == {"r1": 20}
    stage.views = {"r1": view("r1", memory="1000Mi", pods="10", health=Health.SUSPECT)}
    stage.turn()
    assert (slots(stage), stage.placements()) == ("1", {"r1": 20})


def test_slices_that_kept_their_pods_leave_room_for_the_rest_of_the_cap():
    stage = Stage(quota={"cpu": "1", "memory": "1000Mi"})
    stage.views = {"r1": view("r1", memory="1000Mi", pods="100")}
    stage.tenant.hards = [{"cpu": "900m", "memory": "900Mi"}]
    stage.turn()
    stage.views = {"r1": view("r1", cpu="2", memory="2000Mi", pods="160")}
    stage.tenant.hards = [{"cpu": "1", "memory": "1000Mi"}]
    stage.turn()
    assert (slots(stage), stage.placements()) == ("10", {"r1": 10})


def test_the_operators_cap_may_name_pods():
    stage = Stage(quota={"pods": "25"})
    stage.views = {"r1": view("r1", memory="1000Mi", pods="100")}
    stage.tenant.hards = [{"cpu": "1", "memory": "1000Mi"}]
    stage.turn()
    assert stage.placements() == {"r1": 2}


def test_slices_stand_for_parts_of_the_objects_of_their_namespace():
    stage = Stage(
        slice_size={"cpu": "200m", "memory": "200Mi", "services.nodeports": "8", "services": "1k", "gpu": "1"}
    )
    stage.tenant.hards = [SMALL]
    stage.turn()
    entry = stage.meta.entry()
    assert entry is not None
    assert dict(entry.spec.slice_size) == {
        "cpu": "100m",
        "memory": "100Mi",
        "services": "500",
        "services.nodeports": "4",
        # What no operator's slice names is bounded as usual.
        "services.loadbalancers": "500m",
        "object-bytes": "624230500m",
        "persistentvolumeclaims": "500m",
        "requests.storage": "3810Mi",
        "count/resourceclaims.resource.k8s.io": "500m",
        "count/volumesnapshots.snapshot.storage.k8s.io": "500m",
        "devices": "500m",
    }
    assert stage.placements() == {"r1": 1, "r2": 1}
    assert writes(stage)
    before = len(writes(stage))
    stage.turn()
    assert len(writes(stage)) == before, "nothing is left to write"


@pytest.mark.parametrize("annotation", [SLICE, "invalid", '{"cpu":"0","memory":"1Gi"}'])
@pytest.mark.parametrize("hards", [[SMALL], [], [{"cpu": "many"}]])
def test_a_suspended_tenant_keeps_nothing_whatever_it_wrote(
    stage: Stage, annotation: str, hards: list[dict[str, str]]
) -> None:
    stage.tenant.hards = [SMALL]
    stage.turn()
    placed = stage.placements()
    assert placed
    stage.spec["suspended"] = True
    stage.annotate(annotation)
    stage.tenant.hards = hards
    plan = stage.turn()
    assert (plan.reason, plan.waiting) == ("Suspended", True)
    assert stage.placements() == {}
    assert stage.mirror() is None
    entry = stage.meta.entry()
    assert entry is not None
    assert {names.drain_finalizer(super_id) for super_id in placed} == set(entry.finalizers)
    assert set(entry.status.clearing) == set(placed)
    assert [condition.reason for condition in entry.status.conditions] == ["Suspended"]
    assert plan.event is not None
    assert stage.turn().event is None
    done = writes(stage)
    stage.turn()
    assert writes(stage) == done
    stage.drained(*placed)
    stage.spec["suspended"] = False
    stage.annotate(SLICE)
    stage.tenant.hards = [SMALL]
    stage.turn()
    assert stage.placements()


def test_a_suspended_tenant_gets_no_first_slices(stage: Stage) -> None:
    stage.spec["suspended"] = True
    stage.tenant.hards = [SMALL]
    assert stage.turn().reason == "Suspended"
    assert stage.meta.entry() is None
