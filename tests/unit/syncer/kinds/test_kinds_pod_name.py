"""Pods of fixed names that are deleted before they have a node: the name is free once no copy can run."""

from typing import Any

import pytest
from kinds_bench import NODE, Bench, super_ns

from vcsync.api import names
from vcsync.api.refusals import RETURNED, WITHDRAWN, Said, refusal_annotation
from vcsync.kube.resources import PODS
from vcsync.syncer.kinds.grace import LONGEST_GRACE_SECONDS
from vcsync.syncer.kinds.plan import Bind, ConfirmAbsent, Delete, EnsureNode, Patch

KEPT = {"finalizers": [names.COPY_FINALIZER]}


def make(bench: Bench, *others: str, **spec: Any) -> None:
    meta = {"name": "web", "finalizers": [*others, names.COPY_FINALIZER]}
    bench.put("tenant", PODS, {"metadata": meta, "spec": spec})


def actions(bench: Bench) -> list[Any]:
    return list(bench.plan("pods", "shop", "web").actions)


def delete(bench: Bench) -> None:
    """Delete the tenant's Pod as its user does: without a node it has no grace period."""
    grace = 30 if bench.get("tenant", PODS, "web")["spec"].get("nodeName") else 0
    gone = {"deletionTimestamp": "2026-05-01T12:01:00Z", "deletionGracePeriodSeconds": grace}
    bench.edit("tenant", PODS, "web", {"metadata": gone})


def finalizers(bench: Bench) -> list[str]:
    return bench.get("tenant", PODS, "web")["metadata"].get("finalizers", [])


def test_a_copy_that_runs_keeps_the_name_until_it_has_ended(bench: Bench) -> None:
    make(bench)
    bench.settle("pods", "shop", "web")
    bench.schedule("web")
    bench.run("web")
    delete(bench)
    [doomed] = actions(bench)
    assert isinstance(doomed, Delete)
    assert (doomed.side, doomed.grace_seconds) == ("super", None), "the copy has the grace period of its Pod"
    bench.settle("pods", "shop", "web")
    assert actions(bench) == []
    assert bench.has("tenant", PODS, "web")
    bench.remove("super", PODS, "web")
    [confirm, free] = actions(bench)
    assert confirm == ConfirmAbsent("super", PODS, super_ns("shop"), "web")
    assert isinstance(free, Patch)
    assert (free.side, free.subresource) == ("tenant", "status"), "the syncer may write this part of a Pod"
    bench.settle("pods", "shop", "web")
    assert not bench.has("tenant", PODS, "web")


def test_the_status_of_a_pod_that_is_deleted_without_a_node_is_left_to_garbage_collectors(
    bench: Bench,
) -> None:
    make(bench)
    bench.settle("pods", "shop", "web")
    bench.schedule("web")
    bench.run("web")
    delete(bench)
    bench.settle("pods", "shop", "web")
    bench.edit("tenant", PODS, "web", {"status": {"phase": "Failed"}})
    assert actions(bench) == []


def test_a_copy_of_a_pod_that_never_ends_has_a_day(bench: Bench) -> None:
    make(bench, terminationGracePeriodSeconds=10 * LONGEST_GRACE_SECONDS)
    bench.settle("pods", "shop", "web")
    bench.schedule("web")
    delete(bench)
    [doomed] = actions(bench)
    assert doomed.grace_seconds == LONGEST_GRACE_SECONDS
    bench.settle("pods", "shop", "web")
    assert actions(bench) == []


@pytest.mark.parametrize("others", [(), ("example.com/held",)])
def test_a_pod_without_a_copy_ends_at_once(bench: Bench, others: tuple[str, ...]) -> None:
    make(bench, *others, schedulingGates=[{"name": "held"}])
    delete(bench)
    assert [type(each) for each in actions(bench)] == [ConfirmAbsent, Patch]
    bench.settle("pods", "shop", "web")
    assert bench.has("tenant", PODS, "web") is bool(others)
    assert not others or finalizers(bench) == [*others]


@pytest.mark.parametrize("state", [WITHDRAWN, RETURNED])
def test_a_pod_that_leaves_ends_as_well(bench: Bench, state: str) -> None:
    make(bench)
    bench.edit("tenant", PODS, "web", {"metadata": {"annotations": refusal_annotation("r1", Said(state))}})
    delete(bench)
    bench.settle("pods", "shop", "web")
    assert not bench.has("tenant", PODS, "web")


def test_an_object_of_somebody_else_keeps_no_name(bench: Bench) -> None:
    make(bench)
    bench.put("super", PODS, {"metadata": {"name": "web", "namespace": super_ns("shop")}})
    delete(bench)
    bench.settle("pods", "shop", "web")
    assert not bench.has("tenant", PODS, "web")
    assert bench.has("super", PODS, "web")


def test_the_copy_of_an_earlier_pod_ends_before_the_name_is_free(bench: Bench) -> None:
    make(bench)
    bench.settle("pods", "shop", "web")
    bench.schedule("web")
    bench.remove("tenant", PODS, "web")  # whoever removes the finalizer frees the name at once
    make(bench)
    delete(bench)
    assert [(each.side, type(each)) for each in actions(bench)] == [("super", Delete)]
    bench.settle("pods", "shop", "web")
    assert bench.has("tenant", PODS, "web")
    bench.remove("super", PODS, "web")
    bench.settle("pods", "shop", "web")
    assert not bench.has("tenant", PODS, "web")


@pytest.mark.parametrize("reported", [True, False])
def test_the_binding_frees_the_name_in_the_same_write(bench: Bench, reported: bool) -> None:
    make(bench, "example.com/held")
    bench.settle("pods", "shop", "web")
    bench.schedule("web")
    if reported:
        bench.run("web")
    version = bench.get("tenant", PODS, "web")["metadata"]["resourceVersion"]
    [plan] = bench.settle("pods", "shop", "web")
    ensure, bind = plan.actions
    assert isinstance(ensure, EnsureNode)
    assert isinstance(bind, Bind)
    assert bind.status is not None
    assert bind.status["metadata"]["resourceVersion"] == version, "it repeats the other finalizers"
    assert finalizers(bench) == ["example.com/held"]
    assert bench.get("tenant", PODS, "web")["spec"]["nodeName"] == f"{NODE}.r1"


def test_a_pod_that_was_bound_without_its_status_is_freed_with_the_next_one(bench: Bench) -> None:
    make(bench)
    bench.settle("pods", "shop", "web")
    bench.schedule("web")
    bench.run("web")
    bench.edit("tenant", PODS, "web", {"spec": {"nodeName": f"{NODE}.r1"}})
    [plan] = bench.settle("pods", "shop", "web")
    [patch] = plan.actions
    assert patch.patch["status"]["phase"] == "Running"
    assert finalizers(bench) == []


def test_a_bound_pod_whose_copy_is_lost_ends_in_spite_of_the_finalizer(bench: Bench) -> None:
    make(bench)
    bench.settle("pods", "shop", "web")
    bound = {"type": "PodScheduled", "status": "True"}
    bench.edit("tenant", PODS, "web", {"spec": {"nodeName": f"{NODE}.r1"}, "status": {"conditions": [bound]}})
    bench.remove("super", PODS, "web")
    [lost] = actions(bench)
    assert (lost.side, lost.grace_seconds, lost.confirm) == ("tenant", 0, True)
    bench.settle("pods", "shop", "web")
    assert not bench.has("tenant", PODS, "web")


def test_the_finalizer_is_no_reserved_name(bench: Bench) -> None:
    make(bench)
    bench.settle("pods", "shop", "web")
    assert bench.notices == []
