"""What asks for a look at a Service's endpoints or a budget: nothing that neither of them tells."""

from typing import Any

import pytest
from controllers_world import World

from vcsync.controllers.disruption import DISRUPTION
from vcsync.controllers.endpoints import ENDPOINT
from vcsync.controllers.endpointslices import ENDPOINT_SLICE
from vcsync.controllers.mirror import Key
from vcsync.controllers.plan import Controller
from vcsync.kube.cache import Change
from vcsync.kube.envelope import Envelope
from vcsync.kube.resources import POD_DISRUPTION_BUDGETS, PODS, SERVICES

POD: dict[str, Any] = {
    "metadata": {"name": "p", "labels": {"app": "web"}},
    "spec": {"nodeName": "n"},
    "status": {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]},
}
READY = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}


def woken(controller: Controller, patch: dict[str, Any]) -> list[Key]:
    """Return which keys a change of the Pod wakes."""
    world = World([controller])
    world.put(SERVICES, {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}}})
    world.put(SERVICES, {"metadata": {"name": "other"}, "spec": {"selector": {"app": "other"}}})
    world.put(SERVICES, {"metadata": {"name": "none"}, "spec": {}})
    selector = {"matchLabels": {"app": "web"}}
    world.put(POD_DISRUPTION_BUDGETS, {"metadata": {"name": "web"}, "spec": {"selector": selector}})
    sides: list[Envelope] = []
    for change in ({}, patch):
        world.put(PODS, POD) if not change else world.change(PODS, "p", change)
        sides += world.shelves[PODS].everything()
    [keys] = [watch.keys for watch in controller.watches if watch.resource is PODS]
    old, new = sides
    return list(keys(Change(old, new), world.look()))


@pytest.mark.parametrize(
    ("patch", "names"),
    [
        pytest.param(READY, ["web"], id="ready"),
        pytest.param({"status": {"podIPs": [{"ip": "10.0.0.2"}]}}, ["web"], id="address"),
        pytest.param({"status": {"phase": "Failed"}}, ["web"], id="finished"),
        pytest.param({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, ["web"], id="going"),
        pytest.param({"metadata": {"labels": {"app": "other"}}}, ["other", "web"], id="relabelled"),
        pytest.param({"metadata": {"annotations": {"a": "b"}}}, [], id="annotated"),
        pytest.param({"status": {"message": "x"}}, [], id="message"),
    ],
)
def test_services_of_a_pod(patch: dict[str, Any], names: list[str]) -> None:
    assert sorted(key.name for key in woken(ENDPOINT, patch)) == names


@pytest.mark.parametrize(
    ("patch", "names"),
    [
        pytest.param(READY, ["web"], id="ready"),
        pytest.param({"metadata": {"labels": {"app": "other"}}}, ["web"], id="relabelled"),
        pytest.param({"status": {"podIPs": [{"ip": "10.0.0.2"}]}}, [], id="address"),
    ],
)
def test_budgets_of_a_pod(patch: dict[str, Any], names: list[str]) -> None:
    assert [key.name for key in woken(DISRUPTION, patch)] == names


@pytest.mark.parametrize("controller", [ENDPOINT, ENDPOINT_SLICE])
def test_the_more_pods_a_namespace_has_the_longer_their_changes_are_gathered(controller: Controller) -> None:
    """Each of 2,000 Pods that became ready had all of them read anew, twice: others were served after 80 ms."""
    world = World([controller])
    [watch] = [each for each in controller.watches if each.resource is PODS]
    assert watch.gather is not None
    waits = []
    for number in range(3):
        waits.append(watch.gather(Change(None, None), world.look(), world.key("default", "web")))
        world.put(PODS, {**POD, "metadata": {"name": f"p{number}"}})
    assert waits == [0.0, 0.001, 0.002]
