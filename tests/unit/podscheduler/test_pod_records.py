import json

import pytest

from vcsync.api.names import COPY_FINALIZER, SUPER_CLUSTER
from vcsync.objects.envelope import Envelope, OwnerReference, parse
from vcsync.podscheduler import pods
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


def test_the_record_of_a_pod_has_only_the_fields_for_scheduling():
    whole = envelope(
        metadata={
            "labels": {"app": "x", SUPER_CLUSTER: "r1"},
            "annotations": {"big": "y" * 1000, SUPER_CLUSTER: "r2"},
            "ownerReferences": [{"name": "rs", "uid": "1"}],
            "generateName": "rs-",
        },
        spec={"containers": [{"name": "c", "image": "z" * 1000, "resources": {"requests": {"cpu": "1"}}}]},
        status={"conditions": [WAITING]},
    )
    kept = slim(whole)
    assert (kept.labels, kept.annotations) == ({SUPER_CLUSTER: "r1"}, {SUPER_CLUSTER: "r2"})
    assert len(kept.spec) < 70
    assert (kept.status, kept.rest) == (b"", b"")
    assert (kept.owners, kept.generate_name) == ((OwnerReference(uid="1"),), "rs-")
    pod = read(kept, 3.0)
    assert (pod.key, pod.uid, pod.version, pod.seen_at) == (("shop", "p"), "u", "7", 3.0)
    assert (pod.label, pod.annotation, pod.waiting_message) == ("r1", "r2", "no room")
    assert pod.needs.requests == {"cpu": 1000, "pods": 1000}


@pytest.mark.parametrize(("name", "evicted"), [("web-0", False), ("web-x2kfz", True)])
def test_a_pod_of_a_stateful_set_is_not_evicted_without_a_node_though_it_has_a_prefix(name, evicted):
    labels = {SUPER_CLUSTER: "r1"}
    metadata = {"name": name, "generateName": "web-", "labels": labels, "annotations": labels}
    assert (
        read(slim(envelope(metadata=metadata, spec={"containers": []})), 0.0).is_evicted_from("r1") is evicted
    )


def test_what_pods_of_one_workload_have_in_common_is_shared():
    metadata = {"ownerReferences": [{"name": "rs", "uid": "1"}], "generateName": "rs-"}
    one, other = (slim(envelope(metadata=metadata)) for _ in range(2))
    assert one.owners is other.owners
    assert one.generate_name is other.generate_name


@pytest.mark.parametrize(
    ("name", "generated"), [("web-0", False), ("web-x2z4b", True)], ids=["StatefulSet", "ReplicaSet"]
)
def test_a_prefix_alone_does_not_make_a_name_a_generated_one(name, generated):
    labels = {SUPER_CLUSTER: "r1"}
    pod = read(slim(envelope(metadata={"name": name, "generateName": "web-", "labels": labels})), 0)
    assert pod.is_evicted_from("r1") is generated, "another one would get its name and run elsewhere"


@pytest.mark.parametrize("node", ["", "n.r1"])
def test_finalizers_are_kept_where_a_patch_repeats_them(node):
    spec = {"nodeName": node} if node else {}
    mine, others = [COPY_FINALIZER], ["example.com/held"]
    for finalizers in (mine, others, [*others, *mine]):
        kept = slim(envelope(metadata={"finalizers": finalizers}, spec=spec)).finalizers
        assert kept == (() if node and finalizers == others else tuple(finalizers))
    one, other = (slim(envelope(metadata={"finalizers": mine})) for _ in range(2))
    assert one.finalizers is other.finalizers


def test_labels_of_one_super_cluster_are_shared():
    one, other = (slim(envelope(metadata={"labels": {SUPER_CLUSTER: "shared"}})) for _ in range(2))
    assert one.labels is other.labels


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ([], ""),
        ([WAITING], "no room"),
        ([{**WAITING, "status": "True"}], ""),
        ([{**WAITING, "type": "Ready"}], ""),
        ([{"type": "Ready", "message": '"PodScheduled"'}], ""),
    ],
)
def test_the_waiting_message_is_read_from_the_condition(conditions, message):
    assert read(slim(envelope(status={"conditions": conditions})), 0).waiting_message == message


@pytest.mark.parametrize("spec", [[], {"containers": [{"resources": {"requests": {"cpu": "much"}}}]}])
def test_a_pod_that_cannot_be_read_counts_as_gated(spec):
    assert read(slim(envelope(spec=spec)), 0).needs.gated


def test_deletion_is_seen():
    assert read(slim(envelope(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})), 0).deleting


def test_patches_contain_the_uid_of_the_pod():
    pod = read(slim(envelope(metadata={"generateName": "p-", "name": "p-x2z4b"})), 0)
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


@pytest.mark.parametrize("where", ["", "n.r1"])
def test_a_bound_pod_has_no_waiting_message(where):
    spec = {"nodeName": where} if where else {}
    assert read(slim(envelope(spec=spec, status={"conditions": [WAITING]})), 0).waiting_message == (
        "" if where else "no room"
    )


def test_an_assignment_to_no_super_cluster_removes_label_and_annotation():
    pod = read(slim(envelope(metadata={"labels": {SUPER_CLUSTER: "r1"}})), 0)
    metadata = assignment(pod, None)["metadata"]
    assert (metadata["labels"], metadata["annotations"]) == ({SUPER_CLUSTER: None}, {SUPER_CLUSTER: None})


def test_a_condition_has_its_message_and_the_time_of_its_change():
    [condition] = unschedulable(read(slim(envelope()), 0), "no room", "2026-01-01T00:00:00Z")["status"][
        "conditions"
    ]
    assert (condition["message"], condition["lastTransitionTime"]) == ("no room", "2026-01-01T00:00:00Z")


def test_values_that_name_no_super_cluster_do_not_fill_the_table_of_shared_ones():
    before = pods._labels.cache_info().currsize
    for number in range(2000):
        found = slim(envelope(metadata={"labels": {SUPER_CLUSTER: f"none-{number}"}}), (), {"r1"})
        assert found.labels == {SUPER_CLUSTER: f"none-{number}"}
    assert pods._labels.cache_info().currsize == before
    one, other = (slim(envelope(metadata={"labels": {SUPER_CLUSTER: "r1"}}), (), {"r1"}) for _ in range(2))
    assert one.labels is other.labels


def test_values_that_are_not_shared_are_read():
    one, other = (slim(envelope(metadata={"labels": {SUPER_CLUSTER: "unseen"}}), (), ()) for _ in range(2))
    assert one.labels == other.labels == {SUPER_CLUSTER: "unseen"}
    assert one.labels is not other.labels


@pytest.mark.parametrize(
    ("spec", "priority"),
    [
        (b"{}", 0),
        (b'{"priority":0}', 0),
        (b'{"priority":0,"nodeName":"n"}', 0),
        (b'{"priority":1000}', 1000),
        (b'{"priority":-5,"nodeName":""}', -5),
        (b'{"priority": 7}', 7),
        (b'{"priority":null}', 0),
        (b'{"schedulerName":"\\"priority\\":9"}', 0),
        (b'{"priority":"high"}', 0),
    ],
)
def test_the_priority_of_a_pod_is_the_one_that_its_control_plane_found(spec: bytes, priority: int) -> None:
    slimmed = slim(Envelope("p", "shop", "u", "7", spec=spec))
    assert read(slimmed, 0.0).priority == priority


def test_what_a_hostile_server_says_is_not_kept_for_longer_than_its_pods():
    def kept():
        caches = (pods._shared_owners, pods._shared_prefix, pods._labels)
        return tuple(each.cache_info().currsize for each in caches)

    long, before = "x" * 10_000, kept()
    metadata = {"labels": {SUPER_CLUSTER: long}, "generateName": long, "ownerReferences": [{"uid": long}]}
    found = slim(envelope(metadata=metadata, spec={"containers": []}))
    assert (found.labels, found.generate_name) == ({SUPER_CLUSTER: long}, long)
    assert found.owners == (OwnerReference(uid=long),)
    assert kept() == before
