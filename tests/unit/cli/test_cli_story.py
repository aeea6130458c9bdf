"""What is told of Pods and namespaces."""

from typing import Any

import pytest

from vcsync.api.conditions import Condition
from vcsync.api.fields import Quantity
from vcsync.api.names import SUPER_CLUSTER, drain_finalizer
from vcsync.api.objects import NamespacePlacement, SuperCluster
from vcsync.api.specs import (
    Explanation,
    NamespacePlacementSpec,
    NamespacePlacementStatus,
    SuperClusterSpec,
    SuperClusterStatus,
    VirtualClusterRef,
)
from vcsync.cli.show import draining, shares, state_of
from vcsync.cli.story import namespace_story, pod_story, waiting_reason

TIME = "2026-01-01T00:00:00Z"


def condition(kind: str, status: Any, reason: str = "Fine", message: str = "") -> Condition:
    return Condition(type=kind, status=status, reason=reason, message=message, last_transition_time=TIME)


def super_cluster(name: str, ready: Any = "True", **spec: Any) -> SuperCluster:
    conditions = (condition("Reachable", "True"), condition("Ready", ready, "NoNodes", "no node is ready"))
    return SuperCluster(
        name=name,
        spec=SuperClusterSpec(id=name, **spec),
        status=SuperClusterStatus(conditions=conditions),
    )


SUPERS = {"r1": super_cluster("r1"), "r2": super_cluster("r2", "False")}


def placement(
    placements: dict[str, int], *, waiting: int = 0, finalizers: tuple[str, ...] = (), deleting: bool = False
) -> NamespacePlacement:
    size = {"cpu": Quantity("1"), "memory": Quantity("1Gi")}
    refused = Explanation(super_cluster="r2", refused_by=("Health",), reason="no node is ready")
    placed = (
        condition("Placed", "False", "FailedScheduling", "1 of 3 slices wait")
        if waiting
        else condition("Placed", "True")
    )
    return NamespacePlacement(
        name="shop",
        finalizers=finalizers,
        deleting=deleting,
        spec=NamespacePlacementSpec(
            virtual_cluster=VirtualClusterRef(namespace="vcsync", name="acme", uid="u"),
            tenant="vcsync-123456-acme",
            namespace="shop",
            namespace_uid="n",
            quota={"cpu": Quantity("3"), "memory": Quantity("3Gi")},
            slice_size=size,
            slices=3,
        ),
        status=NamespacePlacementStatus(
            placements=placements, waiting=waiting, explanation=(refused,), conditions=(placed,)
        ),
    )


def test_a_namespace_without_a_ledger_entry_says_what_is_missing() -> None:
    story = " ".join(namespace_story("acme/shop", None, SUPERS))
    assert "placed nowhere" in story
    assert "ResourceQuota" in story
    assert "wait a few seconds for the first heartbeat of" in " ".join(
        namespace_story("acme/shop", None, {"r9": SuperCluster(name="r9", spec=SuperClusterSpec(id="r9"))})
    )


def test_a_namespace_tells_its_slices_and_why_others_were_refused() -> None:
    story = namespace_story("acme/shop", placement({"r1": 2}, waiting=1), SUPERS)
    assert story[0] == "Namespace acme/shop may use 3 cpu, 3Gi memory: 3 slices of 1 cpu, 1Gi memory."
    assert "2 of them are on super cluster r1." in story
    assert "1 of them wait for a place." in story
    assert "Super cluster r2 got none: no node is ready." in story
    assert "FailedScheduling: 1 of 3 slices wait." in story


def test_a_lost_or_drained_super_cluster_is_told() -> None:
    supers = {"r1": super_cluster("r1", drain=True)}
    story = namespace_story("acme/shop", placement({"r1": 1, "r9": 2}), supers)
    assert "1 of them is on super cluster r1, which is being drained." in story
    assert "2 of them are on super cluster r9, which is no longer registered." in story


def test_who_still_drains_is_told() -> None:
    entry = placement({"r1": 3}, finalizers=(drain_finalizer("r1"), drain_finalizer("r2"), "other/finalizer"))
    assert draining(entry) == ["r2"]
    assert state_of(entry) == "Fine, drains from r2"
    assert "Super cluster r2 is still clearing what it held of it." in namespace_story("x", entry, SUPERS)
    leaving = placement({}, finalizers=(drain_finalizer("r1"),), deleting=True)
    assert state_of(leaving) == "being removed from r1"
    assert "to be cleared first: r1" in " ".join(namespace_story("x", leaving, SUPERS))


def test_slices_in_one_cell() -> None:
    assert shares({"r2": 1, "r1": 2, "r3": 0}) == "r1=2,r2=1"


def pod(**facts: Any) -> dict[str, Any]:
    labels = {SUPER_CLUSTER: facts["on"]} if "on" in facts else {}
    return {
        "metadata": {"labels": labels, **facts.get("metadata", {})},
        "spec": {"nodeName": facts["node"]} if "node" in facts else {},
        "status": facts.get("status", {}),
    }


UNSCHEDULABLE: dict[str, Any] = {
    "phase": "Pending",
    "conditions": [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "r1: too little memory",
        }
    ],
}


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (pod(), "no super cluster has been picked for it."),
        (pod(status=UNSCHEDULABLE), "Unschedulable: r1: too little memory."),
        (
            pod(on="r1", node="n0.r1", status={"phase": "Running"}),
            "Pod acme/shop/web is Running on node n0 of super cluster r1.",
        ),
        (pod(on="r1"), "it belongs to super cluster r1 and has no node there yet."),
        (pod(on="r2"), "Its namespace has no slices on r2 any more: the Pod cannot start there."),
        (pod(on="r2", node="n.r2"), "Super cluster r2, which is not ready (NoNodes: no node is ready)."),
        (pod(on="r1", node="n.r1"), "Its namespace has 2 slices there."),
        (pod(metadata={"deletionTimestamp": TIME}), f"It is being deleted since {TIME}."),
        (
            pod(
                on="r1",
                node="n.r1",
                status={
                    "containerStatuses": [
                        {
                            "name": "app",
                            "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}},
                        }
                    ]
                },
            ),
            "Container app waits: ImagePullBackOff: no such image.",
        ),
    ],
)
def test_a_pods_story(found: dict[str, Any], said: str) -> None:
    assert any(
        line.endswith(said) for line in pod_story("acme/shop/web", found, placement({"r1": 2}), SUPERS)
    )


def test_what_others_said_keeps_no_stop_of_its_own() -> None:
    condition = {**UNSCHEDULABLE["conditions"][0], "message": "0/3 nodes are available."}
    waiting = {"reason": "CreateContainerError", "message": "no such file."}
    status = {
        "conditions": [condition],
        "containerStatuses": [{"name": "app", "state": {"waiting": waiting}}],
    }
    story = pod_story("acme/shop/web", pod(on="r1", status=status), placement({"r1": 2}), SUPERS)
    assert "Unschedulable: 0/3 nodes are available." in story
    assert "Container app waits: CreateContainerError: no such file." in story


def test_an_unplaced_pod_gets_its_namespaces_story_too() -> None:
    story = pod_story("acme/shop/web", pod(), None, SUPERS)
    assert "Namespace acme/shop is placed nowhere." in story


def test_what_the_syncer_waits_for_is_found_in_its_status() -> None:
    waiting = {"item": "pods/shop/web", "reason": "ConfigMap shop/settings does not exist"}
    roles = {
        "nsscheduler": {"tenants": {"k": {}}},
        "syncer/r1": {
            "tenants": [{"key": "other", "waiting": [waiting]}, {"key": "k", "waiting": [waiting]}]
        },
    }
    reason = waiting_reason(roles, "k", ("pods", "shop", "web"))
    assert reason == "ConfigMap shop/settings does not exist"
    assert waiting_reason(roles, "k", ("pods", "shop", "other")) == ""
    assert f"The syncer waits: {reason}." in pod_story("x/shop/web", pod(on="r1"), None, SUPERS, reason)


def test_what_the_syncer_fails_at_and_tries_again_is_found_in_its_status() -> None:
    error = {"tenant": "k", "item": "pods/shop/web", "message": "exceeded quota", "time": 1.0}
    roles = {
        "podscheduler": {"lastErrors": [{"time": "", "what": "k: shop/web", "error": "timeout"}]},
        "syncer/r1": {"tenants": [{"key": "k", "waiting": []}], "lastErrors": [error]},
    }
    assert waiting_reason(roles, "k", ("pods", "shop", "web")) == "exceeded quota"
    assert waiting_reason(roles, "other", ("pods", "shop", "web")) == ""
