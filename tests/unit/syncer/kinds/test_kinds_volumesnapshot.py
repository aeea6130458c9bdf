"""VolumeSnapshots: taken where the volume is, of the tenant's own claims only, and shown without the operator's details."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kinds_bench import Bench, super_ns
from test_kinds_persistentvolumeclaim import KIND as CLAIMS
from test_kinds_persistentvolumeclaim import below as claim_below
from test_kinds_persistentvolumeclaim import bound, claim, reason

from vcsync.api import names
from vcsync.kube.resources import (
    PERSISTENT_VOLUME_CLAIMS,
    RESOURCE_QUOTAS,
    VOLUME_SNAPSHOT_CLASSES,
    VOLUME_SNAPSHOTS,
)
from vcsync.syncer.kinds.plan import Create, Delete, Notify, Patch, Plan
from vcsync.syncer.kinds.volumesnapshot import COUNT, refusals, status_up

KIND = "volumesnapshots"
SPEC = {"source": {"persistentVolumeClaimName": "data"}, "volumeSnapshotClassName": "nightly"}
READY = {
    "boundVolumeSnapshotContentName": "snapcontent-of-the-operator",
    "creationTime": "2026-05-01T12:00:00Z",
    "readyToUse": True,
    "restoreSize": "2Gi",
}
SHOWN = {"creationTime": "2026-05-01T12:00:00Z", "readyToUse": True, "restoreSize": "2Gi"}


def publish(bench: Bench, name: str = "nightly") -> None:
    bench.put("super", VOLUME_SNAPSHOT_CLASSES, {"metadata": {"name": name}, "driver": "csi.example.com"})


def snapshot(bench: Bench, *, spec: Any = SPEC, status: Any = None, label: str = "", **metadata: Any) -> None:
    labels = {names.SUPER_CLUSTER: label} if label else {}
    body = {
        "metadata": {"name": "monday", "labels": labels, **metadata},
        "spec": spec,
        "status": status or {},
    }
    bench.put("tenant", VOLUME_SNAPSHOTS, body)


def plan(bench: Bench) -> Plan:
    return bench.plan(KIND, "shop", "monday")


def settle(bench: Bench) -> list[Plan]:
    return bench.settle(KIND, "shop", "monday")


def below(bench: Bench) -> Any:
    return bench.get("super", VOLUME_SNAPSHOTS, "monday")


def above(bench: Bench) -> Any:
    return bench.get("tenant", VOLUME_SNAPSHOTS, "monday")


def made(bench: Bench, status: Any = None) -> None:
    """Have a copy of a snapshot whose status is this."""
    bound(bench)
    publish(bench)
    snapshot(bench)
    settle(bench)
    if status is not None:
        bench.edit("super", VOLUME_SNAPSHOTS, "monday", {"status": status})
        settle(bench)


def test_a_snapshot_goes_where_its_volume_is(bench: Bench) -> None:
    bound(bench)
    publish(bench)
    snapshot(bench, labels={"app": "shop"}, annotations={"csi.example.com/import": "of-others"})
    first, second = plan(bench).actions
    assert isinstance(first, Patch), "the label comes first: no other syncer takes the snapshot then"
    assert first.patch["metadata"]["resourceVersion"]
    assert isinstance(second, Create)
    settle(bench)
    assert above(bench)["metadata"]["labels"][names.SUPER_CLUSTER] == "r1"
    copy = below(bench)
    assert copy["spec"] == SPEC
    assert copy["metadata"]["annotations"][names.SOURCE_UID] == claim_below(bench)["metadata"]["uid"]
    assert set(copy["metadata"]["labels"]) == {names.CONTROLLED, names.VC_NAME, names.VC_NAMESPACE}
    assert "of-others" not in json.dumps(copy)


def test_its_status_comes_up_and_rests(bench: Bench) -> None:
    made(bench, READY)
    assert above(bench)["status"] == SHOWN
    assert settle(bench) == []
    assert plan(bench).wait is None


def test_an_error_comes_up_with_a_message_of_ours_and_goes_again(bench: Bench) -> None:
    error = {"message": "san-7 has no space", "time": "2026-05-01T12:00:00Z"}
    made(bench, {"readyToUse": False, "error": error})
    shown = above(bench)["status"]["error"]
    assert shown["time"] == error["time"]
    assert "san-7" not in json.dumps(above(bench))
    assert settle(bench) == []
    bench.edit("super", VOLUME_SNAPSHOTS, "monday", {"status": {**READY, "error": None}})
    settle(bench)
    assert above(bench)["status"] == SHOWN


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({**SPEC, "source": {"volumeSnapshotContentName": "of-others"}}, "volumeSnapshotContentName is not"),
        ({"source": SPEC["source"]}, "spec.volumeSnapshotClassName is required"),
        ({**SPEC, "source": {}}, "spec.source.persistentVolumeClaimName is required"),
        ("text", "spec.source.persistentVolumeClaimName is required"),
        ({"source": ["data"], "volumeSnapshotClassName": 7}, "spec.volumeSnapshotClassName is required"),
        ({**SPEC, "source": {**SPEC["source"], "volumeSnapshotContentName": "x"}}, "is not allowed here"),  # type: ignore[dict-item]
    ],
)
def test_other_sources_and_shapes_are_refused(bench: Bench, spec: Any, text: str) -> None:
    bound(bench)
    publish(bench)
    snapshot(bench, spec=spec)
    [notice] = plan(bench).actions
    assert isinstance(notice, Notify)
    assert notice.reason == "PolicyRefused"
    assert text in notice.message


def test_a_class_must_be_published_where_the_volume_is(bench: Bench) -> None:
    bound(bench)
    snapshot(bench)
    found = plan(bench)
    [notice] = found.actions
    assert isinstance(notice, Notify)
    assert notice.reason == "ClassNotPublished"
    assert "VolumeSnapshotClass nightly" in reason(found)
    publish(bench)
    settle(bench)
    assert below(bench)["spec"] == SPEC


def test_a_snapshot_waits_for_the_volume_of_its_claim(bench: Bench) -> None:
    publish(bench)
    snapshot(bench)
    for why in ("does not exist", "gets one with the first Pod"):
        found = plan(bench)
        [notice] = found.actions
        assert isinstance(notice, Notify)
        assert notice.reason == "WaitingForVolume"
        assert why in notice.message
        assert found.wait is not None
        assert [(each.side, each.name) for each in found.wait.on] == [("tenant", "data"), ("super", "data")]
        claim(bench)
        bench.settle(CLAIMS, "shop", "data")


def test_only_the_super_cluster_of_the_claim_says_that_a_snapshot_waits(bench: Bench) -> None:
    publish(bench)
    claim(bench, labels={names.SUPER_CLUSTER: "r2"})
    snapshot(bench)
    assert not plan(bench).actions
    assert "the volume of PersistentVolumeClaim data" in reason(plan(bench))


@pytest.mark.parametrize("annotations", [{}, {names.CLUSTER: "another"}, {names.UID: "another"}])
def test_a_claim_of_the_operator_or_of_another_tenant_is_never_snapshotted(
    bench: Bench, annotations: dict[str, str]
) -> None:
    claim(bench)
    publish(bench)
    metadata = {"name": "data", "namespace": super_ns("shop"), "annotations": annotations}
    body = {"metadata": metadata, "spec": {"volumeName": "vault"}, "status": {"phase": "Bound"}}
    bench.put("super", PERSISTENT_VOLUME_CLAIMS, body)
    snapshot(bench, label="r1")
    assert {type(each) for each in plan(bench).actions} == {Notify}


def test_a_snapshot_waits_until_it_is_taken(bench: Bench) -> None:
    made(bench)
    bench.edit(
        "super", PERSISTENT_VOLUME_CLAIMS, "data", {"metadata": {"deletionTimestamp": "2026-05-01T12:00:00Z"}}
    )
    found = plan(bench)
    assert not found.actions, "a claim that is being deleted keeps its name"
    assert found.wait is not None
    assert [(each.side, each.name) for each in found.wait.on] == [("super", "data")]


@pytest.mark.parametrize("seen", [False, True])
def test_a_claim_that_is_gone_or_swapped_before_the_snapshot_is_taken_is_not_snapshotted(
    bench: Bench, *, seen: bool
) -> None:
    made(bench)
    bench.remove("super", PERSISTENT_VOLUME_CLAIMS, "data")
    if seen:  # the caches show only claims with vcsync's label
        body = {"metadata": {"name": "data", "namespace": super_ns("shop")}}
        bench.put("super", PERSISTENT_VOLUME_CLAIMS, body)
    [doomed] = plan(bench).actions
    assert isinstance(doomed, Delete)
    assert doomed.resource_version
    bench.execute(doomed)
    assert {type(each) for each in plan(bench).actions} == {Notify}


def test_a_snapshot_outlives_its_claim(bench: Bench) -> None:
    made(bench, READY)
    bench.remove("tenant", PERSISTENT_VOLUME_CLAIMS, "data")
    bench.remove("super", PERSISTENT_VOLUME_CLAIMS, "data")
    assert plan(bench) == Plan()
    bench.put(
        "super", PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "data", "namespace": super_ns("shop")}}
    )
    assert plan(bench) == Plan()


def test_a_snapshot_that_the_super_cluster_has_lost_is_not_taken_again(bench: Bench) -> None:
    made(bench, READY)
    bench.remove("super", VOLUME_SNAPSHOTS, "monday")
    for action in plan(bench).actions:
        bench.execute(action)
    assert above(bench)["status"]["readyToUse"] is False
    assert "does not have it any more" in above(bench)["status"]["error"]["message"]
    assert not bench.has("super", VOLUME_SNAPSHOTS, "monday")
    assert {type(each) for each in plan(bench).actions} == {Notify}


def test_a_snapshot_that_was_not_taken_is_made_again(bench: Bench) -> None:
    made(bench, {"readyToUse": False})
    bench.remove("super", VOLUME_SNAPSHOTS, "monday")
    settle(bench)
    assert below(bench)["spec"] == SPEC


def test_a_label_that_is_lost_comes_back(bench: Bench) -> None:
    made(bench, READY)
    bench.edit("tenant", VOLUME_SNAPSHOTS, "monday", {"metadata": {"labels": {names.SUPER_CLUSTER: None}}})
    settle(bench)
    assert above(bench)["metadata"]["labels"][names.SUPER_CLUSTER] == "r1"


def test_two_super_clusters_do_not_fight_over_a_label_that_the_tenant_changes(bench: Bench) -> None:
    made(bench, READY)
    bench.edit("tenant", VOLUME_SNAPSHOTS, "monday", {"metadata": {"labels": {names.SUPER_CLUSTER: "r2"}}})
    found = plan(bench)
    assert not found.actions
    assert "its label names super cluster r2" in reason(found)


@pytest.mark.parametrize("label", ["", "r2"])
def test_what_another_super_cluster_has_is_not_taken_here(bench: Bench, label: str) -> None:
    bound(bench)
    publish(bench)
    snapshot(bench, status=SHOWN, label=label)
    assert not plan(bench).actions


def test_a_snapshot_ends_with_the_tenants(bench: Bench) -> None:
    made(bench, READY)
    bench.remove("tenant", VOLUME_SNAPSHOTS, "monday")
    settle(bench)
    assert not bench.has("super", VOLUME_SNAPSHOTS, "monday")


def test_a_snapshot_of_the_operator_is_not_touched(bench: Bench) -> None:
    bound(bench)
    publish(bench)
    body = {"metadata": {"name": "monday", "namespace": super_ns("shop")}, "spec": SPEC, "status": READY}
    bench.put("super", VOLUME_SNAPSHOTS, body)
    snapshot(bench)
    [notice] = plan(bench).actions
    assert isinstance(notice, Notify)
    assert notice.reason == "NameTaken"


def limit(bench: Bench, amount: str) -> None:
    """Have slices with this many snapshots, and a quota in the super cluster whose status is empty."""
    placement = bench.placements["shop"]
    hard = {**placement.hard, COUNT: amount}
    bench.placements["shop"] = msgspec.structs.replace(placement, hard=hard)
    bench.settle("namespaces", "", "shop")


def test_a_snapshot_is_created_once_the_super_cluster_counts_them(bench: Bench) -> None:
    bound(bench)
    publish(bench)
    snapshot(bench)
    limit(bench, "3")
    quota = bench.get("super", RESOURCE_QUOTAS, names.SUPER_QUOTA_NAME)
    assert quota["spec"]["hard"][COUNT] == "3"
    for status in ({}, {"hard": {"pods": "1"}, "used": {"pods": "0"}}, {"hard": {COUNT: "3"}}):
        bench.edit("super", RESOURCE_QUOTAS, names.SUPER_QUOTA_NAME, {"status": status})
        settle(bench)
        assert not bench.has("super", VOLUME_SNAPSHOTS, "monday")
        assert "counts the snapshots of the namespace" in reason(plan(bench))
    counted = {"hard": {COUNT: "3"}, "used": {COUNT: "0"}}
    bench.edit("super", RESOURCE_QUOTAS, names.SUPER_QUOTA_NAME, {"status": counted})
    settle(bench)
    assert below(bench)["spec"] == SPEC


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
)
statuses = st.fixed_dictionaries(
    {},
    optional={
        "readyToUse": json_values,
        "creationTime": json_values,
        "restoreSize": json_values,
        "error": json_values
        | st.fixed_dictionaries({}, optional={"message": json_values, "time": json_values}),
        "boundVolumeSnapshotContentName": st.just("snapcontent-of-the-operator"),
    },
)


@given(shown=json_values | statuses, under=json_values | statuses)
def test_a_status_of_any_shape_comes_to_rest_and_tells_nothing_else(shown: Any, under: Any) -> None:
    patch = status_up(shown, under)
    assert set(patch) <= {"readyToUse", "creationTime", "restoreSize", "error"}
    start = shown if isinstance(shown, dict) else {}
    after = start | patch
    if isinstance(patch.get("error"), dict):
        assert set(patch["error"]) == {"message", "time"}
        after["error"] = {field: value for field, value in patch["error"].items() if value is not None}
    assert status_up(after, under) == {}


@given(spec=json_values)
def test_a_spec_of_any_shape_is_refused_unless_it_names_both(spec: Any) -> None:
    assert refusals(spec)
