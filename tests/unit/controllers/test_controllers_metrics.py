"""Metrics and errors of the controllers' role."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from vcsync.controllers.framework.engine import Engine, Item
from vcsync.controllers.framework.external_tenants import Externals
from vcsync.controllers.garbagecollector.garbage_collector_controller import Collector
from vcsync.controllers.manager.role import Controllers
from vcsync.controllers.manager.term import Term
from vcsync.fairqueue import FairQueue, Reconciles, WorkerPool


def part(*, now: int, later: int) -> Any:
    queue: FairQueue[str] = FairQueue()
    for number in range(now):
        queue.add("acme", f"now-{number}", now=0.0)
    for number in range(later):
        queue.add_after("acme", f"later-{number}", 60.0, now=0.0)
    return SimpleNamespace(mirrors={}, work=SimpleNamespace(queue=queue, reconciles=Reconciles("ab")))


def test_queued_and_delayed_objects_are_counted_separately() -> None:
    server: Any = SimpleNamespace(below=lambda _: None)
    controllers = Controllers(server, identity="me", authority="")
    term: Any = SimpleNamespace(engine=part(now=2, later=3), garbage=part(now=1, later=4))
    term.garbage.left_out = lambda: 5
    controllers._terms.current = term
    values = {family.name: [sample.value for sample in family.samples] for family in controllers.metrics()}
    assert values["vcsync_controllers_queued"] == [3.0]
    assert values["vcsync_controllers_delayed"] == [7.0]
    assert values["vcsync_controllers_definitions_left_out"] == [5.0]


async def test_errors_of_both_parts_have_the_common_form() -> None:
    async def fail(_group: str, _item: Any) -> None:
        raise OSError("no answer")

    controllers: WorkerPool[Item] = WorkerPool("controllers", fail)
    garbage: WorkerPool[str] = WorkerPool("garbage", fail)
    controllers.add("acme", Item("deployment", "shop", "web"))
    garbage.add("acme", "uid-1")
    term = object.__new__(Term)
    term.engine = cast("Engine", SimpleNamespace(work=controllers, status=dict))
    term.garbage = cast("Collector", SimpleNamespace(work=garbage, status=dict))
    term.externals = cast("Externals", SimpleNamespace(names=list))
    async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(pool.run()) for pool in (controllers, garbage)]
        while len(term.status()["lastErrors"]) < 2:
            await asyncio.sleep(0)
        for task in running:
            task.cancel()
    shown = {each["item"]: each for each in term.status()["lastErrors"]}
    assert set(shown) == {"deployment/shop/web", "uid-1"}
    for each in shown.values():
        assert (each["tenant"], each["error"]) == ("acme", "OSError: no answer")
