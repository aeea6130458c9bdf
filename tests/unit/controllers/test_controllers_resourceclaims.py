"""ResourceClaims from templates: one for each Pod, which ends with it."""

from typing import Any

import pytest
from controllers_world import NAMESPACE, World

from vcsync.controllers.resourceclaim.resourceclaim_plan import POD_CLAIM_NAME, RESOURCE_CLAIM
from vcsync.kube.resources import NAMESPACES, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS

SPEC = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}


@pytest.fixture
def world() -> World:
    made = World([RESOURCE_CLAIM])
    made.put(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    return made


def template(made: World) -> None:
    metadata = {"labels": {"app": "lab"}, "annotations": {"own": "text"}}
    made.put(
        RESOURCE_CLAIM_TEMPLATES, {"metadata": {"name": "t"}, "spec": {"metadata": metadata, "spec": SPEC}}
    )


def pod(made: World, name: str = "p", *, phase: str = "Pending", **metadata: Any) -> str:
    references = [
        {"name": "mine", "resourceClaimTemplateName": "t"},
        {"name": "other", "resourceClaimName": "shared"},
    ]
    spec = {"resourceClaims": references}
    body = {"metadata": {"name": name, **metadata}, "spec": spec, "status": {"phase": phase}}
    uid: str = made.put(PODS, body)["metadata"]["uid"]
    return uid


def test_a_claim_is_made_from_a_template_and_recorded_in_the_pod(world: World) -> None:
    template(world)
    uid = pod(world)
    world.settle()
    [claim] = world.bodies(RESOURCE_CLAIMS)
    metadata = claim["metadata"]
    assert claim["spec"] == SPEC
    assert metadata["name"].startswith("p-mine-")
    assert metadata["labels"] == {"app": "lab"}
    assert metadata["annotations"] == {"own": "text", POD_CLAIM_NAME: "mine"}
    [owner] = metadata["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == (uid, True)
    assert world.body(PODS, "p")["status"]["resourceClaimStatuses"] == [
        {"name": "mine", "resourceClaimName": metadata["name"]}
    ]


def test_a_claim_whose_name_was_not_recorded_is_found_again(world: World) -> None:
    template(world)
    pod(world)
    world.settle()
    world.change(PODS, "p", {"status": {"resourceClaimStatuses": None}})
    world.settle()
    [claim] = world.bodies(RESOURCE_CLAIMS)
    [status] = world.body(PODS, "p")["status"]["resourceClaimStatuses"]
    assert status["resourceClaimName"] == claim["metadata"]["name"]


def test_a_claim_that_was_deleted_is_made_again(world: World) -> None:
    template(world)
    pod(world)
    world.settle()
    [before] = world.bodies(RESOURCE_CLAIMS)
    world.remove(RESOURCE_CLAIMS, before["metadata"]["name"])
    world.settle()
    [after] = world.bodies(RESOURCE_CLAIMS)
    [status] = world.body(PODS, "p")["status"]["resourceClaimStatuses"]
    assert status["resourceClaimName"] == after["metadata"]["name"] != before["metadata"]["name"]


def test_a_template_that_does_not_exist_is_reported_until_it_does(world: World) -> None:
    pod(world)
    world.settle()
    assert [event.reason for event in world.events] == ["FailedResourceClaimCreation"]
    assert 'resource claim template "t": not found' in world.events[0].message
    template(world)
    world.settle()
    assert len(world.bodies(RESOURCE_CLAIMS)) == 1


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_the_claim_of_a_pod_that_has_ended_is_deleted(world: World, phase: str) -> None:
    template(world)
    pod(world)
    world.put(RESOURCE_CLAIMS, {"metadata": {"name": "shared"}, "spec": SPEC})
    world.settle()
    world.change(PODS, "p", {"status": {"phase": phase}})
    world.settle()
    assert [each["metadata"]["name"] for each in world.bodies(RESOURCE_CLAIMS)] == ["shared"]


def test_a_pod_that_is_being_deleted_gets_no_claim(world: World) -> None:
    template(world)
    pod(world, deletionTimestamp="2026-05-01T12:00:00Z", deletionGracePeriodSeconds=30)
    world.settle()
    assert world.bodies(RESOURCE_CLAIMS) == []


def test_long_names_are_shortened(world: World) -> None:
    template(world)
    pod(world, "p" * 200)
    world.settle()
    [claim] = world.bodies(RESOURCE_CLAIMS)
    assert len(claim["metadata"]["name"]) == 63
