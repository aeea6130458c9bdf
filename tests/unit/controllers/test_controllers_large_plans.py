"""Plans over many objects do not stop the event loop."""

import asyncio
import threading
from datetime import UTC, datetime

import pytest
from controllers_world import NAMESPACE, TENANT, Shelf

from vcsync.controllers.framework import large_plans
from vcsync.controllers.framework.large_plans import Planner
from vcsync.controllers.framework.plan import MOST_CREATIONS, Absent, Action, Create, View, first_creations
from vcsync.kube.resources import PODS


def view(pods: int, size: int = 0) -> View:
    shelf = Shelf()
    for number in range(pods):
        name = f"pod-{number}"
        body = {"metadata": {"name": name, "namespace": NAMESPACE, "uid": name}, "spec": {"x": "y" * size}}
        shelf.bodies[NAMESPACE, name] = body
    return View({PODS: shelf}, datetime(2026, 1, 1, tzinfo=UTC), lambda: "xxxxx")


@pytest.mark.parametrize(
    "seen",
    [
        view(large_plans.OBJECTS_AT_ONCE + 1),
        view(600, large_plans.LARGE_OBJECT // 2),
        view(1, large_plans.LARGE_OBJECT + large_plans.BYTES_AT_ONCE // large_plans.TIMES),
    ],
)
async def test_a_large_plan_lets_the_event_loop_run(seen: View) -> None:
    ran, began = threading.Event(), threading.Event()

    def plan(read: View) -> int:
        found = len(list(read.of[PODS].within(TENANT, NAMESPACE)))
        began.set()
        assert ran.wait(30), "the event loop stands"
        return found

    async def other() -> None:
        while not began.is_set():
            await asyncio.sleep(0.001)
        ran.set()

    found, _ = await asyncio.gather(Planner().run(TENANT, plan, seen), other())
    assert found == len(list(seen.of[PODS].within(TENANT, NAMESPACE)))


async def test_a_small_plan_runs_at_once() -> None:
    threads = await Planner().run(TENANT, lambda read: (threading.current_thread(), read), view(3))
    assert threads[0] is threading.main_thread()


async def test_one_tenant_has_one_large_plan_at_a_time() -> None:
    running = most = 0
    lock = threading.Lock()

    def plan(read: View) -> None:
        nonlocal running, most
        list(read.of[PODS].within(TENANT, NAMESPACE))
        with lock:
            running += 1
            most = max(most, running)
        threading.Event().wait(0.01)
        with lock:
            running -= 1

    planner, seen = Planner(), view(large_plans.OBJECTS_AT_ONCE + 1)
    await asyncio.gather(*(planner.run(TENANT, plan, seen) for _ in range(4)))
    assert most == 1


def test_one_reconcile_creates_a_limited_number_of_objects() -> None:
    check = Absent(PODS, NAMESPACE, "x", "y")

    def creations(count: int) -> list[Action]:
        return [Create(PODS, NAMESPACE, {"metadata": {"name": f"x-{each}"}}) for each in range(count)]

    fitting: list[list[Action]] = [creations(MOST_CREATIONS - 1), [check], creations(1), [check]]
    assert first_creations(fitting) == (fitting, True)
    more: list[list[Action]] = [creations(MOST_CREATIONS - 1), [check, *creations(3)], [check]]
    assert first_creations(more) == ([more[0], more[1][:2]], False)
