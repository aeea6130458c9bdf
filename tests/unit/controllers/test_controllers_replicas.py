"""ReplicaSets: the requested number of Pods, after any history."""

from typing import Any

from controllers_world import World
from hypothesis import given, settings
from hypothesis import strategies as st

from vcsync.controllers.framework.mirror import key_of
from vcsync.controllers.framework.plan import Create
from vcsync.controllers.replicaset.replicaset_plan import REPLICA_SET, REPLICATION_CONTROLLER
from vcsync.kube.errors import Forbidden, Status
from vcsync.kube.resources import PODS, REPLICA_SETS, REPLICATION_CONTROLLERS

LABELS = {"app": "web"}


def replica_set(replicas: int, **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {
        "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": LABELS}, "template": template, **spec},
    }


def world(replicas: int = 3, **spec: Any) -> World:
    made = World([REPLICA_SET])
    made.put(REPLICA_SETS, replica_set(replicas, **spec))
    made.settle()
    return made


def run(made: World, name: str, ready: bool = True) -> None:
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": made.time()}
    made.change(PODS, name, {"status": {"phase": "Running", "conditions": [condition]}})


def names(made: World) -> list[str]:
    return [pod["metadata"]["name"] for pod in made.bodies(PODS)]


def status(made: World) -> dict[str, Any]:
    found: dict[str, Any] = made.body(REPLICA_SETS, "web")["status"]
    return found


def test_missing_pods_are_created_from_the_template_and_owned() -> None:
    made = world(3)
    assert len(made.bodies(PODS)) == 3
    for pod in made.bodies(PODS):
        assert pod["metadata"]["labels"] == LABELS
        assert pod["metadata"]["generateName"] == "web-"
        [owner] = pod["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["controller"]) == ("ReplicaSet", "web", True)
    assert status(made)["replicas"] == 3
    assert sorted(event.reason for event in made.events) == ["SuccessfulCreate"] * 3


def test_the_status_counts_ready_and_available_pods() -> None:
    made = world(2, minReadySeconds=10)
    for name in names(made):
        run(made, name)
    made.settle()
    assert (status(made)["readyReplicas"], status(made).get("availableReplicas")) == (2, None)
    made.pass_time(11)
    made.settle()
    assert status(made)["availableReplicas"] == 2


def test_it_reconciles_again_when_the_next_pod_becomes_available() -> None:
    made = world(1, minReadySeconds=10)
    run(made, names(made)[0])
    made.pass_time(4)
    key = next(iter(made.shelves[REPLICA_SETS].everything()))
    assert made.controllers["replicaset-controller"].plan(made.view(), key_of(key)).again == 6


def test_unready_pods_are_deleted_first() -> None:
    made = world(3)
    first, second, third = names(made)
    run(made, first)
    run(made, third)
    made.change(REPLICA_SETS, "web", {"spec": {"replicas": 2}})
    made.settle()
    assert sorted(names(made)) == sorted([first, third])
    assert second not in names(made)


def test_pods_with_a_low_deletion_cost_are_deleted_first() -> None:
    made = world(2)
    for name in names(made):
        run(made, name)
    cheap, dear = names(made)
    made.change(
        PODS, dear, {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "10"}}}
    )
    made.change(REPLICA_SETS, "web", {"spec": {"replicas": 1}})
    made.settle()
    assert names(made) == [dear]
    assert cheap != dear


def test_an_orphan_that_matches_is_adopted_and_counts() -> None:
    made = World([REPLICA_SET])
    made.put(PODS, {"metadata": {"name": "orphan", "labels": LABELS}, "spec": {}})
    made.put(REPLICA_SETS, replica_set(2))
    made.settle()
    assert len(made.bodies(PODS)) == 2
    assert made.body(PODS, "orphan")["metadata"]["ownerReferences"][0]["name"] == "web"


def test_a_pod_that_no_longer_matches_is_released_and_replaced() -> None:
    made = world(1)
    [first] = names(made)
    made.change(PODS, first, {"metadata": {"labels": {"app": "other"}}})
    made.settle()
    assert made.body(PODS, first)["metadata"]["ownerReferences"] == []
    assert len(names(made)) == 2


def test_pods_of_another_controller_are_ignored() -> None:
    made = World([REPLICA_SET])
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": "other", "controller": True}
    made.put(PODS, {"metadata": {"name": "theirs", "labels": LABELS, "ownerReferences": [owner]}, "spec": {}})
    made.put(REPLICA_SETS, replica_set(1))
    made.settle()
    assert made.body(PODS, "theirs")["metadata"]["ownerReferences"] == [owner]
    assert len(names(made)) == 2


def test_a_finished_pod_is_replaced() -> None:
    made = world(1)
    [first] = names(made)
    made.change(PODS, first, {"status": {"phase": "Failed"}})
    made.settle()
    assert len(names(made)) == 2
    assert status(made)["replicas"] == 1


def test_a_refused_pod_shows_in_a_condition_until_it_succeeds() -> None:
    made = World([REPLICA_SET])
    made.put(REPLICA_SETS, replica_set(1))
    made.refusals = [(Create, Forbidden(Status(403, "Forbidden", "exceeded quota")))]
    [envelope] = made.shelves[REPLICA_SETS].everything()
    made.work("replicaset-controller", key_of(envelope))
    [condition] = status(made)["conditions"]
    assert (condition["type"], condition["reason"]) == ("ReplicaFailure", "FailedCreate")
    assert "exceeded quota" in condition["message"]
    made.settle()
    assert "conditions" not in status(made)


def test_events_contain_the_servers_message() -> None:
    made = World([REPLICA_SET])
    made.put(REPLICA_SETS, replica_set(1))
    refusal = Status(403, "Forbidden", 'pods "a" is forbidden: exceeded quota: q')
    made.refusals = [(Create, Forbidden(refusal, endpoint="control plane", request="POST /tenants/t/pods"))]
    [envelope] = made.shelves[REPLICA_SETS].everything()
    made.work("replicaset-controller", key_of(envelope))
    [event] = made.events
    assert event.message == 'Error creating: pods "a" is forbidden: exceeded quota: q'


def test_a_terminating_set_creates_no_pods() -> None:
    made = World([REPLICA_SET])
    body = replica_set(2)
    body["metadata"] |= {"deletionTimestamp": made.time(), "finalizers": ["foregroundDeletion"]}
    made.put(REPLICA_SETS, body)
    made.settle()
    assert made.bodies(PODS) == []


def test_a_replication_controller_does_the_same() -> None:
    made = World([REPLICATION_CONTROLLER])
    body = replica_set(2)
    body["spec"]["selector"] = LABELS
    made.put(REPLICATION_CONTROLLERS, body)
    made.settle()
    assert len(made.bodies(PODS)) == 2
    assert made.bodies(PODS)[0]["metadata"]["ownerReferences"][0]["apiVersion"] == "v1"


@given(
    st.lists(
        st.tuples(st.sampled_from(["scale", "fail", "remove", "relabel"]), st.integers(0, 6)), max_size=8
    )
)
@settings(max_examples=40, deadline=None)
def test_after_any_history_it_has_the_requested_number(history: list[tuple[str, int]]) -> None:
    made = world(2)
    for what, number in history:
        pods = names(made)
        if what == "scale":
            made.change(REPLICA_SETS, "web", {"spec": {"replicas": number}})
        elif pods:
            name = pods[number % len(pods)]
            if what == "fail":
                made.change(PODS, name, {"status": {"phase": "Failed"}})
            elif what == "remove":
                made.remove(PODS, name)
            else:
                made.change(PODS, name, {"metadata": {"labels": {"app": "gone"}}})
        made.settle()
        active = [
            pod
            for pod in made.bodies(PODS)
            if pod["metadata"]["labels"] == LABELS and pod.get("status", {}).get("phase") != "Failed"
        ]
        assert len(active) == made.body(REPLICA_SETS, "web")["spec"]["replicas"] == status(made)["replicas"]


def test_a_pod_elsewhere_that_names_a_foreign_set_as_its_owner_does_not_count() -> None:
    made = world(1)
    [owner] = made.bodies(PODS)[0]["metadata"]["ownerReferences"]
    status_of_it = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    foreign = {"name": "foreign", "labels": LABELS, "ownerReferences": [owner]}
    made.put(PODS, {"metadata": foreign, "spec": {}, "status": status_of_it}, "elsewhere")
    made.change(REPLICA_SETS, "web", {"spec": {"minReadySeconds": 0}})
    made.settle()
    assert status(made)["replicas"] == 1
    assert "readyReplicas" not in status(made)
