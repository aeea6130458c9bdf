"""Explanations of Pods and namespaces."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from vcsync.api.conditions import Condition
from vcsync.api.fields import Quantity
from vcsync.api.names import COPY_FINALIZER, SUPER_CLUSTER, drain_finalizer
from vcsync.api.objects import NamespacePlacement, SuperCluster
from vcsync.api.refusals import (
    ADMISSION,
    QUOTA,
    REFUSED,
    RETURNED,
    SLICES_LEFT,
    WITHDRAWN,
    Said,
    refusal_annotation,
)
from vcsync.api.refusals import UNSCHEDULABLE as UNSCHEDULED
from vcsync.api.specs import (
    Explanation,
    NamespacePlacementSpec,
    NamespacePlacementStatus,
    SuperClusterSpec,
    SuperClusterStatus,
    VirtualClusterRef,
)
from vcsync.cli.explain.story import namespace_story, pod_story, transition_lines, waiting_reason
from vcsync.cli.status.commands import draining, shares, state_of
from vcsync.scheduling.ledger import Ledger
from vcsync.tenancy.distribution import ledger_of
from vcsync.tenancy.health import HELD

TIME = "2026-01-01T00:00:00Z"
NOW = datetime(2026, 1, 1, 0, 0, 20, tzinfo=UTC)


def condition(kind: str, status: Any, reason: str = "Fine", message: str = "") -> Condition:
    return Condition(type=kind, status=status, reason=reason, message=message, last_transition_time=TIME)


def super_cluster(name: str, ready: Any = "True", **spec: Any) -> SuperCluster:
    conditions = (condition("Reachable", "True"), condition("Ready", ready, "NoNodes", "no node is ready"))
    return SuperCluster(
        name=name,
        spec=SuperClusterSpec(id=name, **spec),
        status=SuperClusterStatus(conditions=conditions, heartbeat_time=TIME),
    )


NOTHING_DEALT = Ledger()
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


def test_a_namespace_without_a_ledger_entry_is_explained() -> None:
    story = " ".join(namespace_story("acme/shop", None, SUPERS, NOW, NOTHING_DEALT))
    assert "is not placed" in story
    assert "ResourceQuota" in story
    assert "wait a few seconds for the first heartbeat of" in " ".join(
        namespace_story(
            "acme/shop",
            None,
            {"r9": SuperCluster(name="r9", spec=SuperClusterSpec(id="r9"))},
            NOW,
            NOTHING_DEALT,
        )
    )


def test_a_namespaces_slices_and_refusals_are_explained() -> None:
    story = namespace_story("acme/shop", placement({"r1": 2}, waiting=1), SUPERS, NOW, NOTHING_DEALT)
    assert story[0] == "Namespace acme/shop may use 3 cpu, 3Gi memory: 3 slices of 1 cpu, 1Gi memory."
    assert "2 of them are on super cluster r1." in story
    assert "1 of them wait for a place." in story
    assert "Super cluster r2 got none: no node is ready." in story
    assert "FailedScheduling: 1 of 3 slices wait." in story


def test_a_tenants_cap_is_reported_once() -> None:
    entry = placement({"r1": 2}, waiting=1)
    capped = [
        Explanation(super_cluster="r1", slices=2, refused_by=("TenantQuota",), reason="the tenant's quota"),
        Explanation(super_cluster="r2", refused_by=("TenantQuota",), reason="the tenant's quota"),
        Explanation(
            super_cluster="r3", refused_by=("TenantQuota", "Health"), reason="the tenant's quota; lost"
        ),
        Explanation(super_cluster="r4"),
    ]
    entry = replace(entry, status=replace(entry.status, explanation=tuple(capped)))
    story = namespace_story("acme/shop", entry, SUPERS, NOW, NOTHING_DEALT)
    assert [line for line in story if " got " in line] == [
        "Super cluster r3 got none: the tenant's quota; lost.",
        "Super cluster r4 got none: others scored higher.",
    ]


def test_free_amounts_are_shown_while_slices_wait() -> None:
    allocatable = {"cpu": "8", "memory": "16Gi", "ephemeral-storage": "9Gi"}
    r1 = SuperCluster(
        name="r1",
        spec=SuperClusterSpec(id="r1", headroom={"cpu": "50%"}, overcommit={"cpu": "200%"}),
        status=SuperClusterStatus(allocatable=allocatable),
    )
    odd = SuperCluster(
        name="odd",
        spec=SuperClusterSpec(id="odd", headroom={"cpu": "much"}),
        status=SuperClusterStatus(allocatable=allocatable),
    )
    supers, entry = {"r1": r1, "odd": odd}, placement({"r1": 2}, waiting=1)
    story = namespace_story("acme/shop", entry, supers, NOW, ledger_of([entry]))
    assert "Super cluster r1 has 6 cpu, 14Gi memory free of 8 cpu, 16Gi memory." in story
    assert any(
        line.startswith("Super cluster odd cannot get slices: spec.headroom.cpu: 'much'") for line in story
    )
    placed = namespace_story("acme/shop", placement({"r1": 3}), supers, NOW, ledger_of([entry]))
    assert not any(" free of " in line for line in placed)


def test_lost_and_drained_super_clusters_are_reported() -> None:
    supers = {"r1": super_cluster("r1", drain=True)}
    story = namespace_story("acme/shop", placement({"r1": 1, "r9": 2}), supers, NOW, NOTHING_DEALT)
    assert "1 of them is on super cluster r1, which is being drained." in story
    assert "2 of them are on super cluster r9, which is no longer registered." in story


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [
        (0, "which is suspect (no node is ready)"),
        (2, "which is suspect (no heartbeat for 2m)"),
        (8, f"which is suspect (no heartbeat for 8m; {HELD})"),
    ],
)
def test_a_super_clusters_health_is_reported(minutes: int, expected: str) -> None:
    now = NOW + timedelta(minutes=minutes)
    assert f"2 of them are on super cluster r2, {expected}." in namespace_story(
        "acme/shop", placement({"r2": 2}), SUPERS, now, NOTHING_DEALT
    )


def test_a_super_cluster_that_alone_vanished_is_reported_as_lost() -> None:
    now = NOW + timedelta(minutes=8)
    alone = {"r2": SUPERS["r2"]}
    assert "super cluster r2, which is lost (no heartbeat for 8m)." in "".join(
        namespace_story("acme/shop", placement({"r2": 2}), alone, now, NOTHING_DEALT)
    )


def test_super_clusters_that_still_drain_are_reported() -> None:
    entry = placement({"r1": 3}, finalizers=(drain_finalizer("r1"), drain_finalizer("r2"), "other/finalizer"))
    assert draining(entry) == ["r2"]
    assert state_of(entry) == "Fine, drains from r2"
    assert "Super cluster r2 is still clearing its objects." in namespace_story(
        "x", entry, SUPERS, NOW, NOTHING_DEALT
    )
    leaving = placement({}, finalizers=(drain_finalizer("r1"),), deleting=True)
    assert state_of(leaving) == "being removed from r1"
    assert "super clusters to clear first: r1" in " ".join(
        namespace_story("x", leaving, SUPERS, NOW, NOTHING_DEALT)
    )


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
        (
            pod(on="r2"),
            "The Pod goes elsewhere when r2 has confirmed that it does not run there.",
        ),
        (pod(on="r2", node="n.r2"), "Super cluster r2, which is suspect (no node is ready)."),
        (pod(on="r1", node="n.r1"), "Its namespace has 2 slices there."),
        (pod(metadata={"deletionTimestamp": TIME}), f"It has been terminating since {TIME}."),
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
def test_explanations_of_pods(found: dict[str, Any], said: str) -> None:
    assert any(
        line.endswith(said)
        for line in pod_story("acme/shop/web", found, placement({"r1": 2}), SUPERS, NOW, ledger=NOTHING_DEALT)
    )


def test_messages_do_not_end_with_two_full_stops() -> None:
    condition = {**UNSCHEDULABLE["conditions"][0], "message": "0/3 nodes are available."}
    waiting = {"reason": "CreateContainerError", "message": "no such file."}
    status = {
        "conditions": [condition],
        "containerStatuses": [{"name": "app", "state": {"waiting": waiting}}],
    }
    story = pod_story(
        "acme/shop/web", pod(on="r1", status=status), placement({"r1": 2}), SUPERS, NOW, ledger=NOTHING_DEALT
    )
    assert "Unschedulable: 0/3 nodes are available." in story
    assert "Container app waits: CreateContainerError: no such file." in story


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            Said(REFUSED, 0, UNSCHEDULED),
            "refuses it: none of its nodes can run the Pod. No other one can take it.",
        ),
        (
            Said(WITHDRAWN, 1, QUOTA),
            "refused it (2 times): its slices there are still in use. It goes to another one as soon as its copy is gone.",
        ),
        (Said("", 3, ADMISSION), "refused it (3 times): it does not admit the Pod."),
    ],
)
def test_refusals_of_super_clusters_are_told_of_pods_without_a_node(said: Said, told: str) -> None:
    metadata = {"labels": {SUPER_CLUSTER: "r1"}, "annotations": refusal_annotation("r1", said)}
    facts = {"metadata": metadata, "status": {"phase": "Pending"}}
    story = pod_story("acme/shop/web", pod(**facts), placement({"r1": 2}), SUPERS, NOW, ledger=NOTHING_DEALT)
    told = f"Super cluster r1 {told}"
    assert told in story
    bound = pod(**facts, node="n.r1")
    story = pod_story("acme/shop/web", bound, placement({"r1": 2}), SUPERS, NOW, ledger=NOTHING_DEALT)
    assert told not in story


def test_a_pod_that_leaves_a_super_cluster_which_has_not_refused_it_says_why() -> None:
    def story(said: Said) -> str:
        metadata = {"labels": {SUPER_CLUSTER: "r1"}, "annotations": refusal_annotation("r1", said)}
        found = pod(metadata=metadata, status={"phase": "Pending"})
        return " ".join(
            pod_story("acme/shop/web", found, placement({"r1": 2}), SUPERS, NOW, ledger=NOTHING_DEALT)
        )

    leaving = "It leaves super cluster r1 as soon as it has no copy there: its namespace has no slices there any more."
    assert leaving in story(Said(WITHDRAWN, 0, SLICES_LEFT))
    assert "refuse" not in story(Said(WITHDRAWN, 0, SLICES_LEFT)) + story(Said(RETURNED, 0, SLICES_LEFT))


def test_an_unplaced_pod_includes_its_namespaces_explanation() -> None:
    story = pod_story("acme/shop/web", pod(), None, SUPERS, NOW, ledger=NOTHING_DEALT)
    assert "Namespace acme/shop is not placed." in story


def test_the_syncers_status_explains_a_wait() -> None:
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
    assert f"The syncer waits: {reason}." in pod_story(
        "x/shop/web", pod(on="r1"), None, SUPERS, NOW, ledger=NOTHING_DEALT, syncer_reason=reason
    )


def test_the_syncers_status_explains_a_retried_error() -> None:
    error = {"tenant": "k", "item": "pods/shop/web", "error": "exceeded quota", "attempts": 1}
    roles: dict[str, Any] = {
        "controllers": {"lastErrors": {"k: deployment/shop/web": "an older version"}, "waiting": 3},
        "podscheduler": {"lastErrors": [{"tenant": "k", "item": "shop/web", "error": "timeout"}]},
        "syncer/r1": {"tenants": [{"key": "k", "waiting": []}], "lastErrors": [error]},
    }
    assert waiting_reason(roles, "k", ("pods", "shop", "web")) == "exceeded quota"
    assert waiting_reason(roles, "other", ("pods", "shop", "web")) == ""


def test_the_syncers_status_explains_why_pods_stay_on_a_drained_node() -> None:
    why = "PodDisruptionBudget web: Pods are on an unschedulable node: it allows no disruption at present"
    waiting = [{"item": "poddisruptionbudgets/shop/web", "reason": why}]
    roles = {"syncer/r1": {"tenants": [{"key": "other", "waiting": []}, {"key": "k", "waiting": waiting}]}}
    assert waiting_reason(roles, "k", ("pods", "shop", "web-1")) == why
    assert waiting_reason(roles, "k", ("pods", "shop2", "web-1")) == ""
    assert waiting_reason(roles, "other", ("pods", "shop", "web-1")) == ""
    assert waiting_reason(roles, "k", ("namespaces", "", "shop")) == ""


def test_transitions_are_listed_oldest_first_with_controller_and_version() -> None:
    lines = transition_lines(
        [
            {
                "time": "2026-01-01T00:00:00Z",
                "controller": "podscheduler",
                "reconcile": "ab-1",
                "what": "assigned to super cluster r1",
                "version": "17",
            },
            {
                "time": "2026-01-01T00:00:01Z",
                "controller": "x",
                "reconcile": "",
                "what": "created",
                "version": "",
            },
        ]
    )

    assert lines == [
        "its last transitions:",
        "  2026-01-01T00:00:00Z podscheduler: assigned to super cluster r1, decided from version 17, reconcile ab-1",
        "  2026-01-01T00:00:01Z x: created",
    ]
    assert transition_lines([]) == []


def test_a_terminating_pod_on_a_lost_super_cluster_waits_for_its_end_or_a_fence() -> None:
    pod = {
        "metadata": {"labels": {SUPER_CLUSTER: "r1"}, "deletionTimestamp": TIME},
        "spec": {"nodeName": "n1.r1"},
        "status": {"phase": "Running"},
    }
    later = NOW + timedelta(hours=1)
    supers = {"r1": super_cluster("r1")}

    def story(now: datetime) -> str:
        return " ".join(pod_story("acme/shop/p", pod, None, supers, now, ledger=NOTHING_DEALT))

    assert "'vcsync super fence r1' confirms that nothing runs there" in story(later)
    assert "vcsync super fence" not in story(NOW)
    pod = {"metadata": {"labels": {SUPER_CLUSTER: "r1"}}, "status": {"phase": "Pending"}}
    assert "the Pod goes elsewhere only if 'vcsync super fence r1' confirms that nothing runs there" in story(
        later
    )
    assert "vcsync super fence" not in story(NOW)
    supers = {"r1": super_cluster("r1", fenced=True)}
    assert "super fence" not in story(later)


def test_a_pod_that_is_deleted_before_it_has_a_node_keeps_its_name() -> None:
    metadata = {"labels": {SUPER_CLUSTER: "r1"}, "deletionTimestamp": TIME, "finalizers": [COPY_FINALIZER]}
    pod = {"metadata": metadata, "status": {"phase": "Pending"}}
    supers = {"r1": super_cluster("r1")}

    def story(now: datetime) -> str:
        return " ".join(pod_story("acme/shop/p", pod, placement({}), supers, now, ledger=NOTHING_DEALT))

    assert "It keeps its name until r1 has ended its copy there, if there is one." in story(NOW)
    later = story(NOW + timedelta(hours=1))
    assert "It ends when r1 answers again and it has ended there, or when 'vcsync super fence r1'" in later
    assert "goes elsewhere" not in later


def test_a_fenced_super_cluster_is_explained() -> None:
    supers = {"r1": super_cluster("r1", fenced=True)}
    story = " ".join(namespace_story("acme/shop", placement({"r1": 3}), supers, NOW, NOTHING_DEALT))
    assert "which is fenced ('vcsync super unfence r1' ends that)" in story
