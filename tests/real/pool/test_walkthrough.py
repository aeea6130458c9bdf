"""The first steps of a tenant: quota, placement, Deployment, Service, mounts, rollout, and the removal of all."""

import base64
import json
from typing import Any

import pytest
from pool_kit import (
    SLICE,
    TWO_SLICES,
    Pool,
    Space,
    annotation,
    condition,
    container,
    deployment,
    items,
    pod,
    quota,
    read,
    super_of,
)

from hack.testbed import Cluster
from tests.real.waiting import eventually
from vcsync.api import names

pytestmark = pytest.mark.core

HUNDRED = {"cpu": "100m", "memory": "100Mi"}


def sleeper(replicas: int) -> dict[str, Any]:
    """The walk-through's Deployment: limits only, requests default to them."""
    containers = [{"name": "test", "image": "busybox:1.29", "command": ["sleep", "360000"]}]
    containers[0]["resources"] = {"limits": HUNDRED}  # type: ignore[assignment]
    return deployment("test-1", replicas, containers=containers, dnsPolicy="ClusterFirst")


def test_the_walk_through(pool: Pool) -> None:
    """A quota of two slices is spread over both super clusters; a Pod fills each; further Pods are refused."""
    space = pool.new_space(prefix="walk")
    space.create(slice_size=HUNDRED)
    try:
        space.apply(quota({"cpu": "200m", "memory": "200Mi"}, "mem-cpu-demo"))
        eventually(lambda: annotation(space.namespace(), names.PLACEMENTS) == '{"r1":1,"r2":1}')
        labels = (space.namespace() or {})["metadata"]["labels"]
        assert {labels[names.placement_label(super_id)] for super_id in pool.supers} == {"1"}
        eventually(lambda: space.stands_on() == {"r1", "r2"})
        for super_id in pool.supers:
            # The namespace exists before its quota.
            slices = eventually(lambda s=super_id: space.there(s, "resourcequotas", names.SUPER_QUOTA_NAME))  # type: ignore[misc]
            hard = slices["spec"]["hard"]
            assert hard["requests.cpu"] == "100m"
            assert hard["requests.memory"] == "100Mi"

        space.apply(sleeper(1))
        (first,) = space.all_running("test-1", 1)
        assert super_of(first) == annotation(first, names.SUPER_CLUSTER) == "r1"

        space.kubectl("scale", "deployment", "test-1", "--replicas", "2")
        both = space.all_running("test-1", 2)
        assert sorted(super_of(each) for each in both) == ["r1", "r2"]
        for super_id in pool.supers:
            (one,) = space.all_there(super_id, "pods")
            assert one["metadata"]["name"] in {each["metadata"]["name"] for each in both}
            assert one["spec"]["nodeName"]

        # The tenant's own admission refuses a third replica, and nothing reaches the super clusters.
        space.kubectl("scale", "deployment", "test-1", "--replicas", "3")
        refusal = eventually(lambda: _replica_failure(space))
        assert "exceeded quota: mem-cpu-demo" in refusal
        assert len(space.pods()) == 2

        # Restarted roles change nothing: no Pod moves or is created again.
        space.kubectl("scale", "deployment", "test-1", "--replicas", "2")
        before = _footprint(space)
        for role in pool.system.role_names:
            pool.system.kill(role)
        pool.system.start()
        assert space.placements() == {"r1": 1, "r2": 1}
        assert _footprint(space) == before

        # The deletion of the quota removes every slice and its objects.
        space.kubectl("delete", "deployment", "test-1", "--cascade=foreground", "--wait=false")
        space.kubectl("delete", "resourcequota", "mem-cpu-demo")
        eventually(lambda: annotation(space.namespace(), names.PLACEMENTS) in (None, "{}"))
        eventually(lambda: not space.stands_on())
        eventually(lambda: space.ledger() is None)
    finally:
        space.delete()


def _replica_failure(space: Space) -> str:
    found = space.get("deployments", "test-1", "apps/v1")
    return str(condition(found, "ReplicaFailure").get("message", ""))


def _footprint(space: Space) -> dict[str, str]:
    """Return the UID of every Pod on both sides."""
    found = {each["metadata"]["name"]: each["metadata"]["uid"] for each in space.pods()}
    for super_id in space.pool.supers:
        for each in space.all_there(super_id, "pods"):
            found[f"{super_id}/{each['metadata']['name']}"] = each["metadata"]["uid"]
    return found


def test_losing_a_placement_clears_that_super_cluster_and_moves_the_pods(pool: Pool, space: Space) -> None:
    space.apply(deployment("web", 2))
    before = space.all_running("web", 2)
    assert {super_of(each) for each in before} == {"r1", "r2"}

    space.pin(r1=2)

    eventually(lambda: space.placements() == {"r1": 2})
    eventually(lambda: space.stands_on() == {"r1"})
    after = space.all_running("web", 2)
    assert {super_of(each) for each in after} == {"r1"}
    # The Pod on r1 is unchanged.
    assert {each["metadata"]["uid"] for each in before} & {each["metadata"]["uid"] for each in after}
    eventually(lambda: (space.ledger() or {})["metadata"]["finalizers"] == [names.drain_finalizer("r1")])


def test_shrinking_the_quota_gives_slices_back(pool: Pool, space: Space) -> None:
    space.apply(pod("stays", on="r2"))
    space.running("stays")
    space.pin(r2=1)

    space.apply(quota(SLICE))

    eventually(lambda: space.placements() == {"r2": 1})
    eventually(lambda: space.stands_on() == {"r2"})
    space.running("stays")


def test_a_pod_too_big_for_any_share_waits_and_its_event_names_the_missing_resources(space: Space) -> None:
    big = {"cpu": "750m", "memory": "64Mi"}
    space.apply(pod("big", containers=[container(resources={"requests": big})]))

    events = eventually(lambda: space.events("big", "FailedScheduling"))

    message = events[0]["message"]
    assert "r1: " in message
    assert "r2: " in message
    assert "cpu" in message
    found = space.get("pods", "big")
    assert condition(found, "PodScheduled")["reason"] == "Unschedulable"
    assert condition(found, "PodScheduled")["message"] == message
    assert (found or {})["status"]["phase"] == "Pending"
    assert "nodeName" not in (found or {})["spec"]
    assert not any(space.there(super_id, "pods", "big") for super_id in space.pool.supers)

    # It waits only for room.
    space.kubectl("patch", "namespace", space.name, "--type=merge", "-p", _slice_annotation(TWO_SLICES))
    space.running("big")


def _slice_annotation(size: dict[str, str]) -> str:
    return json.dumps({"metadata": {"annotations": {names.SLICE: json.dumps(size)}}})


def test_two_tenants_may_use_the_same_names(pool: Pool) -> None:
    with pool.space("acme", "twins") as acme, pool.space("umbrella", "twins") as umbrella:
        for space, colour in ((acme, "red"), (umbrella, "blue")):
            config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "colour"}}
            space.apply(config | {"data": {"is": colour}}, pod("twin", on="r1", labels={"colour": colour}))
        ours, theirs = acme.running("twin"), umbrella.running("twin")
        assert acme.super_name != umbrella.super_name
        for space, mine, colour in ((acme, ours, "red"), (umbrella, theirs, "blue")):
            (standing,) = space.all_there("r1", "pods")
            assert standing["metadata"]["annotations"][names.UID] == mine["metadata"]["uid"]
            assert standing["metadata"]["labels"]["colour"] == colour
            config = eventually(lambda space=space: space.there("r1", "configmaps", "colour"))  # type: ignore[misc]
            assert config["data"] == {"is": colour}

        acme.kubectl("delete", "pod", "twin")
        eventually(lambda: not acme.all_there("r1", "pods"))
        assert umbrella.running("twin")["metadata"]["uid"] == theirs["metadata"]["uid"]
        assert umbrella.all_there("r1", "pods")


def test_services_config_maps_and_secrets_are_synced_to_every_super_cluster(space: Space) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
    }
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings"},
        "data": {"mode": "a"},
    }
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "key"},
        "stringData": {"word": "sesame"},
    }
    volumes = [
        {"name": "settings", "configMap": {"name": "settings"}},
        {"name": "key", "secret": {"secretName": "key"}},
    ]
    mounts = [{"name": "settings", "mountPath": "/settings"}, {"name": "key", "mountPath": "/key"}]
    space.apply(
        service,
        config,
        secret,
        deployment("web", 2, containers=[container(volumeMounts=mounts)], volumes=volumes),
    )
    pods = space.all_running("web", 2)
    assert {super_of(each) for each in pods} == {"r1", "r2"}

    mine = space.get("services", "web")
    assert mine is not None
    for super_id in space.pool.supers:
        standing = eventually(lambda s=super_id: space.there(s, "services", "web"))  # type: ignore[misc]
        assert standing["spec"]["selector"] == {"app": "web"}
        assert standing["metadata"]["annotations"][names.CLUSTER_IP] == mine["spec"]["clusterIP"]
        # The super cluster's own controller selects the Pods by the synced labels.
        addresses = eventually(
            lambda super_id=super_id: _addresses(space.there(super_id, "endpoints", "web"))
        )  # type: ignore[misc]
        assert len(addresses) == 1
        assert space.there(super_id, "configmaps", "settings")["data"] == {"mode": "a"}  # type: ignore[index]
        data = space.there(super_id, "secrets", "key")["data"]  # type: ignore[index]
        assert base64.b64decode(data["word"]) == b"sesame"
        (standing_pod,) = space.all_there(super_id, "pods")
        named = {each["name"]: each for each in standing_pod["spec"]["volumes"]}
        assert named["settings"]["configMap"]["name"] == "settings"
        assert named["key"]["secret"]["secretName"] == "key"
    # The tenant's own controller sees the same two Pods with the copied addresses.
    eventually(lambda: len(_addresses(space.get("endpoints", "web"))) == 2)
    first = space.there("r1", "services", "web")
    eventually(
        lambda: (
            annotation(space.get("services", "web"), names.TRANSPARENT_CLUSTER_IP)
            == (first or {})["spec"]["clusterIP"]
        )
    )

    space.kubectl(
        "create", "configmap", "settings", "--from-literal=mode=b", "--dry-run=client", "-o", "yaml"
    )
    space.kubectl("patch", "configmap", "settings", "-p", '{"data":{"mode":"b"}}')
    space.kubectl("patch", "service", "web", "-p", '{"spec":{"ports":[{"port":80,"targetPort":9090}]}}')
    for super_id in space.pool.supers:
        eventually(
            lambda s=super_id: (space.there(s, "configmaps", "settings") or {})["data"] == {"mode": "b"}
        )  # type: ignore[misc]
        eventually(
            lambda s=super_id: (
                (space.there(s, "services", "web") or {})["spec"]["ports"][0]["targetPort"] == 9090
            )  # type: ignore[misc]
        )
    space.kubectl("delete", "configmap/settings", "secret/key", "service/web")
    for super_id in space.pool.supers:
        for plural, name in (("configmaps", "settings"), ("secrets", "key"), ("services", "web")):
            eventually(lambda s=super_id, p=plural, n=name: space.there(s, p, n) is None)  # type: ignore[misc]


def _addresses(endpoints: dict[str, Any] | None) -> list[str]:
    subsets = (endpoints or {}).get("subsets") or ()
    return [address["ip"] for subset in subsets for address in subset.get("addresses") or ()]


def test_rollout_and_scale_down(space: Space) -> None:
    space.apply(deployment("web", 2))
    old = {each["metadata"]["uid"] for each in space.all_running("web", 2)}

    space.kubectl("set", "image", "deployment/web", "main=registry.k8s.io/pause:3.9")
    space.kubectl("rollout", "status", "deployment/web", "--timeout=60s")

    new = space.all_running("web", 2)
    assert not old & {each["metadata"]["uid"] for each in new}
    for each in new:
        standing = space.there(super_of(each), "pods", each["metadata"]["name"])
        assert standing is not None
        assert standing["spec"]["containers"][0]["image"] == "registry.k8s.io/pause:3.9"

    space.kubectl("scale", "deployment", "web", "--replicas", "0")
    eventually(lambda: not space.all("pods"))
    eventually(lambda: not any(space.all_there(super_id, "pods") for super_id in space.pool.supers))


def test_deleting_a_namespace_leaves_nothing_in_any_super_cluster(pool: Pool) -> None:
    with pool.space() as space:
        space.apply(deployment("web", 2))
        space.all_running("web", 2)

        space.kubectl("delete", "namespace", space.name, "--timeout=60s")

        eventually(lambda: not space.stands_on())
        eventually(lambda: space.ledger() is None)


@pytest.mark.timeout(300)
def test_removing_a_tenant_leaves_nothing_of_it_in_any_super_cluster(pool: Pool) -> None:
    departing = pool.bed.add_tenant(f"leaving-{len(pool.bed.tenants)}")
    pool.system.add_tenant(departing.name)
    with pool.space(departing.name) as space:
        space.apply(deployment("web", 2))
        space.all_running("web", 2)
        key = space.key
        assert all(_remains(cluster, key) for cluster in pool.supers.values())

        pool.system.vcsync("tenant", "remove", departing.name)

        assert not any(_remains(cluster, key) for cluster in pool.supers.values())
        assert departing.name not in pool.system.vcsync("tenant", "list")
        eventually(lambda: read(pool.bed.meta, f"/api/v1/namespaces/{key}") is None)
    pool.bed.remove(departing.name)
    assert all(tenant.call("GET", "/readyz")[0] == 200 for tenant in pool.bed.tenants.values())


def _remains(cluster: Cluster, key: str) -> list[str]:
    """Return all objects in a super cluster with a tenant's key."""
    return [
        f"{plural}/{each['metadata']['name']}"
        for plural in (
            "namespaces",
            "pods",
            "secrets",
            "configmaps",
            "services",
            "serviceaccounts",
            "resourcequotas",
        )
        for each in items(cluster, f"/api/v1/{plural}")
        if annotation(each, names.CLUSTER) == key
        or each["metadata"].get("namespace", "").startswith(f"{key}-")
    ]
