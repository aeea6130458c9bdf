"""Draining nodes of super clusters with kubectl honours the PodDisruptionBudgets of tenants."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from pool_kit import Json, Pool, Space, deployment, is_running, pod

from hack.testbed import KubectlError
from tests.real.waiting import eventually, limit
from vcsync.api import names

GROUP = "policy/v1"
PLURAL = "poddisruptionbudgets"
CLOSED = 2**31 - 1
SUPERS = ("r1", "r2")


def budget(name: str = "web", app: str = "web", **spec: Any) -> Json:
    spec = {"selector": {"matchLabels": {"tier": app}}, **spec}
    return {"apiVersion": GROUP, "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec}


def workload(name: str, replicas: int, *, tier: str = "web", **spec: Any) -> Json:
    """Return a Deployment whose Pods have a label `tier`, so that one budget selects several."""
    made = deployment(name, replicas, **spec)
    made["spec"]["template"]["metadata"]["labels"]["tier"] = tier
    return made


def minimum(space: Space, super_id: str, name: str = "web") -> Any:
    found = space.there(super_id, PLURAL, name, GROUP)
    return found and found["spec"].get("minAvailable")


def claims(space: Space, name: str = "web") -> Json:
    found = space.get(PLURAL, name, GROUP)
    assert found is not None
    annotations = found["metadata"].get("annotations") or {}
    return {key: text for key, text in annotations.items() if key.startswith(names.DISRUPTIONS_PREFIX)}


def allowed(space: Space, name: str = "web") -> int:
    found = space.get(PLURAL, name, GROUP) or {}
    status = found.get("status") or {}
    observed = status.get("observedGeneration") == (found.get("metadata") or {}).get("generation")
    return int(status["disruptionsAllowed"]) if observed else -1


def copies(space: Space, super_id: str) -> list[Json]:
    """Return the copies of Pods in a super cluster that are ready and not being deleted."""
    return [
        each
        for each in space.all_there(super_id, "pods")
        if "deletionTimestamp" not in each["metadata"] and is_running(each)
    ]


def healthy(space: Space) -> int:
    return sum(len(copies(space, each)) for each in SUPERS)


def evict(space: Space, super_id: str, name: str) -> tuple[int, str]:
    body = {
        "apiVersion": GROUP,
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": space.super_name},
    }
    path = f"/api/v1/namespaces/{space.super_name}/pods/{name}/eviction"
    code, answer = space.pool.supers[super_id].call("POST", path, body)
    return code, json.dumps(answer)


def drain(space: Space, super_id: str, node: str, seconds: int = 60) -> str:
    """`kubectl drain` a node of a super cluster, of this space's Pods only, since other tests use the node, too."""
    selector = f"{names.VC_NAME},tier"
    return space.pool.supers[super_id].kubectl(
        "drain", node, "--force", "--ignore-daemonsets", f"--pod-selector={selector}",
        f"--timeout={int(limit(seconds))}s", timeout=limit(seconds) + 10,
    )  # fmt: skip


def busiest_node(space: Space, super_id: str) -> str:
    nodes = [each["spec"]["nodeName"] for each in copies(space, super_id)]
    return max(sorted(set(nodes)), key=nodes.count)


@contextmanager
def uncordoned_afterwards(pool: Pool) -> Iterator[None]:
    try:
        yield
    finally:
        for each in SUPERS:
            nodes = pool.supers[each].kubectl("get", "nodes", "-o", "jsonpath={.items[*].metadata.name}")
            pool.supers[each].kubectl("uncordon", *nodes.split())


@contextmanager
def least_healthy(space: Space) -> Iterator[list[int]]:
    """Count the healthy Pods of all super clusters until the block ends. The list has the smallest number at its end."""
    least = [healthy(space)]
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.05):
            found = healthy(space)
            # Two clusters are not read at the same moment: a number that is too small must be seen again.
            if found < least[-1] and healthy(space) < least[-1]:
                least.append(found)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield least
    finally:
        stop.set()
        thread.join()


def all_ready(space: Space, count: int) -> bool:
    found = space.pods()
    return len(found) == count == healthy(space) and all(is_running(each) for each in found)


@pytest.fixture
def web(space: Space) -> Iterator[Space]:
    """Three Pods in each super cluster, of which the budget demands five."""
    with uncordoned_afterwards(space.pool):
        space.apply(workload("left", 3, on="r1"), workload("right", 3, on="r2"), budget(minAvailable=5))
        eventually(lambda: all_ready(space, 6))
        eventually(lambda: allowed(space) == 1)
        eventually(lambda: [minimum(space, each) for each in SUPERS] == [CLOSED, CLOSED])
        yield space


def test_without_a_drain_every_eviction_is_refused_and_nothing_is_written(web: Space) -> None:
    version = (web.get(PLURAL, "web", GROUP) or {})["metadata"]["resourceVersion"]
    for super_id in SUPERS:
        name = copies(web, super_id)[0]["metadata"]["name"]
        code, text = eventually(lambda at=super_id, name=name: evict(web, at, name))  # type: ignore[misc]
        assert code == 429, text
    assert claims(web) == {}
    assert (web.get(PLURAL, "web", GROUP) or {})["metadata"]["resourceVersion"] == version


@pytest.mark.timeout(600)
def test_drains_of_two_super_clusters_together_honour_the_budget(web: Space) -> None:
    before = {each["metadata"]["uid"] for each in web.pods()}
    nodes = {each: busiest_node(web, each) for each in SUPERS}
    leaving = {
        each["metadata"]["name"]
        for super_id in SUPERS
        for each in copies(web, super_id)
        if each["spec"]["nodeName"] == nodes[super_id]
    }
    with least_healthy(web) as least, ThreadPoolExecutor() as threads:
        ends = [threads.submit(drain, web, each, nodes[each], 120) for each in SUPERS]
        eventually(lambda: claims(web))
        web.pool.system.kill("syncer-r1")
        web.pool.system.start("syncer-r1")
        assert all("drained" in each.result() for each in ends)
        eventually(lambda: all_ready(web, 6))
    assert least[-1] >= 5
    # Evicted Pods are gone in the tenant, and their controllers have made others.
    assert not leaving & {each["metadata"]["name"] for each in web.pods()}
    assert len(before - {each["metadata"]["uid"] for each in web.pods()}) == len(leaving)
    for each in SUPERS:
        web.pool.supers[each].kubectl("uncordon", nodes[each])
    eventually(lambda: not claims(web))
    eventually(lambda: [minimum(web, each) for each in SUPERS] == [CLOSED, CLOSED])


@pytest.mark.timeout(400)
def test_a_drain_waits_for_a_budget_that_allows_nothing_until_the_tenant_changes_it(web: Space) -> None:
    web.apply(budget(minAvailable=6))
    eventually(lambda: allowed(web) == 0)
    node = busiest_node(web, "r1")
    with pytest.raises(KubectlError, match=r"timed out|timeout"):
        drain(web, "r1", node, 10)
    assert healthy(web) == 6
    stays = next(each for each in copies(web, "r1") if each["spec"]["nodeName"] == node)
    endpoint = web.pool.system.endpoint("syncer-r1").removeprefix("http://")
    name = f"acme/{web.name}/{stays['metadata']['name']}"
    story = eventually(
        lambda: (
            text
            if "PodDisruptionBudget web: Pods are on an unschedulable node"
            in (text := web.pool.system.vcsync("explain", "pod", name, "--endpoint", endpoint))
            else ""
        )
    )
    assert "it allows no disruption at present" in story
    web.apply(budget(minAvailable="50%"))
    with least_healthy(web) as least:
        assert "drained" in drain(web, "r1", node)
    assert least[-1] >= 3


@pytest.mark.timeout(400)
def test_a_deleted_budget_lets_a_drain_go_on(web: Space) -> None:
    web.apply(budget(minAvailable=6))
    eventually(lambda: allowed(web) == 0)
    node = busiest_node(web, "r1")
    with ThreadPoolExecutor() as threads:
        end = threads.submit(drain, web, "r1", node, 120)
        eventually(lambda: claims(web))
        web.kubectl("delete", "poddisruptionbudget", "web")
        assert "drained" in end.result()
    assert minimum(web, "r1") is None
    assert minimum(web, "r2") is None


@pytest.mark.timeout(400)
def test_pods_that_are_not_ready_leave_while_the_budget_is_met(space: Space) -> None:
    gates = [{"conditionType": "example.com/never"}]
    with uncordoned_afterwards(space.pool):
        space.apply(
            workload("good", 1, on="r2"), workload("bad", 1, on="r1", readinessGates=gates),
            budget(minAvailable=1),
        )  # fmt: skip
        eventually(lambda: healthy(space) == 1 and len(space.all_there("r1", "pods")) == 1)
        bad = eventually(lambda: [e for e in space.all_there("r1", "pods") if e["spec"].get("nodeName")])[0]
        eventually(
            lambda: (space.there("r1", "pods", bad["metadata"]["name"]) or {})["status"]["phase"] == "Running"
        )
        assert "drained" in drain(space, "r1", bad["spec"]["nodeName"])
        assert healthy(space) == 1


def test_a_budget_that_cannot_be_enforced_is_reported_and_has_no_copy(space: Space) -> None:
    space.apply(budget(minAvailable=1))
    eventually(lambda: [minimum(space, each) for each in SUPERS] == [CLOSED, CLOSED])
    space.apply(budget(minAvailable=1, selector={"matchLabels": {"kubernetes.io/os": "linux"}}))
    events = eventually(lambda: space.events("web", "NotEnforced"))
    assert "kubernetes.io/os" in events[0]["message"]
    eventually(lambda: [minimum(space, each) for each in SUPERS] == [None, None])


def test_selectors_reach_copies_of_the_tenant_only(space: Space) -> None:
    space.apply(budget("all", selector={}, minAvailable=1), budget("none", selector=None, minAvailable=1))
    eventually(lambda: [minimum(space, "r1", each) for each in ("all", "none")] == [CLOSED, CLOSED])
    cluster = space.pool.supers["r1"]
    cluster.kubectl("apply", "-n", space.super_name, "-f", "-", input=json.dumps(pod("operators-own")))
    eventually(lambda: is_running(space.there("r1", "pods", "operators-own")))
    code, text = evict(space, "r1", "operators-own")
    assert code == 201, text
    cluster_label = {names.CLUSTER: "vcsync-of-another"}
    space.apply(budget("foreign", selector={"matchLabels": cluster_label}, minAvailable=1))
    eventually(lambda: space.events("foreign", "NotEnforced"))
    assert minimum(space, "r1", "foreign") is None


FORGED = {
    "r1": json.dumps({"floor": CLOSED, "generation": 1, "draining": True, "waiting": True}),
    "r2": "[" * 5000,
    "r9": json.dumps({"floor": CLOSED, "generation": 1, "draining": True, "waiting": True}),
    "r8": "{",
}


@pytest.mark.timeout(400)
def test_forged_claims_are_removed_and_drains_go_on(web: Space) -> None:
    forged = {names.DISRUPTIONS_PREFIX + each: text for each, text in FORGED.items()}
    patch = json.dumps({"metadata": {"annotations": forged}})
    web.kubectl("patch", "poddisruptionbudget", "web", "--type=merge", "-p", patch)
    eventually(lambda: not claims(web))
    assert healthy(web) == 6
    node = busiest_node(web, "r1")
    with least_healthy(web) as least, ThreadPoolExecutor() as threads:
        end = threads.submit(drain, web, "r1", node, 120)
        eventually(lambda: claims(web))
        web.kubectl("patch", "poddisruptionbudget", "web", "--type=merge", "-p", patch)
        assert "drained" in end.result()
        eventually(lambda: all_ready(web, 6))
    assert least[-1] >= 1
    web.pool.supers["r1"].kubectl("uncordon", node)
    eventually(lambda: not claims(web))
