"""DaemonSets: one Pod on every eligible node, after any history."""

from typing import Any

import pytest
from controllers_world import TENANT, World
from hypothesis import given, settings
from hypothesis import strategies as st

from vcsync.api.names import VIRTUAL_NODE
from vcsync.controllers.daemonset.daemonset_plan import NAME, daemon_sets
from vcsync.controllers.framework.mirror import Key, placed
from vcsync.controllers.framework.plan import Create, Delete
from vcsync.kube.cache import Change
from vcsync.kube.errors import ApiError, Status
from vcsync.kube.resources import CONTROLLER_REVISIONS, DAEMON_SETS, NAMESPACES, NODES, PODS
from vcsync.objects.envelope import encode, parse

LABELS = {"app": "d"}
NO_SCHEDULE = {"key": "own", "effect": "NoSchedule"}
NO_EXECUTE = {"key": "own", "effect": "NoExecute"}


def daemon_set(image: str = "one", *, strategy: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    pod_spec = {"containers": [{"name": "c", "image": image}], **spec.pop("pod", {})}
    return {
        "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": LABELS},
            "template": {"metadata": {"labels": LABELS}, "spec": pod_spec},
            "updateStrategy": strategy or {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
            **spec,
        },
    }


def node(world: World, name: str, *taints: dict[str, str], **labels: str) -> None:
    world.put(NODES, {"metadata": {"name": name, "labels": labels}, "spec": {"taints": list(taints)}})


def world(*nodes: str) -> World:
    made = World([daemon_sets()])
    made.put(NAMESPACES, {"metadata": {"name": "default"}})
    for name in nodes:
        node(made, name)
    return made


def update(world: World, wanted: dict[str, Any]) -> None:
    world.change(DAEMON_SETS, "d", {"spec": wanted["spec"]})


def target(pod: dict[str, Any]) -> str:
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = required["nodeSelectorTerms"]
    (field,) = term["matchFields"]
    assert (field["key"], field["operator"]) == ("metadata.name", "In")
    (name,) = field["values"]
    return str(name)


def standing(world: World) -> list[dict[str, Any]]:
    return [pod for pod in world.bodies(PODS) if "deletionTimestamp" not in pod["metadata"]]


def targets(world: World) -> list[str]:
    return sorted(map(target, standing(world)))


def run(world: World, *, ready: bool = True) -> None:
    """Simulate the scheduler and the kubelets."""
    for pod in list(world.bodies(PODS)):
        if "deletionTimestamp" in pod["metadata"]:
            world.remove(PODS, pod["metadata"]["name"])
            continue
        if pod.get("status", {}).get("phase") in ("Failed", "Succeeded"):
            continue
        condition = {
            "type": "Ready",
            "status": "True" if ready else "False",
            "lastTransitionTime": world.time(),
        }
        known = pod.get("status", {}).get("conditions")
        if known and known[0]["status"] in ("True", condition["status"]):
            continue
        patch = {
            "spec": {"nodeName": target(pod)},
            "status": {"phase": "Running", "conditions": [condition]},
        }
        world.change(PODS, pod["metadata"]["name"], patch)


def finish(world: World, rounds: int = 30) -> None:
    """Run all controllers, the scheduler and kubelets until nothing changes."""
    for _ in range(rounds):
        before = len(world.written)
        world.settle()
        run(world)
        world.pass_time(1000)
        world.settle()
        if len(world.written) == before:
            return
    raise AssertionError("it does not end")


def status(world: World) -> dict[str, int]:
    reported = world.body(DAEMON_SETS, "d")["status"]
    names = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled")
    return {name: reported.get(name, 0) for name in names}


def images(world: World) -> list[str]:
    return sorted(pod["spec"]["containers"][0]["image"] for pod in standing(world))


def test_every_node_gets_one_pod_for_that_node() -> None:
    made = world("a", "b")
    made.put(DAEMON_SETS, daemon_set())
    made.settle()
    assert targets(made) == ["a", "b"]
    (pod, _) = made.bodies(PODS)
    assert pod["metadata"]["generateName"] == "d-"
    assert pod["metadata"]["ownerReferences"][0]["kind"] == "DaemonSet"
    (revision,) = made.bodies(CONTROLLER_REVISIONS)
    suffix = revision["metadata"]["name"].removeprefix("d-")
    assert revision["metadata"]["labels"] == {**LABELS, "controller-revision-hash": suffix}
    assert pod["metadata"]["labels"] == {**LABELS, "controller-revision-hash": suffix}
    assert {(each["key"], each["effect"]) for each in pod["spec"]["tolerations"]} == {
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
        ("node.kubernetes.io/disk-pressure", "NoSchedule"),
        ("node.kubernetes.io/memory-pressure", "NoSchedule"),
        ("node.kubernetes.io/pid-pressure", "NoSchedule"),
        ("node.kubernetes.io/unschedulable", "NoSchedule"),
    }
    assert {each.reason for each in made.events} == {"SuccessfulCreate"}


def test_the_status_has_current_and_desired_numbers() -> None:
    made = world("a", "b")
    made.put(DAEMON_SETS, daemon_set())
    made.settle()
    assert made.body(DAEMON_SETS, "d")["status"] == {
        "currentNumberScheduled": 2,
        "desiredNumberScheduled": 2,
        "numberMisscheduled": 0,
        "numberReady": 0,
        "numberUnavailable": 2,
        "observedGeneration": 1,
        "updatedNumberScheduled": 2,
    }
    run(made)
    made.settle()
    reported = made.body(DAEMON_SETS, "d")["status"]
    assert (reported["numberReady"], reported["numberAvailable"]) == (2, 2)
    assert "numberUnavailable" not in reported


@pytest.mark.parametrize(
    ("pod", "taints", "labels", "runs"),
    [
        ({}, (), {}, True),
        ({}, (NO_SCHEDULE,), {}, False),
        ({"tolerations": [{"key": "own", "operator": "Exists"}]}, (NO_EXECUTE,), {}, True),
        ({}, ({"key": "own", "effect": "PreferNoSchedule"},), {}, True),
        ({}, ({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},), {}, True),
        ({}, ({"key": "node.kubernetes.io/network-unavailable", "effect": "NoSchedule"},), {}, False),
        (
            {"hostNetwork": True},
            ({"key": "node.kubernetes.io/network-unavailable", "effect": "NoSchedule"},),
            {},
            True,
        ),
        ({"nodeSelector": {"disk": "fast"}}, (), {"disk": "fast"}, True),
        ({"nodeSelector": {"disk": "fast"}}, (), {"disk": "slow"}, False),
        ({"nodeName": "other"}, (), {}, False),
    ],
)
def test_nodes_that_get_a_daemon(pod: Any, taints: Any, labels: dict[str, str], runs: bool) -> None:
    made = world()
    node(made, "a", *taints, **labels)
    made.put(DAEMON_SETS, daemon_set(pod=pod))
    made.settle()
    assert targets(made) == (["a"] if runs else [])


def test_node_affinity_is_evaluated_and_pod_affinity_kept() -> None:
    made = world()
    node(made, "a", disk="fast")
    node(made, "b", disk="slow")
    term = {"matchExpressions": [{"key": "disk", "operator": "NotIn", "values": ["slow"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    affinity = {"nodeAffinity": required, "podAntiAffinity": {"x": []}}
    made.put(DAEMON_SETS, daemon_set(pod={"affinity": affinity}))
    made.settle()
    assert targets(made) == ["a"]
    (pod,) = made.bodies(PODS)
    assert pod["spec"]["affinity"]["podAntiAffinity"] == {"x": []}


def test_virtual_nodes_get_no_daemon() -> None:
    made = world()
    node(made, "a", **{VIRTUAL_NODE: "true"})
    made.put(DAEMON_SETS, daemon_set())
    made.settle()
    assert targets(made) == []


def test_a_taint_stops_new_daemons_and_ends_running_ones_only_with_no_execute() -> None:
    made = world("a")
    made.put(DAEMON_SETS, daemon_set())
    finish(made)
    made.change(NODES, "a", {"spec": {"taints": [NO_SCHEDULE]}})
    finish(made)
    assert targets(made) == ["a"]
    reported = made.body(DAEMON_SETS, "d")["status"]
    assert (reported["desiredNumberScheduled"], reported["numberMisscheduled"]) == (0, 1)
    made.change(NODES, "a", {"spec": {"taints": [NO_EXECUTE]}})
    finish(made)
    assert targets(made) == []


def test_a_pod_for_a_missing_node_is_deleted() -> None:
    made = world("a", "b")
    made.put(DAEMON_SETS, daemon_set())
    made.settle()
    made.remove(NODES, "a")
    made.settle()
    assert targets(made) == ["b"]


@pytest.mark.parametrize(
    ("phase", "reason", "verb"),
    [("Failed", "FailedDaemonPod", "kill"), ("Succeeded", "SucceededDaemonPod", "delete")],
)
def test_a_daemon_that_ended_is_replaced(phase: str, reason: str, verb: str) -> None:
    made = world("a")
    made.put(DAEMON_SETS, daemon_set())
    finish(made)
    (pod,) = made.bodies(PODS)
    name = pod["metadata"]["name"]
    made.change(PODS, name, {"status": {"phase": phase}})
    made.settle()
    reported = [each.message for each in made.events if each.reason == reason]
    assert reported == [f"Found {phase.lower()} daemon pod default/{name} on node a, will try to {verb} it"]
    finish(made)
    assert targets(made) == ["a"]
    assert made.bodies(PODS)[0]["metadata"]["name"] != name


def test_repeated_failures_of_a_daemon_have_growing_backoff() -> None:
    made = world("a")
    made.put(DAEMON_SETS, daemon_set())
    waits = []
    for _ in range(4):
        made.settle()
        (pod,) = made.bodies(PODS)
        made.change(PODS, pod["metadata"]["name"], {"status": {"phase": "Failed"}})
        plan = made.work(NAME, Key(TENANT, "default", "d"))
        waits.append(plan.again)
        made.pass_time(plan.again or 0)
        made.settle()
    assert waits == [None, 1, 2, 4]


@pytest.mark.parametrize(("allowed", "gone"), [(1, 1), ("50%", 2), ("60%", 3)])
def test_an_update_respects_max_unavailable(allowed: int | str, gone: int) -> None:
    made = world("a", "b", "c", "d")
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": allowed}}
    made.put(DAEMON_SETS, daemon_set(strategy=strategy))
    finish(made)
    update(made, daemon_set("two", strategy=strategy))
    made.settle()
    assert images(made) == ["one"] * (4 - gone) + ["two"] * gone
    run(made, ready=False)
    made.settle()
    assert images(made) == ["one"] * (4 - gone) + ["two"] * gone
    finish(made)
    assert images(made) == ["two"] * 4
    assert len(made.bodies(CONTROLLER_REVISIONS)) == 2


def test_an_update_with_surge_never_leaves_a_node_without_a_daemon() -> None:
    made = world("a", "b")
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    made.put(DAEMON_SETS, daemon_set(strategy=strategy))
    finish(made)
    update(made, daemon_set("two", strategy=strategy))
    made.settle()
    assert images(made) == ["one", "one", "two"]
    made.settle()
    assert images(made) == ["one", "one", "two"]
    finish(made)
    assert images(made) == ["two", "two"]
    assert targets(made) == ["a", "b"]


def test_on_delete_keeps_pods_until_they_are_deleted() -> None:
    made = world("a", "b")
    made.put(DAEMON_SETS, daemon_set(strategy={"type": "OnDelete"}))
    finish(made)
    changed = daemon_set("two", strategy={"type": "OnDelete"})
    update(made, changed)
    finish(made)
    assert images(made) == ["one", "one"]
    made.remove(PODS, made.bodies(PODS)[0]["metadata"]["name"])
    finish(made)
    assert images(made) == ["one", "two"]
    assert status(made)["updatedNumberScheduled"] == 1


def test_old_revisions_are_deleted_unless_pods_use_them() -> None:
    made = world("a")
    made.put(DAEMON_SETS, daemon_set("0", revisionHistoryLimit=2))
    finish(made)
    for image in range(1, 6):
        changed = daemon_set(str(image), revisionHistoryLimit=2)
        update(made, changed)
        finish(made)
    assert sorted(each["revision"] for each in made.bodies(CONTROLLER_REVISIONS)) == [4, 5, 6]


def test_matching_orphans_are_adopted_and_other_pods_released() -> None:
    made = world("a")
    made.put(
        PODS, {"metadata": {"name": "orphan", "labels": LABELS}, "spec": {"nodeName": "a"}, "status": {}}
    )
    made.put(DAEMON_SETS, daemon_set(strategy={"type": "OnDelete"}))
    made.settle()
    (pod,) = made.bodies(PODS)
    assert pod["metadata"]["ownerReferences"][0]["name"] == "d"
    made.change(PODS, "orphan", {"metadata": {"labels": {"app": "other"}}})
    made.settle()
    assert len(made.bodies(PODS)) == 2
    assert not made.body(PODS, "orphan")["metadata"].get("ownerReferences")


def test_relevant_changes_of_nodes_queue_daemon_sets() -> None:
    made = world("a")
    made.put(DAEMON_SETS, daemon_set())
    keys = daemon_sets().watches[3].keys
    before = placed(parse(encode(made.body(NODES, "a"))), TENANT)
    made.change(NODES, "a", {"status": {"conditions": []}})
    same = placed(parse(encode(made.body(NODES, "a"))), TENANT)
    made.change(NODES, "a", {"spec": {"taints": [NO_SCHEDULE]}})
    other = placed(parse(encode(made.body(NODES, "a"))), TENANT)
    view = made.view()
    assert list(keys(Change(before, same), view)) == []
    for change in (Change(same, other), Change(None, same), Change(same, None)):
        assert list(keys(change, view)) == [Key(TENANT, "default", "d")]


@pytest.mark.parametrize(("nodes", "seconds"), [(0, 0), (25, 0.01), (2500, 1), (10000, 2)])
def test_pod_changes_of_large_sets_are_collected(nodes: int, seconds: float) -> None:
    made = world()
    made.put(DAEMON_SETS, {**daemon_set(), "status": {"desiredNumberScheduled": nodes}})
    gather = daemon_sets().watches[1].gather
    assert gather is not None
    change = Change(None, placed(parse(encode({"metadata": {"name": "p"}})), TENANT))
    assert gather(change, made.view(), Key(TENANT, "default", "d")) == seconds
    assert gather(change, made.view(), Key(TENANT, "default", "gone")) == 0


OPERATIONS = st.one_of(
    st.tuples(st.just("node"), st.sampled_from("abc"), st.sampled_from(["", "NoSchedule", "NoExecute"])),
    st.tuples(st.just("lose"), st.sampled_from("abc"), st.just("")),
    st.tuples(st.just("image"), st.sampled_from(["one", "two", "three"]), st.just("")),
    st.tuples(st.just("phase"), st.sampled_from(["Failed", "Succeeded", "Running"]), st.just("")),
    st.tuples(st.just("run"), st.sampled_from(["ready", "not"]), st.just("")),
    st.tuples(st.just("refuse"), st.sampled_from(["create", "delete"]), st.just("")),
    st.tuples(st.just("look"), st.just(""), st.just("")),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(OPERATIONS, max_size=14), st.sampled_from([(1, 0), (2, 0), (0, 1)]))
def test_after_any_history_each_node_has_one_daemon_of_the_last_template(
    history: list[tuple[str, str, str]], bounds: tuple[int, int]
) -> None:
    made = world("a", "b")
    rolling = {"maxUnavailable": bounds[0], "maxSurge": bounds[1]}
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    made.put(DAEMON_SETS, daemon_set(strategy=strategy))
    image = "one"
    for what, value, effect in history:
        if what == "node":
            node(made, value, *([{"key": "own", "effect": effect}] if effect else []))
        elif what == "lose":
            made.remove(NODES, value)
        elif what == "image":
            image = value
            update(made, daemon_set(value, strategy=strategy))
        elif what == "phase" and made.bodies(PODS):
            made.change(PODS, made.bodies(PODS)[0]["metadata"]["name"], {"status": {"phase": value}})
        elif what == "run":
            run(made, ready=value == "ready")
        elif what == "refuse":
            action = Create if value == "create" else Delete
            made.refusals.append((action, ApiError(Status(500, "InternalError"))))
        elif what == "look":
            made.work(NAME, Key(TENANT, "default", "d"))
    made.refusals.clear()
    names = {body["metadata"]["name"] for body in made.bodies(NODES)}
    for pod in list(made.bodies(PODS)):  # the garbage collector of Pods
        if pod["spec"].get("nodeName") and pod["spec"]["nodeName"] not in names:
            made.remove(PODS, pod["metadata"]["name"])
    for name in names:
        node(made, name)
    finish(made)
    assert targets(made) == sorted(names)
    assert images(made) == [image] * len(names)
    wanted = dict.fromkeys(status(made), len(names))
    assert status(made) == wanted
