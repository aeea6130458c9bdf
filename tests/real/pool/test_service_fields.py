"""Fields of Services that decide which Pods are reached, and how, hold in each super cluster."""

from __future__ import annotations

from typing import Any

import pytest
from pool_kit import Json, Pool, Space

from tests.real.waiting import eventually

SUPERS = ("r1", "r2")
PORTS = [{"name": "http", "port": 80, "targetPort": 8080}]
FIELDS = (
    "type",
    "sessionAffinity",
    "sessionAffinityConfig",
    "internalTrafficPolicy",
    "externalTrafficPolicy",
    "publishNotReadyAddresses",
)


def service(**spec: object) -> Json:
    fields = {"selector": {"app": "web"}, "ports": PORTS, **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": fields}


def spec_of(found: Json | None) -> Json:
    return dict((found or {}).get("spec") or {})


def below(space: Space) -> dict[str, Json]:
    """Return the spec of the copy in each super cluster; empty where there is none."""
    return {each: spec_of(space.there(each, "services", "web")) for each in SUPERS}


def chosen(spec: Json) -> Json:
    return {field: spec[field] for field in FIELDS if field in spec}


def have_the_tenants_choices(space: Space) -> bool:
    own = chosen(spec_of(space.get("services", "web")))
    return all(chosen(each) == own for each in below(space).values())


@pytest.mark.parametrize(
    "spec",
    [
        {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 900}}},
        {"internalTrafficPolicy": "Local"},
        {"type": "NodePort", "externalTrafficPolicy": "Local"},
        {"publishNotReadyAddresses": True},
    ],
    ids=lambda spec: next(reversed(spec)),
)
def test_a_choice_holds_in_every_super_cluster_and_can_be_taken_back(
    pool: Pool, space: Space, spec: dict[str, Any]
) -> None:
    space.apply(service(**spec))
    eventually(lambda: have_the_tenants_choices(space))
    assert all(chosen(each).items() >= spec.items() for each in below(space).values())
    space.apply(service(**({"type": "ClusterIP"} if "type" in spec else {})))
    eventually(lambda: have_the_tenants_choices(space))
    assert not any(chosen(each).items() >= spec.items() for each in below(space).values())


def test_a_service_becomes_headless_or_another_name_and_has_an_address_again(
    pool: Pool, space: Space
) -> None:
    space.apply(service())
    eventually(lambda: all(each.get("clusterIP") for each in below(space).values()))

    space.kubectl("delete", "service", "web")
    space.apply(service(clusterIP="None"))
    eventually(lambda: {each.get("clusterIP") for each in below(space).values()} == {"None"})

    space.kubectl("delete", "service", "web")
    space.apply(service(type="ExternalName", externalName="db.example.com", selector=None))
    eventually(lambda: {each.get("externalName") for each in below(space).values()} == {"db.example.com"})
    assert not any(each.get("clusterIP") for each in below(space).values())

    space.apply(service(type="ClusterIP"))
    eventually(
        lambda: all(each.get("clusterIP") and "externalName" not in each for each in below(space).values())
    )


@pytest.mark.parametrize("selector", [{"app": "web"}, None], ids=["Pods", "addresses of its own"])
def test_a_headless_service_may_ask_for_two_ip_families_of_super_clusters_that_have_one(
    pool: Pool, space: Space, selector: dict[str, str] | None
) -> None:
    policy = "PreferDualStack" if selector else "RequireDualStack"
    space.apply(service(clusterIP="None", selector=selector, ipFamilyPolicy=policy))
    eventually(lambda: {each.get("ipFamilyPolicy") for each in below(space).values()} == {"PreferDualStack"})
    assert space.events("web", "FailedCreate") == []


def test_a_service_prefers_two_ip_families_and_later_asks_for_one(pool: Pool, space: Space) -> None:
    space.apply(service(ipFamilyPolicy="PreferDualStack"))
    eventually(lambda: {each.get("ipFamilyPolicy") for each in below(space).values()} == {"PreferDualStack"})
    addresses = {name: each["clusterIP"] for name, each in below(space).items()}
    space.apply(service(ipFamilyPolicy="SingleStack"))
    eventually(lambda: {each.get("ipFamilyPolicy") for each in below(space).values()} == {"SingleStack"})
    assert {name: each["clusterIP"] for name, each in below(space).items()} == addresses
