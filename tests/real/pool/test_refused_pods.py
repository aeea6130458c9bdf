"""A super cluster refuses a Pod: it runs on another one where its namespace has slices, never on two, and it says why."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pool_kit import SLICE, Json, Pool, Space, annotation, pod, super_of

from hack.testbed import Cluster
from tests.real.waiting import eventually
from vcsync.api.names import REFUSAL_PREFIX, SUPER_CLUSTER

SECONDS = "3"
"""Time in which a super cluster finds no node, after which a Pod is tried elsewhere."""
TAINT = "only=others:NoSchedule"


@pytest.fixture(scope="module", autouse=True)
def impatient(pool: Pool) -> Iterator[None]:
    """Have the syncers wait for a short time only."""
    roles = [f"syncer-{super_id}" for super_id in pool.supers]
    before = dict(pool.system.options)
    for role in roles:
        pool.system.options[role] = (*before.get(role, ()), "--unschedulable-seconds", SECONDS)
    _restart(pool, roles)
    yield
    pool.system.options.clear()
    pool.system.options.update(before)
    _restart(pool, roles)


def _restart(pool: Pool, roles: list[str]) -> None:
    for role in roles:
        pool.system.terminate(role)
    pool.system.start(*roles)
    eventually(pool.all_ready)


@contextmanager
def tainted(cluster: Cluster) -> Iterator[None]:
    """Have all nodes of a super cluster repel Pods."""
    cluster.kubectl("taint", "nodes", "--all", "--overwrite", TAINT)
    try:
        yield
    finally:
        cluster.kubectl("taint", "nodes", "--all", f"{TAINT}-")


@contextmanager
def refusing(cluster: Cluster, name: str) -> Iterator[None]:
    """Have a super cluster refuse Pods of a name."""
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "no-such-pods"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods"],
                    }
                ]
            },
            "validations": [{"expression": f"object.metadata.name != '{name}'", "message": "not here"}],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "no-such-pods"},
        "spec": {"policyName": "no-such-pods", "validationActions": ["Deny"]},
    }
    probe = json.dumps(pod(name) | {"metadata": {"name": name, "namespace": "default"}})
    cluster.kubectl(
        "apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": [policy, binding]})
    )

    def in_force() -> bool:
        code, _ = cluster.call("POST", "/api/v1/namespaces/default/pods?dryRun=All", json.loads(probe))
        return code == 422

    try:
        eventually(in_force)
        yield
    finally:
        cluster.kubectl(
            "delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", "no-such-pods"
        )


def messages(space: Space, name: str) -> list[str]:
    return [each["message"] for each in space.events(name, "FailedScheduling")]


def ran_on(space: Space, name: str) -> list[str]:
    """Return the super clusters that have a copy of a Pod."""
    return [super_id for super_id in sorted(space.pool.supers) if space.there(super_id, "pods", name)]


def placed_first(space: Space, super_id: str, name: str) -> Json:
    """Return a Pod that names a super cluster by our label, which the Pod scheduler may change."""
    found = pod(name)
    found["metadata"]["labels"] = {SUPER_CLUSTER: super_id}
    return found


def test_a_pod_that_no_node_suits_runs_on_another_super_cluster(space: Space, pool: Pool) -> None:
    with tainted(pool.supers["r1"]):
        space.apply(placed_first(space, "r1", "web"))
        found = space.running("web")
        assert super_of(found) == "r2"
        assert ran_on(space, "web") == ["r2"]
        assert any(
            "super cluster r1 refused the Pod: none of its nodes can run the Pod" in each
            for each in messages(space, "web")
        )
        said = json.loads(annotation(found, f"{REFUSAL_PREFIX}r1") or "{}")
        assert said == {"state": "returned", "returns": 1, "reason": "Unschedulable"}
        told = pool.system.vcsync("explain", "pod", f"acme/{space.name}/web")
        assert "on node" in told


def test_a_pod_that_a_super_cluster_does_not_admit_runs_on_another_one(space: Space, pool: Pool) -> None:
    with refusing(pool.supers["r1"], "unwanted"):
        space.apply(placed_first(space, "r1", "unwanted"))
        assert super_of(space.running("unwanted")) == "r2"
        assert ran_on(space, "unwanted") == ["r2"]
        assert any(
            "super cluster r1 refused the Pod: it does not admit the Pod" in each
            for each in messages(space, "unwanted")
        )


def test_a_pod_that_all_refuse_waits_and_starts_when_the_nodes_change(space: Space, pool: Pool) -> None:
    r1, r2 = pool.supers["r1"], pool.supers["r2"]
    with tainted(r2):
        with tainted(r1):
            space.apply(placed_first(space, "r1", "web"))
            eventually(
                lambda: any(
                    "it waits there, since it can be nowhere else" in each for each in messages(space, "web")
                )
            )
            last = super_of(eventually(lambda: space.get("pods", "web")))
            assert last == "r2", "r1 has refused it first"
            told = pool.system.vcsync("explain", "pod", f"acme/{space.name}/web")
            assert "Super cluster r1 refused it" in told
            assert "Super cluster r2 refuses it" in told
        # The nodes of r1 take Pods again: after the backoff the Pod is tried there.
        found = space.running("web", 180)
        assert super_of(found) == "r1"
        assert ran_on(space, "web") == ["r1"]


def test_a_forged_refusal_moves_no_pod_that_runs(space: Space) -> None:
    space.apply(pod("web"))
    home = super_of(space.running("web"))
    text = json.dumps({"state": "returned", "returns": 3, "reason": "Unschedulable"})
    space.kubectl("annotate", "pod", "web", f"{REFUSAL_PREFIX}{home}={text}")
    space.apply(pod("later"))
    space.running("later")
    assert super_of(space.running("web")) == home
    assert ran_on(space, "web") == [home]


def test_a_pod_of_an_own_scheduler_goes_where_the_label_says(space: Space) -> None:
    for super_id in ("r1", "r2"):
        chosen = placed_first(space, super_id, f"on-{super_id}")
        chosen["spec"]["schedulerName"] = "mine"
        space.apply(chosen)
        assert super_of(space.running(f"on-{super_id}")) == super_id


def test_a_label_that_names_a_super_cluster_without_slices_gets_an_event(space: Space) -> None:
    space.pin(r1=2)
    eventually(lambda: space.placements() == {"r1": 2})
    chosen = placed_first(space, "r2", "web")
    chosen["spec"]["schedulerName"] = "mine"
    space.apply(chosen)
    assert super_of(space.running("web")) == "r1"
    told = f"label {SUPER_CLUSTER}: super cluster r2 has no slices of namespace {space.name}; the Pod is placed on r1"
    eventually(lambda: told in messages(space, "web"))
    assert space.there("r2", "pods", "web") is None


def test_a_pod_that_the_quota_of_a_super_cluster_refuses_runs_on_another_one(
    space: Space, pool: Pool
) -> None:
    """A Pod of the operator in the super namespace uses the slices, which no scheduler of the pool sees."""
    eventually(lambda: space.stands_on() == {"r1", "r2"})
    r1 = pool.supers["r1"]
    other = pod("of-the-operator")
    other["spec"]["containers"][0]["resources"] = {"requests": SLICE, "limits": SLICE}
    r1.kubectl("apply", "-n", space.super_name, "-f", "-", input=json.dumps(other))
    space.apply(placed_first(space, "r1", "web"))
    assert super_of(space.running("web", 120)) == "r2"
    assert ran_on(space, "web") == ["r2"]
    assert any("its slices there are still in use" in each for each in messages(space, "web"))
