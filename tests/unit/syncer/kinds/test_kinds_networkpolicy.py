"""NetworkPolicies: rules are copied, and select objects of the same tenant only."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kinds_bench import KEY, Bench, super_ns

from vcsync.api import names
from vcsync.kube.resources import NETWORK_POLICIES
from vcsync.syncer.kinds.networkpolicy import convert
from vcsync.syncer.kinds.plan import Notify, TenantContext

NAME = "kubernetes.io/metadata.name"
CONTEXT = TenantContext(
    key=KEY, vc_name="main", vc_namespace="acme", vc_uid="u", super_id="r1", api_host="10.0.0.1", api_port=443
)
OURS = {names.CLUSTER: KEY}


def put(bench: Bench, spec: dict[str, Any], **more: Any) -> None:
    bench.put(
        "tenant", NETWORK_POLICIES, {"metadata": {"name": "rules", "namespace": "shop", **more}, "spec": spec}
    )


def below(bench: Bench) -> Any:
    return bench.get("super", NETWORK_POLICIES, "rules", super_ns("shop"))["spec"]


@pytest.mark.parametrize(
    ("peer", "copied"),
    [
        ({"podSelector": {"matchLabels": {"app": "web"}}}, {"podSelector": {"matchLabels": {"app": "web"}}}),
        ({"podSelector": {}}, {"podSelector": {}}),
        ({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}},) * 2,
        ({"namespaceSelector": {}}, {"namespaceSelector": {"matchLabels": OURS}}),
        (
            {"namespaceSelector": {"matchLabels": {"team": "a"}}, "podSelector": {}},
            {"namespaceSelector": {"matchLabels": {"team": "a", **OURS}}, "podSelector": {}},
        ),
        (
            {"namespaceSelector": {"matchLabels": {NAME: "kube-system"}}},
            {"namespaceSelector": {"matchLabels": {NAME: super_ns("kube-system"), **OURS}}},
        ),
        (
            {
                "namespaceSelector": {
                    "matchExpressions": [{"key": NAME, "operator": "NotIn", "values": ["a", "b"]}]
                }
            },
            {
                "namespaceSelector": {
                    "matchLabels": OURS,
                    "matchExpressions": [
                        {"key": NAME, "operator": "NotIn", "values": [super_ns("a"), super_ns("b")]}
                    ],
                }
            },
        ),
    ],
)
@pytest.mark.parametrize(("direction", "peers"), [("ingress", "from"), ("egress", "to")])
def test_peers_are_objects_of_the_same_tenant(
    direction: str, peers: str, peer: dict[str, Any], copied: dict[str, Any]
) -> None:
    ports = [{"port": 80, "protocol": "TCP"}]
    spec = {"podSelector": {}, direction: [{peers: [peer], "ports": ports}], "policyTypes": ["Ingress"]}
    assert convert(spec, CONTEXT) == {**spec, direction: [{peers: [copied], "ports": ports}]}


@pytest.mark.parametrize("spec", [{"podSelector": {}}, {"podSelector": {}, "ingress": [{}], "egress": []}])
def test_rules_without_peers_are_copied_as_they_are(spec: dict[str, Any]) -> None:
    assert convert(spec, CONTEXT) == spec


SELECTORS = st.fixed_dictionaries(
    {},
    optional={
        "matchLabels": st.dictionaries(st.sampled_from(["a", NAME]), st.sampled_from(["x", "y"])),
        "matchExpressions": st.lists(
            st.fixed_dictionaries({"key": st.sampled_from(["a", NAME]), "operator": st.just("Exists")}),
            max_size=2,
        ),
    },
)


@given(st.lists(st.fixed_dictionaries({"namespaceSelector": SELECTORS}), min_size=1, max_size=3))
def test_no_selector_reaches_namespaces_of_others(peers: list[dict[str, Any]]) -> None:
    before = [{**each} for each in peers]
    [rule] = convert({"podSelector": {}, "ingress": [{"from": peers}]}, CONTEXT)["ingress"]
    assert all(each["namespaceSelector"]["matchLabels"][names.CLUSTER] == KEY for each in rule["from"])
    assert peers == before


def test_a_policy_follows_its_tenants(bench: Bench) -> None:
    put(bench, {"podSelector": {"matchLabels": {"app": "web"}}, "policyTypes": ["Ingress"]})
    assert len(bench.settle("networkpolicies", "shop", "rules")) == 1
    assert below(bench) == {"podSelector": {"matchLabels": {"app": "web"}}, "policyTypes": ["Ingress"]}
    changed = {
        "podSelector": {"matchLabels": None},
        "policyTypes": ["Egress"],
        "egress": [{"to": [{"namespaceSelector": {}}]}],
    }
    bench.edit("tenant", NETWORK_POLICIES, "rules", {"spec": changed})
    assert len(bench.settle("networkpolicies", "shop", "rules")) == 1
    assert below(bench) == {
        "podSelector": {},
        "policyTypes": ["Egress"],
        "egress": [{"to": [{"namespaceSelector": {"matchLabels": OURS}}]}],
    }
    assert not bench.settle("networkpolicies", "shop", "rules")


def test_a_change_in_the_super_cluster_is_repaired(bench: Bench) -> None:
    put(bench, {"podSelector": {}, "policyTypes": ["Ingress"]})
    bench.settle("networkpolicies", "shop", "rules")
    found = bench.get("super", NETWORK_POLICIES, "rules", super_ns("shop"))
    bench.put("super", NETWORK_POLICIES, {**found, "spec": {"podSelector": {}, "ingress": [{}]}})
    assert len(bench.settle("networkpolicies", "shop", "rules")) == 1
    assert below(bench) == {"podSelector": {}, "policyTypes": ["Ingress"]}


@pytest.mark.parametrize(
    "spec",
    [
        {"podSelector": {"matchLabels": {names.CLUSTER: "vcsync-other"}}},
        {"podSelector": {"matchExpressions": [{"key": "node.kubernetes.io/x", "operator": "DoesNotExist"}]}},
        {
            "podSelector": {},
            "ingress": [{"from": [{"podSelector": {"matchLabels": {"kubernetes.io/a": "b"}}}]}],
        },
        {
            "podSelector": {},
            "egress": [{"to": [{"namespaceSelector": {"matchLabels": {names.CLUSTER: "vcsync-other"}}}]}],
        },
        {
            "podSelector": {},
            "ingress": [
                {
                    "from": [
                        {
                            "namespaceSelector": {
                                "matchExpressions": [{"key": names.CLUSTER, "operator": "Exists"}]
                            }
                        }
                    ]
                }
            ],
        },
    ],
)
def test_selectors_of_labels_that_copies_lack_are_reported(bench: Bench, spec: dict[str, Any]) -> None:
    put(bench, spec)
    [report] = bench.plan("networkpolicies", "shop", "rules").actions
    assert isinstance(report, Notify)
    assert report.reason == "NotEnforced"
    assert bench.super(NETWORK_POLICIES, super_ns("shop"), "rules") is None
