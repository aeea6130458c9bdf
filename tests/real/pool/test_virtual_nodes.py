"""What a tenant sees of nodes: virtual ones, with its first Pod there, kept fresh, gone some time after its last."""

from __future__ import annotations

import json
import time
from datetime import datetime, timedelta

from pool_kit import Json, Pool, Space, condition, eventually, items, pod, read

from vcsync.api import names


def virtual_nodes(space: Space) -> dict[str, Json]:
    """The tenant's nodes by name."""
    return {each["metadata"]["name"]: each for each in items(space.tenant, "/api/v1/nodes")}


def lease_time(space: Space, node: str) -> str:
    """When a virtual node's Lease was last renewed."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node}"
    found = read(space.tenant, path)
    return str(((found or {}).get("spec") or {}).get("renewTime", ""))


def test_a_virtual_node_shows_what_the_real_one_has(pool: Pool, space: Space) -> None:
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
        # What would let tenants recognise a machine stays below.
        assert not any(shown["status"]["nodeInfo"][field] for field in ("machineID", "systemUUID", "bootID"))
        row = space.kubectl("get", "node", virtual, "--no-headers").split()
        assert row[:2] == [virtual, "Ready"]
        assert row[-1] == version


def test_a_virtual_node_comes_with_the_first_pod_and_goes_some_time_after_the_last(pool: Pool) -> None:
    with (
        pool.configured("umbrella", virtualNodeLingerSeconds=1, heartbeatSeconds=5),
        pool.space("umbrella") as space,
    ):
        space.apply(pod("only", on="r2"))
        node = space.running("only")["spec"]["nodeName"]
        assert node in virtual_nodes(space)
        first = eventually(lambda: lease_time(space, node))
        # While it is used it stays and its Lease is renewed, not more often than was said.
        second = eventually(lambda: _later(lease_time(space, node), first))
        third = eventually(lambda: _later(lease_time(space, node), second))
        # (When another node goes, the others' turn comes up to half an interval earlier, once.)
        assert datetime.fromisoformat(third) - datetime.fromisoformat(second) >= timedelta(seconds=2.4)
        assert node in virtual_nodes(space)

        space.kubectl("delete", "pod", "only")

        eventually(lambda: node not in virtual_nodes(space))
        eventually(lambda: not lease_time(space, node))
        # And it comes back.
        space.apply(pod("again", on="r2", nodeSelector={"kubernetes.io/hostname": node}))
        assert space.running("again")["spec"]["nodeName"] == node


def _later(found: str, before: str) -> str:
    return found if found > before else ""


def test_changes_of_a_node_show_at_once_and_cost_nothing_else(pool: Pool, space: Space) -> None:
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
    # The tenant's own node controller repeats it in a taint, a moment later.
    eventually(
        lambda: "node.kubernetes.io/unschedulable" not in json.dumps(virtual_nodes(space)[virtual]["spec"])
    )

    # Heartbeats of the real node are not handed on one by one: only its Lease beats.
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


def test_what_the_tenant_writes_on_a_virtual_node_stays(space: Space) -> None:
    space.apply(pod("one", on="r2"))
    virtual = space.running("one")["spec"]["nodeName"]
    space.kubectl("label", "node", virtual, "example.com/mine=yes", "--overwrite")
    r2 = space.pool.supers["r2"]
    r2.kubectl("cordon", virtual.removesuffix(".r2"))
    try:
        eventually(lambda: virtual_nodes(space)[virtual]["spec"].get("unschedulable"))
    finally:
        r2.kubectl("uncordon", virtual.removesuffix(".r2"))
    assert virtual_nodes(space)[virtual]["metadata"]["labels"]["example.com/mine"] == "yes"


def test_a_pod_may_ask_for_a_super_cluster_or_a_node_by_the_virtual_nodes_labels(space: Space) -> None:
    space.apply(pod("scout", on="r2"))
    node = space.running("scout")["spec"]["nodeName"]
    space.apply(pod("follower", nodeSelector={"kubernetes.io/hostname": node}, on="r2"))
    assert space.running("follower")["spec"]["nodeName"] == node
    term = {"matchExpressions": [{"key": names.SUPER_CLUSTER_ID, "operator": "NotIn", "values": ["r1"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    space.apply(pod("elsewhere", affinity={"nodeAffinity": required}))
    assert space.running("elsewhere")["spec"]["nodeName"].endswith(".r2")


def test_a_virtual_node_that_the_tenant_deletes_comes_back_while_its_pods_stand(space: Space) -> None:
    space.apply(pod("one", on="r2"))
    mine = space.running("one")
    virtual = mine["spec"]["nodeName"]
    before = virtual_nodes(space)[virtual]["metadata"]["uid"]

    space.kubectl("delete", "node", virtual)

    eventually(
        lambda: virtual_nodes(space).get(virtual, {"metadata": {"uid": before}})["metadata"]["uid"] != before
    )
    assert space.running("one")["metadata"]["uid"] == mine["metadata"]["uid"]
