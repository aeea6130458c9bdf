"""A tenant's Pods cannot see or affect nodes and other tenants beyond what the operator's policy allows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hollow_kubelet import environment, files
from pool_kit import Json, Pool, Space, annotation, condition, container, deployment, items, pod, super_of

from tests.real.waiting import eventually
from vcsync.api import names

FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.podIP",
    "status.hostIP",
    "metadata.labels['app']",
    "metadata.labels['kubernetes.io/team']",
    "metadata.annotations['example.com/cost']",
)


def field_of(found: Json, path: str) -> str:
    """Return a field of the tenant's Pod."""
    if "['" in path:
        kind, _, key = path.removeprefix("metadata.").removesuffix("']").partition("['")
        return str(found["metadata"][kind][key])
    value: Any = found
    for part in path.split("."):
        value = value[part]
    return str(value)


@pytest.mark.core
def test_the_downward_api_has_the_tenants_values(pool: Pool, space: Space) -> None:
    variables = [
        {"name": f"FIELD_{position}", "valueFrom": {"fieldRef": {"fieldPath": path}}}
        for position, path in enumerate(FIELDS)
    ]
    by_file = [path for path in FIELDS if path.startswith("metadata")] + [
        "metadata.labels",
        "metadata.annotations",
    ]
    file_items = [
        {"path": f"file-{position}", "fieldRef": {"fieldPath": path}} for position, path in enumerate(by_file)
    ]
    volume = {"name": "about", "downwardAPI": {"items": file_items}}
    mount = {"name": "about", "mountPath": "/about"}
    body = pod("curious", containers=[container(env=variables, volumeMounts=[mount])], volumes=[volume])
    body["metadata"]["labels"] = {"app": "web", "kubernetes.io/team": "blue"}
    body["metadata"]["annotations"] = {"example.com/cost": '$(HOME) 5 "units"'}
    space.apply(body)
    mine = space.running("curious")
    super_id, standing = space.below("curious")
    below = pool.supers[super_id]

    environ = environment(below, standing)
    for position, path in enumerate(FIELDS):
        assert environ[f"FIELD_{position}"] == field_of(mine, path), path

    def files_agree() -> bool:
        found = space.get("pods", "curious") or {}
        current = space.there(super_id, "pods", "curious") or {}
        content = {path: text.decode() for path, text in files(below, current).items()}
        for position, path in enumerate(by_file):
            text = content[f"/about/file-{position}"]
            if path in ("metadata.labels", "metadata.annotations"):
                values = found["metadata"][path.partition(".")[2]]
                assert [line.partition("=")[0] for line in text.splitlines()] == sorted(values), path
            else:
                assert text == field_of(found, path), path
        return True

    eventually(files_agree)
    # Files are updated after changes.
    space.kubectl("label", "pod", "curious", "app=shop", "kubernetes.io/team=red", "--overwrite")
    eventually(
        lambda: files(below, space.there(super_id, "pods", "curious") or {})["/about/file-3"] == b"shop"
    )
    eventually(files_agree)


EVERYONE: Json = {"labelSelector": {}, "namespaceSelector": {}, "topologyKey": "kubernetes.io/hostname"}


@pytest.mark.core
def test_a_tenant_can_neither_see_nor_repel_anothers_pods(pool: Pool) -> None:
    with pool.space("acme") as acme, pool.space("umbrella") as umbrella:
        acme.apply(deployment("wide", 2))
        acme.all_running("wide", 2)
        # kube-scheduler tries a Pod that was repelled again only minutes later, so the Pods of earlier tests go first.
        eventually(lambda: not items(umbrella.tenant, "/api/v1/pods"))
        # Their anti-affinity excludes all other Pods from their node, or from their region.
        hermit = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [EVERYONE]}}
        region = {**EVERYONE, "topologyKey": "topology.kubernetes.io/region"}
        recluse = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [region]}}
        umbrella.apply(pod("recluse", on="r2", affinity=recluse))
        for position in range(2):
            umbrella.apply(pod(f"hermit-{position}", on="r1", affinity=hermit))
        # r1 has two nodes: both hermits run although acme's Pods run there, and they repel each other.
        nodes = {umbrella.running(f"hermit-{position}")["spec"]["nodeName"] for position in range(2)}
        assert len(nodes) == 2
        umbrella.running("recluse")
        # They do not repel acme's Pods.
        acme.apply(*[pod(f"after-{position}", on="r1") for position in range(3)])
        for position in range(3):
            acme.running(f"after-{position}")
        # There is no node for a third hermit, and affinity to acme's Pods matches none of them.
        umbrella.apply(pod("hermit-2", on="r1", affinity=hermit))
        near = {**EVERYONE, "labelSelector": {"matchLabels": {"app": "wide"}}}
        friend = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
        umbrella.apply(pod("stalker", on="r1", affinity=friend))
        for name in ("hermit-2", "stalker"):
            found = eventually(lambda name=name: _unscheduled(umbrella, name))  # type: ignore[misc]
            assert "affinity" in found
        # A Pod of this tenant that the hermits repel would wait minutes for kube-scheduler's next attempt.
        umbrella.kubectl("delete", "pods", "--all", "--wait")


def _unscheduled(space: Space, name: str) -> str:
    found = condition(space.get("pods", name), "PodScheduled")
    return str(found.get("message", "")) if found.get("status") == "False" else ""


def test_affinity_within_a_tenant_works_across_its_namespaces(pool: Pool) -> None:
    with pool.space("acme") as one, pool.space("acme") as two:
        one.apply(pod("leader", on="r2", labels={"app": "leader"}))
        leader = one.running("leader")
        term: Json = {
            "labelSelector": {"matchLabels": {"app": "leader"}},
            "namespaces": [one.name],
            "topologyKey": "kubernetes.io/hostname",
        }
        by_name = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        selecting = {**term, "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": one.name}}}
        del selecting["namespaces"]
        by_selector = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [selecting]}}
        two.apply(
            pod("by-name", on="r2", affinity=by_name), pod("by-selector", on="r2", affinity=by_selector)
        )
        for name in ("by-name", "by-selector"):
            assert two.running(name)["spec"]["nodeName"] == leader["spec"]["nodeName"]


def test_topology_spread_counts_the_own_tenants_pods_only(pool: Pool) -> None:
    with pool.space("acme", hard={"cpu": "2", "memory": "2Gi"}) as acme, pool.space("umbrella") as umbrella:
        node = acme_node(acme)
        crowd = [pod(f"crowd-{position}", on="r1", labels={"app": "even"}) for position in range(4)]
        for each in crowd:
            each["spec"]["nodeSelector"]["kubernetes.io/hostname"] = node
        acme.apply(*crowd)
        for position in range(4):
            assert acme.running(f"crowd-{position}")["spec"]["nodeName"] == node
        constraint = {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "even"}},
        }
        spread = {"topologySpreadConstraints": [constraint]}
        umbrella.apply(*[pod(f"even-{n}", on="r1", labels={"app": "even"}, **spread) for n in range(4)])
        found = [umbrella.running(f"even-{n}")["spec"]["nodeName"] for n in range(4)]
        assert sorted(found.count(name) for name in set(found)) == [2, 2]


def acme_node(space: Space) -> str:
    """Return a virtual node of super cluster r1."""
    space.apply(pod("scout", on="r1"))
    return str(space.running("scout")["spec"]["nodeName"])


def test_priority_classes_have_the_operators_values(pool: Pool, space: Space) -> None:
    def priority_class(name: str, value: int) -> Json:
        return {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }

    r1 = pool.supers["r1"]
    space.apply(priority_class("urgent", 900_000), priority_class("greedy", 1_000_000))
    r1.kubectl("create", "priorityclass", "tenants-urgent", "--value=1000")
    try:
        with pool.configured("acme", priorityClasses={"urgent": "tenants-urgent"}):
            eventually(lambda: _known_priority(space))
            space.apply(pod("greedy", on="r1", priorityClassName="greedy"))
            space.apply(pod("system", on="r1", priorityClassName="system-node-critical"))
            for name in ("greedy", "system"):
                space.running(name)
                standing = space.there("r1", "pods", name) or {}
                assert standing["spec"].get("priorityClassName") is None
                assert standing["spec"]["priority"] == 0
    finally:
        r1.kubectl("delete", "priorityclass", "tenants-urgent")
        space.kubectl("delete", "priorityclass", "urgent", "greedy")


def _known_priority(space: Space) -> bool:
    """Return whether a new Pod of class `urgent` gets the operator's priority, which the syncer sees with a delay."""
    space.kubectl("delete", "pod", "urgent", "--ignore-not-found", "--force")
    eventually(lambda: space.there("r1", "pods", "urgent") is None)
    space.apply(pod("urgent", on="r1", priorityClassName="urgent"))
    space.running("urgent")
    return bool((space.there("r1", "pods", "urgent") or {})["spec"]["priority"] == 1000)


REFUSED: dict[str, Json] = {
    "hostNetwork": {"hostNetwork": True},
    "hostPID": {"hostPID": True},
    "hostIPC": {"hostIPC": True},
    "hostPath": {"volumes": [{"name": "root", "hostPath": {"path": "/"}}]},
    "hostPort": {"containers": [container(ports=[{"containerPort": 80, "hostPort": 8080}])]},
    "privileged": {"containers": [container(securityContext={"privileged": True})]},
    "capabilities": {"containers": [container(securityContext={"capabilities": {"add": ["SYS_ADMIN"]}})]},
    "nodeName": {"nodeName": "r1-node-1.r1"},
    "tolerations": {"tolerations": [{"operator": "Exists"}]},
}


@pytest.mark.core
@pytest.mark.timeout(300)
def test_fields_that_reach_beyond_the_sandbox_are_refused_with_a_reason(pool: Pool, space: Space) -> None:
    for field, spec in REFUSED.items():
        body = pod(field.lower(), **spec)
        if field == "nodeName":  # bound before any scheduler sees it
            body["metadata"]["labels"] = {names.SUPER_CLUSTER: "r1"}
        space.apply(body)
    for field in REFUSED:
        name = field.lower()
        found = eventually(lambda name=name: _refusal(space, name))  # type: ignore[misc]
        assert field in found["message"], found
        (event,) = eventually(lambda name=name: space.events(name, "PolicyRefused"))  # type: ignore[misc]
        assert event["message"] == found["message"]
        assert event["type"] == "Warning"
        assert not any(space.there(super_id, "pods", name) for super_id in pool.supers)


def test_the_controller_of_refused_pods_gets_an_event_too(space: Space) -> None:
    """Users describe the objects that they have created: a Job, a Deployment's ReplicaSet."""
    job = pod("net", hostNetwork=True, restartPolicy="Never")
    space.apply(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "net"},
            "spec": {"template": {"spec": job["spec"]}},
        },
        deployment("many", 3, on="r1", hostNetwork=True),
    )
    for what in ("job/net", "replicaset"):
        message = eventually(
            lambda what=what: next(  # type: ignore[misc]
                (line for line in space.kubectl("describe", what).splitlines() if "PolicyRefused" in line), ""
            )
        )
        assert "Pods of it do not run: spec.hostNetwork is not allowed here; remove it" in message
    owners = [each for each in space.all("events") if each["involvedObject"]["kind"] == "ReplicaSet"]
    refused = [each for each in owners if each["reason"] == "PolicyRefused"]
    assert len(refused) == 1, "one for all Pods, counted"


def _refusal(space: Space, name: str) -> Json:
    found = condition(space.get("pods", name), "PodScheduled")
    return found if found.get("reason") == "PolicyRefused" else {}


def test_the_operator_may_allow_such_fields(pool: Pool, space: Space) -> None:
    space.apply(pod("open", on="r1", **REFUSED["hostPort"]))
    eventually(lambda: _refusal(space, "open"))
    with pool.configured("acme", podPolicy={"hostPort": "Allow", "nodeName": "Allow"}):
        # The waiting Pod is accepted immediately.
        space.running("open")
        standing = space.there("r1", "pods", "open") or {}
        assert standing["spec"]["containers"][0]["ports"][0]["hostPort"] == 8080
        node = standing["spec"]["nodeName"]
        space.apply(pod("placed", nodeName=f"{node}.r1"))
        placed = space.running("placed")
        assert super_of(placed) == "r1"
        assert (space.there("r1", "pods", "placed") or {})["spec"]["nodeName"] == node


def test_sysctls_beyond_baseline_need_the_operators_permission(pool: Pool, space: Space) -> None:
    def tuned(sysctl: str) -> Json:
        security = {"sysctls": [{"name": sysctl, "value": "1024"}]}
        return pod(f"tuned-{sysctl.rpartition('.')[2].replace('_', '-')}", on="r1", securityContext=security)

    pool.configure("acme", podPolicy={"sysctls": None})
    space.apply(tuned("net.ipv4.ip_unprivileged_port_start"), tuned("net.core.somaxconn"))
    refused = eventually(lambda: _refusal(space, "tuned-somaxconn"))
    assert "spec.securityContext.sysctls[0]: net.core.somaxconn is not allowed here" in refused["message"]
    assert space.there("r1", "pods", "tuned-somaxconn") is None
    eventually(lambda: space.there("r1", "pods", "tuned-ip-unprivileged-port-start"))
    pool.configure("acme", podPolicy={"sysctls": ["net.core.*"]})
    try:
        eventually(lambda: space.there("r1", "pods", "tuned-somaxconn"))
    finally:
        pool.configure("acme", podPolicy={"sysctls": None})


def test_a_registry_is_asked_at_each_start_where_the_operator_says_so(pool: Pool, space: Space) -> None:
    """A node may have another tenant's private image, which starts without its credentials otherwise."""
    written = container(imagePullPolicy="Never")
    with pool.configured("acme", podPolicy={"imagePull": "Always"}):
        space.apply(pod("thief", on="r1", containers=[written]))
        standing = eventually(lambda: space.there("r1", "pods", "thief"))
        assert standing["spec"]["containers"][0]["imagePullPolicy"] == "Always"
        debugger = {"name": "debugger", "image": written["image"], "imagePullPolicy": "Never"}
        patch = json.dumps({"spec": {"ephemeralContainers": [debugger]}})
        space.kubectl("patch", "pod", "thief", "--subresource=ephemeralcontainers", "-p", patch)

        def added() -> Any:
            found = space.there("r1", "pods", "thief") or {"spec": {}}
            return found["spec"].get("ephemeralContainers")

        (found,) = eventually(added)
        assert found["imagePullPolicy"] == "Always"
    assert (space.get("pods", "thief") or {})["spec"]["containers"][0]["imagePullPolicy"] == "Never"


def test_no_container_may_use_a_whole_node(pool: Pool, space: Space) -> None:
    """A container without requests counts nothing, and one of a small request may have any limit."""
    nothing = {"requests": {"cpu": "0", "memory": "0"}}
    resources = {"requests": {"cpu": "1m", "memory": "1Mi"}, "limits": {"cpu": "64"}}
    wanted = [container("idle", resources=nothing), container("greedy", resources=resources)]
    space.apply(pod("hungry", on="r1", containers=wanted))
    space.running("hungry")

    def limits() -> list[Any]:
        found = space.there("r1", "pods", "hungry") or {"spec": {"containers": []}}
        return [each["resources"].get("limits") for each in found["spec"]["containers"]]

    # A slice of the default size, which is more than the namespace has there.
    assert limits() == [{"cpu": "2", "memory": "4Gi"}] * 2
    own = (space.get("pods", "hungry") or {})["spec"]["containers"]
    assert "limits" not in own[0].get("resources", {})
    with pool.configured("acme", podPolicy={"limits": "AsWritten"}):
        space.apply(pod("free", on="r1", containers=[container(resources=nothing)]))
        space.running("free")
        found = space.there("r1", "pods", "free") or {}
        assert "limits" not in found["spec"]["containers"][0]["resources"]


def test_pods_may_only_tolerate_taints_that_the_operator_names(pool: Pool, space: Space) -> None:
    def tolerating(key: str) -> Json:
        return pod(f"on-{key}", tolerations=[{"key": key, "operator": "Exists"}])

    pool.configure("acme", podPolicy={"tolerations": ["spot"]})
    try:
        space.apply(tolerating("spot"))
        space.running("on-spot")
        space.apply(tolerating("gpu"))
        event = eventually(lambda: _refusal(space, "on-gpu"))
        assert (
            "spec.tolerations[0] tolerates taint gpu, which is not allowed here; remove it"
            in event["message"]
        )
    finally:
        pool.configure("acme", podPolicy={"tolerations": None})
    space.running("on-gpu")


@pytest.mark.core
def test_our_own_labels_have_no_effect_when_a_tenant_writes_them(pool: Pool, space: Space) -> None:
    body = pod("liar", on="r1", labels={names.CLUSTER: "other", names.CONTROLLED: "false", "app": "liar"})
    body["metadata"]["annotations"] = {
        names.CLUSTER: pool.key("umbrella"),
        names.UID: "0",
        names.NAMESPACE: "kube-system",
        names.TOKENS: "[]",
    }
    space.apply(body)
    mine = space.running("liar")
    standing = space.there("r1", "pods", "liar") or {}
    assert standing["metadata"]["labels"][names.CLUSTER] == space.key
    assert standing["metadata"]["labels"][names.CONTROLLED] == "true"
    assert annotation(standing, names.CLUSTER) == space.key
    assert annotation(standing, names.UID) == mine["metadata"]["uid"]
    assert annotation(standing, names.NAMESPACE) == space.name
