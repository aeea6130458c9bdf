"""Ingresses of tenants are served by the super clusters' controllers, and take nothing that belongs to others."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pool_kit import Json, Pool, Space, annotation

from tests.real.waiting import eventually
from vcsync.api import names

GROUP = "networking.k8s.io/v1"
PLURAL = "ingresses"
SUPERS = ("r1", "r2")


def host(label: str = "shop") -> str:
    """Return a host that no other test uses."""
    return f"{label}-{uuid.uuid4().hex[:6]}.example.com"


def rule(name: str, service: str = "web") -> Json:
    backend = {"service": {"name": service, "port": {"number": 80}}}
    return {"host": name, "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}


def ingress(name: str, *hosts: str, annotations: dict[str, str] | None = None, **spec: Any) -> Json:
    metadata = {"name": name, "annotations": annotations or {}}
    spec = {"rules": [rule(each) for each in hosts], **spec}
    return {"apiVersion": GROUP, "kind": "Ingress", "metadata": metadata, "spec": spec}


def below(space: Space, name: str) -> list[Any]:
    """Return the copies in each super cluster; None where there is none."""
    return [space.there(each, PLURAL, name, GROUP) for each in SUPERS]


def hosts_below(space: Space, name: str) -> list[Any]:
    """Return the hosts in each super cluster; None where there is no copy."""
    return [each and [rule["host"] for rule in each["spec"]["rules"]] for each in below(space, name)]


def refused(space: Space, name: str, reason: str, text: str) -> str:
    """Wait for the Event with which an Ingress is refused, and return its message."""

    def found() -> str | None:
        messages = (each["message"] for each in space.events(name, reason))
        return next((each for each in messages if text in each), None)

    return eventually(found)


def restart_syncer(pool: Pool) -> None:
    pool.system.kill("syncer-r1")
    pool.system.start("syncer-r1")


@contextmanager
def policy(pool: Pool, **fields: Any) -> Iterator[None]:
    """Give acme this policy for Ingresses until the block ends."""
    pool.configure("acme", ingressPolicy=fields)
    try:
        yield
    finally:
        pool.configure("acme", ingressPolicy=None)


@contextmanager
def ingress_class(pool: Pool, name: str, *, public: bool) -> Iterator[None]:
    """Create an IngressClass in each super cluster as its operator."""
    labels = {names.SUPER_PUBLIC: names.TRUE} if public else {}
    body = {
        "apiVersion": GROUP,
        "kind": "IngressClass",
        "metadata": {"name": name, "labels": labels},
        "spec": {"controller": "example.com/controller"},
    }
    for cluster in pool.supers.values():
        cluster.kubectl("apply", "-f", "-", input=json.dumps(body))
    try:
        yield
    finally:
        for cluster in pool.supers.values():
            cluster.kubectl("delete", "ingressclass", name)


@pytest.fixture
def rival(pool: Pool) -> Iterator[Space]:
    """A namespace of another tenant."""
    with pool.space("umbrella") as space:
        yield space


def test_an_ingress_is_created_changed_and_deleted_in_every_super_cluster(pool: Pool, space: Space) -> None:
    one, two = host(), host()
    tls = [{"hosts": [one], "secretName": "certificate"}]
    space.kubectl("create", "secret", "generic", "certificate", "--from-literal=a=b")
    space.apply(ingress("web", one, tls=tls))
    eventually(lambda: hosts_below(space, "web") == [[one], [one]])
    for copy in below(space, "web"):
        assert copy["spec"]["tls"] == tls
        assert annotation(copy, names.CLUSTER) == space.key
        assert "ingressClassName" not in copy["spec"]
    assert space.there("r1", "secrets", "certificate") is not None
    restart_syncer(pool)
    space.apply(ingress("web", one, two))
    eventually(lambda: hosts_below(space, "web") == [[one, two], [one, two]])
    assert all("tls" not in each["spec"] for each in below(space, "web"))
    space.kubectl("delete", "ingress", "web")
    eventually(lambda: below(space, "web") == [None, None])


def test_changes_in_a_super_cluster_are_repaired(space: Space) -> None:
    one = host()
    space.apply(ingress("web", one))
    eventually(lambda: hosts_below(space, "web") == [[one], [one]])
    where = ("-n", space.super_name, "ingress", "web")
    cluster = space.pool.supers["r1"]
    cluster.kubectl("patch", *where, "--type=merge", "-p", json.dumps({"spec": {"rules": [rule(host())]}}))
    eventually(lambda: hosts_below(space, "web") == [[one], [one]])
    cluster.kubectl("delete", *where)
    eventually(lambda: hosts_below(space, "web") == [[one], [one]])


def _balance(space: Space, super_id: str, addresses: list[Json]) -> None:
    patch = {"status": {"loadBalancer": {"ingress": addresses}}}
    space.pool.supers[super_id].kubectl(
        "-n", space.super_name, "patch", "ingress", "web", "--subresource=status", "--type=merge",
        "-p", json.dumps(patch),
    )  # fmt: skip


def _addresses(space: Space) -> list[str]:
    found = space.get(PLURAL, "web", GROUP) or {}
    entries = (found.get("status") or {}).get("loadBalancer", {}).get("ingress", ())
    return [each.get("ip") or each["hostname"] for each in entries]


def test_addresses_are_copied_from_both_super_clusters(space: Space) -> None:
    space.apply(ingress("web", host()))
    eventually(lambda: all(below(space, "web")))
    _balance(space, "r2", [{"hostname": "lb.example.net", "ports": [{"port": 443, "protocol": "TCP"}]}])
    _balance(space, "r1", [{"ip": "192.0.2.11"}])
    eventually(lambda: _addresses(space) == ["192.0.2.11", "lb.example.net"])
    # A status that the tenant writes does not stay.
    patch = {"status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.66"}]}}}
    space.kubectl("patch", "ingress", "web", "--subresource=status", "--type=merge", "-p", json.dumps(patch))
    eventually(lambda: _addresses(space) == ["192.0.2.11", "lb.example.net"])
    _balance(space, "r1", [])
    eventually(lambda: _addresses(space) == ["lb.example.net"])
    space.pin(r1=2)
    eventually(lambda: _addresses(space) == [])


def test_a_host_of_another_tenant_is_refused_and_handed_over(pool: Pool, space: Space, rival: Space) -> None:
    one = host()
    space.apply(ingress("web", one))
    eventually(lambda: hosts_below(space, "web") == [[one], [one]])
    rival.apply(ingress("web", one))
    message = refused(rival, "web", "HostTaken", one)
    assert message.startswith(f"spec.rules[0].host {one} is in use by another tenant")
    for secret in (space.key, space.name, space.super_name, "acme"):
        assert secret not in message
    # The owner is found again after a restart, and may use its host in other Ingresses.
    restart_syncer(pool)
    space.apply(ingress("more", one))
    eventually(lambda: hosts_below(space, "more") == [[one], [one]])
    space.kubectl("delete", "ingress", "web")
    eventually(lambda: below(space, "web") == [None, None])
    assert below(rival, "web") == [None, None]
    space.kubectl("delete", "ingress", "more")
    eventually(lambda: hosts_below(rival, "web") == [[one], [one]])


def test_a_refused_change_leaves_the_last_version(space: Space, rival: Space) -> None:
    theirs, ours = host(), host()
    rival.apply(ingress("web", theirs))
    eventually(lambda: all(below(rival, "web")))
    space.apply(ingress("web", ours))
    eventually(lambda: hosts_below(space, "web") == [[ours], [ours]])
    space.apply(ingress("web", ours, theirs))
    assert "the last version that was accepted stays in use" in refused(space, "web", "HostTaken", theirs)
    assert hosts_below(space, "web") == [[ours], [ours]]
    rival.apply(ingress("web", host()))
    eventually(lambda: hosts_below(space, "web") == [[ours, theirs], [ours, theirs]])


def test_a_host_of_the_operator_is_refused(pool: Pool, space: Space) -> None:
    one = host("own")
    cluster = pool.supers["r1"]
    cluster.kubectl("apply", "-n", "default", "-f", "-", input=json.dumps(ingress("operators", one)))
    try:
        space.apply(ingress("web", one))
        refused(space, "web", "HostTaken", "super cluster r1")
        eventually(lambda: hosts_below(space, "web") == [None, [one]])
    finally:
        cluster.kubectl("delete", "-n", "default", "ingress", "operators")
    eventually(lambda: hosts_below(space, "web") == [[one], [one]])


def test_a_class_must_be_published(pool: Pool, space: Space) -> None:
    with ingress_class(pool, "internal", public=False):
        space.apply(ingress("web", host(), ingressClassName="internal"))
        message = refused(space, "web", "ClassNotOffered", "super cluster r1")
        assert message.startswith("spec.ingressClassName internal is not offered to tenants")
        assert below(space, "web") == [None, None]
        for cluster in pool.supers.values():
            cluster.kubectl("label", "ingressclass", "internal", f"{names.SUPER_PUBLIC}=true")
        eventually(lambda: all(below(space, "web")))
        assert [each["spec"]["ingressClassName"] for each in below(space, "web")] == ["internal"] * 2
        space.apply(ingress("old", host(), annotations={"kubernetes.io/ingress.class": "internal"}))
        eventually(lambda: all(below(space, "old")))
        for copy in below(space, "old"):
            assert copy["spec"]["ingressClassName"] == "internal"
            assert annotation(copy, "kubernetes.io/ingress.class") is None


SNIPPET = "nginx.ingress.kubernetes.io/server-snippet"
REWRITE = "nginx.ingress.kubernetes.io/rewrite-target"


def test_annotations_are_left_out_unless_the_operator_allows_them(pool: Pool, space: Space) -> None:
    space.apply(ingress("web", host(), annotations={SNIPPET: "return 403;", REWRITE: "/"}))
    message = refused(space, "web", "AnnotationsLeftOut", SNIPPET)
    assert REWRITE in message
    eventually(lambda: all(below(space, "web")))
    assert [annotation(each, SNIPPET) for each in below(space, "web")] == [None, None]
    with policy(pool, annotations=[REWRITE]):
        eventually(lambda: [annotation(each, REWRITE) for each in below(space, "web")] == ["/", "/"])
        assert [annotation(each, SNIPPET) for each in below(space, "web")] == [None, None]
    eventually(lambda: [annotation(each, REWRITE) for each in below(space, "web")] == [None, None])


def test_what_applies_to_everybody_is_refused_unless_the_operator_allows_it(pool: Pool, space: Space) -> None:
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    space.apply(ingress("web", defaultBackend=backend, rules=None))
    refused(space, "web", "PolicyRefused", "spec.defaultBackend is not allowed here")
    assert below(space, "web") == [None, None]
    with policy(pool, catchAll="Allow"):
        eventually(lambda: all(below(space, "web")))


def test_hosts_are_limited_by_the_policy(pool: Pool, space: Space) -> None:
    with policy(pool, hosts=["*.{tenant}.apps.example.com"]):
        space.apply(ingress("web", "web.umbrella.apps.example.com"))
        refused(space, "web", "PolicyRefused", "use *.acme.apps.example.com")
        one = f"{uuid.uuid4().hex[:6]}.acme.apps.example.com"
        space.apply(ingress("web", one))
        eventually(lambda: hosts_below(space, "web") == [[one], [one]])


def _with_resource(name: str) -> Json:
    """Return a rule whose backend is no Service."""
    backend = {"resource": {"apiGroup": "example.com", "kind": "Bucket", "name": "x"}}
    return {"host": name, "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}


FORGED = {
    names.CLUSTER: "vcsync-of-another",
    names.UID: "0",
    names.NAMESPACE: "kube-system",
    names.INGRESS_CLASS: "internal",
    names.COPIED_ANNOTATIONS: json.dumps([names.CLUSTER]),
}
ATTACKS: dict[str, tuple[Any, str]] = {
    "the host itself": (lambda it: ingress("web", it), "HostTaken"),
    "upper case": (lambda it: ingress("web", it.upper()), "API"),
    "a trailing dot": (lambda it: ingress("web", f"{it}."), "API"),
    "a trailing space": (lambda it: ingress("web", f"{it} "), "API"),
    "a port": (lambda it: ingress("web", f"{it}:443"), "API"),
    "a wildcard above it": (lambda it: ingress("web", f"*.{it.partition('.')[2]}"), "HostTaken"),
    "a wildcard of everything": (lambda _: ingress("web", "*"), "API"),
    "a wildcard of a top-level domain": (lambda _: ingress("web", "*.com"), "PolicyRefused"),
    "two wildcards": (lambda it: ingress("web", f"*.*.{it}"), "API"),
    "a host of a certificate": (
        lambda it: ingress("web", host(), tls=[{"hosts": [it], "secretName": "mine"}]),
        "HostTaken",
    ),
    "a certificate for all hosts": (
        lambda _: ingress("web", host(), tls=[{"secretName": "mine"}]),
        "PolicyRefused",
    ),
    "among many hosts": (
        lambda it: ingress("web", *(host(f"n{number}") for number in range(200)), it),
        "HostTaken",
    ),
    "too many hosts": (
        lambda it: ingress("web", *(f"n{number}.x{it}" for number in range(300))),
        "PolicyRefused",
    ),
    "a rule without host": (
        lambda _: ingress("web", rules=[{"http": rule("")["http"]}]),
        "PolicyRefused",
    ),
    "forged owners": (lambda it: ingress("web", it, annotations=FORGED), "HostTaken"),
    "letters that look alike": (lambda it: ingress("web", it.replace("o", "\u043e")), "API"),
    "another kind of backend": (
        lambda _: ingress("web", rules=[_with_resource(host())]),
        "PolicyRefused",
    ),
}


@pytest.fixture(scope="module")
def victim(pool: Pool) -> Iterator[str]:
    """A host of tenant umbrella."""
    with pool.space("umbrella") as space:
        one = host("victim")
        one = f"{one.partition('.')[0]}.{uuid.uuid4().hex[:6]}.example.com"
        space.apply(ingress("web", one))
        eventually(lambda: hosts_below(space, "web") == [[one], [one]])
        yield one
        assert hosts_below(space, "web") == [[one], [one]]


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_form_of_a_request_gets_a_host_of_another_tenant(space: Space, victim: str, attack: str) -> None:
    make, reason = ATTACKS[attack]
    if reason == "API":
        assert "Invalid value" in space.refused(make(victim))
    else:
        space.apply(make(victim))
        eventually(lambda: space.events("web", reason))
    assert below(space, "web") == [None, None]


def test_annotations_of_a_tenant_forge_nothing(space: Space) -> None:
    space.apply(ingress("web", host(), annotations=FORGED))
    eventually(lambda: all(below(space, "web")))
    mine = space.get(PLURAL, "web", GROUP) or {}
    for copy in below(space, "web"):
        assert annotation(copy, names.CLUSTER) == space.key
        assert annotation(copy, names.UID) == mine["metadata"]["uid"]
        assert annotation(copy, names.NAMESPACE) == space.name
        assert annotation(copy, names.INGRESS_CLASS) is None


def test_a_service_that_an_ingress_uses_leads_to_pods_only(space: Space) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    }
    space.apply(service, ingress("web", host()))
    eventually(lambda: all(below(space, "web")))
    eventually(lambda: all(space.there(each, "services", "web") for each in SUPERS))
    outside = {
        "type": "ExternalName",
        "externalName": "metadata.internal",
        "selector": None,
        "clusterIP": None,
    }
    space.kubectl(
        "patch", "service", "web", "--type=merge", "-p", json.dumps({"spec": {**outside, "clusterIPs": None}})
    )
    eventually(lambda: space.events("web", "PolicyRefused"))
    for super_id in SUPERS:
        assert (space.there(super_id, "services", "web") or {})["spec"]["type"] == "ClusterIP"
    space.apply(ingress("late", host()))
    refused(space, "late", "PolicyRefused", "does not select Pods")
    assert below(space, "late") == [None, None]
