"""The copies of a tenant's Services have its own cluster IPs where the super cluster has its range."""

import json
from typing import Any

import msgspec
import pytest
from kinds_bench import CONTEXT, Bench

from vcsync.api import names
from vcsync.kube.resources import SERVICES
from vcsync.objects.envelope import Envelope, parse
from vcsync.syncer.kinds import cluster_ips
from vcsync.syncer.kinds.plan import Create, Delete

RANGE = "10.64.0.0/20"
OWN = msgspec.structs.replace(CONTEXT, cluster_ips=RANGE)
PORTS = [{"port": 80}]


def service_cidr(*cidrs: str, public: bool = True, ready: str = "True", deleting: bool = False) -> Envelope:
    metadata: dict[str, Any] = {"name": "tenants"}
    if public:
        metadata["labels"] = {names.SUPER_PUBLIC: names.TRUE}
    if deleting:
        metadata["deletionTimestamp"] = "2026-05-01T12:00:00Z"
    status = {"conditions": [{"type": "Ready", "status": ready}]} if ready else {}
    return parse(json.dumps({"metadata": metadata, "spec": {"cidrs": cidrs}, "status": status}).encode())


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (service_cidr("10.64.0.0/10"), RANGE),
        (service_cidr("fd00::/108", "10.64.0.0/10"), RANGE),
        (service_cidr("10.64.0.0/21"), ""),
        (service_cidr("10.0.0.0/16"), ""),
        (service_cidr("10.64.0.0/10", public=False), ""),
        (service_cidr("10.64.0.0/10", ready="False"), ""),
        (service_cidr("10.64.0.0/10", ready=""), ""),
        (service_cidr("10.64.0.0/10", deleting=True), ""),
        (service_cidr("nonsense"), ""),
    ],
    ids=[
        "inside",
        "dual-stack",
        "in part",
        "elsewhere",
        "not published",
        "being deleted",
        "new",
        "deleted",
        "no range",
    ],
)
def test_a_range_counts_where_a_ready_service_cidr_that_contains_it_is_published(
    found: Envelope, expected: str
) -> None:
    assert cluster_ips.range_here(RANGE, [found]) == expected
    assert cluster_ips.range_here("", [found]) == ""


def test_no_service_cidr_is_published() -> None:
    assert cluster_ips.range_here(RANGE, []) == ""


@pytest.mark.parametrize(
    ("spec", "addresses"),
    [
        ({"clusterIP": "10.64.0.7", "clusterIPs": ["10.64.0.7"]}, ["10.64.0.7"]),
        ({"clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10"]}, []),
        ({"clusterIP": "10.64.0.7", "clusterIPs": ["10.64.0.7", "fd00::7"]}, []),
        ({"clusterIP": "None", "clusterIPs": ["None"]}, []),
        ({"type": "ExternalName", "externalName": "x.example", "clusterIPs": ["10.64.0.7"]}, []),
        ({}, []),
    ],
    ids=["inside", "outside", "one outside", "headless", "ExternalName", "without address"],
)
def test_addresses_that_a_copy_has_as_well(spec: dict[str, Any], addresses: list[str]) -> None:
    assert cluster_ips.kept(spec, OWN) == addresses
    assert cluster_ips.kept(spec, CONTEXT) == []


def put(bench: Bench, address: str = "10.64.0.7", **spec: Any) -> None:
    fields = {"ports": PORTS, "clusterIP": address, "clusterIPs": [address], **spec}
    bench.put("tenant", SERVICES, {"metadata": {"name": "web"}, "spec": fields})


def there(bench: Bench) -> dict[str, Any]:
    spec: dict[str, Any] = bench.get("super", SERVICES, "web")["spec"]
    return spec


def test_a_copy_is_created_with_the_tenants_address(bench: Bench) -> None:
    bench.context = OWN
    put(bench)
    bench.settle("services", "shop", "web")
    assert (there(bench)["clusterIP"], there(bench)["clusterIPs"]) == ("10.64.0.7", ["10.64.0.7"])


def test_a_tenant_cannot_ask_for_an_address_that_may_be_somebody_elses(bench: Bench) -> None:
    bench.context = OWN
    put(bench, "10.96.0.10")
    bench.settle("services", "shop", "web")
    assert there(bench)["clusterIP"] != "10.96.0.10"


def test_a_copy_with_another_address_is_made_again_once_the_super_cluster_has_the_range(bench: Bench) -> None:
    put(bench)
    bench.settle("services", "shop", "web")
    assert there(bench)["clusterIP"] != "10.64.0.7"
    bench.context = OWN
    first, second, *_ = (plan.actions for plan in bench.settle("services", "shop", "web"))
    assert isinstance(first[0], Delete)
    assert isinstance(second[0], Create)
    assert there(bench)["clusterIP"] == "10.64.0.7"


def test_a_copy_keeps_its_address_when_the_range_is_withdrawn(bench: Bench) -> None:
    bench.context = OWN
    put(bench)
    bench.settle("services", "shop", "web")
    bench.context = CONTEXT
    assert bench.settle("services", "shop", "web") == []
    assert there(bench)["clusterIP"] == "10.64.0.7"


def test_a_service_that_gets_an_address_later_has_it_in_the_super_cluster(bench: Bench) -> None:
    bench.context = OWN
    bench.put(
        "tenant",
        SERVICES,
        {"metadata": {"name": "web"}, "spec": {"type": "ExternalName", "externalName": "x.example"}},
    )
    bench.settle("services", "shop", "web")
    change = {
        "type": "ClusterIP",
        "externalName": None,
        "ports": PORTS,
        "clusterIP": "10.64.0.8",
        "clusterIPs": ["10.64.0.8"],
    }
    bench.edit("tenant", SERVICES, "web", {"spec": change})
    bench.settle("services", "shop", "web")
    assert there(bench)["clusterIP"] == "10.64.0.8"
