"""Services, in both directions."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kinds_bench import CONTEXT, Bench

from vcsync.api import names
from vcsync.api.specs import ServicePolicy
from vcsync.kube.resources import SERVICES
from vcsync.syncer.kinds import service
from vcsync.syncer.kinds.plan import Delete, Notify, Patch, Placement

PORTS = [{"name": "http", "port": 80, "targetPort": 8080}, {"name": "https", "port": 443}]
SELECTOR = {"app": "web"}


def make(bench: Bench, **spec: Any) -> dict[str, Any]:
    body = {"metadata": {"name": "web"}, "spec": {"ports": PORTS, "selector": SELECTOR, **spec}}
    stored = bench.put("tenant", SERVICES, body)
    bench.settle("services", "shop", "web")
    return stored


def test_values_that_the_tenants_api_allocated_are_not_copied(bench: Bench) -> None:
    v = bench.put(
        "tenant",
        SERVICES,
        {
            "metadata": {"name": "web", "labels": {"app.kubernetes.io/name": "web"}},
            "spec": {
                "type": "LoadBalancer",
                "clusterIP": "10.32.0.7",
                "clusterIPs": ["10.32.0.7"],
                "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack",
                "healthCheckNodePort": 31000,
                "externalTrafficPolicy": "Local",
                "selector": {"app.kubernetes.io/name": "web"},
                "ports": [{"port": 80, "nodePort": 30080}],
                "loadBalancerSourceRanges": ["192.0.2.0/24"],
            },
        },
    )
    (plan, *_) = [bench.plan("services", "shop", "web")]
    body = plan.actions[0].body
    assert body["spec"] == {
        "type": "LoadBalancer",
        "externalTrafficPolicy": "Local",
        "selector": {"app.kubernetes.io/name": "web"},
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
        "loadBalancerSourceRanges": ["192.0.2.0/24"],
        "sessionAffinity": "None",
        "internalTrafficPolicy": "Cluster",
    }
    assert body["metadata"]["annotations"][names.CLUSTER_IP] == "10.32.0.7"
    assert v["spec"]["ports"][0]["nodePort"] == 30080


@pytest.mark.parametrize(
    ("spec", "kept"),
    [
        ({"clusterIP": "None", "clusterIPs": ["None"]}, {"clusterIP": "None"}),
        (
            {"type": "ExternalName", "externalName": "x.example"},
            {"type": "ExternalName", "externalName": "x.example"},
        ),
        (
            {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6", "IPv4"], "clusterIP": "fd00::1"},
            {"ipFamilyPolicy": "PreferDualStack"},
        ),
        (
            {"ipFamilyPolicy": "PreferDualStack", "clusterIP": "10.0.0.1"},
            {"ipFamilyPolicy": "PreferDualStack"},
        ),
        ({"ipFamilyPolicy": "SingleStack", "clusterIP": "10.0.0.1"}, {}),
    ],
)
def test_addresses_that_are_copied(spec: dict[str, Any], kept: dict[str, Any]) -> None:
    assert service.convert(spec) == kept


def test_external_ips_are_refused_on_creation_and_later(bench: Bench) -> None:
    bench.put(
        "tenant",
        SERVICES,
        {"metadata": {"name": "evil"}, "spec": {"ports": PORTS, "externalIPs": ["192.0.2.9"]}},
    )
    (notice,) = bench.plan("services", "shop", "evil").actions
    assert isinstance(notice, Notify)
    assert notice.reason == "PolicyRefused"
    assert "spec.externalIPs" in notice.message
    make(bench)
    bench.edit("tenant", SERVICES, "web", {"spec": {"externalIPs": ["192.0.2.9"]}})
    assert [type(action) for action in bench.plan("services", "shop", "web").actions] == [Notify]


def test_a_load_balancer_address_needs_the_operators_permission(
    bench: Bench,
) -> None:
    spec = {"type": "LoadBalancer", "ports": PORTS, "selector": SELECTOR, "loadBalancerIP": "192.0.2.9"}
    bench.put("tenant", SERVICES, {"metadata": {"name": "front"}, "spec": spec})
    (notice,) = bench.plan("services", "shop", "front").actions
    assert isinstance(notice, Notify)
    assert (notice.reason, notice.message.partition(":")[0]) == (
        "PolicyRefused",
        "spec.loadBalancerIP is not allowed here",
    )
    bench.context = msgspec.structs.replace(CONTEXT, service_policy=ServicePolicy(load_balancer_ip="Allow"))
    bench.settle("services", "shop", "front")
    assert bench.get("super", SERVICES, "front")["spec"]["loadBalancerIP"] == "192.0.2.9"


@pytest.mark.parametrize(
    ("kind", "policy"),
    [("LoadBalancer", {"load_balancer": "Refuse"}), ("NodePort", {"node_port": "Refuse"})],
)
def test_the_operator_may_refuse_external_services(bench: Bench, kind: str, policy: dict[str, Any]) -> None:
    bench.context = msgspec.structs.replace(CONTEXT, service_policy=ServicePolicy(**policy))
    bench.put("tenant", SERVICES, {"metadata": {"name": "front"}, "spec": {"type": kind, "ports": PORTS}})
    (notice,) = bench.plan("services", "shop", "front").actions
    assert isinstance(notice, Notify)
    assert notice.message == f"spec.type {kind} is not allowed here: use ClusterIP, or ask the operator"
    for other in {"ClusterIP", "LoadBalancer", "NodePort"} - {kind}:
        spec = {"type": other, "ports": PORTS, "selector": SELECTOR}
        bench.put("tenant", SERVICES, {"metadata": {"name": "b"}, "spec": spec})
        assert not any(isinstance(each, Notify) for each in bench.plan("services", "shop", "b").actions)


def refusal(bench: Bench, name: str = "web") -> tuple[str, str]:
    """Return the reason and the beginning of the message of the only action."""
    (notice,) = bench.plan("services", "shop", name).actions
    assert isinstance(notice, Notify)
    return notice.reason, notice.message.partition(":")[0]


def test_a_class_of_load_balancers_needs_the_operators_permission(bench: Bench) -> None:
    """The operator's own load balancers may have a class, such as one of a network that tenants must not reach."""
    spec = {
        "type": "LoadBalancer",
        "ports": PORTS,
        "selector": SELECTOR,
        "loadBalancerClass": "example.com/internal",
    }
    bench.put("tenant", SERVICES, {"metadata": {"name": "web"}, "spec": spec})
    wanted = ("ClassNotOffered", "spec.loadBalancerClass example.com/internal is not offered to tenants here")
    assert refusal(bench) == wanted
    for allowed in ((), ("example.com/public", "internal", "example.com/internal-vip")):
        policy = ServicePolicy(load_balancer_classes=allowed)
        bench.context = msgspec.structs.replace(CONTEXT, service_policy=policy)
        assert refusal(bench) == wanted
    policy = ServicePolicy(load_balancer_classes=("example.com/public", "example.com/internal"))
    bench.context = msgspec.structs.replace(CONTEXT, service_policy=policy)
    bench.settle("services", "shop", "web")
    assert bench.get("super", SERVICES, "web")["spec"]["loadBalancerClass"] == "example.com/internal"


def test_a_service_does_not_become_one_of_a_class_that_is_not_offered(bench: Bench) -> None:
    make(bench, selector=SELECTOR)
    change = {"type": "LoadBalancer", "loadBalancerClass": "x"}
    bench.edit("tenant", SERVICES, "web", {"spec": change})
    assert refusal(bench)[0] == "ClassNotOffered"
    assert "loadBalancerClass" not in bench.get("super", SERVICES, "web")["spec"]


@pytest.mark.parametrize("kind", ["LoadBalancer", "NodePort"])
@pytest.mark.parametrize("selector", [None, {}])
def test_traffic_from_outside_reaches_no_addresses_that_the_tenant_chooses(
    bench: Bench, kind: str, selector: dict[str, str] | None
) -> None:
    """Nodes would forward it to any address, such as other tenants' Pods behind their NetworkPolicies (CVE-2021-25740)."""
    spec = {"type": kind, "ports": PORTS, "selector": selector}
    bench.put("tenant", SERVICES, {"metadata": {"name": "web"}, "spec": spec})
    assert refusal(bench) == ("PolicyRefused", f"spec.type {kind} without spec.selector is not allowed here")
    policy = ServicePolicy(external_backends="Allow")
    bench.context = msgspec.structs.replace(CONTEXT, service_policy=policy)
    bench.settle("services", "shop", "web")
    assert bench.get("super", SERVICES, "web")["spec"]["type"] == kind


@pytest.mark.parametrize(
    ("before", "change"),
    [
        pytest.param({"type": "ClusterIP", "selector": None}, {"type": "NodePort"}, id="another type"),
        pytest.param({"type": "NodePort"}, {"selector": None}, id="the selector goes"),
    ],
)
def test_a_service_in_use_keeps_its_type_and_selector(
    bench: Bench, before: dict[str, Any], change: dict[str, Any]
) -> None:
    make(bench, **before)
    bench.edit("tenant", SERVICES, "web", {"spec": change})
    assert refusal(bench)[0] == "PolicyRefused"
    found = bench.get("super", SERVICES, "web")["spec"]
    assert (found.get("type"), found.get("selector")) == (before["type"], before.get("selector", SELECTOR))


def test_node_ports_of_the_super_cluster_are_kept(bench: Bench) -> None:
    make(bench, type="NodePort")
    before = {port["name"]: port["nodePort"] for port in bench.get("super", SERVICES, "web")["spec"]["ports"]}
    changed = [
        {"name": "https", "port": 443, "protocol": "TCP", "targetPort": 8443},
        {"name": "renamed", "port": 80, "protocol": "TCP", "targetPort": 8080, "nodePort": 31999},
        {"name": "new", "port": 81, "protocol": "TCP", "targetPort": 81},
    ]
    bench.edit("tenant", SERVICES, "web", {"spec": {"ports": changed}})
    bench.settle("services", "shop", "web")
    after = {
        port["name"]: port.get("nodePort") for port in bench.get("super", SERVICES, "web")["spec"]["ports"]
    }
    assert after == {"https": before["https"], "renamed": before["http"], "new": None}


def test_a_changed_selector_is_patched_key_by_key(bench: Bench) -> None:
    make(bench, selector={"a": "1", "b": "2"})
    bench.edit("tenant", SERVICES, "web", {"spec": {"selector": {"a": "9", "b": None}}})
    (plan,) = bench.settle("services", "shop", "web")
    assert plan.actions[0].patch["spec"] == {"selector": {"a": "9", "b": None}}


def test_missing_defaults_of_an_older_api_server_are_not_a_difference(bench: Bench) -> None:
    make(bench)
    bench.edit("tenant", SERVICES, "web", {"spec": {"internalTrafficPolicy": None, "sessionAffinity": None}})
    assert bench.plan("services", "shop", "web").actions == ()


def test_a_service_that_becomes_headless_is_recreated(bench: Bench) -> None:
    make(bench)
    bench.objects[bench.key("super", SERVICES, "", "web")]["spec"]["clusterIP"] = "None"
    plans = bench.settle("services", "shop", "web")
    assert isinstance(plans[0].actions[0], Delete)
    assert bench.get("super", SERVICES, "web")["spec"]["clusterIP"] != "None"


@pytest.mark.parametrize(
    ("before", "after", "patch"),
    [
        ("SingleStack", "PreferDualStack", "PreferDualStack"),
        ("SingleStack", "RequireDualStack", "PreferDualStack"),
        ("RequireDualStack", "SingleStack", "SingleStack"),
    ],
)
def test_a_change_between_one_and_two_ip_families_is_copied(
    bench: Bench, before: str, after: str, patch: str
) -> None:
    make(bench, ipFamilyPolicy=before)
    bench.edit("tenant", SERVICES, "web", {"spec": {"ipFamilyPolicy": after}})
    plan, *_ = bench.settle("services", "shop", "web")
    assert plan.actions[0].patch["spec"] == {"ipFamilyPolicy": patch}


def test_a_copy_of_an_earlier_version_that_requires_two_families_stays(bench: Bench) -> None:
    make(bench, ipFamilyPolicy="RequireDualStack")
    there = bench.get("super", SERVICES, "web")["spec"]
    assert there["ipFamilyPolicy"] == "PreferDualStack"
    there["ipFamilyPolicy"] = "RequireDualStack"
    assert bench.settle("services", "shop", "web") == []


def test_the_cluster_ip_of_the_super_cluster_is_copied_up(bench: Bench) -> None:
    make(bench)
    address = bench.get("super", SERVICES, "web")["spec"]["clusterIP"]
    annotations = bench.get("tenant", SERVICES, "web")["metadata"]["annotations"]
    assert annotations == {names.TRANSPARENT_CLUSTER_IP: address}


def shown_node_ports(bench: Bench, super_id: str) -> dict[str, int] | None:
    text = bench.get("tenant", SERVICES, "web")["metadata"]["annotations"].get(
        names.NODE_PORTS_PREFIX + super_id
    )
    return json.loads(text) if text is not None else None


def test_a_tenant_learns_the_ports_on_which_nodes_listen(bench: Bench) -> None:
    make(bench, type="NodePort")
    there = bench.get("super", SERVICES, "web")["spec"]["ports"]
    assert shown_node_ports(bench, "r1") == {f"{each['port']}/TCP": each["nodePort"] for each in there}
    bench.edit("super", SERVICES, "web", {"spec": {"healthCheckNodePort": 31999}})
    bench.settle("services", "shop", "web")
    assert (shown_node_ports(bench, "r1") or {})["healthCheck"] == 31999


def test_each_super_cluster_shows_its_own_node_ports_and_former_ones_are_removed(bench: Bench) -> None:
    bench.placements["shop"] = Placement({"r1": 1, "r2": 1}, {}, {})
    make(bench, type="NodePort")
    other = other_syncer(bench)
    share(other, bench)
    assert shown_node_ports(bench, "r1")
    assert shown_node_ports(bench, "r2")
    bench.placements["shop"] = Placement({"r1": 1}, {}, {})
    bench.settle("services", "shop", "web")
    assert shown_node_ports(bench, "r2") is None


def test_node_ports_are_not_shown_once_a_service_has_none(bench: Bench) -> None:
    make(bench, type="NodePort")
    bench.edit("tenant", SERVICES, "web", {"spec": {"type": "ClusterIP"}})
    for port in bench.objects[bench.key("super", SERVICES, "", "web")]["spec"]["ports"]:
        port.pop("nodePort", None)
    bench.settle("services", "shop", "web")
    assert shown_node_ports(bench, "r1") is None


def other_syncer(bench: Bench) -> Bench:
    """The syncer of r2: the same tenant, another super cluster."""
    other = Bench(msgspec.structs.replace(CONTEXT, super_id="r2"))
    other.place()
    other.placements = bench.placements
    key = bench.key("tenant", SERVICES, "", "web")
    other.objects[key] = bench.objects[key]
    other.settle("services", "shop", "web")
    return other


def share(source: Bench, target: Bench) -> None:
    key = source.key("tenant", SERVICES, "", "web")
    target.objects[key] = source.objects[key]


def ingress(bench: Bench) -> list[str]:
    status = bench.get("tenant", SERVICES, "web").get("status", {})
    return [entry["ip"] for entry in status.get("loadBalancer", {}).get("ingress", [])]


def test_several_super_clusters_contribute_their_addresses(bench: Bench) -> None:
    bench.placements["shop"] = Placement({"r2": 1, "r1": 1}, {}, {})
    make(bench, type="LoadBalancer")
    other = other_syncer(bench)
    share(other, bench)
    for here, address in ((bench, "192.0.2.1"), (other, "192.0.2.2")):
        here.edit(
            "super",
            SERVICES,
            "web",
            {"status": {"loadBalancer": {"ingress": [{"ip": address, "ipMode": "VIP"}]}}},
        )
    other.settle("services", "shop", "web")
    assert ingress(other) == ["192.0.2.2"]
    share(other, bench)
    bench.settle("services", "shop", "web")
    assert ingress(bench) == ["192.0.2.1", "192.0.2.2"]
    share(bench, other)
    assert other.plan("services", "shop", "web").actions == ()
    annotations = bench.get("tenant", SERVICES, "web")["metadata"]["annotations"]
    assert json.loads(annotations[names.INGRESS_PREFIX + "r1"]) == [{"ip": "192.0.2.1", "ipMode": "VIP"}]
    assert (
        annotations[names.TRANSPARENT_CLUSTER_IP] == bench.get("super", SERVICES, "web")["spec"]["clusterIP"]
    )


def test_a_former_super_clusters_contribution_is_removed(bench: Bench) -> None:
    bench.placements["shop"] = Placement({"r1": 1, "r2": 1}, {}, {})
    make(bench, type="LoadBalancer")
    bench.edit(
        "tenant",
        SERVICES,
        "web",
        {"metadata": {"annotations": {names.INGRESS_PREFIX + "r2": '[{"ip":"192.0.2.2"}]'}}},
    )
    bench.settle("services", "shop", "web")
    assert ingress(bench) == ["192.0.2.2"]
    bench.placements["shop"] = Placement({"r1": 1}, {}, {})
    bench.settle("services", "shop", "web")
    assert ingress(bench) == []
    assert names.INGRESS_PREFIX + "r2" not in bench.get("tenant", SERVICES, "web")["metadata"]["annotations"]


@pytest.mark.parametrize("garbage", ["", "{}", "null", "[1]", '[{"ip": 5}]', "[[[[", "\x00"])
def test_an_invalid_contribution_is_ignored(bench: Bench, garbage: str) -> None:
    bench.placements["shop"] = Placement({"r1": 1, "r2": 1}, {}, {})
    make(bench, type="LoadBalancer")
    bench.edit(
        "tenant", SERVICES, "web", {"metadata": {"annotations": {names.INGRESS_PREFIX + "r2": garbage}}}
    )
    assert bench.plan("services", "shop", "web").actions == ()


def test_a_service_without_load_balancer_loses_its_addresses(bench: Bench) -> None:
    make(bench, type="LoadBalancer")
    bench.edit("super", SERVICES, "web", {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}})
    bench.settle("services", "shop", "web")
    assert ingress(bench) == ["192.0.2.1"]
    bench.edit("tenant", SERVICES, "web", {"spec": {"type": "ClusterIP"}})
    bench.settle("services", "shop", "web")
    assert ingress(bench) == []


@pytest.mark.parametrize("kind", ["ClusterIP", "NodePort"])
def test_two_syncers_do_not_wait_for_each_other_when_a_service_stops_being_a_load_balancer(
    bench: Bench, kind: str
) -> None:
    """The tenant's API refuses addresses then, so neither may write the union with the other's."""
    bench.placements["shop"] = Placement({"r1": 1, "r2": 1}, {}, {})
    make(bench, type="LoadBalancer")
    other = other_syncer(bench)
    share(other, bench)
    for here, address in ((bench, "192.0.2.1"), (other, "192.0.2.2")):
        status = {"loadBalancer": {"ingress": [{"ip": address}]}}
        here.edit("super", SERVICES, "web", {"status": status})
        here.settle("services", "shop", "web")
        share(here, other if here is bench else bench)
    assert sorted(ingress(bench)) == ["192.0.2.1", "192.0.2.2"]

    bench.edit("tenant", SERVICES, "web", {"spec": {"type": kind}})
    share(bench, other)
    plans = [here.plan("services", "shop", "web") for here in (bench, other)]

    assert [
        action.patch["status"]
        for plan in plans
        for action in plan.actions
        if isinstance(action, Patch) and action.side == "tenant" and "status" in action.patch
    ] == [{"loadBalancer": None}] * 2
    bench.settle("services", "shop", "web")
    annotations = bench.get("tenant", SERVICES, "web")["metadata"]["annotations"]
    assert not [each for each in annotations if each.startswith(names.INGRESS_PREFIX)]
    assert (names.NODE_PORTS_PREFIX + "r2" in annotations) is (kind == "NodePort")


def test_the_first_super_cluster_that_is_not_lost_removes_the_contributions_of_former_ones(
    bench: Bench,
) -> None:
    bench.placements["shop"] = Placement({"r0": 1, "r1": 1}, {}, {})
    make(bench, type="LoadBalancer")
    former = {names.INGRESS_PREFIX + "r9": '[{"ip":"192.0.2.9"}]'}
    bench.edit("tenant", SERVICES, "web", {"metadata": {"annotations": former}})
    assert bench.plan("services", "shop", "web").actions == (), "r0 does it"
    bench.context = msgspec.structs.replace(bench.context, lost=frozenset({"r0"}))
    bench.settle("services", "shop", "web")
    assert names.INGRESS_PREFIX + "r9" not in bench.get("tenant", SERVICES, "web")["metadata"]["annotations"]


@pytest.mark.parametrize(
    "address",
    [
        {"ip": "300.0.2.2"},
        {"ip": "r2"},
        {"ip": "192.0.2.2", "ipMode": "Other"},
        {"hostname": "x.example", "ipMode": "VIP"},
        {"ports": [{"port": 80}]},
    ],
)
def test_a_contribution_that_the_api_refuses_does_not_hold_up_the_others(
    bench: Bench, address: dict[str, Any]
) -> None:
    """A tenant may write anything there."""
    bench.placements["shop"] = Placement({"r1": 1, "r2": 1}, {}, {})
    make(bench, type="LoadBalancer")
    theirs = {names.INGRESS_PREFIX + "r2": json.dumps([address, {"ip": "192.0.2.2"}])}
    bench.edit("tenant", SERVICES, "web", {"metadata": {"annotations": theirs}})
    bench.edit("super", SERVICES, "web", {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}})
    bench.settle("services", "shop", "web")
    assert ingress(bench) == ["192.0.2.1", "192.0.2.2"]


PORT = st.fixed_dictionaries(
    {"port": st.integers(1, 65535)},
    optional={
        "protocol": st.sampled_from(["TCP", "UDP", "SCTP"]),
        "targetPort": st.one_of(st.integers(1, 65535), st.just("http")),
        "nodePort": st.integers(30000, 32767),
        "appProtocol": st.just("h2c"),
    },
)
SPEC = st.fixed_dictionaries(
    {"ports": st.lists(PORT, min_size=1, max_size=4, unique_by=lambda port: port["port"])},
    optional={
        "type": st.sampled_from(["ClusterIP", "NodePort", "LoadBalancer"]),
        "clusterIP": st.sampled_from(["10.0.0.1", "fd00::1"]),
        "selector": st.dictionaries(st.text("abc", min_size=1), st.text("xyz"), max_size=3),
        "sessionAffinity": st.sampled_from(["None", "ClientIP"]),
        "externalTrafficPolicy": st.sampled_from(["Local", "Cluster"]),
        "internalTrafficPolicy": st.sampled_from(["Local", "Cluster"]),
        "ipFamilyPolicy": st.sampled_from(["SingleStack", "PreferDualStack", "RequireDualStack"]),
        "publishNotReadyAddresses": st.booleans(),
        "loadBalancerClass": st.just("x/y"),
    },
)


def with_names(spec: dict[str, Any]) -> dict[str, Any]:
    return {**spec, "ports": [{**port, "name": f"p{index}"} for index, port in enumerate(spec["ports"])]}


@given(SPEC, SPEC)
@settings(max_examples=100)
def test_services_settle(spec: dict[str, Any], change: dict[str, Any]) -> None:
    bench = Bench()
    bench.place()
    policy = ServicePolicy(external_backends="Allow", load_balancer_classes=("x/y",))
    bench.context = msgspec.structs.replace(CONTEXT, service_policy=policy)
    bench.put("tenant", SERVICES, {"metadata": {"name": "web"}, "spec": with_names(spec)})
    created, *up = bench.settle("services", "shop", "web")
    assert len(created.actions) == 1
    assert len(up) == 1  # the address, known once the Service stands
    bench.edit(
        "tenant",
        SERVICES,
        "web",
        {"spec": {**change, "clusterIP": bench.get("tenant", SERVICES, "web")["spec"]["clusterIP"]}},
    )
    assert len(bench.settle("services", "shop", "web")) <= 2  # down, then the node ports up


@given(st.lists(SPEC, min_size=1, max_size=3))
@settings(max_examples=50)
def test_no_history_of_a_service_leads_traffic_from_outside_to_other_addresses(
    specs: list[dict[str, Any]],
) -> None:
    bench = Bench()
    bench.place()
    for number, spec in enumerate(specs):
        body = {"metadata": {"name": "web"}, "spec": with_names(spec)}
        bench.put("tenant", SERVICES, body) if number == 0 else bench.edit("tenant", SERVICES, "web", body)
        for action in bench.plan("services", "shop", "web").actions:
            bench.execute(action)
        if not bench.has("super", SERVICES, "web"):
            continue
        found = bench.get("super", SERVICES, "web")["spec"]
        assert found.get("selector") or found.get("type", "ClusterIP") == "ClusterIP"
        assert not found.get("loadBalancerClass") or found.get("type") != "LoadBalancer"
