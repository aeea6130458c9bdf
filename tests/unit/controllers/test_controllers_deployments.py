"""Deployments: the bounds of a rollout, and its result."""

from typing import Any

from controllers_world import World
from hypothesis import given, settings
from hypothesis import strategies as st

from vcsync.controllers.deployment.deployment_plan import DEPLOYMENT
from vcsync.controllers.deployment.objects import HASH_LABEL, REVISION, REVISION_HISTORY
from vcsync.controllers.framework.plan import Create, Patch
from vcsync.controllers.replicaset.replicaset_plan import REPLICA_SET
from vcsync.kube.errors import Forbidden, Status
from vcsync.kube.resources import DEPLOYMENTS, PODS, REPLICA_SETS

LABELS = {"app": "web"}


def template(image: str) -> dict[str, Any]:
    return {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": image}]}}


def deployment(replicas: int = 4, **spec: Any) -> dict[str, Any]:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
    return {
        "metadata": {"name": "web", "annotations": {"team": "blue"}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": LABELS},
            "template": template("one"),
            "strategy": rolling,
            "revisionHistoryLimit": 10,
            "progressDeadlineSeconds": 600,
            **spec,
        },
    }


def make_ready(world: World) -> None:
    for pod in world.bodies(PODS):
        if "status" not in pod:
            condition = {"type": "Ready", "status": "True", "lastTransitionTime": world.time()}
            world.change(
                PODS, pod["metadata"]["name"], {"status": {"phase": "Running", "conditions": [condition]}}
            )


def roll(world: World) -> None:
    """Run controllers and kubelets until nothing changes."""
    for _ in range(60):
        before = len(world.written)
        world.settle()
        make_ready(world)
        if len(world.written) == before:
            return
    raise AssertionError("the rollout does not end")


def started(**fields: Any) -> World:
    world = World([DEPLOYMENT, REPLICA_SET])
    world.put(DEPLOYMENTS, deployment(**fields))
    roll(world)
    return world


def images(world: World) -> list[str]:
    return sorted(pod["spec"]["containers"][0]["image"] for pod in world.bodies(PODS))


def update(world: World, image: str) -> None:
    world.change(DEPLOYMENTS, "web", {"spec": {"template": template(image)}})


def status(world: World) -> dict[str, Any]:
    found: dict[str, Any] = world.body(DEPLOYMENTS, "web")["status"]
    return found


def progress(world: World) -> tuple[str, str]:
    [condition] = [each for each in status(world)["conditions"] if each["type"] == "Progressing"]
    return condition["status"], condition["reason"]


def test_a_new_deployment_creates_a_replica_set_with_hash_revision_and_annotations() -> None:
    world = started()
    [made] = world.bodies(REPLICA_SETS)
    hash_ = made["metadata"]["labels"][HASH_LABEL]
    assert made["metadata"]["name"] == f"web-{hash_}"
    assert made["spec"]["selector"]["matchLabels"] == {**LABELS, HASH_LABEL: hash_}
    assert (
        made["metadata"]["annotations"] | {"team": "blue", REVISION: "1"} == made["metadata"]["annotations"]
    )
    assert world.body(DEPLOYMENTS, "web")["metadata"]["annotations"][REVISION] == "1"
    assert images(world) == ["one"] * 4
    assert status(world)["availableReplicas"] == status(world)["updatedReplicas"] == 4
    assert progress(world) == ("True", "NewReplicaSetAvailable")
    assert any(event.message.startswith("Scaled up replica set web-") for event in world.events)


def test_a_revision_is_noted_with_the_status_and_does_not_raise_the_generation() -> None:
    """A change of annotations raises the generation, except one that comes with the status."""
    world = started()
    update(world, "two")
    roll(world)
    patches = [each for each in world.written if isinstance(each, Patch) and each.resource is DEPLOYMENTS]
    assert patches
    assert {each.subresource for each in patches} == {"status"}


def test_an_update_replaces_all_pods_and_keeps_the_old_set_for_rollback() -> None:
    world = started()
    update(world, "two")
    roll(world)
    assert images(world) == ["two"] * 4
    assert sorted(each["spec"]["replicas"] for each in world.bodies(REPLICA_SETS)) == [0, 4]
    assert world.body(DEPLOYMENTS, "web")["metadata"]["annotations"][REVISION] == "2"


def test_a_rollback_uses_the_old_set_under_a_new_revision() -> None:
    world = started()
    update(world, "two")
    roll(world)
    update(world, "one")
    roll(world)
    assert len(world.bodies(REPLICA_SETS)) == 2
    [first] = [each for each in world.bodies(REPLICA_SETS) if each["spec"]["replicas"]]
    assert first["metadata"]["annotations"][REVISION] == "3"
    assert first["metadata"]["annotations"][REVISION_HISTORY] == "1"
    assert images(world) == ["one"] * 4


def test_a_rollout_that_never_becomes_ready_stops_at_its_bounds_and_is_reported() -> None:
    world = started()
    update(world, "broken")
    world.settle()
    assert images(world).count("one") == 3
    assert len(images(world)) == 5
    assert progress(world) == ("True", "ReplicaSetUpdated")
    key = world.key("default", "web")
    assert world.work("deployment-controller", key).again == 601
    world.pass_time(700)
    world.settle()
    assert progress(world) == ("False", "ProgressDeadlineExceeded")


def test_a_paused_deployment_is_scaled_but_not_rolled() -> None:
    world = started()
    world.change(DEPLOYMENTS, "web", {"spec": {"paused": True}})
    update(world, "two")
    world.change(DEPLOYMENTS, "web", {"spec": {"replicas": 2}})
    roll(world)
    assert images(world) == ["one", "one"]
    assert progress(world) == ("Unknown", "DeploymentPaused")
    world.change(DEPLOYMENTS, "web", {"spec": {"paused": False}})
    roll(world)
    assert images(world) == ["two", "two"]
    assert progress(world) == ("True", "NewReplicaSetAvailable")


def test_a_paused_deployments_new_strategy_is_recorded_when_it_resumes() -> None:
    world = started()
    world.change(DEPLOYMENTS, "web", {"spec": {"paused": True}})
    roll(world)
    most = "deployment.kubernetes.io/max-replicas"
    [before] = world.bodies(REPLICA_SETS)
    world.change(DEPLOYMENTS, "web", {"spec": {"strategy": {"rollingUpdate": {"maxSurge": 3}}}})
    roll(world)
    assert world.bodies(REPLICA_SETS) == [before]
    world.change(DEPLOYMENTS, "web", {"spec": {"replicas": 5}})
    roll(world)
    assert world.bodies(REPLICA_SETS)[0]["metadata"]["annotations"][most] == "8"


def test_scaling_during_a_rollout_is_proportional() -> None:
    world = started(replicas=10, strategy=_rolling(3, 2))
    update(world, "two")
    world.settle()
    before = {each["metadata"]["name"]: each["spec"]["replicas"] for each in world.bodies(REPLICA_SETS)}
    assert sorted(before.values()) == [5, 8]
    world.change(DEPLOYMENTS, "web", {"spec": {"replicas": 20}})
    world.work("deployment-controller", world.key("default", "web"))
    after = {each["metadata"]["name"]: each["spec"]["replicas"] for each in world.bodies(REPLICA_SETS)}
    assert sum(after.values()) == 23
    assert sorted(after.values()) == [9, 14]


def test_stale_counts_of_a_shrinking_set_are_not_scaled_down_twice() -> None:
    world = World([DEPLOYMENT])
    world.put(DEPLOYMENTS, deployment(4, strategy=_rolling(2, 1)))
    world.settle()
    [old] = world.bodies(REPLICA_SETS)
    update(world, "two")
    world.settle()
    name = old["metadata"]["name"]
    sized = {"desired-replicas": "4", "max-replicas": "6"}
    annotations = {f"deployment.kubernetes.io/{key}": value for key, value in sized.items()}
    # Its controller has not processed it yet, so all Pods still exist.
    status = {"replicas": 6, "availableReplicas": 6, "readyReplicas": 6}
    patch = {"metadata": {"annotations": annotations}, "spec": {"replicas": 4}, "status": status}
    world.change(REPLICA_SETS, name, patch)
    world.settle()
    assert world.body(REPLICA_SETS, name)["spec"]["replicas"] == 3


def test_recreate_waits_until_every_old_pod_is_gone() -> None:
    world = started(strategy={"type": "Recreate"})
    for pod in world.bodies(PODS):
        world.change(PODS, pod["metadata"]["name"], {"metadata": {"finalizers": ["test/slow"]}})
    update(world, "two")
    world.settle()
    assert images(world) == ["one"] * 4
    for pod in world.bodies(PODS):
        world.remove(PODS, pod["metadata"]["name"])
    roll(world)
    assert images(world) == ["two"] * 4


def test_old_sets_beyond_the_limit_are_deleted() -> None:
    world = started(revisionHistoryLimit=1)
    for image in ("two", "three", "four"):
        update(world, image)
        roll(world)
    assert len(world.bodies(REPLICA_SETS)) == 2


def test_a_refused_replica_set_is_reported_in_a_condition_and_an_event() -> None:
    world = World([DEPLOYMENT])
    world.put(DEPLOYMENTS, deployment())
    world.refusals = [(Create, Forbidden(Status(403, "Forbidden", "exceeded quota")))]
    world.work("deployment-controller", world.key("default", "web"))
    assert progress(world) == ("False", "ReplicaSetCreateError")
    assert [event.reason for event in world.events] == ["ReplicaSetCreateError"]


def test_a_name_collision_changes_the_hash() -> None:
    world = started()
    [taken] = world.bodies(REPLICA_SETS)
    fresh = World([DEPLOYMENT, REPLICA_SET])
    fresh.put(REPLICA_SETS, {"metadata": {"name": taken["metadata"]["name"]}, "spec": {"replicas": 0}})
    fresh.put(DEPLOYMENTS, deployment())
    roll(fresh)
    assert images(fresh) == ["one"] * 4
    assert status(fresh)["collisionCount"] == 1


def test_pods_that_fail_show_in_the_deployment() -> None:
    world = World([DEPLOYMENT, REPLICA_SET])
    world.put(DEPLOYMENTS, deployment())
    world.work("deployment-controller", world.key("default", "web"))
    [made] = world.bodies(REPLICA_SETS)
    world.refusals = [(Create, Forbidden(Status(403, "Forbidden", "exceeded quota")))]
    world.work("replicaset-controller", world.key("default", made["metadata"]["name"]))
    world.work("deployment-controller", world.key("default", "web"))
    assert "ReplicaFailure" in [each["type"] for each in status(world)["conditions"]]
    roll(world)
    assert "ReplicaFailure" not in [each["type"] for each in status(world)["conditions"]]


def _rolling(surge: int | str, unavailable: int | str) -> dict[str, Any]:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


@given(
    replicas=st.integers(0, 7),
    surge=st.sampled_from([0, 1, 3, "25%", "100%"]),
    unavailable=st.sampled_from([0, 1, 2, "30%"]),
    history=st.lists(
        st.one_of(
            st.tuples(st.just("image"), st.sampled_from(["one", "two", "three"])),
            st.tuples(st.just("scale"), st.integers(0, 7)),
            st.tuples(st.just("step"), st.integers(1, 6)),
            st.tuples(st.just("fail"), st.integers(0, 6)),
        ),
        max_size=6,
    ),
)
@settings(max_examples=40, deadline=None)
def test_every_rollout_reaches_the_requested_state(
    replicas: int, surge: int | str, unavailable: int | str, history: list[tuple[str, Any]]
) -> None:
    if not surge and not unavailable:
        surge = 1
    world = started(replicas=replicas, strategy=_rolling(surge, unavailable))
    for what, value in history:
        if what == "image":
            update(world, value)
        elif what == "scale":
            world.change(DEPLOYMENTS, "web", {"spec": {"replicas": value}})
        elif what == "fail" and world.bodies(PODS):
            pods = world.bodies(PODS)
            world.change(PODS, pods[value % len(pods)]["metadata"]["name"], {"status": {"phase": "Failed"}})
        else:
            for _ in range(value):
                for envelope in list(world.shelves[REPLICA_SETS].everything()):
                    world.work("replicaset-controller", world.key("default", envelope.name))
                world.work("deployment-controller", world.key("default", "web"))
                make_ready(world)
    roll(world)
    spec = world.body(DEPLOYMENTS, "web")["spec"]
    alive = [pod for pod in world.bodies(PODS) if pod["status"]["phase"] == "Running"]
    wanted = spec["template"]["spec"]["containers"][0]["image"]
    assert [pod["spec"]["containers"][0]["image"] for pod in alive] == [wanted] * spec["replicas"]
    assert status(world).get("availableReplicas", 0) == spec["replicas"]
    assert progress(world) == ("True", "NewReplicaSetAvailable")


@given(surge=st.integers(0, 3), unavailable=st.integers(0, 3), replicas=st.integers(1, 8))
@settings(max_examples=30, deadline=None)
def test_a_rollout_keeps_within_its_bounds_at_every_step(surge: int, unavailable: int, replicas: int) -> None:
    if not surge and not unavailable:
        unavailable = 1
    world = started(replicas=replicas, strategy=_rolling(surge, unavailable))
    update(world, "two")
    for _ in range(4 * replicas + 8):
        world.work("deployment-controller", world.key("default", "web"))
        assert sum(each["spec"]["replicas"] for each in world.bodies(REPLICA_SETS)) <= replicas + surge
        for envelope in list(world.shelves[REPLICA_SETS].everything()):
            world.work("replicaset-controller", world.key("default", envelope.name))
        ready = [pod for pod in world.bodies(PODS) if "status" in pod]
        assert len(ready) >= replicas - min(unavailable, replicas)
        make_ready(world)
    assert images(world) == ["two"] * replicas
