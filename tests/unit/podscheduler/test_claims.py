"""Pods with PersistentVolumeClaims: a claim is bound to one super cluster with its first Pod, and later Pods follow it."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from vcsync.api.names import PROVISIONING_PREFIX, SUPER_CLUSTER, volume_name
from vcsync.api.specs import PublishedStorageClass
from vcsync.objects.envelope import Envelope, parse
from vcsync.podscheduler.accounting import Assign, PodAccounting, Wait, Withdraw
from vcsync.podscheduler.claims import (
    Claims,
    Clones,
    claim_assignment,
    left_behind,
    slim_claim,
    slim_snapshot,
    snapshot_source,
)
from vcsync.podscheduler.pods import Pod, slim
from vcsync.podscheduler.revisits import Reason
from vcsync.scheduling.pods import PodNeeds, pod_needs
from vcsync.scheduling.snapshot import Health, SuperView

NS = "shop"
FAST = PublishedStorageClass(name="fast")
VIEWS = {
    "r1": SuperView("r1", Health.READY, {}, storage_classes=(FAST,)),
    "r2": SuperView("r2", Health.READY, {}, storage_classes=(FAST, PublishedStorageClass(name="slow"))),
}


class World:
    """A tenant's claims and Pods in memory."""

    def __init__(self) -> None:
        self.claims: dict[str, Envelope] = {}
        self.unread = ""
        self.holders: set[str] | None = None
        self.snapshots: dict[str, Envelope] = {}
        self.snapshots_unread = ""
        self.book = Claims(
            lambda _, name: self.claims.get(name),
            lambda: self.unread,
            self.holds,
            lambda _, name: self.snapshots.get(name),
            lambda: self.snapshots_unread,
        )
        self.accounting = PodAccounting(self.book)
        self.accounting.grant(NS, {"cpu": 1000}, {"r1": 2, "r2": 2})

    def holds(self, _namespace: str, super_id: str) -> bool:
        return self.holders is None or super_id in self.holders

    def claim(self, name: str, storage_class: str | None = "fast", **fields: Any) -> Envelope:
        label = fields.pop("label", "")
        metadata = {"name": name, "namespace": NS, "uid": f"uid-{name}", "resourceVersion": "7"}
        metadata |= {"labels": {SUPER_CLUSTER: label, "app": "db"}} if label else {}
        metadata |= fields.pop("metadata", {})
        phase = fields.pop("phase", "Pending")
        spec = {"storageClassName": storage_class, **fields}
        body = {"metadata": metadata, "spec": spec, "status": {"phase": phase}}
        self.claims[name] = slim_claim(parse(json.dumps(body).encode()))
        return self.claims[name]

    def snapshot(self, name: str, label: str = "r2", **fields: Any) -> None:
        metadata = {"name": name, "namespace": NS, "uid": f"uid-{name}", "resourceVersion": "7", **fields}
        metadata["labels"] = {SUPER_CLUSTER: label} if label else {}
        self.snapshots[name] = slim_snapshot(parse(json.dumps({"metadata": metadata, "status": {}}).encode()))

    def pod(self, *claims: str, name: str = "p", label: str = "", node: str = "", cpu: int = 500) -> Pod:
        needs = PodNeeds({"cpu": cpu}, node, claims=claims)
        made = Pod(NS, name, f"uid-{name}", "1", needs, label, label, deleting=False, waiting_message="")
        self.accounting.update(made)
        return made

    def decided(self, pod: Pod) -> str:
        verdict = self.accounting.decide(pod, VIEWS)
        assert verdict is not None
        if isinstance(verdict, Assign | Withdraw) and verdict.super_id:
            return verdict.super_id
        return verdict.decision.reasons()


@pytest.fixture
def world() -> World:
    return World()


def test_a_pod_goes_where_its_claim_is(world: World) -> None:
    world.claim("data", label="r2")
    assert world.decided(world.pod("data")) == "r2"


def test_a_new_claim_needs_a_super_cluster_that_publishes_its_class(world: World) -> None:
    world.claim("data", "slow")
    assert world.decided(world.pod("data")) == "r2"
    world.claim("odd", "private")
    message = world.decided(world.pod("odd", name="q"))
    assert "r1: does not publish StorageClass private of claim odd" in message


def test_two_claims_of_one_pod_never_split(world: World) -> None:
    world.claim("a", label="r2")
    world.claim("b")
    assert world.decided(world.pod("a", "b")) == "r2"
    world.claim("c", label="r1")
    message = world.decided(world.pod("a", "c", name="q"))
    assert message == "r1: claim a is on super cluster r2; r2: claim c is on super cluster r1"


def test_a_decision_counts_before_it_is_written(world: World) -> None:
    claim = world.claim("data")
    first = world.pod("data", name="first")
    assert world.book.unassigned(NS, ["data"], "r1") == [claim]
    world.book.assume([claim], "r2")
    assert world.decided(first) == "r2"
    assert world.decided(world.pod("data", name="second")) == "r2"
    world.book.assume([claim], "r2")
    world.book.settle([claim])
    assert world.decided(world.pod("data", name="third")) == "r2"
    world.book.settle([claim])
    assert world.decided(first) == "r1"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"storage_class": None}, "claim data has no StorageClass; use a published one"),
        ({"metadata": {"deletionTimestamp": "2026-05-01T12:00:00Z"}}, "is being deleted"),
        ({"phase": "Lost", "label": "r1"}, "claim data has lost its volume"),
        ({"volumeName": "pv-of-another"}, "claim data is bound to volume pv-of-another"),
    ],
)
def test_a_claim_that_no_super_cluster_can_serve_has_its_pod_wait(
    world: World, fields: dict[str, Any], reason: str
) -> None:
    world.claim("data", **fields)
    assert reason in world.decided(world.pod("data"))


def test_a_pod_waits_for_a_claim_that_does_not_exist_or_is_not_known(world: World) -> None:
    assert 'persistentvolumeclaim "data" not found' in world.decided(world.pod("data"))
    world.unread = "PersistentVolumeClaims cannot be read yet"
    world.claim("data")
    assert world.unread in world.decided(world.pod("data"))


def test_a_bound_claim_stays_with_a_super_cluster_that_has_left(world: World) -> None:
    world.claim("data", label="r9", volumeName=volume_name("uid-data"))
    assert "claim data is on super cluster r9" in world.decided(world.pod("data"))


def test_a_claim_without_volume_leaves_a_super_cluster_that_has_left(world: World) -> None:
    world.claim("data", label="r9")
    assert world.decided(world.pod("data")) == "r1"


def test_a_label_that_the_tenant_writes_on_a_pod_does_not_take_it_away_from_its_claim(world: World) -> None:
    world.claim("data", label="r2")
    assert world.decided(world.pod("data", label="r1")) == "r2"


def test_a_pod_that_the_tenant_labels_itself_takes_its_claims_along(world: World) -> None:
    world.claim("data")
    pod = world.pod("data", label="r1")
    assert not world.accounting.settled(pod, VIEWS)
    assert world.decided(pod) == "r1"
    world.claim("data", label="r1")
    assert world.accounting.settled(pod, VIEWS)


def test_a_bound_pod_is_left_alone_whatever_becomes_of_its_claims(world: World) -> None:
    assert world.accounting.settled(world.pod("data", label="r1", node="n1.r1"), VIEWS)


def test_a_pod_whose_only_share_is_refused_says_why(world: World) -> None:
    world.accounting.grant(NS, {"cpu": 1000}, {"r1": 2})
    world.claim("data", label="r2")
    pod = world.pod("data", label="r1")
    verdict = world.accounting.decide(pod, VIEWS)
    assert isinstance(verdict, Withdraw)
    assert verdict.decision.reasons() == "r1: claim data is on super cluster r2"


def test_the_users_of_a_claim_are_known(world: World) -> None:
    first, second = world.pod("a", "b", name="first"), world.pod("b", name="second")
    assert world.accounting.users(NS, "a") == [first]
    assert {each.name for each in world.accounting.users(NS, "b")} == {"first", "second"}
    world.accounting.update(replace(second, uid="new", needs=PodNeeds(claims=("a",))))
    world.accounting.remove(first.key)
    assert [each.name for each in world.accounting.users(NS, "a")] == ["second"]
    assert world.accounting.users(NS, "b") == []


def test_an_assignment_fails_if_the_claim_has_changed(world: World) -> None:
    patch = claim_assignment(world.claim("data"), "r1")
    assert patch == {"metadata": {"uid": "uid-data", "resourceVersion": "7", "labels": {SUPER_CLUSTER: "r1"}}}


def test_claims_are_read_from_a_pods_volumes_once_each() -> None:
    volumes = [
        {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "b", "persistentVolumeClaim": {"claimName": "data", "readOnly": True}},
        {"name": "c", "emptyDir": {}},
        {"name": "d", "persistentVolumeClaim": {"claimName": "logs"}},
    ]
    spec = {"containers": [], "volumes": volumes}
    assert pod_needs(json.dumps(spec).encode()).claims == ("data", "logs")
    body = {"metadata": {"name": "p", "namespace": NS}, "spec": spec}
    assert b"logs" in slim(parse(json.dumps(body).encode())).spec


def test_the_reason_is_reported_again_when_the_claim_changes(world: World) -> None:
    pod = world.pod("data")
    absent = world.accounting.decide(pod, VIEWS)
    world.claim("data", None)
    without_class = world.accounting.decide(pod, VIEWS)
    assert isinstance(absent, Wait)
    assert isinstance(without_class, Wait)
    assert absent.signature != without_class.signature


def test_claims_of_ephemeral_volumes_are_named_after_pod_and_volume() -> None:
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}]
    spec = json.dumps({"containers": [], "volumes": volumes}).encode()
    assert pod_needs(spec, "db").claims == ("db-scratch",)


# --- Claims without volume that move ---

REQUESTED = '{"state":"requested"}'
RETURNING = '{"state":"returning","reason":"ProvisioningFailed"}'
LOST = replace(VIEWS["r1"], health=Health.LOST)
WITHOUT_CLASS = replace(VIEWS["r1"], storage_classes=())


def annotated(**said: str) -> dict[str, Any]:
    return {"annotations": {PROVISIONING_PREFIX + super_id: text for super_id, text in said.items()}}


@pytest.mark.parametrize(
    ("view", "said", "moves"),
    [
        (VIEWS["r1"], "", False),
        (VIEWS["r1"], REQUESTED, False),
        (WITHOUT_CLASS, "", True),
        (WITHOUT_CLASS, REQUESTED, False),
        (LOST, "", True),
        (LOST, REQUESTED, False),
        (LOST, RETURNING, False),
        (LOST, "not JSON", False),
        (None, "", True),
        (None, REQUESTED, False),
    ],
)
def test_a_claim_leaves_only_where_it_certainly_has_no_copy(
    world: World, view: SuperView | None, said: str, moves: bool
) -> None:
    world.claim("data", label="r1", metadata=annotated(**({"r1": said} if said else {})))
    views = {"r2": VIEWS["r2"]} | ({"r1": view} if view is not None else {})
    verdict = world.accounting.decide(world.pod("data"), views)
    assert (isinstance(verdict, Assign) and verdict.super_id == "r2") is moves


@pytest.mark.parametrize("view", [VIEWS["r1"], LOST, None])
def test_a_claim_leaves_a_super_cluster_that_has_removed_all_of_its_namespace(
    world: World, view: SuperView | None
) -> None:
    world.holders = {"r2"}
    world.accounting.grant(NS, {"cpu": 1000}, {"r2": 2})
    claim = world.claim("data", label="r1", metadata=annotated(r1=REQUESTED))
    views = {"r2": VIEWS["r2"]} | ({"r1": view} if view is not None else {})
    verdict = world.accounting.decide(world.pod("data"), views)
    assert isinstance(verdict, Assign)
    assert left_behind(claim, "r2") == "r1"
    metadata = claim_assignment(claim, "r2")["metadata"]
    assert metadata["annotations"] == {PROVISIONING_PREFIX + "r1": None}
    assert metadata["resourceVersion"] == "7"


@pytest.mark.parametrize("said", [REQUESTED, RETURNING])
@pytest.mark.parametrize("view", [LOST, WITHOUT_CLASS, None])
def test_a_claim_with_a_volume_never_leaves(world: World, said: str, view: SuperView | None) -> None:
    world.holders = {"r2"}
    world.claim("data", label="r1", volumeName=volume_name("uid-data"), metadata=annotated(r1=said))
    views = {"r2": VIEWS["r2"]} | ({"r1": view} if view is not None else {})
    verdict = world.accounting.decide(world.pod("data"), views)
    if isinstance(verdict, Wait):
        assert "claim data is on super cluster r1" in verdict.decision.reasons()
    else:
        assert verdict == Assign("r1", verdict.decision if verdict else None)


def test_pods_wait_while_a_claim_is_given_back(world: World) -> None:
    world.claim("data", label="r1", metadata=annotated(r1=RETURNING))
    pod = world.pod("data", label="r1")
    assert not world.accounting.settled(pod, VIEWS)
    assert "is leaving super cluster r1, which cannot provision it" in world.decided(pod)


@pytest.mark.parametrize(
    ("returns", "chosen"),
    [
        ({"r1": 1}, "r2"),
        ({"r2": 1}, "r1"),
        ({"r1": 2, "r2": 1}, "r2"),
        ({"r1": 1, "r2": 1}, "r1"),
        ({"r1": 3, "r2": 3}, "r1"),
        ({"elsewhere": 9}, "r1"),
    ],
)
@pytest.mark.parametrize("label", ["", "r2"])
def test_a_claim_goes_where_it_has_been_given_back_least(
    world: World, returns: dict[str, int], chosen: str, label: str
) -> None:
    said = {super_id: json.dumps({"returns": count}) for super_id, count in returns.items()}
    world.claim("data", metadata=annotated(**said))
    decided = world.decided(world.pod("data", label=label))
    assert decided == (label if returns.keys() == {"elsewhere"} and label else chosen)


def test_a_pod_leaves_a_super_cluster_that_has_given_its_claim_back(world: World) -> None:
    world.claim("data", metadata=annotated(r1='{"returns":1}'))
    assert world.decided(world.pod("data", label="r1")) == "r2"


def test_the_decision_says_which_super_cluster_could_not_provision_the_claim(world: World) -> None:
    world.claim("data", metadata=annotated(r1='{"returns":1}'))
    verdict = world.accounting.decide(world.pod("data"), VIEWS)
    assert isinstance(verdict, Assign)
    assert verdict.decision is not None
    refused = {each.super_id: [why.message for why in each.refusals] for each in verdict.decision.explanation}
    assert refused == {"r1": ["could not provision claim data (1 times)"], "r2": []}


def test_a_claim_is_placed_where_it_failed_if_there_is_no_other_room(world: World) -> None:
    world.claim("data", metadata=annotated(r1='{"returns":1}'))
    world.pod(name="full", label="r2", cpu=2000)
    assert world.decided(world.pod("data")) == "r1"


def test_a_claim_with_any_number_of_annotations_costs_little_memory(world: World) -> None:
    said = {f"r{number}": REQUESTED for number in range(3000)}
    assert len(world.claim("data", metadata=annotated(**said)).spec) < 5_000


def test_pods_with_claims_that_are_not_bound_are_known(world: World) -> None:
    first, second = world.pod("a", "b", name="first"), world.pod("a", name="second")
    world.pod(name="third")
    for namespace, found in ((None, [first.key, second.key]), (NS, [first.key, second.key]), ("other", [])):
        assert list(world.accounting.concerned(Reason(claimants=True), namespace)) == found
    world.pod("a", name="second", node="n1.r1")
    world.accounting.remove(first.key)
    assert list(world.accounting.concerned(Reason(claimants=True))) == []


# --- Clones ---

SOURCE = {"kind": "PersistentVolumeClaim", "name": "data"}


@pytest.mark.parametrize("field", ["dataSource", "dataSourceRef"])
@pytest.mark.parametrize("bound", [False, True])
def test_a_clone_goes_where_its_source_is(world: World, field: str, bound: bool) -> None:
    world.claim("data", label="r2", **({"volumeName": volume_name("uid-data")} if bound else {}))
    world.claim("copy", **{field: SOURCE})
    assert world.decided(world.pod("copy")) == "r2"


def test_a_clone_of_a_claim_that_is_nowhere_yet_waits(world: World) -> None:
    world.claim("copy", dataSource=SOURCE)
    pod = world.pod("copy")
    message = "claim copy is a clone of claim data, which is on no super cluster yet"
    assert message in world.decided(pod)
    world.claim("data")
    assert message in world.decided(pod)
    world.claim("data", label="r1", metadata={"deletionTimestamp": "2026-05-01T12:00:00Z"})
    assert message in world.decided(pod)
    world.claim("data", label="r2")
    assert world.decided(pod) == "r2"


def test_a_clone_and_its_source_in_one_pod_begin_together(world: World) -> None:
    world.claim("data", "slow")
    world.claim("copy", dataSource=SOURCE)
    assert world.decided(world.pod("copy", "data")) == "r2"


def test_a_clone_needs_its_class_where_its_source_is(world: World) -> None:
    world.claim("data", label="r1")
    world.claim("copy", "slow", dataSource=SOURCE)
    message = world.decided(world.pod("copy"))
    assert "r1: does not publish StorageClass slow of claim copy" in message
    assert "r2: claim copy is a clone of one on super cluster r1" in message


def test_a_clone_that_is_assigned_does_not_look_at_its_source(world: World) -> None:
    world.claim("copy", label="r1", dataSource=SOURCE)
    assert world.decided(world.pod("copy")) == "r1"


def test_claims_that_are_clones_of_each_other_wait(world: World) -> None:
    world.claim("copy", dataSource=SOURCE)
    world.claim("data", dataSource={**SOURCE, "name": "copy"})
    assert "which is on no super cluster yet" in world.decided(world.pod("copy"))


@pytest.mark.parametrize(
    "source",
    [
        {"kind": "VolumeSnapshot", "name": "data"},
        {**SOURCE, "namespace": "other"},
        {**SOURCE, "apiGroup": "example.com"},
    ],
)
def test_other_sources_are_left_to_the_syncer_to_refuse(world: World, source: dict[str, str]) -> None:
    world.claim("copy", dataSourceRef=source)
    assert world.decided(world.pod("copy")) == "r1"


# --- Restored from snapshots ---

MONDAY = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "monday"}


@pytest.mark.parametrize("field", ["dataSource", "dataSourceRef"])
def test_a_restored_claim_goes_where_its_snapshot_is(world: World, field: str) -> None:
    world.snapshot("monday")
    world.claim("copy", **{field: MONDAY})
    assert world.decided(world.pod("copy")) == "r2"


def test_a_restored_claim_waits_for_its_snapshot(world: World) -> None:
    world.claim("copy", dataSource=MONDAY)
    pod = world.pod("copy")
    message = "claim copy is restored from VolumeSnapshot monday: it is on no super cluster yet"
    assert message in world.decided(pod)
    world.snapshot("monday", "")
    assert message in world.decided(pod)
    world.snapshot("monday", "r1", deletionTimestamp="2026-05-01T12:00:00Z")
    assert message in world.decided(pod)
    world.snapshot("monday", "r2")
    assert world.decided(pod) == "r2"


def test_a_restored_claim_says_why_snapshots_are_not_known(world: World) -> None:
    world.claim("copy", dataSource=MONDAY)
    world.snapshots_unread = (
        "VolumeSnapshots cannot be read: the server could not find the requested resource"
    )
    pod = world.pod("copy")
    assert f"VolumeSnapshot monday: {world.snapshots_unread}" in world.decided(pod)
    world.claim("copy", label="r1", phase="Bound", volumeName=volume_name("uid-copy"), dataSource=MONDAY)
    assert world.decided(pod) == "r1", "a claim that has its volume needs no snapshot"


def test_a_restored_claim_needs_its_class_where_its_snapshot_is(world: World) -> None:
    world.snapshot("monday", "r1")
    world.claim("copy", "slow", dataSource=MONDAY)
    message = world.decided(world.pod("copy"))
    assert "r1: does not publish StorageClass slow of claim copy" in message
    assert "r2: claim copy is restored from a VolumeSnapshot on super cluster r1" in message


def test_the_claims_that_are_restored_from_a_snapshot_are_known(world: World) -> None:
    restored = Clones(snapshot_source)
    first = world.claim("first", dataSource=MONDAY)
    for each in (first, world.claim("second", dataSource={**SOURCE, "name": "monday"})):
        restored.observe(None, each)
    assert restored.of(NS, "monday") == ("first",)
    restored.observe(first, None)
    assert restored.of(NS, "monday") == ()


def test_the_clones_of_a_claim_are_known(world: World) -> None:
    clones = Clones()
    first = world.claim("first", dataSource=SOURCE)
    second = world.claim("second", dataSource=SOURCE)
    for each in (first, second, world.claim("data")):
        clones.observe(None, each)
    assert set(clones.of(NS, "data")) == {"first", "second"}
    clones.observe(first, world.claim("first"))
    clones.observe(second, second)
    assert clones.of(NS, "data") == ("second",)
    clones.observe(second, None)
    assert clones.of(NS, "data") == ()
