"""Names of Pods that were marked as failed without a node: the Pod scheduler does not follow them, and frees their names."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from vcsync.api.names import COPY_FINALIZER, SUPER_CLUSTER
from vcsync.kube.errors import Conflict, KubeError, Status
from vcsync.objects.envelope import Envelope, ListPage
from vcsync.podscheduler import finished_names
from vcsync.podscheduler.finished_names import FAILED_WITHOUT_NODE, PAUSE_SECONDS, FinishedNames
from vcsync.podscheduler.pods import Pod


class Held(Exception):
    """A super cluster may have a copy after all."""


class World:
    """A tenant's control plane, what is known of its Pods, and the time."""

    name = "acme"

    def __init__(self) -> None:
        self.items: list[Envelope] = []
        self.lists = 0
        self.held: set[str] = set()
        self.freed: list[str] = []
        self.error: dict[str, Exception] = {}
        self.fails: list[KubeError] = []
        self.slept: list[float] = []
        self.now = 0.0
        self.idle = asyncio.Event()
        self.finished = FinishedNames(self, self, Held, self.sleep, lambda: self.now)  # type: ignore[arg-type]

    def fail(self, name: str, super_id: str = "r1", finalizers: tuple[str, ...] = (COPY_FINALIZER,)) -> None:
        labels = {SUPER_CLUSTER: super_id}
        self.items.append(Envelope(name, "shop", f"u-{name}", "1", labels=labels, finalizers=finalizers))

    async def pages(self, _resource: Any, *, field_selector: str) -> AsyncGenerator[ListPage, None]:
        assert field_selector == FAILED_WITHOUT_NODE
        self.lists += 1
        self.now += 0.5
        if self.fails:
            raise self.fails.pop()
        yield ListPage(self.items, "7", "", None)

    def may_have_a_copy(self, pod: Pod) -> bool:
        return pod.label in self.held

    async def free_name(self, pod: Pod) -> None:
        if (error := self.error.get(pod.name)) is not None:
            raise error
        self.freed.append(pod.name)
        self.items = [each for each in self.items if each.name != pod.name]

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.idle.set()
        await asyncio.sleep(0)

    async def look(self, times: int = 1) -> None:
        """Let it run until it has listed so many times, and rests."""
        running = asyncio.ensure_future(self.finished.run())
        goal = self.lists + times
        async with asyncio.timeout(10):
            while self.lists < goal or not self.idle.is_set():
                await asyncio.sleep(0)
        self.idle.clear()
        running.cancel()


async def test_a_term_begins_with_a_look() -> None:
    world = World()
    world.held = {"r2"}
    world.fail("gone")
    world.fail("kept", "r2")
    world.fail("others", finalizers=("example.com/held",))
    await world.look()
    assert world.freed == ["gone"]


async def test_it_looks_again_only_when_it_is_told_to() -> None:
    world = World()
    await world.look()
    running = asyncio.ensure_future(world.finished.run())
    for _ in range(20):
        await asyncio.sleep(0)
    assert world.lists == 1
    world.fail("late")
    world.finished.look_again()
    async with asyncio.timeout(10):
        while not world.freed:
            await asyncio.sleep(0)
    running.cancel()
    assert world.slept[0] == finished_names.REST * 0.5, "a tenant's lists take a small share of the time"


@pytest.mark.parametrize("error", [Held(), Conflict(Status(409))])
async def test_a_pod_that_cannot_be_freed_hinders_no_other(error: Exception) -> None:
    world = World()
    world.fail("first")
    world.fail("second")
    world.error["first"] = error
    await world.look()
    assert world.freed == ["second"]


async def test_a_list_that_fails_is_tried_again_and_less_often() -> None:
    world = World()
    world.fail("web-0")
    world.fails = [KubeError("no answer"), KubeError("no answer")]
    world.finished._clock = lambda: 0.0
    await world.look(3)
    assert world.freed == ["web-0"]
    least = PAUSE_SECONDS[0]
    assert world.slept[:3] == [2 * least, 4 * least, least]


async def test_many_pods_are_freed_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finished_names, "MOST_AT_A_TIME", 2)
    world = World()
    for number in range(5):
        world.fail(f"p{number}")
    await world.look(3)
    assert len(world.freed) == 5
