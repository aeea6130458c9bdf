import json

import pytest

from vcsync.api.names import SUPER_CLUSTER
from vcsync.kube.envelope import parse
from vcsync.podscheduler.pods import assignment, read, slim, unschedulable


def envelope(**fields):
    metadata = {
        "name": "p",
        "namespace": "shop",
        "uid": "u",
        "resourceVersion": "7",
        **fields.pop("metadata", {}),
    }
    return parse(json.dumps({"metadata": metadata, **fields}).encode())


WAITING = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}


def test_a_pod_is_kept_without_what_scheduling_does_not_need():
    whole = envelope(
        metadata={
            "labels": {"app": "x", SUPER_CLUSTER: "r1"},
            "annotations": {"big": "y" * 1000, SUPER_CLUSTER: "r2"},
            "ownerReferences": [{"name": "rs", "uid": "1"}],
        },
        spec={"containers": [{"name": "c", "image": "z" * 1000, "resources": {"requests": {"cpu": "1"}}}]},
        status={"conditions": [WAITING]},
    )
    kept = slim(whole)
    assert (kept.labels, kept.annotations) == ({SUPER_CLUSTER: "r1"}, {SUPER_CLUSTER: "r2"})
    assert len(kept.spec) < 60
    assert (kept.status, kept.rest, kept.owners) == (b"", b"", ())
    pod = read(kept, 3.0)
    assert (pod.key, pod.uid, pod.version, pod.seen_at) == (("shop", "p"), "u", "7", 3.0)
    assert (pod.label, pod.annotation, pod.told) == ("r1", "r2", "no room")
    assert pod.needs.requests == {"cpu": 1000, "pods": 1000}


def test_labels_of_one_super_cluster_are_shared():
    one, other = (slim(envelope(metadata={"labels": {SUPER_CLUSTER: "shared"}})) for _ in range(2))
    assert one.labels is other.labels


@pytest.mark.parametrize(
    ("conditions", "told"),
    [
        ([], ""),
        ([WAITING], "no room"),
        ([{**WAITING, "status": "True"}], ""),
        ([{**WAITING, "type": "Ready"}], ""),
        ([{"type": "Ready", "message": '"PodScheduled"'}], ""),
    ],
)
def test_what_a_pod_was_told_is_read_from_its_condition(conditions, told):
    assert read(slim(envelope(status={"conditions": conditions})), 0).told == told


@pytest.mark.parametrize("spec", [[], {"containers": [{"resources": {"requests": {"cpu": "much"}}}]}])
def test_a_pod_that_cannot_be_read_is_left_alone(spec):
    assert read(slim(envelope(spec=spec)), 0).needs.gated


def test_deletion_is_seen():
    assert read(slim(envelope(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})), 0).deleting


def test_patches_name_the_very_pod_they_are_for():
    pod = read(slim(envelope()), 0)
    assert assignment(pod, "r1") == {
        "metadata": {
            "uid": "u",
            "resourceVersion": "7",
            "labels": {SUPER_CLUSTER: "r1"},
            "annotations": {SUPER_CLUSTER: "r1"},
        }
    }
    patch = unschedulable(pod, "no room", "2026-01-01T00:00:00Z")
    assert patch["metadata"] == {"uid": "u"}
    [condition] = patch["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "PodScheduled",
        "False",
        "Unschedulable",
    )
