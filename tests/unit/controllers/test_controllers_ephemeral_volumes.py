"""Ephemeral volumes: a claim for each, which belongs to the Pod."""

from typing import Any

import pytest
from controllers_world import NAMESPACE, World

from vcsync.controllers.volumes.ephemeral_plan import EPHEMERAL_VOLUME
from vcsync.kube.resources import NAMESPACES, PERSISTENT_VOLUME_CLAIMS, PODS


@pytest.fixture
def world() -> World:
    made = World([EPHEMERAL_VOLUME])
    made.put(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    return made


SPEC = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def pod(made: World, **metadata: Any) -> str:
    template = {"metadata": {"labels": {"app": "db"}}, "spec": SPEC}
    volumes = [
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}},
        {"name": "e", "emptyDir": {}},
    ]
    made.put(PODS, {"metadata": {"name": "db", **metadata}, "spec": {"volumes": volumes}})
    uid: str = made.body(PODS, "db")["metadata"]["uid"]
    return uid


def test_a_claim_is_made_for_an_ephemeral_volume_and_ends_with_the_pod(world: World) -> None:
    uid = pod(world)
    world.settle()
    made = world.body(PERSISTENT_VOLUME_CLAIMS, "db-scratch")
    assert made["spec"] == SPEC
    assert made["metadata"]["labels"] == {"app": "db"}
    [owner] = made["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == (uid, True)


def test_a_claim_that_was_deleted_is_made_again(world: World) -> None:
    pod(world)
    world.settle()
    world.remove(PERSISTENT_VOLUME_CLAIMS, "db-scratch")
    world.settle()
    assert world.body(PERSISTENT_VOLUME_CLAIMS, "db-scratch")


def test_a_claim_of_that_name_which_belongs_to_somebody_else_is_reported(world: World) -> None:
    world.put(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "db-scratch"}, "spec": SPEC})
    pod(world)
    world.settle()
    [event] = world.events
    assert event.reason == "FailedBinding"
    assert "was not created for pod" in event.message


def test_a_pod_that_is_being_deleted_gets_no_claim(world: World) -> None:
    pod(world, deletionTimestamp="2026-05-01T12:00:00Z", deletionGracePeriodSeconds=30)
    world.settle()
    with pytest.raises(KeyError):
        world.body(PERSISTENT_VOLUME_CLAIMS, "db-scratch")
