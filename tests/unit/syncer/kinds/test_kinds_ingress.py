"""Ingresses, in both directions, and what the operator's policy and other tenants' hosts refuse."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from kinds_bench import CONTEXT, KEY, Bench, super_ns

from vcsync.api import names
from vcsync.api.specs import IngressPolicy
from vcsync.kube.resources import ENDPOINTS, INGRESS_CLASSES, INGRESSES, SECRETS, SERVICES
from vcsync.syncer.kinds.ingress import convert
from vcsync.syncer.kinds.plan import Create, Delete, Dependency, Notify, Placement, Wait

WEB = {"name": "web", "port": {"number": 80}}
LEGACY = "kubernetes.io/ingress.class"
REWRITE = "nginx.ingress.kubernetes.io/rewrite-target"
SNIPPET = "nginx.ingress.kubernetes.io/server-snippet"


def rule(host: str | None, **backend: Any) -> dict[str, Any]:
    path = {"path": "/", "pathType": "Prefix", "backend": backend or {"service": WEB}}
    return {**({"host": host} if host is not None else {}), "http": {"paths": [path]}}


def put(bench: Bench, *hosts: str, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    spec = {"rules": [rule(host) for host in hosts], **spec}
    meta = {"name": "web", "namespace": "shop", "annotations": annotations or {}}
    return bench.put("tenant", INGRESSES, {"metadata": meta, "spec": spec})


def others(bench: Bench, host: str, owner: str = "vcsync-other", **meta: Any) -> None:
    """Put an Ingress of somebody else into the super cluster; owner "": the operator."""
    meta = {"name": "theirs", "namespace": "elsewhere", "annotations": {names.CLUSTER: owner}, **meta}
    bench.put("super", INGRESSES, {"metadata": meta, "spec": {"rules": [rule(host)]}})


def allow(bench: Bench, **policy: Any) -> None:
    bench.context = msgspec.structs.replace(
        bench.context, ingress_policy=IngressPolicy(**policy), tenant="acme"
    )


def publish(bench: Bench, name: str, public: str = "true") -> None:
    bench.put("super", INGRESS_CLASSES, {"metadata": {"name": name, "labels": {names.SUPER_PUBLIC: public}}})


def below(bench: Bench) -> dict[str, Any]:
    return bench.get("super", INGRESSES, "web")


def refusal(bench: Bench) -> tuple[str, str]:
    """Return reason and message of the only action, which is an Event; nothing is in the super cluster."""
    plan = bench.plan("ingresses", "shop", "web")
    (notice,) = plan.actions
    assert isinstance(notice, Notify)
    assert plan.wait is not None
    assert not bench.has("super", INGRESSES, "web")
    return notice.reason, notice.message


@pytest.mark.parametrize(
    "spec",
    [
        {"rules": [rule("a.example.com")]},
        {"rules": [rule("*.example.com"), rule("b.example.com")]},
        {"rules": [rule("a.example.com")], "tls": [{"hosts": ["a.example.com"], "secretName": "x"}]},
        {"defaultBackend": {"service": WEB}},
        {"rules": [{"host": "a.example.com"}]},
    ],
)
def test_the_spec_is_copied_but_for_its_class(spec: dict[str, Any]) -> None:
    assert convert(spec, "") == spec
    assert convert({**spec, "ingressClassName": "nginx", "other": 1}, "nginx") == {
        **spec,
        "ingressClassName": "nginx",
    }


def test_an_ingress_follows_its_tenants(bench: Bench) -> None:
    put(bench, "a.example.com")
    assert len(bench.settle("ingresses", "shop", "web")) == 1
    assert below(bench)["spec"] == {"rules": [rule("a.example.com")]}
    bench.edit("tenant", INGRESSES, "web", {"spec": {"rules": [rule("b.example.com")]}})
    bench.settle("ingresses", "shop", "web")
    assert below(bench)["spec"] == {"rules": [rule("b.example.com")]}
    bench.edit("super", INGRESSES, "web", {"spec": {"rules": [rule("c.example.com")]}})
    bench.settle("ingresses", "shop", "web")
    assert below(bench)["spec"] == {"rules": [rule("b.example.com")]}
    bench.remove("tenant", INGRESSES, "web")
    bench.settle("ingresses", "shop", "web")
    assert not bench.has("super", INGRESSES, "web")


# --- Classes ---


def test_the_default_class_of_the_super_cluster_stays(bench: Bench) -> None:
    put(bench, "a.example.com")
    bench.settle("ingresses", "shop", "web")
    bench.edit("super", INGRESSES, "web", {"spec": {"ingressClassName": "default"}})
    assert bench.settle("ingresses", "shop", "web") == []


@pytest.mark.parametrize("named", [{"ingressClassName": "nginx"}, {"annotations": {LEGACY: "nginx"}}])
def test_a_published_class_is_copied_until_the_tenant_names_none(bench: Bench, named: dict[str, Any]) -> None:
    publish(bench, "nginx")
    put(bench, "a.example.com", **named)
    bench.settle("ingresses", "shop", "web")
    assert below(bench)["spec"]["ingressClassName"] == "nginx"
    assert LEGACY not in below(bench)["metadata"]["annotations"]
    nothing = {"spec": {"ingressClassName": None}, "metadata": {"annotations": {LEGACY: None}}}
    bench.edit("tenant", INGRESSES, "web", nothing)
    bench.settle("ingresses", "shop", "web")
    assert "ingressClassName" not in below(bench)["spec"]
    assert names.INGRESS_CLASS not in below(bench)["metadata"]["annotations"]


@pytest.mark.parametrize("published", [None, "false", ""])
def test_a_class_that_is_not_published_is_refused(bench: Bench, published: str | None) -> None:
    if published is not None:
        publish(bench, "nginx", published)
    put(bench, "a.example.com", ingressClassName="nginx")
    reason, message = refusal(bench)
    assert reason == "ClassNotOffered"
    assert message.startswith(
        "spec.ingressClassName nginx is not offered to tenants by super cluster r1: use"
    )
    wait = bench.plan("ingresses", "shop", "web").wait
    assert wait is not None
    assert wait.on_others == (Dependency("super", INGRESS_CLASSES, "", "nginx"),)
    publish(bench, "nginx")
    bench.settle("ingresses", "shop", "web")
    assert bench.has("super", INGRESSES, "web")


def test_two_classes_are_refused(bench: Bench) -> None:
    publish(bench, "nginx")
    put(bench, "a.example.com", ingressClassName="nginx", annotations={LEGACY: "other"})
    assert "remove the annotation" in refusal(bench)[1]


# --- Hosts ---


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("a.example.com", {"rules": [rule("a.example.com")]}),
        ("*.example.com", {"rules": [rule("b.example.org"), rule("a.example.com")]}),
        ("a.example.com", {"rules": [rule("*.example.com")]}),
        ("a.example.com", {"rules": [rule("b.org")], "tls": [{"hosts": ["c.org", "a.example.com"]}]}),
    ],
)
@pytest.mark.parametrize("owner", ["vcsync-other", ""])
def test_a_host_of_somebody_else_is_refused(
    bench: Bench, owner: str, theirs: str, ours: dict[str, Any]
) -> None:
    others(bench, theirs, owner)
    put(bench, **ours)
    reason, message = refusal(bench)
    assert reason == "HostTaken"
    assert "is in use by another tenant or by the operator on super cluster r1: use another host" in message
    assert "elsewhere" not in message
    assert "vcsync-other" not in message
    wait = bench.plan("ingresses", "shop", "web").wait
    assert wait is not None
    assert wait.on_others == (Dependency("super", INGRESSES, "elsewhere", "theirs"),)
    bench.remove("super", INGRESSES, "theirs", "elsewhere")
    bench.settle("ingresses", "shop", "web")
    assert bench.has("super", INGRESSES, "web")


def test_a_host_of_the_same_tenant_may_be_used_again(bench: Bench) -> None:
    others(bench, "a.example.com", KEY)
    put(bench, "a.example.com")
    assert len(bench.settle("ingresses", "shop", "web")) == 1


def test_a_refused_change_leaves_the_copy_and_its_addresses(bench: Bench) -> None:
    put(bench, "a.example.com")
    bench.settle("ingresses", "shop", "web")
    others(bench, "b.example.com")
    bench.edit(
        "tenant", INGRESSES, "web", {"spec": {"rules": [rule("a.example.com"), rule("b.example.com")]}}
    )
    bench.edit("super", INGRESSES, "web", {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}})
    up, notice = bench.plan("ingresses", "shop", "web").actions
    assert isinstance(notice, Notify)
    assert notice.message.startswith("spec.rules[1].host b.example.com is in use")
    assert notice.message.endswith("; the last version that was accepted stays in use")
    bench.execute(up)
    assert len(bench.plan("ingresses", "shop", "web").actions) == 1
    assert below(bench)["spec"] == {"rules": [rule("a.example.com")]}


def test_of_two_owners_the_older_one_keeps_the_host(bench: Bench) -> None:
    put(bench, "a.example.com")
    bench.settle("ingresses", "shop", "web")
    others(bench, "*.example.com", creationTimestamp="2026-06-01T00:00:00Z")
    assert bench.settle("ingresses", "shop", "web") == []
    others(bench, "*.example.com", creationTimestamp="2026-01-01T00:00:00Z")
    notice, delete = bench.plan("ingresses", "shop", "web").actions
    assert isinstance(notice, Notify)
    assert isinstance(delete, Delete)
    bench.execute(delete)
    assert refusal(bench)[0] == "HostTaken"


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"rules": [rule(None)]}, "spec.rules[0].host names no host"),
        ({"rules": [rule("")]}, "spec.rules[0].host names no host"),
        ({"rules": None, "defaultBackend": {"service": WEB}}, "spec.defaultBackend is not allowed here"),
        ({"rules": [rule("a.org")], "tls": [{"secretName": "x"}]}, "spec.tls[0].hosts names no host"),
        ({"rules": [rule("a.org")], "tls": [{"hosts": [""]}]}, "spec.tls[0].hosts[0] names no host"),
        ({"rules": [rule("*.com")]}, "covers a whole top-level domain"),
        ({"rules": [rule("*")]}, "is not a host"),
        ({"rules": [rule("A.example.com")]}, "is not a host"),
        ({"rules": [rule("a.example.com.")]}, "is not a host"),
        ({"rules": [rule("a..example.com")]}, "is not a host"),
        ({"rules": [rule("a.*.example.com")]}, "is not a host"),
        ({"rules": [rule("a.example.com:80")]}, "is not a host"),
        ({"rules": [rule("a.example.com\n")]}, "is not a host"),
        ({"rules": [rule("b\u00fccher.example.com")]}, "is not a host"),
        ({"rules": [rule("a." * 130 + "com")]}, "is not a host"),
        ({"rules": [rule(f"{n}.org") for n in range(257)]}, "at most 256 are possible"),
        ({"rules": [rule("a.org", resource={"kind": "Bucket", "name": "x"})]}, "backend.resource is not"),
        ({"rules": "many"}, "spec is not that of an Ingress"),
        ({"rules": [{"host": 7}]}, "spec is not that of an Ingress"),
    ],
)
def test_what_may_not_reach_the_controllers_is_refused(bench: Bench, spec: dict[str, Any], text: str) -> None:
    put(bench, **spec)
    reason, message = refusal(bench)
    assert reason == "PolicyRefused"
    assert text in message


@pytest.mark.parametrize(
    "bad", ["/a b", "/a;b", "/a\n", "/{", "/}", '/"', "/'", "/`", "/\\", "/\x00", "/\u2028"]
)
def test_paths_that_may_be_taken_for_configuration_are_refused(bench: Bench, bad: str) -> None:
    rules = [rule("a.example.com"), rule("a.example.com")]
    rules[1]["http"]["paths"][0]["path"] = bad
    put(bench, rules=rules)
    reason, message = refusal(bench)
    assert reason == "PolicyRefused"
    assert message.startswith("spec.rules[1].http.paths[0].path contains ")


@pytest.mark.parametrize("good", ["/", "/a/b", "/a-b_c.d~e", "/api/(.*)$", "/%20", "/a:b@c,d=e+f*g!", ""])
def test_usual_paths_are_copied(bench: Bench, good: str) -> None:
    put(bench, "a.example.com")
    bench.get("tenant", INGRESSES, "web")["spec"]["rules"][0]["http"]["paths"][0]["path"] = good
    bench.settle("ingresses", "shop", "web")
    assert below(bench)["spec"]["rules"][0]["http"]["paths"][0]["path"] == good


def test_an_operator_may_allow_what_catches_all_requests_to_one_tenant(bench: Bench) -> None:
    allow(bench, catch_all="Allow")
    others(bench, "a.example.com")
    put(bench, defaultBackend={"service": WEB}, rules=[rule(None)])
    bench.settle("ingresses", "shop", "web")
    assert bench.has("super", INGRESSES, "web")
    bench.remove("super", INGRESSES, "web", super_ns("shop"))
    others(bench, "")
    assert "spec.defaultBackend (any host) is in use" in refusal(bench)[1]


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("web.acme.example.com", True),
        ("a.web.acme.example.com", True),
        ("*.acme.example.com", True),
        ("shop.example.org", True),
        ("acme.example.com", False),
        ("*.example.com", False),
        ("web.umbrella.example.com", False),
        ("web.evilacme.example.com", False),
        ("a.shop.example.org", False),
        ("*.shop.example.org", False),
    ],
)
def test_the_policy_limits_the_hosts(bench: Bench, host: str, allowed: bool) -> None:
    allow(bench, hosts=("*.{tenant}.example.com", "shop.example.org"))
    put(bench, host)
    if allowed:
        bench.settle("ingresses", "shop", "web")
        assert bench.has("super", INGRESSES, "web")
    else:
        assert refusal(bench)[1] == (
            f"spec.rules[0].host {host} is not allowed here: use *.acme.example.com, shop.example.org, or ask the operator"
        )


# --- Annotations ---


def test_annotations_are_left_out_and_reported_once(bench: Bench) -> None:
    put(bench, "a.example.com", annotations={SNIPPET: "x", REWRITE: "/", "kubectl.kubernetes.io/a": "b"})
    create, notice = bench.plan("ingresses", "shop", "web").actions
    assert isinstance(create, Create)
    assert isinstance(notice, Notify)
    assert notice.reason == "AnnotationsLeftOut"
    assert notice.message.startswith(f"metadata.annotations {REWRITE}, {SNIPPET}: not copied")
    bench.settle("ingresses", "shop", "web")
    assert not {SNIPPET, REWRITE, "kubectl.kubernetes.io/a"} & {*below(bench)["metadata"]["annotations"]}
    bench.edit("tenant", INGRESSES, "web", {"metadata": {"annotations": {"example.com/new": "x"}}})
    _, notice = bench.plan("ingresses", "shop", "web").actions
    assert "example.com/new" in notice.message  # type: ignore[union-attr]
    bench.settle("ingresses", "shop", "web")
    bench.edit("tenant", INGRESSES, "web", {"metadata": {"annotations": {SNIPPET: "changed"}}})
    assert bench.settle("ingresses", "shop", "web") == []


@pytest.mark.parametrize("pattern", [REWRITE, "nginx.ingress.kubernetes.io/r*"])
def test_allowed_annotations_follow_the_tenant_and_the_policy(bench: Bench, pattern: str) -> None:
    allow(bench, annotations=(pattern,))
    put(bench, "a.example.com", annotations={SNIPPET: "x", REWRITE: "/"})
    bench.settle("ingresses", "shop", "web")
    bench.edit("super", INGRESSES, "web", {"metadata": {"annotations": {"ingress.kubernetes.io/x": "lb"}}})
    assert bench.settle("ingresses", "shop", "web") == []
    assert below(bench)["metadata"]["annotations"][REWRITE] == "/"
    assert SNIPPET not in below(bench)["metadata"]["annotations"]
    bench.edit("tenant", INGRESSES, "web", {"metadata": {"annotations": {REWRITE: "/b"}}})
    bench.settle("ingresses", "shop", "web")
    assert below(bench)["metadata"]["annotations"][REWRITE] == "/b"
    bench.context = CONTEXT
    bench.settle("ingresses", "shop", "web")
    annotations = below(bench)["metadata"]["annotations"]
    assert REWRITE not in annotations
    assert names.COPIED_ANNOTATIONS not in annotations
    assert annotations["ingress.kubernetes.io/x"] == "lb"


def test_a_refused_change_does_not_keep_annotations_that_are_no_longer_allowed(bench: Bench) -> None:
    other = "nginx.ingress.kubernetes.io/ssl-redirect"
    allow(bench, annotations=(REWRITE, other))
    put(bench, "a.example.com", annotations={REWRITE: "/", other: "true"})
    bench.settle("ingresses", "shop", "web")
    bench.edit("tenant", INGRESSES, "web", {"spec": {"rules": [rule(None)]}})
    allow(bench, annotations=(other,))
    (patch,) = bench.plan("ingresses", "shop", "web").actions
    bench.execute(patch)
    (notice,) = bench.plan("ingresses", "shop", "web").actions
    assert isinstance(notice, Notify)
    annotations = below(bench)["metadata"]["annotations"]
    assert REWRITE not in annotations
    assert annotations[other] == "true"
    assert json.loads(annotations[names.COPIED_ANNOTATIONS]) == [other]


@pytest.mark.parametrize("key", [names.CLUSTER, names.UID, names.NAMESPACE, names.INGRESS_CLASS, LEGACY])
def test_no_policy_copies_annotations_that_are_ours(bench: Bench, key: str) -> None:
    allow(bench, annotations=("tenancy.x-k8s.io/*", "kubernetes.io/*"))
    publish(bench, "forged")
    v = put(bench, "a.example.com", annotations={key: "forged"})
    bench.settle("ingresses", "shop", "web")
    annotations = below(bench)["metadata"]["annotations"]
    assert annotations[names.CLUSTER] == KEY
    assert annotations[names.UID] == v["metadata"]["uid"]
    assert annotations[names.NAMESPACE] == "shop"
    assert LEGACY not in annotations


# --- Backends and certificates ---


@pytest.mark.parametrize("outside", [{"type": "ExternalName", "externalName": "x"}, {"selector": None}])
def test_backends_are_pods(bench: Bench, outside: dict[str, Any]) -> None:
    spec = {"selector": {"app": "web"}, "ports": [{"port": 80}], **outside}
    bench.put("tenant", SERVICES, {"metadata": {"name": "web"}, "spec": spec})
    put(bench, "a.example.com")
    reason, message = refusal(bench)
    assert reason == "PolicyRefused"
    assert message.startswith("spec.rules[0].http.paths[0].backend.service web does not select Pods")
    allow(bench, external_backends="Allow")
    bench.settle("ingresses", "shop", "web")
    assert bench.has("super", INGRESSES, "web")


@pytest.mark.parametrize("outside", [{"type": "ExternalName", "externalName": "x"}, {"selector": None}])
def test_a_backend_stays_a_service_of_pods(bench: Bench, outside: dict[str, Any]) -> None:
    spec = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
    bench.put("tenant", SERVICES, {"metadata": {"name": "web"}, "spec": spec})
    bench.settle("services", "shop", "web")
    put(bench, "a.example.com")
    bench.settle("ingresses", "shop", "web")
    bench.edit("tenant", SERVICES, "web", {"spec": outside})
    (notice,) = bench.plan("services", "shop", "web").actions
    assert isinstance(notice, Notify)
    assert "for a Service that an Ingress uses" in notice.message
    addresses = [{"addresses": [{"ip": "203.0.113.9"}]}]
    bench.put("tenant", ENDPOINTS, {"metadata": {"name": "web"}, "subsets": addresses})
    assert bench.settle("endpoints", "shop", "web") == []
    bench.remove("super", SERVICES, "web", super_ns("shop"))
    assert isinstance(bench.plan("services", "shop", "web").actions[0], Notify)
    bench.remove("tenant", INGRESSES, "web")
    bench.settle("ingresses", "shop", "web")
    bench.settle("services", "shop", "web")
    assert bench.has("super", SERVICES, "web")


def test_it_waits_for_certificates_that_are_on_their_way(bench: Bench) -> None:
    put(bench, "a.example.com", tls=[{"hosts": ["a.example.com"], "secretName": "cert"}])
    assert isinstance(bench.plan("ingresses", "shop", "web").actions[0], Create)
    bench.put("tenant", SECRETS, {"metadata": {"name": "cert"}, "type": "kubernetes.io/tls", "data": {}})
    missing = Dependency("super", SECRETS, super_ns("shop"), "cert")
    plan = bench.plan("ingresses", "shop", "web")
    assert plan.actions == ()
    assert plan.wait == Wait("waits in super cluster r1 for Secret cert", (missing,))
    bench.settle("secrets", "shop", "cert")
    bench.settle("ingresses", "shop", "web")
    assert bench.has("super", INGRESSES, "web")


def test_an_object_of_the_operator_with_the_name_stays(bench: Bench) -> None:
    meta = {"name": "web", "namespace": super_ns("shop")}
    bench.put("super", INGRESSES, {"metadata": meta, "spec": {"rules": [rule("b.example.com")]}})
    put(bench, "a.example.com")
    (notice,) = bench.plan("ingresses", "shop", "web").actions
    assert isinstance(notice, Notify)
    assert notice.reason == "NameTaken"


# --- Addresses ---


def test_addresses_of_several_super_clusters_are_united_in_their_order(bench: Bench) -> None:
    bench.placements["shop"] = Placement({"r1": 1, "r2": 1}, {}, {})
    put(bench, "a.example.com")
    bench.settle("ingresses", "shop", "web")
    ports = [{"port": 443, "protocol": "TCP"}]
    own = {"loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ports": ports}, {"ip": "192.0.2.9"}]}}
    bench.edit("super", INGRESSES, "web", {"status": own})
    theirs = json.dumps([{"hostname": "lb.example.net"}, {"ip": "192.0.2.9"}])
    bench.edit(
        "tenant", INGRESSES, "web", {"metadata": {"annotations": {names.INGRESS_PREFIX + "r2": theirs}}}
    )
    bench.settle("ingresses", "shop", "web")
    v = bench.get("tenant", INGRESSES, "web")
    united = [{"ip": "192.0.2.1", "ports": ports}, {"ip": "192.0.2.9"}, {"hostname": "lb.example.net"}]
    assert v["status"]["loadBalancer"]["ingress"] == united
    forged = {"status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.66"}]}}}
    bench.edit("tenant", INGRESSES, "web", forged)
    bench.settle("ingresses", "shop", "web")
    assert bench.get("tenant", INGRESSES, "web")["status"]["loadBalancer"]["ingress"] == united


def test_a_status_that_a_controller_of_the_tenant_writes_stays_if_there_is_no_copy(bench: Bench) -> None:
    put(bench, "a.example.com", ingressClassName="own")
    bench.edit("tenant", INGRESSES, "web", {"status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}}})
    assert refusal(bench)[0] == "ClassNotOffered"
