"""Pods that this super cluster refuses: what it says, and how it gives them back."""

from typing import Any

import pytest
from kinds_bench import Bench, super_ns

from vcsync.api.refusals import (
    REFUSED,
    RETURNED,
    SLICES_LEFT,
    UNSCHEDULABLE,
    WITHDRAWN,
    Said,
    refusal_annotation,
    said_by,
)
from vcsync.kube.resources import PODS
from vcsync.syncer.kinds.plan import Bind, ConfirmAbsent, Create, Delete, Patch

NO_NODE = {
    "phase": "Pending",
    "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2"}],
}


def make(bench: Bench) -> None:
    bench.put("tenant", PODS, {"metadata": {"name": "web"}, "spec": {}})
    bench.settle("pods", "shop", "web")


def stuck(bench: Bench, seconds: float) -> None:
    """Have the super cluster find no node for the copy for some seconds."""
    bench.edit("super", PODS, "web", {"status": NO_NODE})
    bench.pending[bench.get("super", PODS, "web")["metadata"]["uid"]] = seconds


def said(bench: Bench) -> Said:
    return said_by(bench.get("tenant", PODS, "web")["metadata"].get("annotations", {}), "r1")


def say(bench: Bench, what: Said) -> None:
    bench.edit("tenant", PODS, "web", {"metadata": {"annotations": refusal_annotation("r1", what)}})


def actions(bench: Bench) -> list[Any]:
    return list(bench.plan("pods", "shop", "web").actions)


def test_a_copy_without_a_node_is_refused_after_the_patience_of_the_operator(bench: Bench) -> None:
    make(bench)
    stuck(bench, 20.0)
    bench.settle("pods", "shop", "web")
    wait = bench.plan("pods", "shop", "web").wait
    assert wait is not None
    assert wait.after == 40.0
    assert said(bench) == Said()
    stuck(bench, 60.0)
    [plan] = bench.settle("pods", "shop", "web")
    [patch] = plan.actions
    assert isinstance(patch, Patch)
    assert (patch.side, patch.subresource) == ("tenant", "status")
    assert patch.patch["metadata"]["resourceVersion"], "a change of the Pod in between makes it fail"
    assert said(bench) == Said(REFUSED, 0, UNSCHEDULABLE)
    assert actions(bench) == []


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Pending"},
        {
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}],
        },
        {**NO_NODE, "nominatedNodeName": "n1"},
    ],
)
def test_a_copy_that_only_waits_is_not_refused(bench: Bench, status: dict[str, Any]) -> None:
    make(bench)
    stuck(bench, 1000.0)
    bench.settle("pods", "shop", "web")
    bench.edit("super", PODS, "web", {"status": {"conditions": None, **status}})
    bench.settle("pods", "shop", "web")
    assert said(bench) == Said("", 0, UNSCHEDULABLE), "what was said is withdrawn"


def test_a_pod_that_its_super_cluster_has_not_refused_comes_back_without_a_mark(bench: Bench) -> None:
    make(bench)
    say(bench, Said(WITHDRAWN, 2, SLICES_LEFT))
    bench.settle("pods", "shop", "web")
    assert said(bench) == Said(RETURNED, 2, SLICES_LEFT)


def test_what_was_said_is_taken_back_before_the_pod_is_bound(bench: Bench) -> None:
    make(bench)
    say(bench, Said(REFUSED, 0, UNSCHEDULABLE))
    bench.schedule("web")
    first, second = bench.settle("pods", "shop", "web")
    assert [type(each) for each in first.actions] == [Patch]
    assert Bind in [type(each) for each in second.actions]
    assert said(bench) == Said(reason=UNSCHEDULABLE)


def test_a_pod_that_is_withdrawn_is_bound_at_once_if_its_copy_has_a_node(bench: Bench) -> None:
    """If the withdrawal were taken back first, the Pod scheduler would withdraw the Pod again, and so on."""
    make(bench)
    say(bench, Said(WITHDRAWN, 0, SLICES_LEFT))
    bench.schedule("web")
    [plan] = bench.settle("pods", "shop", "web")
    assert Bind in [type(each) for each in plan.actions]
    assert not any(isinstance(each, Patch) for each in plan.actions)


def test_a_pod_that_is_withdrawn_is_given_back_when_its_copy_is_gone(bench: Bench) -> None:
    make(bench)
    say(bench, Said(WITHDRAWN, 2, UNSCHEDULABLE))
    copy = bench.get("super", PODS, "web")["metadata"]
    [delete] = actions(bench)
    assert isinstance(delete, Delete)
    assert (delete.side, delete.uid, delete.resource_version) == (
        "super",
        copy["uid"],
        copy["resourceVersion"],
    )
    bench.remove("super", PODS, "web")
    gone, patch = actions(bench)
    assert gone == ConfirmAbsent("super", PODS, super_ns("shop"), "web")
    assert isinstance(patch, Patch)
    bench.settle("pods", "shop", "web")
    assert said(bench) == Said(RETURNED, 3, UNSCHEDULABLE)
    assert actions(bench) == [], "no copy is made"
    say(bench, Said("", 3, UNSCHEDULABLE))
    assert [type(each) for each in actions(bench)] == [Create], "the Pod scheduler assigned it again"


def test_a_copy_that_ends_slowly_does_not_take_the_tenants_pod_with_it(bench: Bench) -> None:
    make(bench)
    say(bench, Said(WITHDRAWN))
    bench.edit("super", PODS, "web", {"metadata": {"deletionTimestamp": "2026-05-01T12:01:00Z"}})
    assert actions(bench) == []
    assert bench.plan("pods", "shop", "web").wait is not None


@pytest.mark.parametrize("state", [REFUSED, WITHDRAWN, RETURNED])
def test_a_copy_that_is_bound_stays_whatever_is_said(bench: Bench, state: str) -> None:
    make(bench)
    say(bench, Said(state))
    bench.schedule("web")
    bench.settle("pods", "shop", "web")
    assert bench.has("super", PODS, "web")
    assert bench.get("tenant", PODS, "web")["spec"]["nodeName"]
    say(bench, Said(state))
    assert actions(bench) == []


def test_a_copy_of_a_pod_that_says_it_was_given_back_is_removed(bench: Bench) -> None:
    """A tenant can write the annotation. Its own Pod is removed here, and nothing else happens."""
    make(bench)
    say(bench, Said(RETURNED))
    assert [type(each) for each in actions(bench)] == [Delete]


def test_a_foreign_pod_of_the_name_stays_and_the_pod_is_given_back(bench: Bench) -> None:
    bench.put("tenant", PODS, {"metadata": {"name": "web"}, "spec": {}})
    bench.put("super", PODS, {"metadata": {"name": "web", "namespace": super_ns("shop")}, "spec": {}})
    say(bench, Said(WITHDRAWN))
    assert [type(each) for each in actions(bench)] == [Patch]
    bench.settle("pods", "shop", "web")
    assert said(bench).state == RETURNED
    assert bench.has("super", PODS, "web")


def test_a_withdrawn_pod_that_is_deleted_goes_like_any_other(bench: Bench) -> None:
    make(bench)
    say(bench, Said(WITHDRAWN))
    deleting = {"deletionTimestamp": "2026-05-01T12:01:00Z", "deletionGracePeriodSeconds": 5}
    bench.edit("tenant", PODS, "web", {"metadata": deleting})
    [delete] = actions(bench)
    assert isinstance(delete, Delete)
    assert delete.grace_seconds == 5
