"""A tenant that floods takes neither turns nor places of others, and a large Pod neither blocks small ones nor starves."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tenant_kit import NS, SIZE, Tenant

from vcsync.fairqueue import FairQueue
from vcsync.podscheduler import accounting
from vcsync.podscheduler.pods import Pod
from vcsync.podscheduler.turns import MOST_STEPS, PATIENCE_SECONDS
from vcsync.scheduling.pods import PodNeeds
from vcsync.scheduling.shares import usable

Queue = FairQueue[tuple[str, str]]
FLOOD = "flood"
OTHERS = ("calm", "busy")


class Queued(Tenant):
    """A tenant whose Pods are decided in its turns of a queue that all tenants share."""

    def __init__(self, name: str, work: Queue, slices: Mapping[str, int]) -> None:
        super().__init__()
        self._name = name
        self._work = work
        self.pods.grant(NS, SIZE, slices)
        self.pods.begin()

    def add(self, item: tuple[str, str], urgent: bool) -> None:
        self._work.add(self._name, item, now=0.0, priority=urgent)


async def work_off(
    work: Queue, tenants: Mapping[str, Queued], handled: Callable[[str, tuple[str, str]], None]
) -> None:
    """Handle everything that is queued, as the scheduler's workers do."""
    while (popped := work.pop(now=0.0)) is not None:
        name, item = popped
        handled(name, item)
        if item[1]:
            await tenants[name].pods.schedule(item)
        else:
            tenants[name].pods.wake(item[0])
        work.done(name, item, now=0.0)


def stage(weights: Mapping[str, int], room: Mapping[str, int]) -> tuple[Queue, dict[str, Queued]]:
    """Return a queue and its tenants, with a number of slices on each of two super clusters."""
    work: Queue = FairQueue()
    for name, weight in weights.items():
        work.set_weight(name, weight)
    return work, {name: Queued(name, work, {"r1": count, "r2": count}) for name, count in room.items()}


weights_of = st.fixed_dictionaries({name: st.integers(1, 5) for name in (FLOOD, *OTHERS)})


@given(weights_of, st.integers(20, 60), st.integers(0, 3), st.lists(st.sampled_from(OTHERS), max_size=12))
@settings(max_examples=40, deadline=None)
def test_a_flood_delays_the_pods_of_others_by_no_more_than_its_weight(weights, flood, slices, pods):
    """While a tenant has its turns, another one has its own, however many Pods it creates and whether they find room."""
    work, tenants = stage(weights, {FLOOD: slices, **dict.fromkeys(OTHERS, 20)})
    for number in range(flood):
        tenants[FLOOD].create(f"p{number}", "90m")
    for number, name in enumerate(pods):
        tenants[name].create(f"p{number}", "10m")
    turns: Counter[str] = Counter()

    def handled(name: str, item: tuple[str, str]) -> None:
        turns[name] += 1
        if name != FLOOD:
            rounds = -(-turns[name] // weights[name])
            assert turns[FLOOD] <= (rounds + 1) * weights[FLOOD], (name, item)

    asyncio.run(work_off(work, tenants, handled))
    assert all(tenants[name].home(f"p{number}") for number, name in enumerate(pods))


@given(
    weights_of,
    st.integers(0, 40),
    st.lists(st.tuples(st.sampled_from(OTHERS), st.integers(10, 120)), max_size=12),
)
@settings(max_examples=40, deadline=None)
def test_a_flood_takes_no_place_that_another_tenant_has_without_it(weights, flood, pods):
    """Slices belong to one namespace of one tenant, so the same Pods run in the same places, with the flood and without."""

    def homes(flooding: int) -> list[str]:
        work, tenants = stage(weights, {FLOOD: 3, **dict.fromkeys(OTHERS, 2)})
        for number in range(flooding):
            tenants[FLOOD].create(f"p{number}", "30m")
        for number, (name, cpu) in enumerate(pods):
            tenants[name].create(f"p{number}", f"{cpu}m")
        asyncio.run(work_off(work, tenants, lambda _name, _item: None))
        return [tenants[name].home(f"p{number}") for number, (name, _) in enumerate(pods)]

    assert homes(flood) == homes(0)


@given(weights_of, st.integers(300, 600), st.integers(1, 6))
@settings(max_examples=15, deadline=None)
def test_a_tenant_whose_decisions_take_long_takes_no_more_steps_than_its_weight(weights, flood, ends):
    """Pods end again and again in a namespace where many wait that are all different and fit nowhere.

    Steps are counted as calls of filters, and charged as the worker pool charges time.
    """
    work, tenants = stage(weights, {FLOOD: 1, **dict.fromkeys(OTHERS, 20)})
    for number in range(flood):
        pod = Pod(
            NS,
            f"w{number}",
            f"w{number}",
            "1",
            PodNeeds({"cpu": 1 + number}, supers=("none",)),
            "",
            "",
            False,
            "",
        )
        tenants[FLOOD].pods.accounting.update(pod)
        tenants[FLOOD].pods.accounting.wait(pod, ())
    steps: Counter[str] = Counter()
    counted = ["", 0]

    def filtered(*arguments: object, **named: object) -> bool:
        counted[1] += 1
        return usable(*arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accounting, "usable", filtered)
        for name in OTHERS:
            for number in range(200):
                tenants[name].create(f"p{number}", "1m")
        for _ in range(ends):
            tenants[FLOOD].pods._freed(NS)
        while all(work.ready(name) for name in OTHERS):
            popped = work.pop(now=0.0)
            assert popped is not None
            name, item = popped
            counted[1] = 0
            if item[1]:
                asyncio.run(tenants[name].pods.schedule(item))
            else:
                tenants[name].pods.wake(item[0])
                tenants[name].pods._freed(NS)
            cost = 1 + counted[1] / 10
            steps[name] += cost
            work.charge(name, item, cost - 1)
            work.done(name, item, now=0.0)
    longest = 1 + MOST_STEPS / 10
    fair = max(steps[name] / weights[name] for name in OTHERS)
    assert steps[FLOOD] <= weights[FLOOD] * (fair + 2) + 2 * longest


# Within a namespace

LARGE = 90
MOST_ENDS = 100
"""Pods that end before the test gives up: many times as many as run at a time."""


class Shares:
    """A namespace with one slice on each of two super clusters, a large Pod, and small ones that come and go."""

    def __init__(self) -> None:
        self.tenant = Tenant()
        self.tenant.pods.grant(NS, SIZE, {"r1": 1, "r2": 1})
        self.tenant.pods.begin()
        self.cpu: dict[str, int] = {}
        self.before: set[str] = set()  # Pods that were created before the large one
        self.number = 0

    async def create(self, cpu: int, name: str = "") -> str:
        self.number += 1
        name = name or f"small-{self.number}"
        self.cpu[name] = cpu
        self.tenant.create(name, f"{cpu}m")
        await self.tenant.settle()
        return name

    async def end(self, name: str) -> None:
        del self.cpu[name]
        self.tenant.delete(name)
        await self.tenant.settle()

    def running(self) -> list[str]:
        return [name for name in self.cpu if self.tenant.home(name)]

    def waiting(self) -> list[str]:
        return [name for name in self.cpu if not self.tenant.home(name)]

    def free(self) -> dict[str, int]:
        free = {"r1": SIZE["cpu"], "r2": SIZE["cpu"]}
        for name in self.running():
            free[self.tenant.home(name)] -= self.cpu[name]
        return free


small = st.integers(10, 45)
steps = st.lists(st.tuples(st.booleans(), small), max_size=15)


async def crowded(pods: list[int]) -> Shares:
    """Return shares that are too full for the large Pod, which waits."""
    shares = Shares()
    for cpu in (50, 50, *pods):
        shares.before.add(await shares.create(cpu))
    await shares.create(LARGE, "large")
    return shares


async def walk(shares: Shares, moves: list[tuple[bool, int]]) -> None:
    """Create and end small Pods, but for the two that keep the large one out; check after each that no room is wasted."""
    for create, cpu in moves:
        ending = [name for name in shares.running() if name not in ("small-1", "small-2", "large")]
        if create or not ending:
            await shares.create(cpu)
        else:
            await shares.end(ending[cpu % len(ending)])
        most = max(shares.free().values())
        assert all(shares.cpu[name] > most for name in shares.waiting()), "a Pod waits though it fits"


@given(st.lists(small, max_size=4), steps)
@settings(max_examples=40, deadline=None)
def test_a_large_pod_that_fits_nowhere_blocks_no_small_one(pods, moves):
    async def scenario() -> None:
        shares = await crowded(pods)
        assert "large" in shares.waiting()
        await walk(shares, moves)
        assert "large" in shares.waiting()

    asyncio.run(scenario())


@given(st.lists(small, max_size=4), steps)
@settings(max_examples=40, deadline=None)
def test_a_large_pod_that_has_waited_long_gets_room_however_many_small_ones_come(pods, moves):
    """Each Pod that ends is followed by a new one, but the best room for the large one never becomes less."""

    async def scenario() -> None:
        shares = await crowded(pods)
        await walk(shares, moves)
        shares.tenant.now += PATIENCE_SECONDS
        ahead = [name for name in shares.waiting() if name in shares.before]
        best = 0
        for _ in range(MOST_ENDS):
            if "large" in shares.running():
                return
            most = max(shares.free().values())
            passed = [name for name in ahead if name not in shares.waiting()]
            assert most >= best or passed, "a Pod behind the large one took its room"
            best, ahead = most, [name for name in ahead if name not in passed]
            await shares.end(shares.running()[0])
            await shares.create(20)
        raise AssertionError("the large Pod starves")

    asyncio.run(scenario())


@given(st.lists(small, max_size=4), st.lists(small, max_size=8))
@settings(max_examples=40, deadline=None)
def test_a_large_pod_holds_the_room_of_one_super_cluster_only(pods, later):
    async def scenario() -> None:
        shares = await crowded(pods)
        shares.tenant.now += PATIENCE_SECONDS
        for cpu in later:
            await shares.create(cpu)
            waiting = [shares.cpu[name] for name in shares.waiting() if name != "large"]
            open_to = [room for room in shares.free().values() if waiting and min(waiting) <= room]
            assert len(open_to) <= 1

    asyncio.run(scenario())
