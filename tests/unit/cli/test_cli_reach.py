"""`vcsync explain service`: where a Service has endpoints, and who reaches whom."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from vcsync.api import names
from vcsync.api.objects import NamespacePlacement, SuperCluster
from vcsync.api.specs import FailureRecord
from vcsync.cli.explain.reach import Reach, facts, reaches, service_story
from vcsync.objects.envelope import Envelope, encode, parse

NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)


def super_cluster(super_id: str, network: str = "", *, silent: float = 5.0) -> SuperCluster:
    beat = (NOON - timedelta(seconds=silent)).isoformat()
    body = {
        "metadata": {"name": super_id},
        "spec": {"id": super_id, "networkId": network},
        "status": {"heartbeatTime": beat},
    }
    return SuperCluster.from_envelope(parse(encode(body)))


def placed(**placements: int) -> NamespacePlacement:
    spec = {
        "virtualCluster": {"name": "acme", "namespace": "vcsync", "uid": "u"},
        "tenant": "k",
        "namespace": "shop",
        "namespaceUID": "u",
    }
    body = {
        "metadata": {"name": "shop", "namespace": "k"},
        "spec": spec,
        "status": {"placements": placements},
    }
    return NamespacePlacement.from_envelope(parse(encode(body)))


def slice_on(*nodes: str, ready: bool = True, shared_by: str = "") -> Envelope:
    endpoints = [
        {"addresses": ["10.0.0.1"], "nodeName": each, "conditions": {"ready": ready}} for each in nodes
    ]
    labels = {names.SUPER_CLUSTER_ID: shared_by}
    return parse(encode({"metadata": {"name": "web-1", "labels": labels}, "endpoints": endpoints}))


def service(**spec: Any) -> Envelope:
    return parse(encode({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, **spec}}))


def found(*supers: SuperCluster, theirs: list[Envelope] | None = None) -> dict[str, Reach]:
    shared = [slice_on("", "", shared_by=each.name) for each in supers if each.spec.network_id]
    by_id = {each.name: each for each in supers}
    listed = reaches(placed(r1=1, r2=2), by_id, theirs or [], shared, NOON)
    return {each.super_cluster: each for each in listed}


def test_endpoints_are_counted_where_their_nodes_are() -> None:
    theirs = [slice_on("n1.r1", "n2.r1", "n1.r2"), slice_on("n3.r2", ready=False), slice_on("elsewhere")]
    lines = found(super_cluster("r1", "lab"), super_cluster("r2", "lab"), theirs=theirs)
    assert [(each.slices, each.endpoints, each.ready, each.shared) for each in lines.values()] == [
        (1, 2, 2, 2),
        (2, 2, 1, 2),
    ]


@pytest.mark.parametrize(
    ("first", "second", "from_r1", "from_r2"),
    [
        (super_cluster("r1", "lab"), super_cluster("r2", "lab"), ("r1", "r2"), ("r1", "r2")),
        (super_cluster("r1", "lab"), super_cluster("r2", "paris"), ("r1",), ("r2",)),
        (super_cluster("r1"), super_cluster("r2"), ("r1",), ("r2",)),
        (super_cluster("r1", "lab"), super_cluster("r2", "lab", silent=900), ("r1",), ("r1", "r2")),
    ],
)
def test_who_reaches_whom(
    first: SuperCluster, second: SuperCluster, from_r1: tuple[str, ...], from_r2: tuple[str, ...]
) -> None:
    lines = found(first, second)
    assert (lines["r1"].reaches, lines["r2"].reaches) == (from_r1, from_r2)
    story = service_story("acme/shop/web", service(), list(lines.values()))
    assert story[0].startswith("SUPER CLUSTER")
    whole = from_r1 == from_r2
    assert ("reaches all its Pods from every super cluster" in story[-1]) is whole
    assert facts(list(lines.values()))[0]["reaches"] == from_r1


def test_losses_are_those_that_schedulers_see() -> None:
    patient = super_cluster("r2", "lab", silent=900)
    record = FailureRecord(
        state="Suspect", since="2026-11-28T11:50:00Z", suspect_after_seconds=60, lost_after_seconds=3600
    )
    patient = replace(patient, status=replace(patient.status, failure=record))
    lines = found(super_cluster("r1", "lab"), patient)
    assert (lines["r2"].health, lines["r1"].reaches) == ("Suspect", ("r1", "r2"))


def test_most_of_the_pool_is_not_lost_at_once() -> None:
    lines = found(super_cluster("r1", "lab", silent=900), super_cluster("r2", "lab", silent=900))
    assert {each.health for each in lines.values()} == {"Suspect"}


def test_a_removed_super_cluster_is_shown_as_such() -> None:
    assert found(super_cluster("r1"))["r2"].health == "Removed"


@pytest.mark.parametrize("spec", [{"selector": None}, {"type": "ExternalName"}])
def test_a_service_that_selects_no_pods_is_explained(spec: dict[str, Any]) -> None:
    assert "selects no Pods" in service_story("acme/shop/web", service(**spec), [])[0]


def test_a_service_without_placement_is_explained() -> None:
    assert "no slices" in service_story("acme/shop/web", service(), reaches(None, {}, [], [], NOON))[0]


@pytest.mark.parametrize(("value", "shown"), [("true", True), ("false", False), ("yes", False)])
def test_a_service_that_keeps_its_pods_together_is_explained(value: str, shown: bool) -> None:
    labelled = replace(service(), labels={names.KEEP_TOGETHER: value})
    lines = found(super_cluster("r1"), super_cluster("r2"))
    story = service_story("acme/shop/web", labelled, list(lines.values()))
    assert any("go only where they reach most of its Pods" in line for line in story) is shown
