"""However many Pods of a tenant wait, one step of the event loop looks at a bounded number, and each is looked at in the end.

Work is counted in calls of functions, and compared for two numbers of Pods.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace
from tenant_kit import NS, SIZE, Tenant

from vcsync.api.names import SUPER_CLUSTER_ID
from vcsync.api.refusals import REFUSED, Said
from vcsync.podscheduler.accounting import PodAccounting, Wait
from vcsync.podscheduler.pods import Pod
from vcsync.podscheduler.turns import MOST_AHEAD, MOST_STEPS, PATIENCE_SECONDS
from vcsync.scheduling.pods import PodNeeds
from vcsync.scheduling.snapshot import Health, SuperView

FEW, MANY = 600, 3000
VIEWS = {super_id: SuperView(super_id, Health.READY, {}) for super_id in ("r1", "r2", "r3")}
STEPS_OF_ONE = 1 + 3 * 6
"""Steps of a look at a Pod with a node selector and three shares."""
FEW_CALLS = 40_000
"""More calls than any step takes, and less than one for each of many Pods and filters."""


def calls(action: Callable[[], Any]) -> int:
    """Return how many functions of the package, and functions that they call, an action calls."""
    count = 0

    def note(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


def lines(action: Callable[[], Any]) -> int:
    """Return how many lines of the package an action executes."""
    count = 0

    def note(frame: Any, event: str, _argument: Any) -> Any:
        nonlocal count
        if "vcsync" not in frame.f_code.co_filename:
            return None
        count += event == "line"
        return note

    before = sys.gettrace()
    sys.settrace(note)
    try:
        action()
    finally:
        sys.settrace(before)
    return count


class Nowhere(Tenant):
    """A tenant with three slices, and many Pods that wait for a super cluster that there is not."""

    def __init__(self, count: int, make: Callable[[int], PodNeeds], priority: int = 0) -> None:
        super().__init__()
        self.views = VIEWS
        self.pods.grant(NS, SIZE, dict.fromkeys(VIEWS, 1))
        self.pods.begin()
        for number in range(count):
            pod = Pod(
                NS, f"p{number}", f"p{number}", "1", make(number), "", "", False, "x", priority=priority
            )
            self.pods.accounting.update(pod)
            self.pods.accounting.wait(pod, ("r1",))

    def rounds(self) -> int:
        """Wake the namespace until nothing follows. Return how often that was."""
        for number in itertools.count(1):
            self.queue.clear()
            self.pods.wake(NS)
            if ((NS, ""), False) not in self.queue:
                return number
        raise AssertionError


def equal(_number: int) -> PodNeeds:
    return PodNeeds({"cpu": 1, "pods": 1000}, supers=("nowhere",))


def different(number: int) -> PodNeeds:
    return PodNeeds({"cpu": 1 + number, "pods": 1000}, supers=("nowhere",))


def elsewhere(number: int) -> PodNeeds:
    return PodNeeds({"cpu": 1, "pods": 1000}, supers=(f"nowhere-{number}",))


def too_large(number: int) -> PodNeeds:
    return PodNeeds({"cpu": 1000 + number, "pods": 1000})


def with_claims(number: int) -> PodNeeds:
    return PodNeeds({"cpu": 1, "pods": 1000}, claims=tuple(f"c{number}-{each}" for each in range(5)))


KINDS = pytest.mark.parametrize("make", [equal, different, elsewhere, too_large, with_claims])


@KINDS
def test_a_step_of_waking_looks_at_a_bounded_number_of_waiting_pods(make):
    few, many = (Nowhere(count, make).pods for count in (FEW, MANY))
    steps = calls(lambda: many.wake(NS))
    assert steps < 1.5 * calls(lambda: few.wake(NS)) + 1000
    assert steps < FEW_CALLS


@KINDS
def test_a_decision_compares_with_a_bounded_number_of_waiting_pods(make):
    """Each new Pod has a higher priority than all before, and waits as well."""

    def decisions(count: int) -> int:
        accounting = Nowhere(count, make).pods.accounting

        def create() -> None:
            for number in range(20):
                pod = Pod(
                    NS, f"n{number}", f"n{number}", "1", make(number), "", "", False, "", priority=number
                )
                accounting.update(pod)
                accounting.decide(pod, VIEWS)
                accounting.wait(pod, ())

        return calls(create)

    few, many = decisions(FEW), decisions(MANY)
    assert many < 1.5 * few
    assert many < 20 * FEW_CALLS


def test_a_search_among_equal_pods_ends_at_once():
    assert Nowhere(MANY, equal).rounds() == 1


@pytest.mark.parametrize("make", [different, elsewhere, too_large])
def test_a_search_takes_no_more_pieces_than_its_steps_need(make):
    """Each piece begins with the first in the order again, which takes a small part of it."""
    tenant = Nowhere(MANY, make)
    assert tenant.rounds() <= 2 + MANY * STEPS_OF_ONE // MOST_STEPS


@pytest.mark.parametrize("make", [different, elsewhere])
def test_a_search_goes_on_until_all_pods_were_looked_at(make):
    tenant = Nowhere(MANY, make)
    last = replace(
        tenant.pods.accounting.pods[NS, "p17"], name="last", uid="last", needs=PodNeeds({"cpu": 100})
    )
    tenant.pods.accounting.update(last)
    tenant.pods.accounting.wait(last, ())
    woken = set()
    for _ in range(MANY):
        tenant.queue.clear()
        tenant.pods.wake(NS)
        woken |= {item for item, _ in tenant.queue}
        if (NS, "") not in {item for item, _ in tenant.queue}:
            break
    assert (NS, "last") in woken


def test_a_pod_that_ends_takes_few_steps_however_many_pods_its_super_cluster_has_refused():
    def removal(count: int) -> int:
        accounting = PodAccounting()
        accounting.grant(NS, SIZE, {"r1": 1})
        said = {"r1": Said(REFUSED)}
        for number in range(count):
            name = f"p{number}"
            pod = Pod(NS, name, name, "1", PodNeeds({"cpu": 1}), "r1", "r1", False, "", said=said)
            accounting.update(pod)
        for number in range(20):
            name = f"runs{number}"
            accounting.update(Pod(NS, name, name, "1", PodNeeds({"cpu": 1}, "n.r1"), "r1", "r1", False, ""))
        accounting.remove((NS, "runs0"))
        return lines(lambda: [accounting.remove((NS, f"runs{number}")) for number in range(1, 20)])

    assert removal(MANY) < 1.5 * removal(FEW)


def assigned(count: int, *, said: bool = False) -> Nowhere:
    """Return a tenant with many Pods on r1 that need a decision: they are refused there, or their claim is not found."""
    tenant = Nowhere(0, equal)
    needs = PodNeeds({"cpu": 1, "pods": 1000}, claims=() if said else ("data",))
    saying = {"r1": Said(REFUSED)} if said else {}
    for number in range(count):
        name = f"p{number}"
        tenant.pods.accounting.update(Pod(NS, name, name, "1", needs, "r1", "r1", False, "", said=saying))
    return tenant


CHANGES = {
    "slices": lambda tenant: tenant.pods.grant(NS, SIZE, {"r1": 2}),
    "slices of another namespace": lambda tenant: tenant.pods.grant("other", SIZE, {"r1": 2}),
    "slices are withdrawn": lambda tenant: tenant.pods.grant(NS, SIZE, {}),
    "pool": lambda tenant: (tenant.pods.pool_changed(frozenset({"r1"})), tenant.pods.wake("")),
    "claim": lambda tenant: tenant.pods.claim_changed(NS, "data"),
    "ledger": lambda tenant: tenant.pods.claims_may_move(NS),
    "begin": lambda tenant: tenant.pods.begin(),
    "room": lambda tenant: tenant.pods._freed(NS),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_looks_at_a_bounded_number_of_pods_at_once_and_at_all_in_the_end(change):
    few, many = (assigned(count) for count in (FEW, MANY))
    steps = lines(lambda: change(many))
    assert steps < 1.5 * lines(lambda: change(few)) + 1000
    assert steps < FEW_CALLS
    if change not in (CHANGES["slices of another namespace"], CHANGES["room"]):
        many.look()
        assert {name for (_, name), _ in many.queue} == {f"p{number}" for number in range(MANY)}


def test_a_change_that_follows_another_one_is_looked_at_as_well():
    """A Pod that was looked at after the first change is looked at again after the second one."""
    tenant = Nowhere(MANY, too_large)
    tenant.pods.pool_changed()
    tenant.pods.wake("")
    assert 0 < len(tenant.queue) < MANY
    tenant.queue.clear()
    tenant.pods.pool_changed()
    tenant.look()
    assert {name for (_, name), _ in tenant.queue} == {f"p{number}" for number in range(MANY)}


async def test_refused_pods_are_tried_sooner_in_pieces():
    tenant = assigned(MANY, said=True)
    accounting = tenant.pods.accounting
    for number in range(MANY):
        accounting.stand(accounting.pods[NS, f"p{number}"], ())
    run_on(tenant, "r1", 1)
    accounting.remove((NS, "r1"))
    tenant.pods._freed(NS)
    tenant.queue.clear()
    few = assigned(0, said=True)
    assert calls(lambda: tenant.pods.wake(NS)) < calls(lambda: few.pods.wake(NS)) + FEW_CALLS
    assert tenant.queue


# No Pod starves


MOST_SLICES = {"r1": 2, "r2": 1}


class NoneStarves(RuleBasedStateMachine):
    """A namespace whose Pods come, end and change in any order. At the end those that run end one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.monkeypatch = pytest.MonkeyPatch()
        self.monkeypatch.setattr("vcsync.podscheduler.turns.MOST_STEPS", 12)  # a Pod or two in a piece
        self.monkeypatch.setattr("vcsync.podscheduler.accounting.MOST_AHEAD", 2)
        self.tenant = Tenant()
        self.tenant.pods.grant(NS, SIZE, {"r1": 1, "r2": 1})
        self.tenant.pods.begin()
        self.cpu: dict[str, int] = {}
        self.number = 0

    def teardown(self) -> None:
        self.settle()
        for _ in range(4 * len(self.cpu) + 4):
            waits = [name for name in self.cpu if not self.tenant.home(name) and self.can(name)]
            if not waits:
                break
            runs = [name for name in self.cpu if self.tenant.home(name)]
            assert runs, f"{waits} wait though nothing runs"
            self.tenant.now += PATIENCE_SECONDS
            self.end(runs[0])
            self.settle()
        else:
            raise AssertionError(f"{waits} starve")
        self.monkeypatch.undo()

    def can(self, name: str) -> bool:
        return self.cpu[name] <= SIZE["cpu"] and "nowhere" not in name

    def end(self, name: str) -> None:
        del self.cpu[name]
        self.tenant.delete(name)

    def turn(self) -> None:
        """Handle what the tenant's queue has first."""
        self.run(1)

    def settle(self) -> None:
        self.run(100_000)
        assert not self.tenant.queue

    def run(self, most: int) -> None:
        for _ in range(most):
            if not self.tenant.queue:
                return
            (namespace, name), _ = self.tenant.queue.pop(0)
            if not name:
                self.tenant.pods.wake(namespace)
                continue
            steps: Iterator[Any] = self.tenant.pods.schedule((namespace, name)).__await__()
            with pytest.raises(StopIteration):
                next(steps)

    @rule(
        cpu=st.integers(1, 12),
        priority=st.integers(0, 2),
        where=st.sampled_from(["", "", "r1", "nowhere"]),
        count=st.integers(1, 3),
    )
    def create(self, cpu: int, priority: int, where: str, count: int) -> None:
        for _ in range(count):
            self.number += 1
            name = f"{where or 'any'}-{self.number}"
            selector = {SUPER_CLUSTER_ID: where} if where else {}
            self.cpu[name] = 10 * cpu
            self.tenant.create(name, f"{10 * cpu}m", priority=priority, nodeSelector=selector)

    @rule(number=st.integers(0, 30))
    def delete(self, number: int) -> None:
        if self.cpu:
            self.end(sorted(self.cpu)[number % len(self.cpu)])

    @rule(count=st.integers(1, 5))
    def turns(self, count: int) -> None:
        self.run(count)

    @rule(slices=st.sampled_from([{"r1": 1, "r2": 1}, MOST_SLICES]))
    def slices(self, slices: dict[str, int]) -> None:
        self.tenant.pods.grant(NS, SIZE, slices)

    @rule()
    def time_passes(self) -> None:
        self.tenant.now += PATIENCE_SECONDS

    @invariant()
    def shares_hold(self) -> None:
        for super_id in ("r1", "r2"):
            share = self.tenant.pods.accounting.share(NS, super_id)
            assert share is None or share.used.get("cpu", 0) <= MOST_SLICES[super_id] * SIZE["cpu"]


NoneStarves.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestNoneStarves = NoneStarves.TestCase


def behind(name: str, needs: PodNeeds) -> Callable[[int], PodNeeds]:
    """Return needs of many Pods that fit nowhere, but for one behind the first with which each decision compares."""
    return lambda number: needs if f"p{number}" == name else different(number)


def run_on(tenant: Nowhere, super_id: str, cpu: int) -> None:
    needs = PodNeeds({"cpu": cpu, "pods": 1000}, f"n.{super_id}")
    tenant.pods.accounting.update(
        Pod(NS, super_id, super_id, "1", needs, super_id, super_id, deleting=False, waiting_message="")
    )


LATE = f"p{MOST_AHEAD + 50}"


def test_a_search_that_is_under_way_is_repeated_when_room_is_freed():
    """The search has passed the only Pod that fits when it gets its room."""
    tenant = Nowhere(MANY, behind(LATE, PodNeeds({"cpu": 100})))
    for super_id in VIEWS:
        run_on(tenant, super_id, 100)
    woken = set()
    for number in range(MANY):
        tenant.queue.clear()
        tenant.pods.wake(NS)
        if number == 5:
            assert tenant.pods.accounting.remove((NS, "r2"))
            tenant.pods._freed(NS)
        woken |= {item for item, _ in tenant.queue}
        if (NS, "") not in {item for item, _ in tenant.queue}:
            break
    assert number > 5
    assert (NS, LATE) in woken


def test_a_pod_that_has_waited_long_holds_room_though_many_are_ahead_that_fit_nowhere():
    tenant = Nowhere(3 * MOST_AHEAD, behind(LATE, PodNeeds({"cpu": 100})))
    for super_id in VIEWS:
        run_on(tenant, super_id, 50)
    small = Pod(NS, "small", "small", "1", PodNeeds({"cpu": 40}), "", "", deleting=False, waiting_message="")
    tenant.now = PATIENCE_SECONDS
    tenant.rounds()
    tenant.pods.accounting.remove((NS, "r2"))
    run_on(tenant, "r2", 20)
    verdict = tenant.pods.accounting.decide(small, {"r2": VIEWS["r2"]}, tenant.now)
    assert isinstance(verdict, Wait)
    assert f"r2: keeps its room for Pod {LATE}, which is ahead of it" in verdict.decision.reasons()
