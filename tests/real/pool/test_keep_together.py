"""The Pods of a Service stay where they reach each other, if the tenant asks for it with a label."""

from __future__ import annotations

import pytest
from pool_kit import Json, Pool, Space, condition, deployment, pod, super_of

from tests.real.waiting import eventually
from vcsync.api.names import KEEP_TOGETHER, TRUE

ROOM = 4
"""Pods in a slice of the pool."""


def service(name: str = "web", value: str = TRUE) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": {KEEP_TOGETHER: value}},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    }


def web(replicas: int) -> Json:
    return deployment("web", replicas)


def waiting(space: Space) -> list[str]:
    """Return why Pods wait."""
    found = [condition(each, "PodScheduled") for each in space.pods("web")]
    return [each["message"] for each in found if each.get("reason") == "Unschedulable"]


def explained(pool: Pool, space: Space, name: str) -> str:
    return pool.system.vcsync("explain", "pod", f"acme/{space.name}/{name}")


def supers(space: Space) -> list[str]:
    return sorted({super_of(each) for each in space.pods("web") if each["spec"].get("nodeName")})


def test_pods_stay_on_one_super_cluster_and_wait_for_room_there(space: Space, pool: Pool) -> None:
    space.apply(service(), web(1))
    space.all_running("web", 1)
    [home] = supers(space)
    space.kubectl("scale", "deployment", "web", f"--replicas={ROOM}")
    space.all_running("web", ROOM)
    assert supers(space) == [home]
    space.apply(pod("other"), pod("another"))
    away = {super_of(space.running(name)) for name in ("other", "another")}
    assert away - {home}, "Pods that the Service does not select go elsewhere"
    space.kubectl("scale", "deployment", "web", f"--replicas={ROOM + 1}")
    [why] = eventually(lambda: waiting(space))
    assert f"Service web keeps its Pods together on {home} (label {KEEP_TOGETHER})" in why
    [last] = [each for each in space.pods("web") if not each["spec"].get("nodeName")]
    name = last["metadata"]["name"]
    eventually(lambda: space.events(name, "FailedScheduling"))
    assert "keeps its Pods together" in explained(pool, space, name)
    space.kubectl("label", "service", "web", f"{KEEP_TOGETHER}-")
    space.all_running("web", ROOM + 1)
    assert len(supers(space)) == 2


def test_pods_that_ran_before_are_counted_when_the_service_gets_the_label(space: Space) -> None:
    first = pod("web-1", on="r2", labels={"app": "web"})
    space.apply(service(value="false"), first)
    space.running("web-1")
    space.kubectl("label", "service", "web", "--overwrite", f"{KEEP_TOGETHER}={TRUE}")
    # A Pod that may not go to r2 waits as soon as the Service counts the Pod there.
    names = [f"probe-{number}" for number in range(3)]

    def kept() -> bool:
        space.kubectl("delete", "pod", "probe", "--ignore-not-found", "--wait=true")
        space.apply(pod("probe", on="r1", labels={"app": "web"}))
        found = eventually(lambda: _decided(space, "probe"))
        return "Service web keeps its Pods together on r2" in found

    eventually(kept)
    space.apply(*(pod(name, labels={"app": "web"}) for name in names))
    assert {super_of(space.running(name)) for name in names} == {"r2"}


def _decided(space: Space, name: str) -> str:
    """Return what was decided on a Pod: the reason to wait, or its super cluster; empty if nothing was yet."""
    found = space.get("pods", name) or {"metadata": {}}
    return str(condition(found, "PodScheduled").get("message") or super_of(found))


def test_pods_spread_over_the_super_clusters_of_one_network(space: Space, pool: Pool) -> None:
    with pool.network():
        space.apply(service(), web(ROOM + 1))
        space.all_running("web", ROOM + 1)
        assert supers(space) == ["r1", "r2"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metadata": {"labels": {KEEP_TOGETHER: "yes"}}}, "'yes' is not valid; write \"true\" or remove the label"),
        ({"spec": {"selector": None}}, "the Service selects no Pods; give it a selector or remove the label"),
    ],
)  # fmt: skip
def test_a_label_that_cannot_be_followed_gets_an_event(space: Space, change: Json, message: str) -> None:
    found = service()
    for part, fields in change.items():
        found[part] = {**found[part], **fields}
    space.apply(found)
    [event] = eventually(lambda: space.events("web", "NotKeptTogether"))
    assert event["note" if "note" in event else "message"] == f"label {KEEP_TOGETHER}: {message}"
