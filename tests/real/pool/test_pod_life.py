"""A Pod's whole life, as seen by the tenant: changes in place, deletion by either side, loss of nodes."""

from __future__ import annotations

import json

import pytest
from pool_kit import (
    SLICE,
    SMALL,
    Json,
    Pool,
    Space,
    condition,
    container,
    deployment,
    is_running,
    items,
    phase,
    pod,
    read,
    still_kubelets,
    super_of,
)

from hack.testbed import Cluster, KubectlError
from tests.real.failure_kit import forget_failures
from tests.real.waiting import eventually
from vcsync.api import names

# --- Changes of an existing Pod


def test_init_containers_and_sidecars(space: Space) -> None:
    sidecar = container("sidecar", restartPolicy="Always")
    space.apply(pod("three", initContainers=[container("init"), sidecar]))

    found = space.running("three")

    statuses = {each["name"]: each for each in found["status"]["initContainerStatuses"]}
    assert statuses["init"]["state"]["terminated"]["exitCode"] == 0
    assert "running" in statuses["sidecar"]["state"]
    assert [each["name"] for each in found["status"]["containerStatuses"]] == ["main"]


def test_an_ephemeral_container_is_added(space: Space) -> None:
    space.apply(pod("patient"))
    space.running("patient")
    debug = ("debug", "patient", "--image=busybox:1.29", "--target=main", "--attach=false")

    space.kubectl(*debug, "--container=doctor", "--profile=baseline")

    super_id, _ = space.below("patient")

    def added() -> list[Json]:
        found: list[Json] = (space.there(super_id, "pods", "patient") or {})["spec"].get(
            "ephemeralContainers", []
        )
        return found

    (doctor,) = eventually(added)
    assert doctor["name"] == "doctor"
    assert doctor["image"] == "busybox:1.29"
    assert doctor["targetContainerName"] == "main"
    # kubectl's default profile needs more than the policy allows: it gets an Event, and the container remains.
    space.kubectl(*debug, "--container=surgeon", "--profile=general")
    events = eventually(lambda: space.events("patient", "PolicyRefused"))
    assert "SYS_PTRACE" in events[0]["message"]
    assert added() == [doctor]


def test_a_privileged_ephemeral_container_is_refused(space: Space) -> None:
    space.apply(pod("patient"))
    space.running("patient")
    path = f"/api/v1/namespaces/{space.name}/pods/patient/ephemeralcontainers"
    found = space.get("pods", "patient") or {}
    rogue = {"name": "rogue", "image": "busybox:1.29", "securityContext": {"privileged": True}}
    found["spec"]["ephemeralContainers"] = [rogue]
    code, answer = space.tenant.call("PUT", path, found)
    assert code == 200, answer

    events = eventually(lambda: space.events("patient", "PolicyRefused"))

    assert "privileged" in events[0]["message"]
    _super_id, standing = space.below("patient")
    assert "ephemeralContainers" not in standing["spec"]


def test_resize_in_place(space: Space) -> None:
    space.apply(pod("grows"))
    space.running("grows")
    super_id, before = space.below("grows")
    # Hollow kubelets do not report the allocated resources of containers, without which no API server resizes a Pod.
    given = {"name": "main", "resources": before["spec"]["containers"][0]["resources"]}
    _patch_status(space, super_id, "grows", {"containerStatuses": [given]})
    eventually(lambda: "resources" in (space.get("pods", "grows") or {})["status"]["containerStatuses"][0])
    larger = {"cpu": "20m", "memory": "32Mi"}
    resources = {"requests": larger, "limits": larger}
    patch = {"spec": {"containers": [{"name": "main", "resources": resources}]}}

    space.kubectl("patch", "pod", "grows", "--subresource=resize", "-p", json.dumps(patch))

    def resized() -> bool:
        standing = space.there(super_id, "pods", "grows") or {}
        assert standing["metadata"]["uid"] == before["metadata"]["uid"]
        return bool(standing["spec"]["containers"][0]["resources"] == resources)

    eventually(resized)


def test_an_image_is_updated_in_place(space: Space) -> None:
    space.apply(pod("changes"))
    before = space.running("changes")
    super_id, below = space.below("changes")

    space.kubectl("set", "image", "pod/changes", "main=registry.k8s.io/pause:3.9")

    def updated() -> bool:
        found = space.get("pods", "changes") or {}
        assert found["metadata"]["uid"] == before["metadata"]["uid"]
        return bool(found["status"]["containerStatuses"][0]["image"] == "registry.k8s.io/pause:3.9")

    eventually(updated)
    standing = space.there(super_id, "pods", "changes") or {}
    assert standing["metadata"]["uid"] == below["metadata"]["uid"]


def test_the_tenant_sets_the_conditions_of_readiness_gates(space: Space) -> None:
    gate = "example.com/warm"
    space.apply(pod("gated", readinessGates=[{"conditionType": gate}]))
    found = eventually(lambda: _phase_is(space, "gated", "Running"))
    assert condition(found, "Ready")["status"] == "False"

    opened = {"status": {"conditions": [{"type": gate, "status": "True"}]}}
    space.kubectl("patch", "pod", "gated", "--subresource=status", "-p", json.dumps(opened))

    assert condition(space.running("gated"), gate)["status"] == "True"


def test_the_active_deadline_is_synced_and_its_expiry_is_reported(space: Space) -> None:
    space.apply(pod("brief", restartPolicy="Never"))
    space.running("brief")
    super_id, _ = space.below("brief")
    space.kubectl("patch", "pod", "brief", "-p", '{"spec":{"activeDeadlineSeconds":1}}')
    eventually(
        lambda: (space.there(super_id, "pods", "brief") or {})["spec"].get("activeDeadlineSeconds") == 1
    )

    # Hollow kubelets do not enforce deadlines: write the status of a kubelet.
    ended = {"status": {"phase": "Failed", "reason": "DeadlineExceeded", "message": "it was active too long"}}
    space.pool.supers[super_id].kubectl(
        "-n", space.super_name, "patch", "pod", "brief", "--subresource=status", "-p", json.dumps(ended)
    )

    found = eventually(lambda: _phase_is(space, "brief", "Failed"))
    assert found["status"]["reason"] == "DeadlineExceeded"
    assert found["status"]["message"] == "it was active too long"


def _patch_status(space: Space, super_id: str, name: str, status: Json) -> None:
    """Write a status of a Pod, like its kubelet."""
    space.pool.supers[super_id].kubectl(
        "-n",
        space.super_name,
        "patch",
        "pod",
        name,
        "--subresource=status",
        "-p",
        json.dumps({"status": status}),
    )


def _phase_is(space: Space, name: str, wanted: str) -> Json | None:
    found = space.get("pods", name)
    return found if phase(found) == wanted else None


# --- Deletion and eviction


@pytest.mark.core
@pytest.mark.parametrize("grace", [1, 7, 120])
def test_a_deletion_syncs_its_grace_period_and_ends_with_the_kubelet(
    pool: Pool, space: Space, grace: int
) -> None:
    space.apply(pod("leaves", on="r1", terminationGracePeriodSeconds=30))
    space.running("leaves")
    with still_kubelets(pool.supers["r1"]):
        space.kubectl("delete", "pod", "leaves", f"--grace-period={grace}", "--wait=false")
        assert eventually(lambda: _grace_below(space)) == grace
        mine = space.get("pods", "leaves")
        assert mine is not None, "gone for the tenant before it has stopped"
        assert mine["metadata"]["deletionGracePeriodSeconds"] == grace
    eventually(lambda: space.there("r1", "pods", "leaves") is None)
    eventually(lambda: space.get("pods", "leaves") is None)


def test_a_shortened_grace_period_is_synced(pool: Pool, space: Space) -> None:
    space.apply(pod("leaves", on="r1"))
    space.running("leaves")
    with still_kubelets(pool.supers["r1"]):
        for grace in (100, 5):
            space.kubectl("delete", "pod", "leaves", f"--grace-period={grace}", "--wait=false")
            eventually(lambda grace=grace: _grace_below(space) == grace)  # type: ignore[misc]
    eventually(lambda: space.get("pods", "leaves") is None)


def _grace_below(space: Space) -> int | None:
    """Return the grace period of Pod `leaves` in r1 if it is being deleted there."""
    found: int | None = (space.there("r1", "pods", "leaves") or {})["metadata"].get(
        "deletionGracePeriodSeconds"
    )
    return found


def test_force_deletion_frees_the_name_immediately_and_still_stops_the_containers(
    pool: Pool, space: Space
) -> None:
    space.apply(pod("leaves", on="r1"))
    space.running("leaves")
    with still_kubelets(pool.supers["r1"]):
        space.kubectl("delete", "pod", "leaves", "--force", "--grace-period=0")
        assert space.get("pods", "leaves") is None
        # Its copy exists until its kubelet has stopped it.
        eventually(lambda: _grace_below(space))
    eventually(lambda: space.there("r1", "pods", "leaves") is None)


def test_a_name_can_be_used_again_after_force_deletion(pool: Pool, space: Space) -> None:
    space.apply(pod("phoenix", on="r1"))
    first = space.running("phoenix")
    space.kubectl("delete", "pod", "phoenix", "--force", "--grace-period=0")
    space.apply(pod("phoenix", on="r1"))

    second = space.running("phoenix")

    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    standing = space.there("r1", "pods", "phoenix") or {}
    assert standing["metadata"]["annotations"][names.UID] == second["metadata"]["uid"]


@pytest.mark.core
def test_an_eviction_in_a_super_cluster_reaches_the_tenant_and_the_pod_is_replaced(
    pool: Pool, space: Space
) -> None:
    space.apply(deployment("web", 2))
    before = {super_of(each): each for each in space.all_running("web", 2)}
    victim = before["r2"]["metadata"]
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": victim["name"], "namespace": space.super_name},
    }
    path = f"/api/v1/namespaces/{space.super_name}/pods/{victim['name']}/eviction"
    code, answer = pool.supers["r2"].call("POST", path, body)
    assert code == 201, answer

    eventually(lambda: space.get("pods", victim["name"]) is None)
    after = space.all_running("web", 2)
    uids = {each["metadata"]["uid"] for each in after}
    assert before["r1"]["metadata"]["uid"] in uids
    assert victim["uid"] not in uids


def test_a_pod_that_a_kubelet_evicts_fails_in_the_tenant_and_is_replaced(space: Space) -> None:
    space.apply(deployment("web", 2))
    victim = space.all_running("web", 2)[0]
    name = victim["metadata"]["name"]
    message = "The node was low on resource: memory."
    evicted = {"phase": "Failed", "reason": "Evicted", "message": message}
    _patch_status(space, super_of(victim), name, evicted)

    found = eventually(lambda: _phase_is(space, name, "Failed"))

    assert found["status"]["reason"] == "Evicted"
    assert found["status"]["message"] == message
    running = eventually(lambda: _if_two([each for each in space.pods("web") if is_running(each)]))
    assert victim["metadata"]["uid"] not in {each["metadata"]["uid"] for each in running}


def _if_two(found: list[Json]) -> list[Json]:
    return found if len(found) == 2 else []


def test_eviction_by_the_tenant_is_a_deletion(space: Space) -> None:
    space.apply(pod("leaves"))
    super_id, _ = space.below("leaves")
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "leaves", "namespace": space.name},
    }
    code, answer = space.tenant.call("POST", f"/api/v1/namespaces/{space.name}/pods/leaves/eviction", body)
    assert code == 201, answer
    eventually(lambda: space.get("pods", "leaves") is None)
    eventually(lambda: space.there(super_id, "pods", "leaves") is None)


@pytest.mark.core
def test_a_pod_that_vanished_from_a_super_cluster_is_replaced(pool: Pool, space: Space) -> None:
    space.apply(deployment("web", 2))
    victim = next(each for each in space.all_running("web", 2) if super_of(each) == "r1")["metadata"]

    pool.supers["r1"].kubectl(
        "-n", space.super_name, "delete", "pod", victim["name"], "--force", "--grace-period=0"
    )

    eventually(lambda: space.get("pods", victim["name"]) is None)
    assert victim["uid"] not in {each["metadata"]["uid"] for each in space.all_running("web", 2)}


@pytest.mark.timeout(420)
def test_the_removal_of_a_node_is_visible_and_its_pods_are_replaced(pool: Pool, space: Space) -> None:
    r2 = pool.supers["r2"]
    space.apply(deployment("web", 2))
    victim = next(each for each in space.all_running("web", 2) if super_of(each) == "r2")
    virtual, name = victim["spec"]["nodeName"], victim["metadata"]["name"]
    node = virtual.removesuffix(".r2")
    kept = read(r2, f"/api/v1/nodes/{node}") or {}
    for field in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
        kept["metadata"].pop(field, None)

    r2.kubectl("delete", "node", node)
    try:
        found = eventually(lambda: _not_ready(space.tenant, virtual))
        assert found["reason"] == "NodeRemoved"
        # The super cluster's controllers delete the Pods of such nodes after a minute; do not wait for them.
        force = ("--ignore-not-found", "--force", "--grace-period=0")
        r2.kubectl("-n", space.super_name, "delete", "pod", name, *force)
        eventually(lambda: space.get("pods", name) is None)
        after = space.all_running("web", 2)
        assert victim["metadata"]["uid"] not in {each["metadata"]["uid"] for each in after}
        assert all(each["spec"]["nodeName"] != virtual for each in after)
        # Other Pods on it, of earlier tests, wait for those controllers.
        eventually(lambda: read(space.tenant, f"/api/v1/nodes/{virtual}") is None, 180)
    finally:
        r2.call("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", **kept})
        r2.kubectl("wait", "--for=condition=Ready", f"node/{node}", "--timeout=60s")
        eventually(lambda: not _evicting(r2))


@pytest.mark.timeout(420)
def test_pods_of_a_super_cluster_without_ready_nodes_move_to_others(pool: Pool, space: Space) -> None:
    """No kubelet of r1 sends heartbeats: its node controller evicts after a minute, and the Deployment creates new Pods."""
    unreachable = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
    # The syncer reports that no node of r1 is ready before the new Pod is scheduled.
    space.apply(deployment("web", 2, tolerations=[unreachable | {"tolerationSeconds": 15}]))
    before = {super_of(each): each for each in space.all_running("web", 2)}
    victim = before["r1"]["metadata"]["name"]
    virtual = before["r1"]["spec"]["nodeName"]
    with still_kubelets(pool.supers["r1"]):
        found = eventually(lambda: _not_ready(space.tenant, virtual), 150)
        assert found["reason"] == "NodeStatusUnknown"
        ready = eventually(lambda: _no_longer_ready(space, victim))
        assert ready == "False"
        # No kubelet reports that its containers have stopped, so that it remains Terminating while the new Pod runs on the
        # other super cluster.
        eventually(lambda: "deletionTimestamp" in (space.get("pods", victim) or {})["metadata"], 90)
        after = space.all_running("web", 2, 90)
        assert {super_of(each) for each in after} == {"r2"}
        assert before["r2"]["metadata"]["uid"] in {each["metadata"]["uid"] for each in after}
    eventually(lambda: space.get("pods", victim) is None)
    eventually(lambda: not _not_ready(space.tenant, virtual))
    eventually(lambda: not _evicting(pool.supers["r1"]))
    # Otherwise r1 gets no slices of the next test's namespace for the quiet time after failures.
    forget_failures(pool.bed, pool.system)


def _evicting(cluster: Cluster) -> list[str]:
    """Return the nodes that the node controller takes for unhealthy. It sets new Pods on these to not ready.

    It learns seconds after a node is Ready. A kubelet would set its Pods to ready again, but kwok does not.
    """
    return [
        node["metadata"]["name"]
        for node in items(cluster, "/api/v1/nodes")
        if any(taint["effect"] == "NoExecute" for taint in node["spec"].get("taints", ()))
    ]


def _no_longer_ready(space: Space, name: str) -> str:
    status = str(condition(space.get("pods", name), "Ready")["status"])
    return status if status != "True" else ""


def _not_ready(cluster: Cluster, node: str) -> Json:
    found = condition(read(cluster, f"/api/v1/nodes/{node}"), "Ready")
    return found if found and found["status"] != "True" else {}


def test_a_finished_pod_keeps_its_result_and_frees_its_share(space: Space) -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "once"},
        "spec": {
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [
                        {
                            "name": "main",
                            "image": "busybox:1.29",
                            "command": ["true"],
                            "resources": {"requests": SMALL, "limits": SMALL},
                        }
                    ],
                }
            }
        },
    }
    space.apply(job)
    space.kubectl("wait", "--for=condition=Complete", "job/once", "--timeout=60s")
    (found,) = space.pods()
    assert phase(found) == "Succeeded"
    terminated = found["status"]["containerStatuses"][0]["state"]["terminated"]
    assert terminated["exitCode"] == 0
    # Its share is free again: another Pod as large as the whole slice fits.
    space.apply(pod("large", on=super_of(found), containers=[container(resources={"requests": SLICE})]))
    space.running("large")


@pytest.mark.core
def test_only_the_syncer_can_bind_pods(space: Space) -> None:
    """A Pod that its tenant binds to a node that the tenant created is refused, not run."""
    space.apply(pod("bound", labels={names.IGNORE_SYNC: "true"}))
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "bound"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "nowhere"},
    }
    code, answer = space.tenant.call("POST", f"/api/v1/namespaces/{space.name}/pods/bound/binding", body)
    assert code == 201, answer
    assert not any(space.there(super_id, "pods", "bound") for super_id in space.pool.supers)
    with pytest.raises(KubectlError):
        space.kubectl("wait", "--for=condition=Ready", "pod/bound", "--timeout=2s")
