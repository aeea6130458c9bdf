"""The ledger of copies finds two of one Pod, or of one name, that certainly may have run at the same moment."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from hack.audit.copies import Copies, has_ended
from hack.audit.world import Json
from hack.chaos.witness import SUPER_CLUSTERS, Stream, Witness

ACME = "vcsync-aaaaaa-acme"
RUNNING = {"state": {"running": {}}}
EXITED = {"state": {"terminated": {"exitCode": 0}}}


def copy(
    source: str, *, uid: str, name: str = "web-0", node: str = "n1", phase: str = "Running", **fields: str
) -> Json:
    origin = {
        "tenancy.x-k8s.io/cluster": fields.get("tenant", ACME),
        "tenancy.x-k8s.io/uid": source,
        "tenancy.x-k8s.io/namespace": fields.get("namespace", "shop"),
    }
    return {
        "metadata": {"name": name, "namespace": f"{ACME}-shop", "uid": uid, "annotations": origin},
        "spec": {"nodeName": node} if node else {},
        "status": {"phase": phase},
    }


FIRST, SECOND = copy("pod", uid="a"), copy("pod", uid="b")
NAMESAKE = copy("later", uid="c")


def has(copies: Copies, super_id: str, found: Json, at: int) -> None:
    """Record an event of a watch without a gap."""
    copies.super_has(super_id, found, at, at - 1)


def lost(copies: Copies, super_id: str, found: Json, at: int) -> None:
    copies.super_lost(super_id, found, at - 1)


def fence(copies: Copies, super_id: str, at: int, *, lift: bool = False) -> None:
    copies.super_is(super_id, fenced=not lift, at=at, before=at - 1)


@pytest.fixture
def copies() -> Copies:
    """A copy on r1 from 10 on."""
    found = Copies()
    has(found, "r1", FIRST, 10)
    return found


def fields(copies: Copies) -> list[str]:
    return [each.field for each in copies.twice()]


@pytest.mark.parametrize(
    ("second", "field"),
    [pytest.param(SECOND, "metadata.uid", id="a Pod"), pytest.param(NAMESAKE, "metadata.name", id="a name")],
)
def test_two_copies_in_two_super_clusters_at_the_same_moment_are_found_once(
    copies: Copies, second: Json, field: str
) -> None:
    has(copies, "r2", second, 20)
    has(copies, "r2", second, 25)
    lost(copies, "r1", FIRST, 30)
    [finding] = copies.twice()
    assert (finding.rule, finding.tenant, finding.super_cluster) == ("twice", ACME, "r1, r2")
    assert (finding.namespace, finding.name, finding.field) == ("shop", "web-0", field)
    assert str(finding.actual).endswith("from 20 to 29")


@pytest.mark.parametrize(
    ("gone", "begins", "found"),
    [
        pytest.param(20, 21, [], id="the second begins after the end of the first"),
        pytest.param(20, 20, [], id="the second begins as the first ends"),
        pytest.param(20, 19, ["metadata.uid"], id="the second begins a moment before the end of the first"),
    ],
)
def test_an_overlap_of_one_moment_counts(copies: Copies, gone: int, begins: int, found: list[str]) -> None:
    has(copies, "r2", SECOND, begins)
    lost(copies, "r1", FIRST, gone)
    assert fields(copies) == found


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(copy("pod", uid="b", node=""), id="without a node"),
        pytest.param(copy("other", uid="b", name="web-1"), id="of another name"),
        pytest.param(copy("other", uid="b", namespace="store"), id="in another namespace"),
        pytest.param(copy("other", uid="b", tenant="vcsync-bbbbbb-umbrella"), id="of another tenant"),
        pytest.param({"metadata": {"name": "web-0", "uid": "b"}, "spec": {"nodeName": "n1"}}, id="no copy"),
    ],
)
def test_other_pods_do_not_count(copies: Copies, other: Json) -> None:
    has(copies, "r2", other, 20)
    assert fields(copies) == []


def test_a_pod_that_is_made_again_in_the_same_super_cluster_does_not_count(copies: Copies) -> None:
    copies.super_lost("r1", FIRST, 30)
    has(copies, "r1", NAMESAKE, 20)  # no API server has two of one name
    assert fields(copies) == []


def test_a_copy_runs_until_its_containers_have_ended(copies: Copies) -> None:
    ended = copy("pod", uid="a", phase="Succeeded")
    ended["status"]["containerStatuses"] = [EXITED]
    has(copies, "r1", ended, 20)
    has(copies, "r2", SECOND, 20)
    assert fields(copies) == []
    has(copies, "r3", NAMESAKE, 15)
    assert sorted(fields(copies)) == ["metadata.name", "metadata.name"]


@pytest.mark.parametrize(
    ("status", "ended"),
    [
        ({"phase": "Running", "containerStatuses": [EXITED]}, False),
        ({"phase": "Succeeded"}, True),
        ({"phase": "Failed", "containerStatuses": [EXITED, EXITED]}, True),
        ({"phase": "Failed", "containerStatuses": [EXITED, RUNNING]}, False),
        ({"phase": "Failed", "initContainerStatuses": [RUNNING]}, False),
        ({}, False),
    ],
)
def test_a_failed_pod_may_have_containers_that_run(status: Json, ended: bool) -> None:
    assert has_ended({"status": status}) is ended


def test_a_copy_does_not_run_while_its_super_cluster_is_fenced(copies: Copies) -> None:
    fence(copies, "r1", 20)
    has(copies, "r2", SECOND, 21)
    lost(copies, "r2", SECOND, 30)
    fence(copies, "r1", 31, lift=True)
    assert fields(copies) == []


@pytest.mark.parametrize("lifted", [29, 32])
def test_a_copy_may_run_before_a_fence_and_after_it(copies: Copies, lifted: int) -> None:
    fence(copies, "r1", 20)
    fence(copies, "r1", lifted, lift=True)
    has(copies, "r2", SECOND, 19 if lifted > 30 else 25)
    lost(copies, "r2", SECOND, 31)
    assert fields(copies) == ["metadata.uid"]


SUPER_CLUSTER = "scheduler.virtualcluster.io/superCluster"


@pytest.mark.parametrize(
    ("label", "decided", "node", "found"),
    [
        pytest.param("r1", "r1", "", ["metadata.uid"], id="where it was placed"),
        pytest.param("r2", "r2", "", ["metadata.uid"], id="placed elsewhere by the scheduler"),
        pytest.param("r2", "", "", ["metadata.uid"], id="not decided yet"),
        pytest.param("r2", "r1", "n1.r1", ["metadata.uid"], id="bound, so that the label moves nothing"),
        pytest.param("r2", "r1", "", [], id="moved by its tenant"),
        pytest.param("", "r1", "", [], id="its label was removed"),
    ],
)
def test_a_pod_that_its_tenant_moves_by_the_label_does_not_count(
    copies: Copies, label: str, decided: str, node: str, found: list[str]
) -> None:
    metadata = {"uid": "pod", "labels": {SUPER_CLUSTER: label}, "annotations": {SUPER_CLUSTER: decided}}
    copies.tenant_has({"metadata": metadata, "spec": {"nodeName": node}})
    has(copies, "r2", SECOND, 20)
    assert fields(copies) == found


def test_a_fence_of_another_super_cluster_changes_nothing(copies: Copies) -> None:
    fence(copies, "r3", 5)
    has(copies, "r2", SECOND, 20)
    assert fields(copies) == ["metadata.uid"]


# --- gaps of watches


@pytest.fixture
async def witness() -> Witness:
    """A witness that is not running."""
    return Witness(Mock(), {ACME: Mock()}, {"r1": Mock(), "r2": Mock()})


def pods_of(super_id: str) -> Stream:
    return Stream(Mock(), "pods", super_id=super_id)


def at(found: Json, version: int) -> Json:
    return {**found, "metadata": {**found["metadata"], "resourceVersion": str(version)}}


@pytest.mark.parametrize(("begins", "found"), [(12, ["metadata.uid"]), (13, [])])
async def test_a_copy_that_vanished_in_a_gap_counts_until_it_was_seen_last(
    witness: Witness, begins: int, found: list[str]
) -> None:
    one, other = pods_of("r1"), pods_of("r2")
    witness.listed(one, [at(FIRST, 10)], 12)
    witness.observed(other, {"type": "ADDED", "object": at(SECOND, begins)})
    witness.listed(one, [], 30)
    assert fields(witness.copies) == found


@pytest.mark.parametrize(("begins", "found"), [(12, ["metadata.uid"]), (13, [])])
async def test_a_copy_that_ended_in_a_gap_counts_until_it_was_seen_running(
    witness: Witness, begins: int, found: list[str]
) -> None:
    one, other = pods_of("r1"), pods_of("r2")
    witness.listed(one, [at(FIRST, 10)], 12)
    witness.observed(other, {"type": "ADDED", "object": at(SECOND, begins)})
    witness.listed(one, [at(copy("pod", uid="a", phase="Failed"), 20)], 30)
    assert fields(witness.copies) == found


async def test_a_copy_that_was_there_before_and_after_a_gap_ran_throughout(witness: Witness) -> None:
    one, other = pods_of("r1"), pods_of("r2")
    witness.listed(one, [at(FIRST, 10)], 12)
    witness.observed(other, {"type": "ADDED", "object": at(SECOND, 20)})
    witness.observed(other, {"type": "DELETED", "object": at(SECOND, 22)})
    witness.listed(one, [at(FIRST, 25)], 30)
    assert fields(witness.copies) == ["metadata.uid"]
    assert witness.copies.judged() == 2


@pytest.mark.parametrize(("ends", "found"), [(12, []), (13, ["metadata.uid"])])
async def test_a_copy_that_appeared_in_a_gap_counts_from_its_last_change(
    witness: Witness, ends: int, found: list[str]
) -> None:
    one, other = pods_of("r1"), pods_of("r2")
    witness.listed(one, [], 5)
    witness.observed(other, {"type": "ADDED", "object": at(SECOND, 8)})
    witness.observed(other, {"type": "DELETED", "object": at(SECOND, ends)})
    witness.listed(one, [at(FIRST, 12)], 30)
    assert fields(witness.copies) == found


async def test_a_fence_that_was_set_in_a_gap_may_have_held_from_its_beginning(witness: Witness) -> None:
    meta, one, other = Stream(Mock(), SUPER_CLUSTERS), pods_of("r1"), pods_of("r2")

    def record(version: int, **spec: Any) -> Json:
        return {"metadata": {"name": "r1", "uid": "r1", "resourceVersion": str(version)}, "spec": spec}

    witness.listed(meta, [record(2)], 12)
    witness.listed(one, [at(FIRST, 10)], 12)
    witness.listed(meta, [record(18, fenced=True)], 30)
    witness.observed(other, {"type": "ADDED", "object": at(SECOND, 13)})
    assert fields(witness.copies) == []
