"""An event of a Pod costs in proportion to the objects that select it, not to those of its namespace.

Each controller that watches Pods is a row. The handlers are measured by the instructions that one event takes.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from counted_work import work_of

from vcsync.controllers.framework.engine import EVERYTHING, Engine, Item
from vcsync.controllers.framework.mirror import placed
from vcsync.controllers.framework.selector_index import SELECTORS
from vcsync.controllers.garbagecollector.graph import Node
from vcsync.controllers.manager.role import all_controllers
from vcsync.controllers.manager.term import Term
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.resources import (
    CONFIG_MAPS,
    CONTROLLER_REVISIONS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    RESOURCE_QUOTAS,
    SERVICES,
    Resource,
)
from vcsync.objects.envelope import Envelope, encode, parse

TENANT, SPACE = "acme", "default"
FEW, MANY = 100, 400
CONTROLLERS = {
    each.name: each
    for each in all_controllers(cast("Client", SimpleNamespace()), "authority", cast("Any", print))
}
WATCHED = [
    (name, watch.resource)
    for name, controller in CONTROLLERS.items()
    for watch in controller.watches
    if watch.resource in (PODS, REPLICA_SETS, CONTROLLER_REVISIONS)
]
Spec = Callable[[Resource, int], dict[str, Any]]


class Server:
    """A control plane that nobody asks."""

    name = "server"

    def below(self, _path: str) -> "Server":
        return self

    def across_tenants(self) -> "Server":
        return self


def labelled(resource: Resource, labels: dict[str, str]) -> dict[str, Any]:
    plain = resource in (SERVICES, REPLICATION_CONTROLLERS)
    return {"selector": labels if plain else {"matchLabels": labels}}


def other(resource: Resource, number: int) -> dict[str, Any]:
    return labelled(resource, {"part": "all", "app": f"other-{number}"})


def same(resource: Resource, _number: int) -> dict[str, Any]:
    return labelled(resource, {"part": "all"})


def envelope(name: str, version: int, **more: Any) -> Envelope:
    metadata = {"name": name, "namespace": SPACE, "uid": f"uid-{name}", "resourceVersion": str(version)}
    body = {"metadata": {**metadata, "labels": {"part": "all", "app": "web"}}, **more}
    return parse(encode(body))


def filled(controller: str, spec: Spec, count: int) -> Engine:
    """Return an engine whose mirrors have objects of all kinds with a selector, and quotas."""
    engine = Engine(Server(), [CONTROLLERS[controller]])  # type: ignore[arg-type]
    version = 0
    for resource in engine.mirrors.keys() & {*SELECTORS, RESOURCE_QUOTAS}:
        for number in range(count):
            version += 1
            its = {"hard": {"pods": "1"}} if resource is RESOURCE_QUOTAS else spec(resource, number)
            engine.mirrors[resource].observe(TENANT, envelope(f"m-{number}", version, spec=its))
    engine.end_tenant(TENANT)
    return engine


def events() -> list[Change]:
    """Return the creation, a change and the deletion of an object that nobody owns."""
    new = placed(envelope("x-1", 9000, spec={"nodeName": "n"}, status={"podIP": "10.0.0.1"}), TENANT)
    changed = placed(envelope("x-1", 9001, spec={"nodeName": "n"}, status={"podIP": "10.0.0.2"}), TENANT)
    return [Change(None, new), Change(new, changed), Change(changed, None)]


def steps(controller: str, watched: Resource, spec: Spec, count: int) -> int:
    engine = filled(controller, spec, count)
    wake = engine._waker(engine._watches(watched))

    def all_events() -> None:
        for change in events():
            wake(change)

    all_events()  # Caches are filled, and the queue has what the events add.
    return work_of(all_events).steps


@pytest.mark.parametrize(("controller", "watched"), WATCHED)
async def test_objects_that_do_not_match_cost_nothing(controller: str, watched: Resource) -> None:
    small, large = (steps(controller, watched, other, count) for count in (FEW, MANY))
    assert large <= 1.1 * small + 50


@pytest.mark.parametrize(("controller", "watched"), WATCHED)
async def test_a_crowd_that_matches_costs_a_limited_amount(controller: str, watched: Resource) -> None:
    small, large = (steps(controller, watched, same, count) for count in (FEW * 2, MANY * 2))
    assert large <= 1.1 * small + 50


@pytest.mark.parametrize("controller", ["endpoints-controller", "resourcequota-controller"])
async def test_a_crowd_is_queued_once_and_later(controller: str) -> None:
    engine = filled(controller, same, MANY)
    wake = engine._waker(engine._watches(PODS))
    for _ in range(3):
        for change in events():
            wake(change)
    queue = engine.work.queue
    assert (queue.statistics().queued, queue.statistics().delayed) == (0, 1)
    await engine._handle(TENANT, Item(controller, SPACE, EVERYTHING))
    assert queue.statistics().queued == MANY


async def test_an_object_that_is_gone_recounts_a_crowd_of_quotas_once_and_later() -> None:
    term = Term(Server(), [CONTROLLERS["resourcequota-controller"]])  # type: ignore[arg-type]
    for number in range(MANY):
        quota = envelope(f"m-{number}", number + 1, spec={"hard": {"count/configmaps": "1"}})
        term.engine.mirrors[RESOURCE_QUOTAS].observe(TENANT, quota)
    term.engine.end_tenant(TENANT)
    gone = placed(envelope("c", 9000), TENANT)
    for _ in range(3):
        term._gone(cast("Node", SimpleNamespace(envelope=gone, resource=CONFIG_MAPS, namespace=SPACE)))
    queue = term.engine.work.queue
    assert (queue.statistics().queued, queue.statistics().delayed) == (0, 1)


async def test_a_selected_pod_queues_what_selects_it() -> None:
    engine = filled("endpoints-controller", other, FEW)
    spec = labelled(SERVICES, {"app": "web"})
    engine.mirrors[SERVICES].observe(TENANT, envelope("mine", 8000, spec=spec))
    engine.end_tenant(TENANT)
    [watch] = [each for name, each in engine._watches(PODS)]
    change = events()[0]
    assert [key.name for key in watch.keys(change, engine.view())] == ["mine"]
    engine.mirrors[SERVICES].observe(TENANT, envelope("mine", 8001, spec=labelled(SERVICES, {"app": "y"})))
    assert list(watch.keys(change, engine.view())) == []
    engine.mirrors[SERVICES].observe(TENANT, envelope("mine", 8002, spec=spec))
    [kept] = watch.keys(change, engine.view())
    engine.mirrors[SERVICES].observe_gone(kept, "uid-mine")
    assert list(watch.keys(change, engine.view())) == []
