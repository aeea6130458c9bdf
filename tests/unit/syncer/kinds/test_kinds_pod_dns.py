"""Pods wait for the tenant's name server: what a Pod is created with it keeps for life."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from kinds_bench import CONTEXT, Bench, super_ns

from vcsync.api import names
from vcsync.kube.resources import SERVICES
from vcsync.syncer.kinds.plan import Dependency, TenantContext, Wait
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


def test_a_pod_waits_no_longer_once_it_is_here(dns: Bench) -> None:
    assert wait_of(dns, CLUSTER_FIRST, context=HERE) is None


def test_without_a_name_server_of_the_tenant_nothing_is_waited_for(bench: Bench) -> None:
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
def test_pods_that_do_not_use_it_do_not_wait(
    dns: Bench, spec: dict[str, Any], labels: dict[str, str]
) -> None:
    assert wait_of(dns, spec, labels=labels) is None


@pytest.mark.parametrize(
    "spec", [{"clusterIP": "None"}, {"type": "ExternalName", "externalName": "dns.example"}]
)
def test_a_name_server_that_never_gets_an_address_is_not_waited_for(
    bench: Bench, spec: dict[str, Any]
) -> None:
    bench.put("tenant", SERVICES, service(spec))
    assert wait_of(bench, CLUSTER_FIRST) is None
