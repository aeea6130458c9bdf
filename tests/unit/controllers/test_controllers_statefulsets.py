"""StatefulSets: Pods with stable names, in order, with their own claims."""

from functools import partial
from typing import Any

import pytest
from controllers_world import NAMESPACE, World
from counted_work import work_of
from hypothesis import given, settings
from hypothesis import strategies as st

from vcsync.controllers.framework.plan import Create, Delete
from vcsync.controllers.statefulset.statefulset_plan import NAME, STATEFUL_SET
from vcsync.controllers.statefulset.steps import BURST
from vcsync.kube.errors import Forbidden, Status
from vcsync.kube.resources import CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS

LABELS = {"app": "db"}
CLAIM = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}


def template(image: str) -> dict[str, Any]:
    return {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": image}]}}


def stateful_set(replicas: int = 3, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "db"},
        "spec": {
            "replicas": replicas,
            "serviceName": "dbs",
            "selector": {"matchLabels": LABELS},
            "template": template("one"),
            "podManagementPolicy": "OrderedReady",
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "revisionHistoryLimit": 10,
            **spec,
        },
    }


def world(replicas: int = 3, **spec: Any) -> World:
    made = World([STATEFUL_SET])
    made.put(STATEFUL_SETS, stateful_set(replicas, **spec))
    made.settle()
    return made


def run(made: World, name: str, ready: bool = True) -> None:
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": made.time()}
    made.change(PODS, name, {"status": {"phase": "Running", "conditions": [condition]}})


def roll(made: World) -> list[str]:
    """Run controllers and kubelets until nothing changes; return the Pods."""
    for _ in range(80):
        made.settle()
        waiting = [pod["metadata"]["name"] for pod in made.bodies(PODS) if "status" not in pod]
        if not waiting:
            return names(made)
        for name in waiting:
            run(made, name)
    raise AssertionError("it does not end")


def started(replicas: int = 3, **spec: Any) -> World:
    made = world(replicas, **spec)
    roll(made)
    return made


def names(made: World) -> list[str]:
    return sorted(pod["metadata"]["name"] for pod in made.bodies(PODS))


def images(made: World) -> list[str]:
    return [made.body(PODS, name)["spec"]["containers"][0]["image"] for name in names(made)]


def status(made: World) -> dict[str, Any]:
    found: dict[str, Any] = made.body(STATEFUL_SETS, "db")["status"]
    return found


def deleted(made: World) -> list[str]:
    return [each.name for each in made.written if isinstance(each, Delete) and each.resource is PODS]


def claims(made: World) -> list[str]:
    return sorted(each["metadata"]["name"] for each in made.bodies(PERSISTENT_VOLUME_CLAIMS))


def test_a_pod_waits_until_the_one_before_it_is_ready() -> None:
    made = world(3)
    assert names(made) == ["db-0"]
    run(made, "db-0", ready=False)
    made.settle()
    assert names(made) == ["db-0"]
    run(made, "db-0")
    made.settle()
    assert names(made) == ["db-0", "db-1"]
    assert roll(made) == ["db-0", "db-1", "db-2"]


def test_a_pod_has_its_name_number_and_host() -> None:
    pod = world(1).body(PODS, "db-0")
    labels = pod["metadata"]["labels"]
    assert labels["statefulset.kubernetes.io/pod-name"] == "db-0"
    assert labels["apps.kubernetes.io/pod-index"] == "0"
    assert labels["controller-revision-hash"].startswith("db-")
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("db-0", "dbs")
    assert "generateName" not in pod["metadata"]


def test_parallel_pods_are_created_and_deleted_together() -> None:
    made = world(4, podManagementPolicy="Parallel")
    assert names(made) == ["db-0", "db-1", "db-2", "db-3"]
    made.change(STATEFUL_SETS, "db", {"spec": {"replicas": 1}})
    made.settle()
    assert names(made) == ["db-0"]


def test_the_start_ordinal_is_configurable() -> None:
    made = started(2, ordinals={"start": 5})
    assert names(made) == ["db-5", "db-6"]
    made.change(STATEFUL_SETS, "db", {"spec": {"ordinals": {"start": 6}}})
    assert roll(made) == ["db-6", "db-7"]


def test_the_last_pod_is_deleted_first_while_the_others_are_healthy() -> None:
    made = started(3)
    run(made, "db-0", ready=False)
    made.change(STATEFUL_SETS, "db", {"spec": {"replicas": 1}})
    made.settle()
    assert deleted(made) == []
    run(made, "db-0")
    roll(made)
    assert deleted(made) == ["db-2", "db-1"]


def test_a_finished_pod_is_created_again() -> None:
    made = started(2)
    before = made.body(PODS, "db-1")["metadata"]["uid"]
    made.change(PODS, "db-1", {"status": {"phase": "Failed"}})
    roll(made)
    assert made.body(PODS, "db-1")["metadata"]["uid"] != before


def test_an_update_goes_from_the_last_to_the_first() -> None:
    made = started(3)
    made.change(STATEFUL_SETS, "db", {"spec": {"template": template("two")}})
    roll(made)
    assert deleted(made) == ["db-2", "db-1", "db-0"]
    assert images(made) == ["two"] * 3
    assert status(made)["currentRevision"] == status(made)["updateRevision"]
    assert status(made)["currentReplicas"] == 3


def test_an_update_waits_for_an_unready_pod() -> None:
    made = started(3)
    made.change(STATEFUL_SETS, "db", {"spec": {"template": template("two")}})
    made.settle()
    assert deleted(made) == ["db-2"]
    assert status(made)["updatedReplicas"] == 1
    assert status(made)["currentRevision"] != status(made)["updateRevision"]


def test_a_partition_keeps_the_first_pods_at_the_current_revision() -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    made = started(4, updateStrategy=strategy)
    made.change(STATEFUL_SETS, "db", {"spec": {"template": template("two")}})
    roll(made)
    assert images(made) == ["one", "one", "two", "two"]
    made.remove(PODS, "db-0")
    roll(made)
    assert images(made) == ["one", "one", "two", "two"]


def test_more_than_one_may_be_unavailable() -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 2}}
    made = started(5, updateStrategy=strategy, podManagementPolicy="Parallel")
    made.change(STATEFUL_SETS, "db", {"spec": {"template": template("two")}})
    made.settle()
    assert deleted(made) == ["db-4", "db-3"]
    roll(made)
    assert images(made) == ["two"] * 5


def test_on_delete_pods_are_replaced_only_when_they_are_deleted() -> None:
    made = started(2, updateStrategy={"type": "OnDelete"})
    made.change(STATEFUL_SETS, "db", {"spec": {"template": template("two")}})
    roll(made)
    assert images(made) == ["one", "one"]
    made.remove(PODS, "db-0")
    roll(made)
    assert images(made) == ["two", "one"]


def test_an_earlier_template_reuses_its_revision() -> None:
    made = started(1)
    first = status(made)["updateRevision"]
    for image in ("two", "one"):
        made.change(STATEFUL_SETS, "db", {"spec": {"template": template(image)}})
        roll(made)
    assert status(made)["updateRevision"] == first
    numbers = {each["metadata"]["name"]: each["revision"] for each in made.bodies(CONTROLLER_REVISIONS)}
    assert len(numbers) == 2
    assert numbers[first] == 3


def test_a_revision_holds_its_template_for_a_roll_back() -> None:
    [revision] = started(1).bodies(CONTROLLER_REVISIONS)
    assert revision["data"] == {"spec": {"template": {**template("one"), "$patch": "replace"}}}
    labels = revision["metadata"]["labels"]
    assert revision["metadata"]["name"] == f"db-{labels['controller.kubernetes.io/hash']}"


def test_revisions_beyond_the_history_limit_are_deleted() -> None:
    made = started(1, revisionHistoryLimit=1)
    for image in ("two", "three", "four"):
        made.change(STATEFUL_SETS, "db", {"spec": {"template": template(image)}})
        roll(made)
    assert sorted(each["revision"] for each in made.bodies(CONTROLLER_REVISIONS)) == [3, 4]


def test_pods_have_claims_that_outlive_them() -> None:
    made = started(2, volumeClaimTemplates=[CLAIM])
    assert claims(made) == ["data-db-0", "data-db-1"]
    assert made.body(PERSISTENT_VOLUME_CLAIMS, "data-db-0")["metadata"]["labels"] == LABELS
    [volume] = made.body(PODS, "db-1")["spec"]["volumes"]
    assert volume == {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-1"}}
    made.change(STATEFUL_SETS, "db", {"spec": {"replicas": 0}})
    assert roll(made) == []
    assert claims(made) == ["data-db-0", "data-db-1"]


def owners(made: World, claim: str) -> list[str]:
    metadata = made.body(PERSISTENT_VOLUME_CLAIMS, claim)["metadata"]
    return [each["kind"] for each in metadata.get("ownerReferences", ())]


@pytest.mark.parametrize(
    ("deleted_", "scaled", "stays", "goes"),
    [
        ("Retain", "Retain", [], []),
        ("Delete", "Retain", ["StatefulSet"], ["StatefulSet"]),
        ("Retain", "Delete", [], ["Pod"]),
        ("Delete", "Delete", ["StatefulSet"], ["Pod"]),
    ],
)
def test_owners_of_claims_follow_the_retention_policy(
    deleted_: str, scaled: str, stays: list[str], goes: list[str]
) -> None:
    policy = {"whenDeleted": deleted_, "whenScaled": scaled}
    made = started(2, volumeClaimTemplates=[CLAIM], persistentVolumeClaimRetentionPolicy=policy)
    assert owners(made, "data-db-0") == owners(made, "data-db-1") == stays
    made.change(STATEFUL_SETS, "db", {"spec": {"replicas": 1}})
    roll(made)
    assert owners(made, "data-db-0") == stays
    assert owners(made, "data-db-1") == goes
    made.change(STATEFUL_SETS, "db", {"spec": {"persistentVolumeClaimRetentionPolicy": None}})
    roll(made)
    assert owners(made, "data-db-0") == []


def test_a_pod_waits_for_the_deletion_of_its_predecessors_claim() -> None:
    policy = {"whenDeleted": "Retain", "whenScaled": "Delete"}
    made = started(1, volumeClaimTemplates=[CLAIM], persistentVolumeClaimRetentionPolicy=policy)
    made.change(STATEFUL_SETS, "db", {"spec": {"replicas": 0}})
    roll(made)
    made.change(STATEFUL_SETS, "db", {"spec": {"replicas": 1}})
    assert roll(made) == []
    made.remove(PERSISTENT_VOLUME_CLAIMS, "data-db-0")
    assert roll(made) == ["db-0"]


def test_a_claim_with_another_controller_is_reported_and_kept() -> None:
    policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
    made = World([STATEFUL_SET])
    other = {"apiVersion": "v1", "kind": "X", "name": "x", "uid": "other", "controller": True}
    made.put(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "data-db-0", "ownerReferences": [other]}})
    body = stateful_set(1, volumeClaimTemplates=[CLAIM], persistentVolumeClaimRetentionPolicy=policy)
    made.put(STATEFUL_SETS, body)
    roll(made)
    assert owners(made, "data-db-0") == ["X"]


def test_a_refused_claim_is_reported_and_retried() -> None:
    made = World([STATEFUL_SET])
    made.put(STATEFUL_SETS, stateful_set(1, volumeClaimTemplates=[CLAIM]))
    made.work(NAME, made.key(NAMESPACE, "db"))
    made.remove(PODS, "db-0")
    made.remove(PERSISTENT_VOLUME_CLAIMS, "data-db-0")
    made.events.clear()
    made.refusals = [(Create, Forbidden(Status(403, "Forbidden", "exceeded quota")))]
    made.work(NAME, made.key(NAMESPACE, "db"))
    [event] = made.events
    assert event.reason == "FailedCreate"
    assert (
        event.message == "Create Claim data-db-0 for Pod db-0 in StatefulSet db failed error: exceeded quota"
    )
    assert roll(made) == ["db-0"]


def test_actions_are_reported() -> None:
    made = started(1, volumeClaimTemplates=[CLAIM])
    messages = [(each.reason, each.message) for each in made.events]
    assert messages == [
        ("SuccessfulCreate", "Create Claim data-db-0 Pod db-0 in StatefulSet db success"),
        ("SuccessfulCreate", "Create Pod db-0 in StatefulSet db successful"),
    ]


def test_a_pod_is_available_after_it_was_ready_for_long_enough() -> None:
    made = world(2, minReadySeconds=10)
    run(made, "db-0")
    made.settle()
    assert names(made) == ["db-0"]
    assert (status(made)["readyReplicas"], status(made)["availableReplicas"]) == (1, 0)
    made.pass_time(4)
    assert made.work(NAME, made.key(NAMESPACE, "db")).again == 6
    made.pass_time(6)
    made.settle()
    assert names(made) == ["db-0", "db-1"]


def test_a_matching_orphan_is_adopted() -> None:
    made = World([STATEFUL_SET])
    for name in ("db-0", "stranger"):
        made.put(PODS, {"metadata": {"name": name, "labels": LABELS}, "spec": {"containers": []}})
    made.put(STATEFUL_SETS, stateful_set(1, updateStrategy={"type": "OnDelete"}))
    run(made, "db-0")
    made.settle()
    assert made.body(PODS, "db-0")["metadata"]["ownerReferences"][0]["kind"] == "StatefulSet"
    assert made.body(PODS, "db-0")["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "0"
    assert "ownerReferences" not in made.body(PODS, "stranger")


def test_a_terminating_set_creates_nothing() -> None:
    made = World([STATEFUL_SET])
    body = stateful_set(2)
    body["metadata"] |= {"deletionTimestamp": made.time(), "finalizers": ["x/y"]}
    made.put(STATEFUL_SETS, body)
    made.settle()
    assert names(made) == []


CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("scale"), st.integers(0, 5)),
        st.tuples(st.just("image"), st.sampled_from(["one", "two", "three"])),
        st.tuples(st.just("partition"), st.integers(0, 5)),
        st.tuples(st.just("fail"), st.integers(0, 4)),
        st.tuples(st.just("lose"), st.integers(0, 4)),
        st.tuples(st.just("run"), st.none()),
    ),
    max_size=10,
)


def apply(made: World, what: str, value: Any) -> None:
    specs: dict[str, dict[str, Any]] = {
        "scale": {"replicas": value},
        "image": {"template": template(str(value))},
        "partition": {"updateStrategy": {"rollingUpdate": {"partition": value}}},
    }
    if what in specs:
        made.change(STATEFUL_SETS, "db", {"spec": specs[what]})
    elif what == "run":
        for name in names(made):
            run(made, name)
    elif f"db-{value}" in names(made):
        if what == "lose":
            made.remove(PODS, f"db-{value}")
        else:
            made.change(PODS, f"db-{value}", {"status": {"phase": "Failed"}})
    made.settle()


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(["OrderedReady", "Parallel"]), CHANGES)
def test_after_any_history_it_has_the_requested_numbers_and_templates(
    policy: str, changes: list[tuple[str, Any]]
) -> None:
    made = world(3, podManagementPolicy=policy)
    for what, value in changes:
        apply(made, what, value)
    for name in names(made):
        if made.body(PODS, name).get("status", {}).get("phase") != "Failed":
            run(made, name)
    roll(made)
    spec = made.body(STATEFUL_SETS, "db")["spec"]
    assert names(made) == [f"db-{number}" for number in range(spec["replicas"])]
    first = spec["updateStrategy"]["rollingUpdate"]["partition"]
    image = spec["template"]["spec"]["containers"][0]["image"]
    assert images(made)[first:] == [image] * max(spec["replicas"] - first, 0)
    assert status(made)["replicas"] == status(made).get("readyReplicas", 0) == spec["replicas"]


MOST_REPLICAS = 2**31 - 1
BURST_SPECS: list[dict[str, Any]] = [
    {"podManagementPolicy": "Parallel"},
    {"podManagementPolicy": "OrderedReady"},
    {"podManagementPolicy": "Parallel", "ordinals": {"start": 2**31 - 1}},
    {"podManagementPolicy": "Parallel", "updateStrategy": {"rollingUpdate": {"partition": 2**31 - 1}}},
    {"podManagementPolicy": "Parallel", "updateStrategy": {"rollingUpdate": {"maxUnavailable": "100%"}}},
    {"podManagementPolicy": "Parallel", "updateStrategy": {"type": "OnDelete"}},
    {
        "podManagementPolicy": "Parallel",
        "volumeClaimTemplates": [CLAIM],
        "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete", "whenDeleted": "Delete"},
    },
]


@pytest.mark.parametrize("spec", BURST_SPECS)
def test_one_reconcile_costs_what_the_pods_cost_that_it_creates(spec: dict[str, Any]) -> None:
    made = World([STATEFUL_SET])
    costs = []
    for replicas in (2 * BURST, MOST_REPLICAS):
        made.put(STATEFUL_SETS, stateful_set(replicas, **spec))
        costs.append(work_of(partial(STATEFUL_SET.plan, made.view(), made.key(NAMESPACE, "db"))))
    assert costs[1].steps <= 1.1 * costs[0].steps
    assert costs[1].size <= 1.1 * costs[0].size + 10_000


@pytest.mark.parametrize("spec", BURST_SPECS)
def test_one_reconcile_creates_a_limited_number_of_pods_and_continues(spec: dict[str, Any]) -> None:
    made = World([STATEFUL_SET])
    made.put(STATEFUL_SETS, stateful_set(MOST_REPLICAS, **spec))
    first = made.work(NAME, made.key(NAMESPACE, "db"))
    expected = 1 if "ordinals" in spec or spec["podManagementPolicy"] == "OrderedReady" else BURST
    assert len(made.bodies(PODS)) == expected
    assert status(made)["replicas"] == expected
    assert first.again == (0.0 if expected == BURST else None)
    made.work(NAME, made.key(NAMESPACE, "db"))
    assert len(made.bodies(PODS)) == (1 if expected == 1 else 2 * BURST)


def test_a_set_scaled_down_from_the_largest_number_ends_with_its_pods() -> None:
    made = World([STATEFUL_SET])
    made.put(STATEFUL_SETS, stateful_set(MOST_REPLICAS, podManagementPolicy="Parallel"))
    for _ in range(2):
        made.work(NAME, made.key(NAMESPACE, "db"))
    made.change(STATEFUL_SETS, "db", {"spec": {"replicas": 2}})
    made.work(NAME, made.key(NAMESPACE, "db"))
    assert len(deleted(made)) == BURST
    assert deleted(made)[0] == f"db-{2 * BURST - 1}"
    made.settle()
    assert names(made) == ["db-0", "db-1"]


def test_a_pod_with_more_claims_than_one_reconcile_creates_gets_all_of_them() -> None:
    many = [{**CLAIM, "metadata": {"name": f"data{each}"}} for each in range(BURST + 2)]
    made = World([STATEFUL_SET])
    made.put(STATEFUL_SETS, stateful_set(1, podManagementPolicy="Parallel", volumeClaimTemplates=many))
    made.work(NAME, made.key(NAMESPACE, "db"))
    assert len(claims(made)) == BURST
    made.change(PODS, "db-0", {"status": {"phase": "Pending"}})
    made.settle()
    assert len(claims(made)) == BURST + 2
