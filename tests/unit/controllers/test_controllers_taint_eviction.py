"""Pods that do not, or no longer, tolerate the NoExecute taints of their node."""

from typing import Any

import pytest
from controllers_world import TENANT, World
from hypothesis import given, settings
from hypothesis import strategies as st

from vcsync.controllers.framework.mirror import Key, placed
from vcsync.controllers.node.taint_eviction_plan import NAME, taint_eviction
from vcsync.kube.cache import Change
from vcsync.kube.resources import NAMESPACES, NODES, PODS
from vcsync.objects.envelope import Envelope, encode, parse

LOST = {"key": "lost", "effect": "NoExecute"}


def tolerating(seconds: int | None = None) -> dict[str, Any]:
    toleration = {"key": "lost", "operator": "Exists", "effect": "NoExecute"}
    return toleration if seconds is None else {**toleration, "tolerationSeconds": seconds}


@pytest.fixture
def world() -> World:
    made = World([taint_eviction()])
    made.put(NAMESPACES, {"metadata": {"name": "default"}})
    made.put(NODES, {"metadata": {"name": "one"}, "spec": {}})
    return made


def pod(world: World, *tolerations: dict[str, Any], name: str = "p", node: str = "one") -> None:
    spec = {"nodeName": node, "tolerations": list(tolerations)}
    world.put(PODS, {"metadata": {"name": name, "finalizers": ["kubelet"]}, "spec": spec, "status": {}})


def taint(world: World, *taints: dict[str, Any]) -> None:
    world.change(NODES, "one", {"spec": {"taints": list(taints)}})


def view(world: World, name: str = "p") -> float | None:
    return world.work(NAME, Key(TENANT, "default", name)).again


def going(world: World, name: str = "p") -> bool:
    return "deletionTimestamp" in world.body(PODS, name)["metadata"]


def test_a_pod_without_toleration_is_deleted_with_the_reason(world: World) -> None:
    pod(world)
    taint(world, LOST)
    world.settle()
    assert going(world)
    (condition,) = world.body(PODS, "p")["status"]["conditions"]
    assert {**condition, "lastTransitionTime": ""} == {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint",
        "observedGeneration": 1,
        "lastTransitionTime": "",
    }
    assert [(each.type, each.reason, each.message) for each in world.events] == [
        ("Normal", "TaintManagerEviction", "Marking for deletion Pod default/p")
    ]


@pytest.mark.parametrize("effect", ["NoSchedule", "PreferNoSchedule"])
def test_other_effects_do_not_evict_running_pods(world: World, effect: str) -> None:
    pod(world)
    taint(world, {"key": "lost", "effect": effect})
    world.settle()
    assert not world.written


def test_a_pod_with_an_unlimited_toleration_stays(world: World) -> None:
    pod(world, tolerating())
    taint(world, LOST)
    assert view(world) is None
    assert not world.written


def test_a_pod_stays_for_its_toleration_seconds(world: World) -> None:
    pod(world, tolerating(60))
    taint(world, LOST)
    assert view(world) == 60
    world.pass_time(59)
    assert view(world) == 1
    assert not going(world)
    world.pass_time(1)
    view(world)
    assert going(world)


def test_a_taint_removed_in_time_cancels_the_deletion(world: World) -> None:
    pod(world, tolerating(60))
    taint(world, LOST)
    view(world)
    world.pass_time(59)
    taint(world)
    assert view(world) is None
    assert [each.message for each in world.events] == ["Cancelling deletion of Pod default/p"]
    taint(world, LOST)
    assert view(world) == 60


def test_a_new_pod_of_the_same_name_starts_its_own_time(world: World) -> None:
    pod(world, tolerating(60))
    taint(world, LOST)
    view(world)
    world.pass_time(59)
    world.remove(PODS, "p")
    pod(world, tolerating(60))
    assert view(world) == 60


def test_pods_without_an_existing_node_are_ignored(world: World) -> None:
    pod(world, node="")
    pod(world, name="q", node="gone")
    taint(world, LOST)
    world.settle()
    assert not world.written


def envelope(body: dict[str, Any]) -> Envelope:
    return placed(parse(encode(body)), TENANT)


def woken(world: World, watch: int, change: Change) -> list[str]:
    return [key.name for key in taint_eviction().watches[watch].keys(change, world.view())]


def test_relevant_taint_changes_queue_the_pods_of_a_node(world: World) -> None:
    pod(world)
    pod(world, name="q", node="two")
    before = envelope(world.body(NODES, "one"))
    taint(world, {"key": "busy", "effect": "NoSchedule"})
    between = envelope(world.body(NODES, "one"))
    taint(world, LOST)
    after = envelope(world.body(NODES, "one"))
    assert woken(world, 1, Change(before, between)) == []
    assert woken(world, 1, Change(between, after)) == ["p"]
    assert woken(world, 1, Change(after, before)) == ["p"]
    assert woken(world, 1, Change(None, after)) == ["p"]
    assert woken(world, 1, Change(after, None)) == []


def test_pods_are_queued_when_they_are_bound_to_a_tainted_node(world: World) -> None:
    pod(world)
    new = envelope(world.body(PODS, "p"))
    assert woken(world, 0, Change(None, new)) == []
    taint(world, LOST)
    assert woken(world, 0, Change(None, new)) == ["p"]
    assert woken(world, 0, Change(new, new)) == []
    assert woken(world, 0, Change(new, None)) == ["p"]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("taint"), st.booleans()),
            st.tuples(st.just("wait"), st.integers(1, 40)),
        ),
        max_size=12,
    ),
    st.sampled_from([None, 0, 10, 30]),
)
def test_it_is_deleted_when_its_shortest_toleration_ends(
    history: list[tuple[str, Any]], seconds: int | None
) -> None:
    world = World([taint_eviction()])
    world.put(NODES, {"metadata": {"name": "one"}, "spec": {}})
    pod(world, tolerating(seconds))
    since: float | None = None
    passed, due = 0.0, False
    for what, value in history:
        if what == "taint":
            taint(world, *([LOST] if value else []))
            since = (passed if since is None else since) if value else None
        else:
            passed += value
            world.pass_time(value)
        if since is not None and seconds is not None and passed - since >= seconds:
            due = True
        view(world)
        assert going(world) == due
        if due:
            return
