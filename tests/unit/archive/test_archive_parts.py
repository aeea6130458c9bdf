"""Contents of an archive, their order, and the bodies with which objects are created again."""

from typing import Any

import pytest

from vcsync.archive.preparation import Waits, addition, prepared, without_addresses
from vcsync.archive.selection import WITHOUT_CONTENT, archived, rank, why_left_out


def thing(
    kind: str, name: str = "a", namespace: str = "shop", api: str = "v1", **rest: Any
) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **rest.pop("metadata", {})}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **rest}


CONTROLLER = {"ownerReferences": [{"uid": "o", "controller": True}]}
DONE = {"conditions": [{"type": "Complete", "status": "True"}]}


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (thing("ConfigMap"), ""),
        (thing("ConfigMap", "kube-root-ca.crt"), "a new control plane makes it"),
        (thing("Service", "kubernetes", "default"), "a new control plane makes it"),
        (thing("Service", "kubernetes"), ""),
        (thing("Network", "default", ""), "a new control plane makes it"),
        (thing("Network", "blue", ""), ""),
        (
            thing(
                "Service",
                "kube-dns-blue",
                "kube-system",
                metadata={"labels": {"tenancy.x-k8s.io/network": "blue"}},
            ),
            "a new control plane makes it",
        ),
        (
            thing(
                "ClusterRole",
                "edit",
                "",
                metadata={"labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}},
            ),
            "a new control plane makes it",
        ),
        (thing("EndpointSlice", metadata={"labels": {"endpointslice.kubernetes.io/managed-by": "mine"}}), ""),
        (
            thing(
                "EndpointSlice",
                metadata={
                    "labels": {"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}
                },
            ),
            "a new control plane makes it",
        ),
        (thing("ServiceAccount", "x", "vcsync-system"), "it is vcsync's own"),
        (thing("Namespace", "vcsync-system", ""), "it is vcsync's own"),
        (thing("ClusterRole", "vcsync-syncer", ""), "it is vcsync's own"),
        (thing("ConfigMap", "vcsync-notes"), ""),
        (thing("Pod", metadata=CONTROLLER), "its controller makes it"),
        (thing("Pod", status={"phase": "Running"}), ""),
        (thing("Pod", status={"phase": "Failed"}), "it has ended, and would run again"),
        (thing("Job", status=DONE), "it has ended, and would run again"),
        (thing("Job", status={"conditions": [{"type": "Complete", "status": "False"}]}), ""),
        (thing("ReplicaSet", metadata=CONTROLLER), ""),
        (thing("ConfigMap", metadata={"deletionTimestamp": "now"}), "it is being deleted"),
    ],
)
def test_what_is_made_anew_is_left_out(found: dict[str, Any], why: str) -> None:
    assert why_left_out(found) == why


def test_secrets_have_contents_on_request_only() -> None:
    applied = {"kubectl.kubernetes.io/last-applied-configuration": "word"}
    secret = thing("Secret", data={"word": "eA=="}, metadata={"annotations": applied, "managedFields": []})
    kept = archived(secret, with_keys=True)
    assert kept["data"] == {"word": "eA=="}
    assert kept["metadata"]["annotations"] == applied
    assert "managedFields" not in kept["metadata"]
    without = archived(secret, with_keys=False)
    assert "data" not in without
    assert without["metadata"]["annotations"] == {WITHOUT_CONTENT: "true"}
    assert secret["data"] == {"word": "eA=="}
    token = thing("Secret", type="kubernetes.io/service-account-token", data={"token": "eA=="})
    for with_keys in (True, False):
        assert "data" not in archived(token, with_keys=with_keys)
        assert WITHOUT_CONTENT not in archived(token, with_keys=with_keys)["metadata"].get("annotations", {})


def test_what_others_need_comes_first_and_what_hinders_them_last() -> None:
    order = [
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        ("", "namespaces"),
        ("scheduling.k8s.io", "priorityclasses"),
        ("", "serviceaccounts"),
        ("", "secrets"),
        ("rbac.authorization.k8s.io", "roles"),
        ("example.com", "lamps"),
        ("apps", "deployments"),
        ("", "pods"),
        ("", "resourcequotas"),
    ]
    ranks = [rank(*each) for each in order]
    assert ranks == sorted(ranks)
    assert len(set(ranks)) == len(ranks)
    assert rank("admissionregistration.k8s.io", "validatingwebhookconfigurations") == rank(
        "", "resourcequotas"
    )


def test_a_body_has_nothing_that_the_server_sets() -> None:
    metadata = {
        "uid": "u",
        "resourceVersion": "7",
        "generation": 2,
        "creationTimestamp": "then",
        "labels": {"a": "b", "placement.scheduler.virtualcluster.io/r1": "2"},
        "annotations": {
            "scheduler.virtualcluster.io/placements": "{}",
            "scheduler.virtualcluster.io/superCluster": "r1",
        },
        "finalizers": ["example.com/keep"],
    }
    found = thing("ConfigMap", metadata=metadata, status={"x": 1}, data={"a": "b"})
    assert prepared(found, {}, ()) == {
        **thing("ConfigMap", data={"a": "b"}),
        "metadata": {
            "name": "a",
            "namespace": "shop",
            "labels": {"a": "b"},
            "annotations": {},
            "finalizers": ["example.com/keep"],
        },
    }
    assert found["metadata"]["uid"] == "u"


def test_owners_get_their_new_uids() -> None:
    owners = [{"uid": "old", "name": "x"}, {"uid": "gone", "name": "y"}]
    found = thing("ConfigMap", metadata={"ownerReferences": owners})
    assert prepared(found, {"old": "new"}, {"old"})["metadata"]["ownerReferences"] == [
        {"uid": "new", "name": "x"}
    ]
    assert "ownerReferences" not in prepared(found, {}, ())["metadata"]
    with pytest.raises(Waits):
        prepared(found, {}, {"old"})


@pytest.mark.parametrize(
    ("found", "field", "body"),
    [
        (thing("Pod", spec={"nodeName": "n", "priority": 7, "containers": []}), "spec", {"containers": []}),
        (
            thing(
                "Job",
                api="batch/v1",
                spec={
                    "selector": {"matchLabels": {"controller-uid": "u"}},
                    "template": {
                        "metadata": {"labels": {"batch.kubernetes.io/controller-uid": "u", "app": "x"}}
                    },
                },
            ),
            "spec",
            {"template": {"metadata": {"labels": {"app": "x"}}}},
        ),
        (
            thing("Job", api="batch/v1", spec={"manualSelector": True, "selector": {}}),
            "spec",
            {"manualSelector": True, "selector": {}},
        ),
        (
            thing(
                "PersistentVolume",
                "v",
                "",
                spec={"claimRef": {"name": "c", "uid": "u", "resourceVersion": "1"}},
            ),
            "spec",
            {"claimRef": {"name": "c"}},
        ),
    ],
)
def test_kinds_lose_what_belongs_to_the_old_control_plane(
    found: dict[str, Any], field: str, body: Any
) -> None:
    assert prepared(found, {}, ())[field] == body


def test_a_service_may_get_other_addresses() -> None:
    spec = {"clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"], "ports": [{"port": 80, "nodePort": 30000}]}
    assert without_addresses(thing("Service", spec=spec))["spec"] == {"ports": [{"port": 80}]}
    assert without_addresses(thing("Service", spec={"clusterIP": "None"}))["spec"] == {"clusterIP": "None"}


def test_only_what_a_control_plane_makes_is_extended() -> None:
    labels = {"labels": {"team": "red"}}
    assert addition(thing("Namespace", "default", "", metadata=labels)) == {"metadata": labels}
    assert addition(thing("Namespace", "shop", "", metadata=labels)) is None
    assert addition(thing("Namespace", "default", "")) is None
    pull = [{"name": "registry"}]
    assert addition(thing("ServiceAccount", "default", imagePullSecrets=pull)) == {"imagePullSecrets": pull}
    assert addition(thing("ServiceAccount", "robot", imagePullSecrets=pull)) is None
    assert addition(thing("ConfigMap", "default", metadata=labels)) is None


def test_a_claim_of_a_super_cluster_gets_a_new_volume() -> None:
    bound = {
        "pv.kubernetes.io/bind-completed": "yes",
        "pv.kubernetes.io/bound-by-controller": "yes",
        "mine": "kept",
    }
    metadata = {
        "uid": "u",
        "annotations": bound,
        "labels": {"scheduler.virtualcluster.io/superCluster": "r1"},
    }
    for volume, kept in (("pvc-u", False), ("own-volume", True)):
        found = thing("PersistentVolumeClaim", metadata=metadata, spec={"volumeName": volume})
        body = prepared(found, {}, ())
        assert ("volumeName" in body["spec"]) is kept
        assert ("pv.kubernetes.io/bind-completed" in body["metadata"]["annotations"]) is kept
        assert body["metadata"]["annotations"]["mine"] == "kept"
        assert body["metadata"]["labels"] == {}


def test_volumes_and_classes_of_super_clusters_are_left_out() -> None:
    volume = {"annotations": {"pv.kubernetes.io/provisioned-by": "tenancy.x-k8s.io/super-cluster"}}
    published = {"annotations": {"tenancy.x-k8s.io/superclusters": "r1"}}
    for found in (
        thing("PersistentVolume", namespace="", metadata=volume),
        thing("StorageClass", namespace="", api="storage.k8s.io/v1", metadata=published),
    ):
        assert why_left_out(found) == "a new control plane makes it"
    assert why_left_out(thing("PersistentVolume", namespace="")) == ""
