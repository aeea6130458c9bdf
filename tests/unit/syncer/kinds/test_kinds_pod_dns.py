"""Pods wait for the tenant's name server, since their dnsPolicy cannot be changed later."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from kinds_bench import CONTEXT, Bench, super_ns

from vcsync.api import names
from vcsync.kube.resources import ENDPOINTS, NAMESPACES, RESOURCE_QUOTAS, SERVICES
from vcsync.syncer.kinds.plan import Dependency, Placement, TenantContext, Wait
from vcsync.syncer.kinds.pod_depends import dependencies_wait

HERE = msgspec.structs.replace(CONTEXT, dns_nameserver="10.97.0.10")
CLUSTER_FIRST = {"dnsPolicy": "ClusterFirst"}


@pytest.fixture
def dns(bench: Bench) -> Bench:
    """A tenant with a name server of its own."""
    bench.put("tenant", SERVICES, service({"clusterIP": "10.0.0.10", "selector": {"k8s-app": "kube-dns"}}))
    return bench


def service(spec: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "kube-dns", "namespace": "kube-system"}, "spec": spec}


def wait_of(
    bench: Bench,
    spec: dict[str, Any],
    *,
    context: TenantContext = CONTEXT,
    labels: dict[str, str] | None = None,
) -> Wait | None:
    return dependencies_wait("shop", labels or {}, spec, context, bench)


def test_a_pod_waits_for_the_tenants_name_server(dns: Bench) -> None:
    wait = wait_of(dns, CLUSTER_FIRST)
    assert wait is not None
    assert wait.reason == "waits in super cluster r1 for Service kube-dns"
    assert wait.on == (Dependency("super", SERVICES, super_ns("kube-system"), "kube-dns"),)


def test_a_pod_is_created_when_the_name_server_exists(dns: Bench) -> None:
    assert wait_of(dns, CLUSTER_FIRST, context=HERE) is None


def test_without_a_name_server_of_the_tenant_pods_do_not_wait(bench: Bench) -> None:
    assert wait_of(bench, CLUSTER_FIRST) is None


@pytest.mark.parametrize(
    ("spec", "labels"),
    [
        ({"dnsPolicy": "Default"}, {}),
        ({"dnsPolicy": "None"}, {}),
        ({"dnsPolicy": "ClusterFirst", "hostNetwork": True}, {}),
        (CLUSTER_FIRST, {names.DISABLE_DNS_POLICY_MUTATION: names.TRUE}),
    ],
)
def test_pods_without_cluster_dns_do_not_wait(
    dns: Bench, spec: dict[str, Any], labels: dict[str, str]
) -> None:
    assert wait_of(dns, spec, labels=labels) is None


@pytest.mark.parametrize(
    "spec", [{"clusterIP": "None"}, {"type": "ExternalName", "externalName": "dns.example"}]
)
def test_pods_do_not_wait_for_a_name_server_without_address(bench: Bench, spec: dict[str, Any]) -> None:
    bench.put("tenant", SERVICES, service(spec))
    assert wait_of(bench, CLUSTER_FIRST) is None


# --- Where kube-system has no slices ---

ONLY = Placement({}, {}, {"pods": "0"}, name_server_only=True)
ADDRESSES = [{"addresses": [{"ip": "10.244.3.7"}], "ports": [{"port": 53, "protocol": "UDP"}]}]


@pytest.fixture
def away(bench: Bench) -> Bench:
    """`kube-system` has no slices on r1, `shop` has."""
    bench.placements["kube-system"] = ONLY
    bench.put("tenant", NAMESPACES, {"metadata": {"name": "kube-system"}})
    return bench


def have_name_server(bench: Bench) -> None:
    spec = {"selector": {"k8s-app": "kube-dns"}, "ports": [{"port": 53, "protocol": "UDP"}]}
    bench.put("tenant", SERVICES, service(spec))
    bench.put(
        "tenant",
        ENDPOINTS,
        {"metadata": {"name": "kube-dns", "namespace": "kube-system"}, "subsets": ADDRESSES},
    )
    for kind, name in (("namespaces", ""), ("services", "kube-system"), ("endpoints", "kube-system")):
        bench.settle(kind, name, "kube-dns" if name else "kube-system")


def test_without_a_name_server_its_namespace_is_not_created(away: Bench) -> None:
    away.settle("namespaces", "", "kube-system")
    assert not away.has("super", NAMESPACES, super_ns("kube-system"))


def test_the_name_server_is_synced_where_its_namespace_has_no_slices(away: Bench) -> None:
    have_name_server(away)
    place = super_ns("kube-system")
    assert away.get("super", RESOURCE_QUOTAS, names.SUPER_QUOTA_NAME, place)["spec"]["hard"] == {"pods": "0"}
    found = away.get("super", SERVICES, "kube-dns", place)
    assert "selector" not in found["spec"], "its Pods are in other super clusters"
    assert away.get("super", ENDPOINTS, "kube-dns", place)["subsets"] == ADDRESSES
    assert names.TRANSPARENT_CLUSTER_IP not in away.get("tenant", SERVICES, "kube-dns", "kube-system")[
        "metadata"
    ].get("annotations", {})


def test_the_name_server_has_a_selector_only_while_its_namespace_has_slices(
    away: Bench,
) -> None:
    have_name_server(away)
    place = super_ns("kube-system")
    address = away.get("super", SERVICES, "kube-dns", place)["spec"]["clusterIP"]
    away.placements["kube-system"] = Placement({"r1": 1}, {"cpu": "1"}, {"requests.cpu": "1"})
    away.settle("services", "kube-system", "kube-dns")
    away.settle("endpoints", "kube-system", "kube-dns")
    spec = away.get("super", SERVICES, "kube-dns", place)["spec"]
    assert (spec["selector"], spec["clusterIP"]) == ({"k8s-app": "kube-dns"}, address)
    assert not away.has("super", ENDPOINTS, "kube-dns", place), "its controller makes them"
    away.placements["kube-system"] = ONLY
    away.settle("services", "kube-system", "kube-dns")
    away.settle("endpoints", "kube-system", "kube-dns")
    spec = away.get("super", SERVICES, "kube-dns", place)["spec"]
    assert not spec.get("selector")
    assert spec["clusterIP"] == address
    assert away.get("super", ENDPOINTS, "kube-dns", place)["subsets"] == ADDRESSES
