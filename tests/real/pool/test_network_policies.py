"""NetworkPolicies of a tenant are in every super cluster with slices of their namespace, and are about this tenant only."""

from __future__ import annotations

import json
from typing import Any

from pool_kit import Space

from tests.real.waiting import eventually
from vcsync.api import names

GROUP = "networking.k8s.io/v1"
PLURAL = "networkpolicies"


def policy(name: str, **spec: Any) -> dict[str, Any]:
    spec = {"podSelector": {}, "policyTypes": ["Ingress"], **spec}
    return {"apiVersion": GROUP, "kind": "NetworkPolicy", "metadata": {"name": name}, "spec": spec}


def below(space: Space, name: str) -> list[Any]:
    """Return the spec in each super cluster; None where there is none."""
    found = [space.there(each, PLURAL, name, GROUP) for each in ("r1", "r2")]
    return [each and each["spec"] for each in found]


def test_a_policy_is_created_changed_and_deleted_in_every_super_cluster(space: Space) -> None:
    space.apply(policy("closed"))
    wanted = {"podSelector": {}, "policyTypes": ["Ingress"]}
    eventually(lambda: below(space, "closed") == [wanted, wanted])
    rule = {
        "from": [{"podSelector": {"matchLabels": {"app": "web"}}}],
        "ports": [{"port": 80, "protocol": "TCP"}],
    }
    space.apply(policy("closed", ingress=[rule]))
    eventually(lambda: below(space, "closed") == [{**wanted, "ingress": [rule]}] * 2)
    space.kubectl("delete", "networkpolicy", "closed")
    eventually(lambda: below(space, "closed") == [None, None])


def test_peers_are_namespaces_of_the_tenant(space: Space) -> None:
    everywhere = {"namespaceSelector": {}}
    named = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": space.name}}}
    space.apply(policy("open", ingress=[{"from": [everywhere, named]}]))
    ours = {names.CLUSTER: space.key}
    expected = [
        {"namespaceSelector": {"matchLabels": ours}},
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": space.super_name, **ours}}},
    ]
    eventually(
        lambda: [each and each["ingress"][0]["from"] for each in below(space, "open")] == [expected] * 2
    )
    for super_id in ("r1", "r2"):
        cluster = space.pool.supers[super_id]
        selected = cluster.kubectl(
            "get", "namespaces", "-l", f"{names.CLUSTER}={space.key}", "-o", "name"
        ).split()
        assert f"namespace/{space.super_name}" in selected


def test_changes_in_a_super_cluster_are_repaired(space: Space) -> None:
    space.apply(policy("closed"))
    wanted = {"podSelector": {}, "policyTypes": ["Ingress"]}
    eventually(lambda: below(space, "closed") == [wanted, wanted])
    where = ("-n", space.super_name, "networkpolicy", "closed")
    cluster = space.pool.supers["r1"]
    cluster.kubectl("patch", *where, "--type=merge", "-p", json.dumps({"spec": {"ingress": [{}]}}))
    eventually(lambda: below(space, "closed") == [wanted, wanted])
    cluster.kubectl("delete", *where)
    eventually(lambda: below(space, "closed") == [wanted, wanted])


def test_a_policy_that_cannot_be_enforced_is_reported(space: Space) -> None:
    foreign = {"namespaceSelector": {"matchLabels": {names.CLUSTER: "vcsync-of-another"}}}
    space.apply(policy("foreign", ingress=[{"from": [foreign]}]))
    events = eventually(lambda: space.events("foreign", "NotEnforced"))
    assert names.CLUSTER in events[0]["message"]
    assert below(space, "foreign") == [None, None]
