"""The copies of a tenant's Services have its own cluster IPs where the super cluster has its range."""

import json
from typing import Any

import msgspec
import pytest
from kinds_bench import CONTEXT, Bench, super_ns

from vcsync.api import names
from vcsync.kube.resources import SERVICES
from vcsync.objects.envelope import Envelope, parse
from vcsync.syncer.kinds import cluster_ips
from vcsync.syncer.kinds.plan import Create, Delete

RANGE = "10.64.0.0/20"
OWN = msgspec.structs.replace(CONTEXT, cluster_ips=RANGE)
PORTS = [{"port": 80}]


def service_cidr(
    *cidrs: str, name: str = "tenants", public: bool = True, ready: str = "True", deleting: bool = False
) -> Envelope:
    metadata: dict[str, Any] = {"name": name}
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


@pytest.mark.parametrize(
    ("outer", "wanted", "expected"),
    [
        ("10.96.0.0/12", "10.96.0.0/20", ""),
        ("10.96.0.0/12", "10.96.1.0/24", "10.96.1.0/24"),
        ("10.96.0.0/24", "10.96.0.0/28", ""),
        ("10.96.0.0/24", "10.96.0.16/28", "10.96.0.16/28"),
        ("fd00::/108", "fd00::/120", ""),
        ("fd00::/108", "fd00::100/120", "fd00::100/120"),
    ],
)
def test_no_tenant_has_the_lower_addresses_of_the_super_clusters_own_range(
    outer: str, wanted: str, expected: str
) -> None:
    assert cluster_ips.range_here(wanted, [service_cidr(outer, name="kubernetes")]) == expected
    assert cluster_ips.range_here(wanted, [service_cidr(outer)]) == wanted


@pytest.mark.parametrize(
    ("cidrs", "expected"),
    [
        (("10.64.0.0/10", "fd00::/108"), "10.64.0.0/20,fd00::/116"),
        (("10.64.0.0/10",), "10.64.0.0/20"),
        (("fd00::/108",), "fd00::/116"),
        (("10.0.0.0/16", "fd01::/108"), ""),
    ],
)
def test_a_super_cluster_has_the_ranges_of_the_families_that_it_publishes(
    cidrs: tuple[str, ...], expected: str
) -> None:
    assert cluster_ips.range_here("10.64.0.0/20,fd00::/116", [service_cidr(*cidrs)]) == expected


def test_no_service_cidr_is_published() -> None:
    assert cluster_ips.range_here(RANGE, []) == ""


@pytest.mark.parametrize(
    ("spec", "addresses"),
    [
        ({"clusterIP": "10.64.0.7", "clusterIPs": ["10.64.0.7"]}, ["10.64.0.7"]),
        ({"clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10"]}, []),
        ({"clusterIP": "10.64.0.7", "clusterIPs": ["10.64.0.7", "fd00::7"]}, ["10.64.0.7"]),
        ({"clusterIP": "fd00::7", "clusterIPs": ["fd00::7", "10.64.0.7"]}, ["10.64.0.7"]),
        ({"clusterIP": "None", "clusterIPs": ["None"]}, []),
        ({"type": "ExternalName", "externalName": "x.example", "clusterIPs": ["10.64.0.7"]}, []),
        ({}, []),
    ],
    ids=[
        "inside",
        "outside",
        "one outside",
        "the first outside",
        "headless",
        "ExternalName",
        "without address",
    ],
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


def test_a_copy_may_have_an_address_of_a_further_family_of_the_super_cluster(bench: Bench) -> None:
    bench.context = OWN
    put(bench, ipFamilyPolicy="PreferDualStack")
    bench.settle("services", "shop", "web")
    there(bench).update(clusterIPs=["10.64.0.7", "fd00::7"], ipFamilies=["IPv4", "IPv6"])
    assert bench.settle("services", "shop", "web") == []


def test_a_dual_stack_service_has_the_tenants_addresses_of_both_families(bench: Bench) -> None:
    bench.context = msgspec.structs.replace(CONTEXT, cluster_ips=f"{RANGE},fd00::/116")
    put(bench, "fd00::7", clusterIPs=["fd00::7", "10.64.0.7"], ipFamilyPolicy="RequireDualStack")
    bench.settle("services", "shop", "web")
    assert there(bench)["clusterIP"] == "fd00::7"
    assert there(bench)["clusterIPs"] == ["fd00::7", "10.64.0.7"]
    assert there(bench)["ipFamilyPolicy"] == "PreferDualStack"
    assert bench.settle("services", "shop", "web") == []


def test_another_spelling_of_an_address_is_the_same_address(bench: Bench) -> None:
    assert not cluster_ips.differ(["fd00::7"], {"clusterIPs": ["FD00:0::7"]})
    assert cluster_ips.differ(["fd00::7"], {"clusterIPs": ["None"]})
    assert cluster_ips.differ(["fd00::7"], {})


def test_the_copy_of_the_name_server_keeps_its_address_which_running_pods_use(bench: Bench) -> None:
    system = {"name": "kube-dns", "namespace": "kube-system"}
    bench.place("kube-system")
    fields = {"ports": PORTS, "clusterIP": "10.64.0.10", "clusterIPs": ["10.64.0.10"]}
    bench.put("tenant", SERVICES, {"metadata": system, "spec": fields})
    bench.settle("services", "kube-system", "kube-dns")
    below = super_ns("kube-system")
    before = bench.get("super", SERVICES, "kube-dns", below)["spec"]["clusterIP"]
    bench.context = OWN
    assert bench.settle("services", "kube-system", "kube-dns") == []
    assert bench.get("super", SERVICES, "kube-dns", below)["spec"]["clusterIP"] == before != "10.64.0.10"
