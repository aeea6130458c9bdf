"""Evictions in super clusters together never disrupt more than a tenant's budget allows, and drains make progress."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from disruption_world import World, wander
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from vcsync.syncer.kinds.disruption_floors import (
    CLOSED,
    Budget,
    Claim,
    Copy,
    Leaving,
    Step,
    decide,
    encode,
    read,
)

SUPERS = ("r1", "r2", "r3")


class Evictions(RuleBasedStateMachine):
    """Any order of the steps of everybody."""

    world: World

    @initialize(minimum=st.integers(0, 6), pods=st.lists(st.integers(0, 3), min_size=1, max_size=3))
    def begin(self, minimum: int, pods: list[int]) -> None:
        self.world = World(minimum, dict(zip(SUPERS, pods, strict=False)))

    def there(self, index: int) -> Any:
        return list(self.world.supers.values())[index % len(self.world.supers)]

    @rule(at=st.integers(0, 2), v=st.booleans(), p=st.booleans(), pods=st.booleans())
    def a_syncer_sees(self, at: int, v: bool, p: bool, pods: bool) -> None:
        self.there(at).see(v=v, p=p, pods=pods)

    @rule(at=st.integers(0, 2))
    def a_syncer_decides(self, at: int) -> None:
        if not self.there(at).in_flight:
            self.there(at).plan(self.world)

    @rule(at=st.integers(0, 2))
    def a_syncer_writes(self, at: int) -> None:
        self.there(at).act()

    @rule(at=st.integers(0, 2), times=st.integers(1, 4))
    def a_syncer_works(self, at: int, times: int) -> None:
        there = self.there(at)
        for _ in range(times):
            there.act()
            there.see()
            there.plan(self.world)

    @rule(at=st.integers(0, 2))
    def a_syncer_restarts(self, at: int) -> None:
        self.there(at).restart()

    @rule(at=st.integers(0, 2))
    def a_super_cluster_sees_pods(self, at: int) -> None:
        self.world.count_in_super(self.there(at).id)

    @rule(at=st.integers(0, 2), sees=st.booleans())
    def a_super_cluster_counts(self, at: int, sees: bool) -> None:
        if sees:
            self.there(at).controller.see_budget()
        self.there(at).controller.count()

    @rule(sees=st.booleans(), pods=st.booleans())
    def the_tenant_counts(self, sees: bool, pods: bool) -> None:
        controller = self.world.controller
        if pods:
            controller.pods = {name: ready for name, (_, ready) in self.world.known.items()}
        if sees:
            controller.see_budget()
        controller.count()

    @rule(at=st.integers(0, 2), which=st.integers(0, 9))
    def a_drain_evicts(self, at: int, which: int) -> None:
        there = self.there(at)
        if names := sorted(set(there.pods) - there.doomed):
            self.world.evict(there.id, names[which % len(names)])

    @rule(at=st.integers(0, 2))
    def evicted_pods_end(self, at: int) -> None:
        self.world.delete_doomed(self.there(at).id)

    @rule(at=st.integers(0, 2))
    def a_syncer_reports_pods(self, at: int) -> None:
        self.world.report(self.there(at).id)

    @rule(at=st.integers(0, 2))
    def the_tenant_replaces_a_pod(self, at: int) -> None:
        self.world.replace(self.there(at).id)

    @rule(at=st.integers(0, 2))
    def pods_become_ready(self, at: int) -> None:
        self.world.start(self.there(at).id)

    @rule(at=st.integers(0, 2), which=st.sets(st.integers(0, 9)))
    def nodes_are_cordoned(self, at: int, which: set[int]) -> None:
        there = self.there(at)
        there.cordoned = {name for index, name in enumerate(sorted(there.pods)) if index in which}

    @rule(minimum=st.integers(0, 6))
    def the_tenant_changes_its_budget(self, minimum: int) -> None:
        self.world.demand(minimum)

    @rule()
    def time_passes(self) -> None:
        self.world.time += 1

    @rule()
    def everybody_works(self) -> None:
        self.world.fair_round()

    @invariant()
    def floors_are_enforced(self) -> None:
        self.world.see_closed()
        for super_id, claim in self.world.claims().items():
            minimum = self.world.supers[super_id].server.stored["spec"]["minAvailable"]
            if claim["generation"] == self.world.server.stored["metadata"]["generation"]:
                assert claim["floor"] <= minimum


Evictions.TestCase.settings = settings(max_examples=30, stateful_step_count=50, deadline=None)
TestEvictions = Evictions.TestCase


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    pods=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    spare=st.integers(0, 3),
)
def test_long_histories_never_disrupt_more_than_the_budget_allows(
    seed: int, pods: list[int], spare: int
) -> None:
    world = World(max(0, sum(pods) - spare), dict(zip(SUPERS, pods, strict=False)))
    wander(world, Random(seed), 400)


def test_long_histories_evict_pods() -> None:
    evicted = 0
    for seed in range(30):
        world = World(3, {"r1": 2, "r2": 2})
        wander(world, Random(seed), 400)
        evicted += world.evicted
    assert evicted > 10, "the histories show nothing"


@settings(max_examples=40, deadline=None)
@given(
    pods=st.lists(st.integers(0, 4), min_size=1, max_size=3).filter(sum),
    spare=st.integers(1, 2),
    draining=st.sets(st.sampled_from(SUPERS), min_size=1),
    target=st.sampled_from(SUPERS),
)
def test_drains_end_and_leave_nothing_behind(
    pods: list[int], spare: int, draining: set[str], target: str
) -> None:
    placed = dict(zip(SUPERS, pods, strict=False))
    world = World(max(0, sum(pods) - spare), placed)
    target = target if target in world.supers else "r1"
    for each in draining & set(placed):
        world.supers[each].cordoned = set(world.supers[each].pods)
    for _ in range(200):
        world.time += 1
        for _ in range(12):
            world.fair_round(target=target)
        if not any(each.cordoned & set(each.pods) for each in world.supers.values()):
            break
    assert not any(each.cordoned & set(each.pods) for each in world.supers.values())
    for _ in range(12):
        world.fair_round(target=target)
    assert world.claims() == {}
    assert world.is_closed()
    assert not world.fair_round(target=target), "nothing is written at rest"


def test_a_node_that_is_only_cordoned_does_not_keep_others_from_draining() -> None:
    world = World(3, {"r1": 2, "r2": 2})
    for there in world.supers.values():
        there.cordoned = set(there.pods)
    leaving = world.supers["r2"].cordoned
    for _ in range(12):
        world.time += 1
        for _ in range(12):
            world.fair_round(evict=False)
            for name in sorted(leaving & set(world.supers["r2"].pods) - world.supers["r2"].doomed):
                world.evict("r2", name)
            while len(world.known) < world.replicas:
                world.replace("r1")
    assert not leaving & set(world.supers["r2"].pods)
    assert len(world.supers["r1"].cordoned) == 2


def test_nothing_is_written_at_rest_while_pods_come_and_go() -> None:
    world = World(2, {"r1": 2, "r2": 2})
    writes = [each.writes for each in world.supers.values()]
    for name in list(world.supers["r1"].pods):
        del world.supers["r1"].pods[name]
        for _ in range(4):
            world.fair_round(target="r2")
    assert [each.writes for each in world.supers.values()] == writes == [0, 0]


def test_a_drain_alone_takes_few_writes() -> None:
    world = World(3, {"r1": 4})
    there = world.supers["r1"]
    there.cordoned = set(there.pods)
    for _ in range(40):
        world.fair_round(target="r1")
    assert not there.cordoned & set(there.pods)
    assert there.writes <= 4, "publish, open; close, withdraw"


BUDGET = Budget(generation=1, desired=3, current=4, allowed=1)


@pytest.mark.parametrize(
    ("budget", "copy", "claims", "leaving", "expected"),
    [
        pytest.param(BUDGET, Copy(CLOSED, 2), {}, Leaving(), Step(CLOSED, None), id="at rest"),
        pytest.param(
            BUDGET,
            Copy(CLOSED, 2),
            {"r2": Claim(2, 1, draining=True)},
            Leaving(),
            Step(CLOSED, Claim(2, 1)),
            id="another drains: publish the Pods here",
        ),
        pytest.param(
            BUDGET,
            Copy(CLOSED, None),
            {"r2": Claim(2, 1, draining=True)},
            Leaving(),
            Step(CLOSED, None),
            id="another drains, but nobody has counted here",
        ),
        pytest.param(
            BUDGET,
            Copy(1, 1),
            {"r1": Claim(1, 1, draining=True)},
            Leaving(),
            Step(CLOSED, Claim(1, 1, draining=True)),
            id="the drain has ended: close first",
        ),
        pytest.param(
            BUDGET, Copy(CLOSED, 1), {"r1": Claim(1, 1, draining=True)}, Leaving(), Step(CLOSED, None)
        ),
        pytest.param(
            BUDGET,
            Copy(CLOSED, 4),
            {},
            Leaving(2, 2),
            Step(CLOSED, Claim(3, 1, draining=True)),
            id="alone: publish the floor",
        ),
        pytest.param(
            BUDGET,
            Copy(CLOSED, 4),
            {"r1": Claim(3, 1, draining=True)},
            Leaving(2, 2),
            Step(3, Claim(3, 1, draining=True)),
            id="alone: then open",
        ),
        pytest.param(
            Budget(generation=1, desired=3, current=3, allowed=0),
            Copy(3, 3),
            {"r1": Claim(3, 1, draining=True)},
            Leaving(1, 1),
            Step(3, Claim(3, 1, draining=True), "it allows no disruption at present"),
            id="after an eviction it waits",
        ),
        pytest.param(
            None,
            Copy(2, 3),
            {"r1": Claim(2, 1, draining=True)},
            Leaving(1, 1),
            Step(
                CLOSED,
                Claim(2, 1, draining=True),
                "the tenant's control plane has not counted its Pods yet",
            ),
            id="the tenant has not counted",
        ),
        pytest.param(
            Budget(generation=1, desired=3, current=2, allowed=0),
            Copy(2, 3),
            {"r1": Claim(3, 1, draining=True)},
            Leaving(1, 1),
            Step(CLOSED, Claim(3, 1, draining=True), "fewer Pods are healthy than it demands"),
            id="the tenant has too few healthy Pods",
        ),
        pytest.param(
            Budget(generation=1, desired=3, current=4, allowed=1, pending=1),
            Copy(CLOSED, 4),
            {},
            Leaving(1, 1),
            Step(
                CLOSED,
                Claim(4, 1, draining=True),
                "the other super clusters have not told yet how many healthy Pods they keep",
            ),
            id="the tenant evicts Pods itself",
        ),
        pytest.param(
            BUDGET,
            Copy(CLOSED, 2),
            {},
            Leaving(1, 0),
            Step(CLOSED, Claim(2, 1, draining=True)),
            id="only Pods that are not healthy have to leave",
        ),
        pytest.param(
            Budget(generation=1, desired=3, current=4, allowed=2**31 - 1),
            Copy(CLOSED, 4),
            {"r2": Claim(2**31 - 1, 1)},
            Leaving(1, 1),
            Step(CLOSED, Claim(3, 1, draining=True)),
            id="huge numbers of a forging tenant",
        ),
    ],
)
def test_the_next_step(
    budget: Budget | None, copy: Copy, claims: dict[str, Claim], leaving: Leaving, expected: Step
) -> None:
    assert decide(budget, copy, claims, super_id="r1", leaving=leaving, turn=0) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "[]",
        "{}",
        '{"floor":-1,"generation":1}',
        '{"floor":2147483648,"generation":1}',
        '{"floor":"1","generation":1}',
        '{"floor":1.5,"generation":1}',
        '{"floor":1}',
        '{"floor":1,"generation":1,"draining":"yes"}',
        "[" * 100_000,
        '{"floor":1e400,"generation":1}',
    ],
)
def test_malformed_claims_count_as_missing(text: str) -> None:
    assert read(text) is None


@given(st.builds(Claim, st.integers(0, CLOSED), st.integers(0, 2**62), st.booleans(), st.booleans()))
def test_claims_are_read_as_they_were_written(claim: Claim) -> None:
    assert read(encode(claim)) == claim
