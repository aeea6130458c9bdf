"""Audit of super clusters that have lost the slices of a namespace and keep its volumes."""

from datetime import UTC, datetime
from typing import Any

import pytest

from hack.audit.ledger import ledger_lines, super_namespaces
from hack.audit.objects import strays
from hack.audit.world import Cluster, Tenant, World

KEY = "vcsync-aaaaaa-acme"
THERE = f"{KEY}-shop"
Json = dict[str, Any]


def made(name: str, namespace: str = "", *, uid: str = "", of: str = "", **fields: Any) -> Json:
    origin = {"tenancy.x-k8s.io/cluster": KEY, "tenancy.x-k8s.io/uid": of} if of else {}
    metadata = {"name": name, "uid": uid or f"uid-{name}", "annotations": origin, "finalizers": []}
    return {"metadata": metadata | ({"namespace": namespace} if namespace else {}), **fields}


def world(*, finalizer: str, volume: str, source: str, below: Json | None = None) -> World:
    """A namespace that has its slices on r1, and whose claim has its volume on r2.

    Args:
        finalizer: super cluster that drains.
        volume: volume of the claim's copy on r2.
        source: UID of the claim in the tenant; empty: it does not exist.
        below: another object on r2, as {kind: object}.
    """
    record = made("acme", "vcsync", uid="vc", spec={}, status={"clusterNamespace": KEY})
    line = made("shop", KEY, status={"placements": {"r1": 1}, "waiting": 0})
    line["metadata"]["finalizers"] = ["tenancy.x-k8s.io/drain-r1", f"tenancy.x-k8s.io/drain-{finalizer}"]
    line["spec"] = {
        "virtualCluster": {"namespace": "vcsync", "name": "acme", "uid": "vc"},
        "tenant": KEY,
        "namespace": "shop",
        "namespaceUID": "uid-shop",
        "slices": 1,
    }
    there = {
        "namespaces": [made(THERE, of="uid-shop")],
        "persistentvolumeclaims": [made("data", THERE, of="uid-data", spec={"volumeName": volume})],
    }
    for kind, found in (below or {}).items():
        there.setdefault(kind, []).append(found)
    claims = [made("data", "shop", uid=source, spec={})] if source else []
    own = Cluster({"namespaces": [made("shop")], "persistentvolumeclaims": claims})
    return World(
        meta=Cluster({"virtualclusters": [record], "namespaceplacements": [line]}),
        supers={"r1": Cluster({"namespaces": [made(THERE, of="uid-shop")]}), "r2": Cluster(there)},
        tenants={KEY: Tenant(KEY, record, own)},
        now=datetime(2026, 1, 1, tzinfo=UTC),
        markers={},
    )


def found(audited: World) -> set[tuple[str, str]]:
    """Return (rule, object) of what the audit finds about r2."""
    findings = [*ledger_lines(audited), *strays(audited), *super_namespaces(audited)]
    return {(each.rule, each.name) for each in findings if each.super_cluster != "r1"}


def test_a_super_cluster_keeps_the_namespace_whose_volumes_it_has() -> None:
    other = {"configmaps": made("settings", THERE, of="uid-settings")}
    assert found(world(finalizer="r2", volume="disk", source="uid-data", below=other)) == set()


@pytest.mark.parametrize(
    ("volume", "source"),
    [("", "uid-data"), ("disk", ""), ("disk", "uid-of-its-successor")],
    ids=["claim without volume", "deleted claim", "another claim of its name"],
)
def test_it_keeps_nothing_without_the_volume_of_a_claim(volume: str, source: str) -> None:
    assert found(world(finalizer="r2", volume=volume, source=source)) == {
        ("ledger", "shop"),
        ("foreign", "data"),
        ("foreign", THERE),
    }


def test_it_keeps_nothing_that_it_does_not_drain() -> None:
    assert ("foreign", THERE) in found(world(finalizer="r3", volume="disk", source="uid-data"))


def test_it_keeps_no_pods() -> None:
    pod = {"pods": made("web-0", THERE, of="uid-web-0")}
    assert found(world(finalizer="r2", volume="disk", source="uid-data", below=pod)) == {("foreign", "web-0")}
