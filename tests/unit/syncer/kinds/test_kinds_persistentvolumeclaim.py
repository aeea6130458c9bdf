"""PersistentVolumeClaims: what reaches a super cluster, what the tenant sees of the volume, and what happens to data."""

import json
from typing import Any

import pytest
from kinds_bench import KEY, Bench, super_ns

from vcsync.api import names
from vcsync.kube.resources import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STORAGE_CLASSES,
)
from vcsync.syncer.kinds import persistentvolume
from vcsync.syncer.kinds.plan import Delete, Notify, Plan

KIND = "persistentvolumeclaims"
HERE = {names.SUPER_CLUSTER: "r1"}


def publish(bench: Bench, name: str = "fast", **fields: Any) -> None:
    bench.put(
        "super", STORAGE_CLASSES, {"metadata": {"name": name}, "provisioner": "csi.example.com", **fields}
    )


def claim(
    bench: Bench, name: str = "data", *, labels: Any = HERE, annotations: Any = None, **spec: Any
) -> str:
    metadata = {"name": name, "labels": dict(labels), "annotations": annotations or {}}
    wanted = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "fast",
        "volumeMode": "Filesystem",
        **spec,
    }
    put = bench.put(
        "tenant",
        PERSISTENT_VOLUME_CLAIMS,
        {"metadata": metadata, "spec": wanted, "status": {"phase": "Pending"}},
    )
    uid: str = put["metadata"]["uid"]
    return uid


def below(bench: Bench, name: str = "data") -> Any:
    return bench.get("super", PERSISTENT_VOLUME_CLAIMS, name)


def provision(bench: Bench, size: str = "2Gi") -> None:
    """Act as the operator's provisioner and binder in the super cluster."""
    bound = {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}}
    bench.edit(
        "super",
        PERSISTENT_VOLUME_CLAIMS,
        "data",
        {"spec": {"volumeName": "pvc-of-operator"}, "status": bound},
    )


def bind(bench: Bench, uid: str) -> None:
    """Act as the tenant's binder."""
    status = {"phase": "Bound", "capacity": {"storage": "2Gi"}}
    name = names.volume_name(uid)
    bench.edit("tenant", PERSISTENT_VOLUME_CLAIMS, "data", {"spec": {"volumeName": name}, "status": status})
    bench.edit("tenant", PERSISTENT_VOLUMES, name, {"status": {"phase": "Bound"}})


def bound(bench: Bench) -> str:
    """Return the UID of a claim that is bound on both sides."""
    publish(bench)
    uid = claim(bench)
    bench.settle(KIND, "shop", "data")
    provision(bench)
    bench.settle(KIND, "shop", "data")
    bind(bench, uid)
    assert bench.settle(KIND, "shop", "data") == []
    return uid


def plan(bench: Bench, name: str = "data") -> Plan:
    return bench.plan(KIND, "shop", name)


def reason(found: Plan) -> str:
    assert found.wait is not None
    return found.wait.reason


# --- Downward --------------------------------------------------------------------------------------------


def test_an_assigned_claim_is_created(bench: Bench) -> None:
    publish(bench)
    uid = claim(bench)
    bench.settle(KIND, "shop", "data")
    assert below(bench)["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "fast",
        "volumeMode": "Filesystem",
    }
    assert below(bench)["metadata"]["annotations"][names.UID] == uid


@pytest.mark.parametrize("labels", [{}, {names.SUPER_CLUSTER: "r2"}])
def test_a_claim_without_pod_or_of_another_super_cluster_is_not_created(bench: Bench, labels: Any) -> None:
    publish(bench)
    claim(bench, labels=labels)
    assert not plan(bench).actions


def test_nothing_that_provisioners_take_commands_from_is_copied(bench: Bench) -> None:
    """Trident imports and clones volumes by annotations; the NFS provisioner makes paths of labels and annotations."""
    publish(bench)
    claim(
        bench,
        labels={**HERE, "path": "../other"},
        annotations={
            "trident.netapp.io/importOriginalName": "volume-of-another",
            "trident.netapp.io/cloneFromPVC": "x",
            "nfs.io/storage-path": "../other",
            "volume.kubernetes.io/selected-node": "node-1",
            "volume.kubernetes.io/storage-provisioner": "evil",
            "volume.beta.kubernetes.io/storage-class": "private",
            "pv.kubernetes.io/bind-completed": "yes",
            names.CLUSTER: "another",
        },
    )
    bench.settle(KIND, "shop", "data")
    metadata = below(bench)["metadata"]
    assert set(metadata["labels"]) == {names.CONTROLLED, names.VC_NAME, names.VC_NAMESPACE}
    assert set(metadata["annotations"]) == {
        names.CLUSTER,
        names.UID,
        names.NAMESPACE,
        names.VC_NAME,
        names.VC_NAMESPACE,
    }
    assert metadata["annotations"][names.CLUSTER] == KEY


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("selector", {"matchLabels": {"owner": "another"}}),
        ("dataSource", {"apiGroup": "example.com", "kind": "VolumeSnapshot", "name": "other"}),
        ("dataSourceRef", {"kind": "PersistentVolumeClaim", "name": "other", "namespace": "kube-system"}),
        ("volumeAttributesClassName", "gold"),
    ],
)
def test_fields_that_name_foreign_objects_are_refused(bench: Bench, field: str, value: Any) -> None:
    publish(bench)
    claim(bench, **{field: value})
    [notice] = plan(bench).actions
    assert isinstance(notice, Notify)
    assert f"spec.{field} is not allowed here" in notice.message
    assert reason(plan(bench)) == notice.message


def test_a_claim_that_names_a_volume_is_refused(bench: Bench) -> None:
    publish(bench)
    claim(bench, volumeName="pvc-of-another")
    [notice] = plan(bench).actions
    assert isinstance(notice, Notify)
    assert "spec.volumeName pvc-of-another" in notice.message


def test_a_class_must_be_published_by_this_super_cluster(bench: Bench) -> None:
    claim(bench, storageClassName="private")
    found = plan(bench)
    assert not found.actions
    assert reason(found) == "super cluster r1 does not publish StorageClass private"
    assert found.wait is not None
    assert found.wait.on[0].resource == STORAGE_CLASSES
    publish(bench, "private")
    bench.settle(KIND, "shop", "data")
    assert below(bench)["spec"]["storageClassName"] == "private"


def test_a_foreign_claim_of_the_same_name_is_not_touched(bench: Bench) -> None:
    publish(bench)
    claim(bench)
    bench.put(
        "super", PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "data", "namespace": super_ns("shop")}}
    )
    [notice] = plan(bench).actions
    assert isinstance(notice, Notify)
    assert notice.reason == "NameTaken"


def test_a_claim_grows_with_the_tenants(bench: Bench) -> None:
    bound(bench)
    bench.edit(
        "tenant", PERSISTENT_VOLUME_CLAIMS, "data", {"spec": {"resources": {"requests": {"storage": "5Gi"}}}}
    )
    bench.settle(KIND, "shop", "data")
    assert below(bench)["spec"]["resources"]["requests"] == {"storage": "5Gi"}
    provision(bench, "5Gi")
    bench.settle(KIND, "shop", "data")
    [volume] = volumes(bench)
    assert volume["spec"]["capacity"] == {"storage": "5Gi"}
    assert bench.get("tenant", PERSISTENT_VOLUME_CLAIMS, "data")["status"]["capacity"] == {"storage": "5Gi"}


def test_annotations_of_the_super_clusters_provisioner_remain(bench: Bench) -> None:
    bound(bench)
    annotations = {"csi.example.com/pool": "a", "pv.kubernetes.io/bind-completed": "yes", names.UID: "forged"}
    found = below(bench)
    bench.edit("super", PERSISTENT_VOLUME_CLAIMS, "data", {"metadata": {"annotations": annotations}})
    # A copy with another UID is not this claim's.
    [doomed] = plan(bench).actions
    assert isinstance(doomed, Delete)
    assert doomed.confirm
    annotations[names.UID] = found["metadata"]["annotations"][names.UID]
    bench.edit("super", PERSISTENT_VOLUME_CLAIMS, "data", {"metadata": {"annotations": annotations}})
    assert not plan(bench).actions


# --- Upward ----------------------------------------------------------------------------------------------


def volumes(bench: Bench) -> list[Any]:
    return [each for key, each in bench.objects.items() if key[:2] == ("tenant", "persistentvolumes")]


def test_the_tenant_sees_a_description_of_the_volume(bench: Bench) -> None:
    publish(bench, reclaimPolicy="Retain", parameters={"server": "10.0.0.9", "secret": "s"})
    uid = claim(bench)
    bench.settle(KIND, "shop", "data")
    provision(bench)
    bench.settle(KIND, "shop", "data")
    [volume] = volumes(bench)
    name = names.volume_name(uid)
    assert volume["metadata"]["name"] == name
    assert volume["metadata"]["labels"] == {names.SUPER_CLUSTER_ID: "r1"}
    spec = volume["spec"]
    assert spec["csi"] == {"driver": names.CSI_DRIVER, "volumeHandle": name}
    assert spec["claimRef"]["uid"] == uid
    assert spec["capacity"] == {"storage": "2Gi"}
    assert spec["persistentVolumeReclaimPolicy"] == "Retain"
    for hidden in ("pvc-of-operator", "10.0.0.9", "csi.example.com", super_ns("shop")):
        assert hidden not in json.dumps(volume)


def test_the_reclaim_policy_shown_is_the_operators(bench: Bench) -> None:
    uid = bound(bench)
    name = names.volume_name(uid)
    bench.edit("tenant", PERSISTENT_VOLUMES, name, {"spec": {"persistentVolumeReclaimPolicy": "Retain"}})
    bench.settle(KIND, "shop", "data")
    assert bench.get("tenant", PERSISTENT_VOLUMES, name)["spec"]["persistentVolumeReclaimPolicy"] == "Delete"


def test_a_volume_that_the_tenant_deletes_is_described_again(bench: Bench) -> None:
    uid = bound(bench)
    bench.remove("tenant", PERSISTENT_VOLUMES, names.volume_name(uid))
    bench.settle(KIND, "shop", "data")
    assert len(volumes(bench)) == 1
    assert bench.has("super", PERSISTENT_VOLUME_CLAIMS, "data")


def test_a_volume_of_that_name_which_the_tenant_made_is_reported(bench: Bench) -> None:
    publish(bench)
    uid = claim(bench)
    bench.settle(KIND, "shop", "data")
    provision(bench)
    bench.put(
        "tenant", PERSISTENT_VOLUMES, {"metadata": {"name": names.volume_name(uid)}, "spec": {"nfs": {}}}
    )
    [notice] = plan(bench).actions
    assert isinstance(notice, Notify)
    assert notice.reason == "NameTaken"


# --- Data ------------------------------------------------------------------------------------------------


def test_a_bound_claim_whose_copy_is_gone_is_not_created_again(bench: Bench) -> None:
    bound(bench)
    bench.remove("super", PERSISTENT_VOLUME_CLAIMS, "data")
    [notice] = plan(bench).actions
    assert isinstance(notice, Notify)
    assert notice.reason == "VolumeLost"


@pytest.mark.parametrize("label", [None, "r2", "nowhere"])
def test_a_label_that_the_tenant_changes_costs_no_data(bench: Bench, label: str | None) -> None:
    bound(bench)
    bench.edit(
        "tenant", PERSISTENT_VOLUME_CLAIMS, "data", {"metadata": {"labels": {names.SUPER_CLUSTER: label}}}
    )
    bench.settle(KIND, "shop", "data")
    assert bench.get("tenant", PERSISTENT_VOLUME_CLAIMS, "data")["metadata"]["labels"] == HERE
    assert bench.has("super", PERSISTENT_VOLUME_CLAIMS, "data")


def test_a_claim_without_volume_follows_its_label(bench: Bench) -> None:
    publish(bench)
    claim(bench)
    bench.settle(KIND, "shop", "data")
    moved = {"metadata": {"labels": {names.SUPER_CLUSTER: "r2"}}}
    bench.edit("tenant", PERSISTENT_VOLUME_CLAIMS, "data", moved)
    bench.settle(KIND, "shop", "data")
    assert not bench.has("super", PERSISTENT_VOLUME_CLAIMS, "data")


def test_a_deleted_claim_is_deleted_below_and_its_volume_above(bench: Bench) -> None:
    uid = bound(bench)
    name = names.volume_name(uid)
    bench.remove("tenant", PERSISTENT_VOLUME_CLAIMS, "data")
    bench.edit("tenant", PERSISTENT_VOLUMES, name, {"status": {"phase": "Released"}})

    def of_volume() -> Plan:
        return persistentvolume.plan(bench.tenant(PERSISTENT_VOLUMES, "", name), bench.context, bench)

    found = of_volume()
    assert not found.actions
    assert "is still in super cluster r1" in reason(found)
    [doomed] = plan(bench).actions
    assert isinstance(doomed, Delete)
    assert not doomed.confirm
    bench.execute(doomed)
    [doomed] = of_volume().actions
    assert isinstance(doomed, Delete)
    assert (doomed.side, doomed.name) == ("tenant", name)


@pytest.mark.parametrize(
    ("phase", "policy"), [("Bound", "Delete"), ("Available", "Delete"), ("Released", "Retain")]
)
def test_a_volume_in_use_or_retained_is_not_deleted(bench: Bench, phase: str, policy: str) -> None:
    name = names.volume_name(bound(bench))
    bench.remove("tenant", PERSISTENT_VOLUME_CLAIMS, "data")
    bench.remove("super", PERSISTENT_VOLUME_CLAIMS, "data")
    bench.edit(
        "tenant",
        PERSISTENT_VOLUMES,
        name,
        {"status": {"phase": phase}, "spec": {"persistentVolumeReclaimPolicy": policy}},
    )
    volume = bench.tenant(PERSISTENT_VOLUMES, "", name)
    assert not persistentvolume.plan(volume, bench.context, bench).actions


def test_an_absence_that_no_watch_reported_is_confirmed(bench: Bench) -> None:
    bound(bench)
    bench.remove("tenant", PERSISTENT_VOLUME_CLAIMS, "data", seen=False)
    [doomed] = plan(bench).actions
    assert isinstance(doomed, Delete)
    assert doomed.confirm


def test_volumes_that_the_tenant_made_are_not_touched(bench: Bench) -> None:
    """VirtualCluster deleted every volume of a tenant that its super cluster did not have."""
    forged = {"pv.kubernetes.io/provisioned-by": names.PROVISIONER}
    reference = {"namespace": "shop", "name": "data", "uid": "u"}
    for name, annotations in (("own", {}), ("forged", forged)):
        spec = {"nfs": {}, "claimRef": reference, "persistentVolumeReclaimPolicy": "Delete"}
        bench.put(
            "tenant",
            PERSISTENT_VOLUMES,
            {
                "metadata": {"name": name, "annotations": annotations},
                "spec": spec,
                "status": {"phase": "Released"},
            },
        )
        found = bench.tenant(PERSISTENT_VOLUMES, "", name)
        assert not persistentvolume.plan(found, bench.context, bench).actions


def test_a_change_in_the_super_cluster_is_repaired(bench: Bench) -> None:
    """VirtualCluster counted such changes of claims, and did not repair them."""
    bound(bench)
    found = below(bench)
    found["metadata"]["labels"].pop(names.CONTROLLED)
    found["spec"]["resources"]["requests"]["storage"] = "9Gi"
    bench.put("super", PERSISTENT_VOLUME_CLAIMS, found)
    bench.settle(KIND, "shop", "data")
    assert below(bench)["metadata"]["labels"][names.CONTROLLED] == names.TRUE
    assert below(bench)["spec"]["resources"]["requests"] == {"storage": "1Gi"}


def test_a_claim_is_made_on_its_super_cluster_only_although_its_namespace_is_on_two(bench: Bench) -> None:
    """VirtualCluster had each super cluster of a namespace provision a volume for every claim."""
    bench.place("two", {"r1": 1, "r2": 1})
    publish(bench)
    claim(bench, labels={names.SUPER_CLUSTER: "r2"})
    assert not plan(bench).actions


# --- Pods ------------------------------------------------------------------------------------------------


def pod(bench: Bench) -> None:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    bench.put("tenant", PODS, {"metadata": {"name": "db"}, "spec": {"volumes": [volume]}})


def test_a_pod_waits_for_its_claim(bench: Bench) -> None:
    publish(bench)
    pod(bench)
    assert "PersistentVolumeClaim data" in reason(bench.plan("pods", "shop", "db"))
    claim(bench)
    assert "PersistentVolumeClaim data" in reason(bench.plan("pods", "shop", "db"))
    bench.settle(KIND, "shop", "data")
    bench.settle("pods", "shop", "db")
    assert bench.get("super", PODS, "db")["spec"]["volumes"] == [
        {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    ]


@pytest.mark.parametrize("own", [False, True])
def test_a_pod_never_mounts_a_claim_that_is_not_its_tenants(bench: Bench, own: bool) -> None:
    """The operator's claim has the same name and namespace; the tenant may have one of that name, too."""
    pod(bench)
    if own:
        claim(bench)
    bench.put(
        "super", PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "data", "namespace": super_ns("shop")}}
    )
    found = bench.plan("pods", "shop", "db")
    assert not found.actions
    assert "PersistentVolumeClaim data" in reason(found)


@pytest.mark.parametrize("owner", ["uid-of-db", "uid-of-an-earlier-pod", ""])
def test_an_ephemeral_volume_is_a_claim_that_was_made_for_the_pod(bench: Bench, owner: str) -> None:
    """The super cluster's own controller would make a claim of any class for an ephemeral volume."""
    publish(bench)
    template = {"spec": {"storageClassName": "private"}}
    volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}
    bench.put("tenant", PODS, {"metadata": {"name": "db", "uid": "uid-of-db"}, "spec": {"volumes": [volume]}})
    assert "PersistentVolumeClaim db-scratch" in reason(bench.plan("pods", "shop", "db"))
    claim(bench, "db-scratch")
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": "db", "uid": owner, "controller": True}]
    bench.edit(
        "tenant",
        PERSISTENT_VOLUME_CLAIMS,
        "db-scratch",
        {"metadata": {"ownerReferences": owners if owner else []}},
    )
    bench.settle(KIND, "shop", "db-scratch")
    if owner != "uid-of-db":
        assert "PersistentVolumeClaim db-scratch" in reason(bench.plan("pods", "shop", "db"))
        return
    bench.settle("pods", "shop", "db")
    assert bench.get("super", PODS, "db")["spec"]["volumes"] == [
        {"name": "scratch", "persistentVolumeClaim": {"claimName": "db-scratch"}}
    ]
