"""A tenant's virtual nodes: created with its first Pod on a node, kept up to date, deleted some time after its last."""

from __future__ import annotations

import json
import os
import time
from datetime import datetime, timedelta

import pytest
from pool_kit import Json, Pool, Space, condition, items, pod, read

from hack.testbed import KubectlError
from tests.real.waiting import eventually
from vcsync.api import names

OURS = (
    os.environ.get("VCSYNC_TENANTS", "").startswith("embedded")
    and os.environ.get("VCSYNC_SUPERS") == "hollow"
)
"""Whether users of the tenant can only read Nodes: it has vcsync's own controllers."""


def virtual_nodes(space: Space) -> dict[str, Json]:
    """Return name -> node of the tenant."""
    return {each["metadata"]["name"]: each for each in items(space.tenant, "/api/v1/nodes")}


def may_write(space: Space, node: str) -> bool:
    """Return whether users of the tenant may write Nodes. Where they may not, check that they are refused."""
    if OURS:
        with pytest.raises(KubectlError, match=r"(?i)forbidden"):
            space.kubectl("label", "node", node, "example.com/mine=yes", "--overwrite")
    return not OURS


def lease_time(space: Space, node: str) -> str:
    """Return the last renewal of a virtual node's Lease."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node}"
    found = read(space.tenant, path)
    return str(((found or {}).get("spec") or {}).get("renewTime", ""))


@pytest.mark.core
def test_a_virtual_node_has_the_fields_of_the_real_one(pool: Pool, space: Space) -> None:
    space.apply(pod("one", on="r1"), pod("two", on="r2"))
    for name, super_id in (("one", "r1"), ("two", "r2")):
        virtual = space.running(name)["spec"]["nodeName"]
        standing = space.there(super_id, "pods", name) or {}
        assert virtual == f"{standing['spec']['nodeName']}.{super_id}"
        real = read(pool.supers[super_id], f"/api/v1/nodes/{standing['spec']['nodeName']}") or {}
        shown = virtual_nodes(space)[virtual]
        assert shown["status"]["capacity"] == real["status"]["capacity"]
        assert shown["status"]["allocatable"] == real["status"]["allocatable"]
        assert condition(shown, "Ready")["status"] == "True"
        version = real["status"]["nodeInfo"]["kubeletVersion"]
        assert shown["status"]["nodeInfo"]["kubeletVersion"] == version
        assert shown["metadata"]["labels"][names.SUPER_CLUSTER_ID] == super_id
        assert shown["metadata"]["labels"][names.VIRTUAL_NODE] == "true"
        # Fields that identify a machine are not copied.
        assert not any(shown["status"]["nodeInfo"][field] for field in ("machineID", "systemUUID", "bootID"))
        row = space.kubectl("get", "node", virtual, "--no-headers").split()
        assert row[:2] == [virtual, "Ready"]
        assert row[-1] == version


def test_a_virtual_node_exists_from_the_first_pod_until_some_time_after_the_last(pool: Pool) -> None:
    with (
        pool.configured("umbrella", virtualNodeLingerSeconds=1, heartbeatSeconds=5),
        pool.space("umbrella") as space,
    ):
        space.apply(pod("only", on="r2"))
        node = space.running("only")["spec"]["nodeName"]
        assert node in virtual_nodes(space)
        first = eventually(lambda: lease_time(space, node))
        # While it is used it remains, and its Lease is renewed at the configured interval.
        second = eventually(lambda: _later(lease_time(space, node), first))
        third = eventually(lambda: _later(lease_time(space, node), second))
        # (When another node is removed, one renewal is up to half an interval earlier.)
        assert datetime.fromisoformat(third) - datetime.fromisoformat(second) >= timedelta(seconds=2.4)
        assert node in virtual_nodes(space)

        space.kubectl("delete", "pod", "only")

        eventually(lambda: node not in virtual_nodes(space))
        eventually(lambda: not lease_time(space, node))
        # It is created again.
        space.apply(pod("again", on="r2", nodeSelector={"kubernetes.io/hostname": node}))
        assert space.running("again")["spec"]["nodeName"] == node


def _later(found: str, before: str) -> str:
    return found if found > before else ""


def test_changes_of_a_node_are_visible_immediately_and_cause_no_other_writes(
    pool: Pool, space: Space
) -> None:
    space.apply(pod("one", on="r1"))
    virtual = space.running("one")["spec"]["nodeName"]
    real = virtual.removesuffix(".r1")
    r1 = pool.supers["r1"]

    r1.kubectl("cordon", real)
    try:
        eventually(lambda: virtual_nodes(space)[virtual]["spec"].get("unschedulable"))
        assert "SchedulingDisabled" in space.kubectl("get", "node", virtual, "--no-headers")
    finally:
        r1.kubectl("uncordon", real)
    eventually(lambda: not virtual_nodes(space)[virtual]["spec"].get("unschedulable"))
    # The tenant's own node controller adds the taint with a delay.
    eventually(
        lambda: "node.kubernetes.io/unschedulable" not in json.dumps(virtual_nodes(space)[virtual]["spec"])
    )

    # Heartbeats of the real node are not copied one by one: only the Lease is renewed.
    before = virtual_nodes(space)[virtual]["metadata"]["resourceVersion"]
    for _ in range(5):
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        beat = {"type": "Ready", "status": "True", "lastHeartbeatTime": now}
        patch = json.dumps({"status": {"conditions": [beat]}})
        r1.kubectl("patch", "node", real, "--subresource=status", "--type=strategic", "-p", patch)
    r1.kubectl("label", "node", real, "example.com/seen=yes", "--overwrite")
    space.apply(pod("marker", on="r1"))
    space.running("marker")
    assert virtual_nodes(space)[virtual]["metadata"]["resourceVersion"] == before
    r1.kubectl("label", "node", real, "example.com/seen-")


def test_a_tenants_labels_on_a_virtual_node_are_kept(space: Space) -> None:
    space.apply(pod("one", on="r2"))
    virtual = space.running("one")["spec"]["nodeName"]
    if not may_write(space, virtual):
        return
    space.kubectl("label", "node", virtual, "example.com/mine=yes", "--overwrite")
    r2 = space.pool.supers["r2"]
    r2.kubectl("cordon", virtual.removesuffix(".r2"))
    try:
        eventually(lambda: virtual_nodes(space)[virtual]["spec"].get("unschedulable"))
    finally:
        r2.kubectl("uncordon", virtual.removesuffix(".r2"))
    assert virtual_nodes(space)[virtual]["metadata"]["labels"]["example.com/mine"] == "yes"


def test_a_pod_may_select_a_super_cluster_or_a_node_by_labels_of_virtual_nodes(space: Space) -> None:
    space.apply(pod("scout", on="r2"))
    node = space.running("scout")["spec"]["nodeName"]
    space.apply(pod("follower", nodeSelector={"kubernetes.io/hostname": node}, on="r2"))
    assert space.running("follower")["spec"]["nodeName"] == node
    term = {"matchExpressions": [{"key": names.SUPER_CLUSTER_ID, "operator": "NotIn", "values": ["r1"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    space.apply(pod("elsewhere", affinity={"nodeAffinity": required}))
    assert space.running("elsewhere")["spec"]["nodeName"].endswith(".r2")


def test_a_deleted_virtual_node_is_restored_while_its_pods_exist(space: Space) -> None:
    space.apply(pod("one", on="r2"))
    mine = space.running("one")
    virtual = mine["spec"]["nodeName"]
    before = virtual_nodes(space)[virtual]["metadata"]["uid"]
    if not may_write(space, virtual):
        return

    space.kubectl("delete", "node", virtual)

    eventually(
        lambda: virtual_nodes(space).get(virtual, {"metadata": {"uid": before}})["metadata"]["uid"] != before
    )
    assert space.running("one")["metadata"]["uid"] == mine["metadata"]["uid"]


def test_amounts_that_a_tenant_writes_into_a_virtual_node_are_repaired(space: Space) -> None:
    space.apply(pod("one", on="r1"))
    node = space.running("one")["spec"]["nodeName"]
    if not may_write(space, node):
        return

    def amounts() -> Json:
        return {field: virtual_nodes(space)[node]["status"][field] for field in ("capacity", "allocatable")}

    own = amounts()
    forged = {"status": {"capacity": {"cpu": "4711"}, "allocatable": {"cpu": "4711"}}}
    space.kubectl("patch", "node", node, "--subresource=status", "--type=merge", "-p", json.dumps(forged))
    eventually(lambda: amounts() == own)


def test_a_cordon_and_a_priority_class_get_events_that_they_have_no_effect(space: Space) -> None:
    space.apply(pod("one", on="r1"))
    node = space.running("one")["spec"]["nodeName"]
    urgent = f"{space.name}-urgent"
    space.kubectl("create", "priorityclass", urgent, "--value=1000")
    try:
        eventually(
            lambda: "gives Pods no precedence there" in space.kubectl("describe", "priorityclass", urgent)
        )
    finally:
        space.kubectl("delete", "priorityclass", urgent)
    if may_write(space, node):
        space.kubectl("cordon", node)
        eventually(lambda: "to cordon it has no effect" in space.kubectl("describe", "node", node))
        space.kubectl("uncordon", node)


def test_tenants_see_the_labels_and_taints_that_the_operator_chooses(pool: Pool, space: Space) -> None:
    space.apply(pod("p", on="r1"))
    node = space.running("p")["spec"]["nodeName"]
    actual = node.removesuffix(".r1")
    cluster = pool.supers["r1"]

    def shown() -> tuple[Json, list[Json]]:
        found = virtual_nodes(space)[node]
        labels = {key: value for key, value in found["metadata"]["labels"].items() if "example.com" in key}
        taints = [each for each in found["spec"].get("taints") or () if "example.com" in each["key"]]
        return labels, taints

    def choose(value: Json | None) -> None:
        patch = json.dumps({"spec": {"shownNodes": value}})
        pool.bed.meta.kubectl("patch", "supercluster", "r1", "--type=merge", "-p", patch)

    cluster.kubectl("label", "node", actual, "example.com/rack=seven", "private.example.com/owner=us")
    cluster.kubectl("taint", "node", actual, "example.com/reserved=x:NoSchedule")
    try:
        choose({"labels": ["example.com/*"], "taints": ["example.com/reserved"]})
        taint = {"key": "example.com/reserved", "value": "x", "effect": "NoSchedule"}
        eventually(lambda: shown() == ({"example.com/rack": "seven"}, [taint]))
        choose(None)
        eventually(lambda: shown() == ({}, []))
    finally:
        choose(None)
        cluster.kubectl("label", "node", actual, "example.com/rack-", "private.example.com/owner-")
        cluster.kubectl("taint", "node", actual, "example.com/reserved-")
