"""An unmodified CoreDNS of a tenant tells addresses that are right in every super cluster."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from coredns_kit import CoreDns, NoSuchName, coredns
from pool_kit import Json, Pool, Space, deployment, read

from hack.testbed import Cluster
from tests.real.waiting import eventually
from vcsync.api import names

SUPERS = ("r1", "r2")
SERVICE_CIDRS = "/apis/networking.k8s.io/v1/servicecidrs"
LABEL = f"{names.SUPER_PUBLIC}={names.TRUE}"


@pytest.fixture(scope="module")
def dns(pool: Pool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CoreDns]:
    """A CoreDNS of tenant acme, whose cluster IPs both super clusters have for it."""
    cidr = range_of(pool.cluster("acme"))
    with ExitStack() as stack:
        if any(overlap(cidr, range_of(pool.cluster(each))) for each in SUPERS):
            # Tenants get nothing of the lower addresses of a super cluster's own range.
            cidr = str(list(ipaddress.ip_network(cidr).subnets())[1])
            stack.enter_context(service_cidr_in(pool.cluster("acme"), "own", cidr))
        for each in SUPERS:
            stack.enter_context(published(pool.cluster(each), cidr))
        stack.enter_context(pool.configured("acme", serviceCidr=cidr))
        yield stack.enter_context(coredns(pool.cluster("acme"), tmp_path_factory.mktemp("coredns")))


def range_of(cluster: Cluster) -> str:
    """Return the range of a cluster's own cluster IPs."""
    found = read(cluster, f"{SERVICE_CIDRS}/kubernetes") or {}
    return str(found["spec"]["cidrs"][0])


@contextmanager
def published(cluster: Cluster, cidr: str, *, name: str = "tenants") -> Iterator[None]:
    """Have a super cluster give cluster IPs of a range to tenants: by its own range if that contains it, else by another."""
    if overlap(cidr, range_of(cluster)):
        cluster.kubectl("label", "servicecidr", "kubernetes", LABEL)
        try:
            yield
        finally:
            cluster.kubectl("label", "servicecidr", "kubernetes", f"{names.SUPER_PUBLIC}-")
        return
    with service_cidr_in(cluster, name, cidr, {names.SUPER_PUBLIC: names.TRUE}):
        yield


def overlap(one: str, other: str) -> bool:
    return ipaddress.ip_network(one).overlaps(ipaddress.ip_network(other))


@contextmanager
def service_cidr_in(
    cluster: Cluster, name: str, cidr: str, labels: dict[str, str] | None = None
) -> Iterator[None]:
    """Have a cluster allocate cluster IPs from a further range."""
    body: Json = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"cidrs": [cidr]},
    }
    cluster.kubectl("apply", "-f", "-", input=json.dumps(body))
    try:
        yield
    finally:
        # It ends once no address of it is in use.
        cluster.kubectl("delete", "servicecidr", name, "--wait=false")


def service(name: str, **spec: object) -> Json:
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": ports, **spec},
    }


def address(found: Json | None) -> str:
    return str((found or {}).get("spec", {}).get("clusterIP", ""))


def addresses_below(space: Space, name: str) -> set[str]:
    return {address(space.there(each, "services", name)) for each in SUPERS}


def test_a_name_leads_to_the_address_of_the_copy_in_every_super_cluster(
    pool: Pool, dns: CoreDns, space: Space
) -> None:
    space.apply(service("web"))
    own = address(space.get("services", "web"))
    eventually(lambda: addresses_below(space, "web") == {own})
    assert eventually(lambda: asked(dns, f"web.{space.name}.svc.cluster.local")) == [own]


def asked(dns: CoreDns, name: str, kind: str = "A") -> list[str]:
    """Return the answers to a question; none while there is no such name."""
    try:
        return dns.ask(name, kind)
    except NoSuchName:
        return []


def test_names_of_every_kind_of_service(pool: Pool, dns: CoreDns, space: Space) -> None:
    zone = f"{space.name}.svc.cluster.local"
    space.apply(
        service("web"),
        service("elsewhere", type="ExternalName", externalName="db.example.com", selector=None),
        service("db", clusterIP="None"),
        stateful_set("db", 2),
    )
    own = address(space.get("services", "web"))
    eventually(lambda: addresses_below(space, "web") == {own})
    pods = {each["metadata"]["name"]: each["status"]["podIP"] for each in space.all_running("db", 2)}
    assert eventually(lambda: asked(dns, f"web.{zone}")) == [own]
    assert dns.ask(f"_http._tcp.web.{zone}", "SRV") == [f"80 web.{zone}"]
    assert dns.ask(ipaddress.ip_address(own).reverse_pointer, "PTR") == [f"web.{zone}"]
    assert dns.ask(f"elsewhere.{zone}", "CNAME") == ["db.example.com"]
    assert eventually(lambda: set(asked(dns, f"db.{zone}")) == set(pods.values()))
    assert {name: dns.ask(f"{name}.db.{zone}") for name in pods} == {
        name: [each] for name, each in pods.items()
    }
    assert dns.ask(f"_http._tcp.db.{zone}", "SRV") == sorted(f"8080 {name}.db.{zone}" for name in pods)
    with pytest.raises(NoSuchName):
        dns.ask(f"other.{zone}")


def stateful_set(name: str, replicas: int) -> Json:
    found = deployment(name, replicas)
    found["kind"] = "StatefulSet"
    found["spec"] |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    return found


def test_an_address_that_somebody_else_has_is_refused_there_with_the_reason(
    pool: Pool, dns: CoreDns, space: Space
) -> None:
    space.apply(service("first"))
    wanted = address(space.get("services", "first"))
    eventually(lambda: addresses_below(space, "first") == {wanted})
    space.kubectl("delete", "service", "first")
    eventually(lambda: addresses_below(space, "first") == {""})
    operators = service("operators", clusterIP=wanted)
    pool.cluster("r1").kubectl("apply", "-n", "default", "-f", "-", input=json.dumps(operators))
    try:
        space.apply(service("second", clusterIP=wanted))
        eventually(lambda: address(space.there("r2", "services", "second")) == wanted)
        [event] = eventually(lambda: space.events("second", "FailedCreate"))
        assert "already allocated" in event["message"]
        assert "operators" not in event["message"]
        assert space.there("r1", "services", "second") is None
    finally:
        pool.cluster("r1").kubectl("delete", "service", "-n", "default", "operators")


def test_a_tenant_gets_a_range_besides_that_of_its_control_plane(pool: Pool, dns: CoreDns) -> None:
    cidr, changed = "10.80.16.0/20", "10.80.32.0/20"
    umbrella, vcsync = pool.cluster("umbrella"), pool.system.vcsync
    install = ("tenant", "dns", "umbrella", "--kubeconfig", str(umbrella.kubeconfig))
    with ExitStack() as stack:
        for each in SUPERS:
            stack.enter_context(published(pool.cluster(each), "10.80.0.0/16", name="more"))
        space = stack.enter_context(pool.space("umbrella"))
        try:
            vcsync("tenant", "set", "umbrella", "--service-cidr", cidr)
            vcsync(*install)
            space.apply(service("web", clusterIP="10.80.16.80"))
            eventually(lambda: addresses_below(space, "web") == {"10.80.16.80"})

            vcsync("tenant", "set", "umbrella", "--service-cidr", changed)
            vcsync(*install)
            space.apply(service("late", clusterIP="10.80.32.80"))
            eventually(lambda: addresses_below(space, "late") == {"10.80.32.80"})
            assert addresses_below(space, "web") == {"10.80.16.80"}
        finally:
            vcsync(*install, "--off")
            vcsync("tenant", "set", "umbrella", "--service-cidr", "")
