"""Clones: only of the tenant's own claims, in the same namespace, on the same super cluster."""

from typing import Any

import pytest
from kinds_bench import Bench, super_ns
from test_kinds_claim_return import said
from test_kinds_persistentvolumeclaim import HERE, KIND, below, bound, claim, plan, publish, reason

from vcsync.api import names
from vcsync.kube.resources import PERSISTENT_VOLUME_CLAIMS, STORAGE_CLASSES, VOLUME_SNAPSHOTS
from vcsync.syncer.kinds.plan import Delete, Notify

SOURCE = {"kind": "PersistentVolumeClaim", "name": "data"}


def clone(bench: Bench, name: str = "copy", **fields: Any) -> None:
    claim(bench, name, **({"dataSource": SOURCE, "dataSourceRef": SOURCE} | fields))


def made(bench: Bench) -> Any:
    """Return the copy of a clone whose source is bound."""
    bound(bench)
    clone(bench)
    bench.settle(KIND, "shop", "copy")
    return below(bench, "copy")


@pytest.mark.parametrize("field", ["dataSource", "dataSourceRef"])
def test_a_clone_names_the_copy_of_its_source(bench: Bench, field: str) -> None:
    bound(bench)
    claim(bench, "copy", **{field: SOURCE})
    bench.settle(KIND, "shop", "copy")
    found = below(bench, "copy")
    assert found["spec"]["dataSource"] == SOURCE
    assert "dataSourceRef" not in found["spec"]
    assert found["metadata"]["annotations"][names.SOURCE_UID] == below(bench)["metadata"]["uid"]


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (SOURCE | {"namespace": "kube-system"}, "other namespaces"),
        (SOURCE | {"namespace": "shop"}, "other namespaces"),
        (SOURCE | {"namespace": super_ns("shop")}, "other namespaces"),
        ({"apiGroup": "example.com", "kind": "VolumeSnapshot", "name": "data"}, "only Persistent"),
        (SOURCE | {"apiGroup": "example.com"}, "only PersistentVolumeClaims"),
        ({"kind": "PersistentVolume", "name": "data"}, "only PersistentVolumeClaims"),
        ({"apiGroup": "cdi.example.com", "kind": "Import", "name": "data"}, "only PersistentVolumeClaims"),
    ],
)
def test_every_other_source_is_refused(bench: Bench, source: dict[str, str], why: str) -> None:
    bound(bench)
    claim(bench, "copy", dataSourceRef=source)
    [notice] = plan(bench, "copy").actions
    assert isinstance(notice, Notify)
    assert notice.reason == "PolicyRefused"
    assert "spec.dataSourceRef is not allowed here" in notice.message
    assert why in notice.message
    assert not bench.has("super", PERSISTENT_VOLUME_CLAIMS, "copy")


def test_a_clone_waits_for_its_source(bench: Bench) -> None:
    publish(bench)
    clone(bench)
    found = plan(bench, "copy")
    assert not found.actions
    assert "PersistentVolumeClaim data, of which it is a clone" in reason(found)
    assert found.wait is not None
    assert [(each.side, each.name) for each in found.wait.on] == [("tenant", "data"), ("super", "data")]
    claim(bench)
    assert not plan(bench, "copy").actions
    bench.settle(KIND, "shop", "data")
    bench.settle(KIND, "shop", "copy")
    assert below(bench, "copy")["spec"]["dataSource"] == SOURCE


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("annotations", [{}, {names.CLUSTER: "another"}, {names.UID: "another"}])
def test_a_claim_of_the_operator_or_of_another_tenant_is_never_cloned(
    bench: Bench, own: bool, annotations: dict[str, str]
) -> None:
    """It has the name that the tenant asks for; the tenant may have a claim of that name, too."""
    publish(bench)
    if own:
        claim(bench)
    metadata = {"name": "data", "namespace": super_ns("shop"), "annotations": annotations}
    bench.put("super", PERSISTENT_VOLUME_CLAIMS, {"metadata": metadata, "status": {"phase": "Bound"}})
    clone(bench)
    assert not plan(bench, "copy").actions
    assert "of which it is a clone" in reason(plan(bench, "copy"))


@pytest.mark.parametrize("own", [False, True])
def test_a_source_that_is_swapped_after_the_check_is_not_cloned(bench: Bench, own: bool) -> None:
    made(bench)
    bench.remove("super", PERSISTENT_VOLUME_CLAIMS, "data")
    uid = bench.get("tenant", PERSISTENT_VOLUME_CLAIMS, "data")["metadata"]["uid"]
    annotations = {names.CLUSTER: bench.context.key, names.NAMESPACE: "shop", names.UID: uid}
    metadata = {"name": "data", "namespace": super_ns("shop"), "annotations": annotations if own else {}}
    bench.put("super", PERSISTENT_VOLUME_CLAIMS, {"metadata": metadata})
    [doomed] = plan(bench, "copy").actions
    assert isinstance(doomed, Delete)
    assert doomed.resource_version


def test_a_clone_that_has_its_volume_does_not_need_its_source(bench: Bench) -> None:
    made(bench)
    status = {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"}}
    change = {"spec": {"volumeName": "pvc-of-operator"}, "status": status}
    bench.edit("super", PERSISTENT_VOLUME_CLAIMS, "copy", change)
    bench.settle(KIND, "shop", "copy")
    bench.remove("tenant", PERSISTENT_VOLUME_CLAIMS, "data")
    bench.remove("super", PERSISTENT_VOLUME_CLAIMS, "data")
    assert not plan(bench, "copy").actions


def test_a_clone_that_waits_for_its_volume_is_woken_by_its_source(bench: Bench) -> None:
    made(bench)
    found = plan(bench, "copy")
    assert not found.actions
    assert found.wait is not None
    assert ("super", "data") in [(each.side, each.name) for each in found.wait.on]


def test_a_source_that_is_being_deleted_keeps_a_clone_that_has_begun(bench: Bench) -> None:
    """The provisioner protects a source while it clones it."""
    made(bench)
    ending = {"metadata": {"deletionTimestamp": "2026-05-01T12:00:00Z"}}
    bench.edit("super", PERSISTENT_VOLUME_CLAIMS, "data", ending)
    assert not plan(bench, "copy").actions
    clone(bench, "late")
    assert "of which it is a clone" in reason(plan(bench, "late"))


def test_a_clone_is_not_given_back(bench: Bench) -> None:
    """No other super cluster has the source."""
    found = made(bench)
    bench.failing[found["metadata"]["uid"]] = 10_000
    bench.remove("super", STORAGE_CLASSES, "fast")
    assert not plan(bench, "copy").actions


def test_a_clone_follows_its_source_to_another_super_cluster(bench: Bench) -> None:
    publish(bench)
    claim(bench)
    bench.settle(KIND, "shop", "data")
    clone(bench)
    bench.settle(KIND, "shop", "copy")
    moved = {"metadata": {"labels": {names.SUPER_CLUSTER: "r2"}}}
    bench.edit("tenant", PERSISTENT_VOLUME_CLAIMS, "data", moved)
    bench.settle(KIND, "shop", "data")
    bench.settle(KIND, "shop", "copy")
    assert not bench.has("super", PERSISTENT_VOLUME_CLAIMS, "copy")
    after = bench.get("tenant", PERSISTENT_VOLUME_CLAIMS, "copy")["metadata"]
    assert names.SUPER_CLUSTER not in after["labels"]
    assert not said(bench).may_have_copy


def test_the_uid_of_a_source_is_not_taken_from_the_tenant(bench: Bench) -> None:
    bound(bench)
    claim(bench, "copy", annotations={names.SOURCE_UID: "forged"}, labels=HERE, dataSource=SOURCE)
    bench.settle(KIND, "shop", "copy")
    assert below(bench, "copy")["metadata"]["annotations"][names.SOURCE_UID] != "forged"


# --- Restored from snapshots ---

MONDAY = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "monday"}


def snapshot(bench: Bench, *, own: bool = True, below: bool = True) -> None:
    """Have a snapshot of the tenant, and one of its name in the super cluster: its copy, or one of the operator."""
    uid = bench.put("tenant", VOLUME_SNAPSHOTS, {"metadata": {"name": "monday"}})["metadata"]["uid"]
    mine = {names.CLUSTER: bench.context.key, names.NAMESPACE: "shop", names.UID: uid}
    metadata = {"name": "monday", "namespace": super_ns("shop"), "annotations": mine if own else {}}
    if below:
        bench.put("super", VOLUME_SNAPSHOTS, {"metadata": metadata})


def test_a_restored_claim_names_the_copy_of_its_snapshot(bench: Bench) -> None:
    publish(bench)
    snapshot(bench)
    claim(bench, "copy", dataSourceRef=MONDAY)
    bench.settle(KIND, "shop", "copy")
    found = below(bench, "copy")
    assert found["spec"]["dataSource"] == MONDAY
    uid = bench.get("super", VOLUME_SNAPSHOTS, "monday")["metadata"]["uid"]
    assert found["metadata"]["annotations"][names.SOURCE_UID] == uid


@pytest.mark.parametrize("below", [False, True])
def test_a_snapshot_of_the_operator_is_never_restored(bench: Bench, below: bool) -> None:
    publish(bench)
    snapshot(bench, own=False, below=below)
    claim(bench, "copy", dataSource=MONDAY)
    found = plan(bench, "copy")
    assert not found.actions
    assert "VolumeSnapshot monday, from which it is restored" in reason(found)
    assert found.wait is not None
    assert [(each.side, each.resource.plural) for each in found.wait.on] == [
        ("tenant", "volumesnapshots"),
        ("super", "volumesnapshots"),
    ]


def test_a_snapshot_that_is_swapped_after_the_check_is_not_restored(bench: Bench) -> None:
    publish(bench)
    snapshot(bench)
    claim(bench, "copy", dataSource=MONDAY)
    bench.settle(KIND, "shop", "copy")
    bench.remove("super", VOLUME_SNAPSHOTS, "monday")
    bench.put("super", VOLUME_SNAPSHOTS, {"metadata": {"name": "monday", "namespace": super_ns("shop")}})
    [doomed] = plan(bench, "copy").actions
    assert isinstance(doomed, Delete)


def test_a_claim_follows_a_label_that_the_tenant_forges_once_and_never_with_a_copy(bench: Bench) -> None:
    publish(bench)
    snapshot(bench)
    claim(bench, "begun", dataSource=MONDAY)
    bench.settle(KIND, "shop", "begun")
    forged = {"metadata": {"labels": {names.SUPER_CLUSTER: "r2"}}}
    bench.edit("tenant", VOLUME_SNAPSHOTS, "monday", forged)
    claim(bench, "late", dataSource=MONDAY)
    bench.settle(KIND, "shop", "late")
    assert (
        names.SUPER_CLUSTER not in bench.get("tenant", PERSISTENT_VOLUME_CLAIMS, "late")["metadata"]["labels"]
    )
    bench.edit("tenant", PERSISTENT_VOLUME_CLAIMS, "late", forged)
    for name in ("begun", "late"):
        assert bench.settle(KIND, "shop", name) == []
    assert bench.has("super", PERSISTENT_VOLUME_CLAIMS, "begun")
    assert not bench.has("super", PERSISTENT_VOLUME_CLAIMS, "late")
