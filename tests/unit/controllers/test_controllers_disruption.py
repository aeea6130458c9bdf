"""PodDisruptionBudgets: the number of Pods that may be evicted."""

from typing import Any

import msgspec
import pytest
from controllers_world import NAMESPACE, TENANT, World
from hypothesis import given
from hypothesis import strategies as st

from vcsync.controllers.disruption.disruption_plan import (
    DISRUPTION,
    DISRUPTION_TARGET,
    NAME,
    foreign_owners,
)
from vcsync.controllers.disruption.foreign_scales import ForeignScales, disruption
from vcsync.controllers.framework.mirror import Key
from vcsync.controllers.framework.plan import Patch
from vcsync.kube.errors import NotFound, Status
from vcsync.kube.resources import (
    DEPLOYMENTS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Resource,
)

LABELS = {"app": "web"}


def budget(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": LABELS}, **spec}}


def reference(resource: Resource, name: str = "web") -> dict[str, Any]:
    kind = {"apiVersion": resource.api_version, "kind": resource.kind, "name": name, "uid": f"uid-{name}"}
    return {**kind, "controller": True}


def put_pod(made: World, number: int, *, ready: bool = True, owner: Any = None, **metadata: Any) -> None:
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": made.time()}
    owners = [reference(REPLICA_SETS) if owner is None else owner] if owner != "nobody" else []
    body = {
        "metadata": {"name": f"web-{number}", "labels": LABELS, "ownerReferences": owners, **metadata},
        "spec": {},
        "status": {"phase": "Running", "conditions": [condition]},
    }
    made.put(PODS, body)


def world(ready: int = 3, wanted: int = 3, **spec: Any) -> World:
    made = World([DISRUPTION])
    made.put(REPLICA_SETS, {"metadata": {"name": "web", "uid": "uid-web"}, "spec": {"replicas": wanted}})
    for number in range(wanted):
        put_pod(made, number, ready=number < ready)
    made.put(POD_DISRUPTION_BUDGETS, budget(**spec))
    made.settle()
    return made


def status(made: World) -> dict[str, Any]:
    found: dict[str, Any] = made.body(POD_DISRUPTION_BUDGETS, "web")["status"]
    return found


def counts(made: World) -> tuple[int, int, int, int]:
    found = status(made)
    names = ("expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed")
    one, two, three, four = (int(found[name]) for name in names)
    return one, two, three, four


@pytest.mark.parametrize(
    ("ready", "wanted", "spec", "found"),
    [
        (3, 3, {"minAvailable": 2}, (3, 3, 2, 1)),
        (1, 3, {"minAvailable": 2}, (3, 1, 2, 0)),
        (3, 3, {"minAvailable": "50%"}, (3, 3, 2, 1)),
        (3, 3, {"maxUnavailable": 1}, (3, 3, 2, 1)),
        (10, 10, {"maxUnavailable": "25%"}, (10, 10, 7, 3)),
        (2, 2, {"maxUnavailable": 5}, (2, 2, 0, 2)),
        (0, 0, {"maxUnavailable": 1}, (0, 0, 0, 0)),
        (3, 3, {}, (0, 3, 0, 0)),
    ],
)
def test_counts(ready: int, wanted: int, spec: Any, found: tuple[int, int, int, int]) -> None:
    assert counts(world(ready, wanted, **spec)) == found


def test_the_condition_says_whether_disruptions_are_allowed() -> None:
    made = world(3, minAvailable=2)
    [condition] = status(made)["conditions"]
    assert (condition["type"], condition["status"]) == ("DisruptionAllowed", "True")
    assert condition["reason"] == "SufficientPods"
    made.pass_time(60)
    put_pod(made, 0, ready=False)
    made.settle()
    [condition] = status(made)["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "InsufficientPods")
    assert condition["lastTransitionTime"] == made.time()


def test_the_scale_of_a_deployments_pods_is_the_deployments() -> None:
    made = World([DISRUPTION])
    made.put(DEPLOYMENTS, {"metadata": {"name": "top", "uid": "uid-top"}, "spec": {"replicas": 4}})
    for name in ("old", "new"):
        owners = {"ownerReferences": [reference(DEPLOYMENTS, "top")]}
        metadata = {"name": name, "uid": f"uid-{name}", **owners}
        made.put(REPLICA_SETS, {"metadata": metadata, "spec": {"replicas": 3}})
    for number, name in enumerate(("old", "old", "new")):
        put_pod(made, number, owner=reference(REPLICA_SETS, name))
    made.put(POD_DISRUPTION_BUDGETS, budget(maxUnavailable=2))
    made.settle()
    assert counts(made) == (4, 3, 2, 1)


def test_scales_of_several_owners_are_added() -> None:
    made = world(3, maxUnavailable=1)
    made.put(STATEFUL_SETS, {"metadata": {"name": "db", "uid": "uid-db"}, "spec": {"replicas": 2}})
    put_pod(made, 7, owner=reference(STATEFUL_SETS, "db"))
    made.settle()
    assert counts(made) == (5, 4, 4, 0)


def test_terminating_and_evicted_pods_do_not_count() -> None:
    made = world(4, 4, minAvailable=1)
    put_pod(made, 0, deletionTimestamp=made.time())
    made.change(
        POD_DISRUPTION_BUDGETS,
        "web",
        {"status": {"disruptedPods": {"web-0": made.time(), "web-1": made.time(), "gone": made.time()}}},
    )
    made.settle()
    assert counts(made) == (4, 2, 1, 1)
    assert status(made)["disruptedPods"] == {"web-1": made.time()}


def test_an_evicted_pod_that_stays_counts_again_after_two_minutes() -> None:
    made = world(3, minAvailable=2)
    made.change(POD_DISRUPTION_BUDGETS, "web", {"status": {"disruptedPods": {"web-1": made.time()}}})
    made.settle()
    assert counts(made)[3] == 0
    made.pass_time(20)
    assert made.work(NAME, made.key(NAMESPACE, "web")).again == 100
    made.pass_time(100)
    made.settle()
    assert counts(made)[3] == 1
    assert "NotDeleted" in [each.reason for each in made.events]
    assert not status(made).get("disruptedPods")


def test_no_disruption_is_allowed_with_an_unknown_owner() -> None:
    made = world(3, maxUnavailable=1)
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "uid-j", "controller": True}
    put_pod(made, 9, owner=job)
    made.settle()
    assert status(made)["disruptionsAllowed"] == 0
    [condition] = status(made)["conditions"]
    assert condition["reason"] == "SyncFailed"
    assert condition["message"] == "jobs.batch does not implement the scale subresource"
    made.remove(PODS, "web-9")
    made.remove(REPLICA_SETS, "web")
    made.settle()
    assert 'found no controllers for pod "web-0"' in status(made)["conditions"][0]["message"]


def test_unmanaged_pods_are_reported() -> None:
    made = world(3, maxUnavailable=1)
    put_pod(made, 9, owner="nobody")
    made.settle()
    assert counts(made) == (3, 4, 2, 2)
    message = next(each.message for each in made.events if each.reason == "UnmanagedPods")
    assert "&LabelSelector{MatchLabels:map[string]string{app: web,}," in message


@pytest.mark.parametrize(("selector", "healthy"), [(None, 0), ({}, 3)])
def test_a_missing_selector_selects_no_pods_and_an_empty_one_all(selector: Any, healthy: int) -> None:
    made = world(3, minAvailable=1, selector=selector)
    assert status(made)["currentHealthy"] == healthy


def test_a_concurrent_eviction_is_not_overwritten() -> None:
    made = world(3, minAvailable=2)
    patch = next(each for each in made.written if isinstance(each, Patch))
    assert isinstance(patch.patch, dict)
    assert patch.patch["metadata"]["resourceVersion"]


def test_nothing_is_written_twice() -> None:
    made = world(3, minAvailable=2)
    made.written.clear()
    made.settle()
    assert made.written == []


@given(
    st.lists(st.booleans(), max_size=8),
    st.one_of(st.integers(0, 9), st.integers(0, 100).map(lambda each: f"{each}%")),
    st.booleans(),
)
def test_allowed_evictions_keep_the_required_number(
    ready: list[bool], amount: int | str, least: bool
) -> None:
    made = world(0, len(ready), **{"minAvailable" if least else "maxUnavailable": amount})
    for number, each in enumerate(ready):
        put_pod(made, number, ready=each)
    made.settle()
    expected, healthy, desired, allowed = counts(made)
    assert (expected, healthy) == (len(ready), sum(ready))
    assert allowed == 0 or healthy - allowed >= desired


def test_a_pod_that_was_not_evicted_loses_its_disruption_target_condition() -> None:
    made = World([DISRUPTION_TARGET])
    condition = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": made.time()}
    body = {"metadata": {"name": "web"}, "spec": {}, "status": {"conditions": [condition]}}
    made.put(PODS, body)
    made.pass_time(20)
    assert made.work("disruption-target-controller", made.key(NAMESPACE, "web")).again == 100
    made.pass_time(100)
    made.settle()
    assert made.body(PODS, "web")["status"]["conditions"][0]["status"] == "False"


class Scaled:
    """A tenant with two custom kinds, one of which has a scale subresource."""

    name = "server"

    def __init__(self, **replicas: int) -> None:
        self.replicas = replicas
        self.asked: list[str] = []

    async def request(self, _verb: str, path: str, **_: Any) -> bytes:
        self.asked.append(path)
        if path == "/api":
            return b'{"items":[]}'
        if path == "/apis":
            kinds = [("workers", "Worker", [{"subresource": "scale"}]), ("tasks", "Task", [])]
            resources = [
                {
                    "resource": plural,
                    "responseKind": {"kind": kind},
                    "scope": "Namespaced",
                    "subresources": below,
                }
                for plural, kind, below in kinds
            ]
            group = {"metadata": {"name": "x.io"}, "versions": [{"version": "v1", "resources": resources}]}
            return msgspec.json.encode({"items": [group]})
        name = path.split("/")[-2]
        if name not in self.replicas:
            raise NotFound(Status(404, message="gone"))
        return msgspec.json.encode(
            {"metadata": {"uid": f"uid-{name}"}, "spec": {"replicas": self.replicas[name]}}
        )


def custom(kind: str, name: str = "pool", group: str = "x.io/v1") -> dict[str, Any]:
    return {"apiVersion": group, "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}


async def prepared(made: World, scales: ForeignScales, server: Any) -> None:
    key = Key(TENANT, NAMESPACE, "web")
    await scales.read(server, key, foreign_owners(made.view(), key))
    made.settle()


def of_custom_kinds(*owners: dict[str, Any], **spec: Any) -> tuple[World, ForeignScales]:
    scales = ForeignScales(clock=lambda: 0.0)
    made = World([disruption(scales)])
    for number, owner in enumerate(owners):
        put_pod(made, number, owner=owner)
    made.put(POD_DISRUPTION_BUDGETS, budget(**spec))
    return made, scales


async def test_pods_of_custom_resources_are_expected_as_their_scale_says() -> None:
    made, scales = of_custom_kinds(*[custom("Worker")] * 3, maxUnavailable=1)
    server = Scaled(pool=3)
    await prepared(made, scales, server)
    assert counts(made) == (3, 3, 2, 1)
    assert server.asked == ["/api", "/apis", "/apis/x.io/v1/namespaces/default/workers/pool/scale"], (
        "once each"
    )
    server.replicas["pool"] = 5
    await prepared(made, scales, server)
    assert counts(made) == (5, 3, 4, 0)


@pytest.mark.parametrize(
    ("owner", "message"),
    [
        (custom("Task"), "tasks.x.io does not implement the scale subresource"),
        (custom("Worker", "lost"), 'found no controllers for pod "web-0"'),
        (custom("Other"), 'no matches for kind "Other" in version "x.io/v1"'),
        (custom("Worker") | {"uid": "uid-namesake"}, 'found no controllers for pod "web-0"'),
    ],
)
async def test_an_owner_without_scale_is_told(owner: dict[str, Any], message: str) -> None:
    made, scales = of_custom_kinds(owner, maxUnavailable=1)
    await prepared(made, scales, Scaled(pool=3))
    assert status(made)["disruptionsAllowed"] == 0
    assert status(made)["conditions"][0]["message"] == message


async def test_too_many_owners_are_told_and_not_asked() -> None:
    owners = [custom("Worker", f"w{number}") for number in range(101)]
    made, scales = of_custom_kinds(*owners, maxUnavailable=1)
    server = Scaled()
    await prepared(made, scales, server)
    assert server.asked == []
    assert "more than 100 controllers" in status(made)["conditions"][0]["message"]
    assert [each.reason for each in made.events] == ["CalculateExpectedPodCountFailed"]


async def test_owners_are_not_asked_if_their_scale_does_not_count() -> None:
    made, scales = of_custom_kinds(custom("Worker"), minAvailable=1)
    server = Scaled(pool=3)
    await prepared(made, scales, server)
    assert (server.asked, counts(made)) == ([], (1, 1, 1, 0))


def test_an_owner_that_was_not_asked_changes_nothing() -> None:
    made, _ = of_custom_kinds(custom("Worker"), maxUnavailable=1)
    again = disruption().plan(made.view(), Key(TENANT, NAMESPACE, "web"))
    assert (again.steps, again.again) == ((), 0.0)
