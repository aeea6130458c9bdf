"""Changes of Pods that queue Services and budgets: only those of fields that these contain."""

from typing import Any

import pytest
from controllers_world import World

from vcsync.controllers.disruption.disruption_plan import DISRUPTION
from vcsync.controllers.endpoints.endpoints_plan import ENDPOINT
from vcsync.controllers.endpoints.endpointslice_plan import ENDPOINT_SLICE
from vcsync.controllers.framework.mirror import Key
from vcsync.controllers.framework.plan import Controller
from vcsync.kube.cache import Change
from vcsync.kube.resources import POD_DISRUPTION_BUDGETS, PODS, SERVICES
from vcsync.objects.envelope import Envelope

POD: dict[str, Any] = {
    "metadata": {"name": "p", "labels": {"app": "web"}},
    "spec": {"nodeName": "n"},
    "status": {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]},
}
READY = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}


def woken(controller: Controller, patch: dict[str, Any]) -> list[Key]:
    """Return the keys that a change of the Pod queues."""
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
    return list(keys(Change(old, new), world.view()))


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
def test_collection_time_grows_with_the_pods_of_a_namespace(controller: Controller) -> None:
    """Before, each of 2,000 Pods that became ready caused two reads of all of them, which delayed other requests by 80 ms."""
    world = World([controller])
    [watch] = [each for each in controller.watches if each.resource is PODS]
    assert watch.gather is not None
    waits = []
    for number in range(3):
        waits.append(watch.gather(Change(None, None), world.view(), world.key("default", "web")))
        world.put(PODS, {**POD, "metadata": {"name": f"p{number}"}})
    assert waits == [0.0, 0.001, 0.002]
