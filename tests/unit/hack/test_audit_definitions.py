"""The audit finds published definitions that tenants lack, that differ, or that name the wrong publishers."""

from datetime import UTC, datetime
from typing import Any

import pytest

from hack.audit import Cluster, Finding, Tenant, World
from hack.audit.definitions import published_definitions

Json = dict[str, Any]

PUBLIC = {"tenancy.x-k8s.io/super.public": "true"}
NAME = "gauges.example.com"
ESTABLISHED = {"conditions": [{"type": "Established", "status": "True"}]}


def definition(kind: str = "Gauge", **spec: Any) -> Json:
    names = {"kind": kind, "plural": "gauges"}
    return {
        "metadata": {"name": NAME, "labels": PUBLIC, "generation": 1},
        "spec": {"group": "example.com", "names": names, "scope": "Namespaced", "versions": [], **spec},
        "status": ESTABLISHED,
    }


def in_tenant(found: Json, by: str = "r1,r2", *, public: bool = True, written: str = "abc.1") -> Json:
    annotations = {"tenancy.x-k8s.io/superclusters": by, "tenancy.x-k8s.io/definition": written}
    metadata = {**found["metadata"], "annotations": annotations, "labels": PUBLIC if public else {}}
    return {**found, "metadata": metadata}


def unlabelled(found: Json) -> Json:
    return {**found, "metadata": {**found["metadata"], "labels": {}}}


def world(supers: dict[str, Json | None], tenants: Json | None) -> World:
    def cluster(found: Json | None) -> Cluster:
        return Cluster({"customresourcedefinitions": [found] if found else []})

    return World(
        meta=Cluster({}),
        supers={name: cluster(found) for name, found in supers.items()},
        tenants={"acme": Tenant("acme", {}, cluster(tenants))},
        now=datetime(2026, 1, 2, tzinfo=UTC),
        markers={},
    )


def fields(found: list[Finding]) -> list[tuple[str, str]]:
    return [(each.rule, each.field) for each in found]


BOTH: dict[str, Json | None] = {"r1": definition(), "r2": definition()}
FIRST: dict[str, Json | None] = {"r1": definition(), "r2": definition(kind="Dial")}
NOBODY: dict[str, Json | None] = {"r1": unlabelled(definition()), "r2": None}
WEBHOOK: dict[str, Json | None] = {"r1": definition(conversion={"strategy": "Webhook"}), "r2": None}
PUBLISHERS, LABEL = "tenancy.x-k8s.io/superclusters", "tenancy.x-k8s.io/super.public"


@pytest.mark.parametrize(
    ("supers", "tenants", "found"),
    [
        (BOTH, in_tenant(definition()), []),
        (BOTH, None, [("missing", "")]),
        (BOTH, in_tenant(definition(scope="Cluster")), [("stale", "spec.scope")]),
        (BOTH, in_tenant(definition(), "r1"), [("stale", PUBLISHERS)]),
        (BOTH, in_tenant(definition(), public=False), [("stale", LABEL)]),
        (BOTH, in_tenant(definition(scope="Cluster"), "r9", written="abc.7"), []),
        (FIRST, in_tenant(definition(), "r1"), []),
        (FIRST, in_tenant(definition(kind="Dial"), "r1"), [("stale", "spec.names")]),
        (NOBODY, None, []),
        (NOBODY, in_tenant(definition(), public=False), []),
        (NOBODY, in_tenant(definition()), [("stale", LABEL)]),
        (WEBHOOK, None, []),
    ],
    ids=[
        "equal", "missing", "another spec", "one publisher too few", "without label", "the tenant's own", "of the first",
        "of the second", "of nobody", "left to the tenant", "withdrawn but labelled", "refused",
    ],
)  # fmt: skip
def test_a_tenant_has_what_the_first_super_cluster_publishes(
    supers: dict[str, Json | None], tenants: Json | None, found: list[tuple[str, str]]
) -> None:
    assert fields(list(published_definitions(world(supers, tenants)))) == found
