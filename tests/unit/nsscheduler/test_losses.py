"""The loss of super clusters as a whole: random cuts, fences, returns and restarts against what really runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from vcsync.scheduling.snapshot import Health

from .lossy_pool import AFTER, BEAT, PATIENCE, Observer, World


class Losses(RuleBasedStateMachine):
    """Everything that can happen to super clusters and to what watches them. `World` checks each decision."""

    @initialize(sites=st.integers(3, 5), spare=st.integers(0, 6), seed=st.integers(0, 1000))
    def begin(self, sites: int, spare: int, seed: int) -> None:
        self.world = World(sites, spare, seed)

    def site(self, data: st.DataObject):
        return self.world.sites[data.draw(st.sampled_from(sorted(self.world.sites)))]

    def returned(self) -> None:
        """Note that most of the pool need not be gone any more."""
        self.world.mass = None

    @rule(ticks=st.sampled_from([1, 3, 4, 8, 16, 30]))
    def time_passes(self, ticks: int) -> None:
        for _ in range(ticks):
            self.world.tick()
        for observer in self.world.observers.values():
            for view in observer.pool.views.values():
                event(f"a super cluster is {view.health.name}")
            if observer.pool.held:
                event("nothing may move")

    @rule(data=st.data(), ticks=st.integers(15, 30), how=st.sampled_from(["alive", "answers"]))
    def super_cluster_is_away_for_long(self, data: st.DataObject, ticks: int, how: str) -> None:
        setattr(self.site(data), how, False)
        self.time_passes(ticks)

    @rule(data=st.data(), how=st.sampled_from(["alive", "answers"]))
    def syncer_or_api_server_stops(self, data: st.DataObject, how: str) -> None:
        setattr(self.site(data), how, False)

    @rule(ticks=st.integers(1, 30))
    def all_return(self, ticks: int) -> None:
        """But for those that are fenced."""
        for site in self.world.sites.values():
            site.alive = site.answers = True
        self.returned()
        self.time_passes(ticks)

    @rule(data=st.data(), ticks=st.integers(1, 3))
    def super_cluster_returns(self, data: st.DataObject, ticks: int) -> None:
        site = self.site(data)
        if not site.works and not site.fenced:
            site.alive = site.answers = True
            self.returned()
            self.time_passes(ticks)

    @rule(data=st.data(), ticks=st.integers(1, 2))
    def super_cluster_flaps(self, data: st.DataObject, ticks: int) -> None:
        site = self.site(data)
        if site.works:
            site.answers = False
            for _ in range(ticks):
                self.world.tick()
            site.answers = True
            self.returned()

    @rule(data=st.data())
    def most_of_the_pool_vanishes(self, data: st.DataObject) -> None:
        world = self.world
        working = [name for name, site in world.sites.items() if site.works and world.now - site.good <= BEAT]
        if len(working) < 2:
            return
        order = data.draw(st.permutations(working))
        most = order[: max(2, len(working) // 2 + 1)]
        for name in most:
            world.sites[name].alive = False
        blind = {what: observer.blind_for for what, observer in world.observers.items()}
        world.mass = (frozenset(most), world.now, blind)

    @rule(data=st.data(), before=st.integers(8, 16), after=st.integers(4, 16), refuses=st.booleans())
    def one_is_lost_and_then_most_vanish(
        self, data: st.DataObject, before: int, after: int, refuses: bool
    ) -> None:
        self.world.budget_refuses = refuses
        self.super_cluster_is_away_for_long(data, before, "alive")
        self.most_of_the_pool_vanishes(data)
        self.time_passes(after)

    @rule(what=st.sampled_from(["slices", "pods"]), ticks=st.integers(1, 20))
    def scheduler_is_cut_off_for_a_while(self, what: str, ticks: int) -> None:
        self.world.observers[what].cut(off=True)
        self.time_passes(ticks)
        self.world.observers[what].cut(off=False)

    @rule(which=st.sampled_from(["namespaces", "pods"]))
    def another_leader_begins(self, which: str) -> None:
        self.world.start(which)
        if self.world.mass is not None:  # it ages what it finds by its own time
            self.world.mass[2]["slices" if which == "namespaces" else "pods"] = 0.0

    @rule(data=st.data())
    def operator_fences(self, data: st.DataObject) -> None:
        """The command refuses a super cluster that is not even suspect."""
        site, world = self.site(data), self.world
        if site.works or (site.answers and world.now - site.good < PATIENCE.suspect_after):
            return
        site.fenced = True
        site.running.clear()
        world.store(site.name)
        self.returned()

    @rule(data=st.data())
    def operator_lifts_the_fence(self, data: st.DataObject) -> None:
        site = self.site(data)
        if site.fenced and site.answers:
            site.fenced = False
            self.world.store(site.name)
            self.returned()

    @rule(refuses=st.booleans(), slow=st.booleans())
    def budgets_and_the_pace_of_decisions_change(self, refuses: bool, slow: bool) -> None:
        self.world.budget_refuses, self.world.slow = refuses, slow

    def teardown(self) -> None:
        """Heal everything: nothing is left of any history."""
        if not hasattr(self, "world"):
            return
        for what, _ in self.world.moved:
            event(f"{what} have moved")
        try:
            heal(self.world)
        finally:
            self.world.close()


def settled(observer: Observer) -> bool:
    """Return whether a scheduler sees that everything works."""
    healthy = all(view.health is Health.READY for view in observer.pool.views.values())
    return healthy and not observer.pool.held


def heal(world: World) -> None:
    """Let everything work again, and check that nothing is left of what was."""
    world.mass = None
    world.budget_refuses = world.slow = False
    for site in world.sites.values():
        site.alive = site.answers = True
        site.fenced = False
        world.store(site.name)
    for observer in world.observers.values():
        observer.cut(off=False)
    longest = int(
        7 * PATIENCE.lost_after / BEAT
    )  # the longest quiet time, and the time in which nothing moves
    while longest and not all(settled(observer) for observer in world.observers.values()):
        world.tick()
        longest -= 1
    for _ in range(5):
        world.tick()
    before = len(world.moved), world.recorded
    for _ in range(5):
        world.tick()
    assert (len(world.moved), world.recorded) == before
    assert all(settled(observer) for observer in world.observers.values())
    assert not any(pod.deleting for pod in world.all_pods())
    for key in world.keys:
        entry = world.ledger.get(key)
        assert entry is not None
        assert not entry.clearing
        running = [
            name for site in world.sites.values() for (*each, name) in site.running if tuple(each) == key
        ]
        assert sorted(name.partition("-")[0] for name in running) == ["set", "web"]


TestLosses = Losses.TestCase
TestLosses.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)


def states(world: World, name: str, ticks: int) -> list[Health]:
    """Return the states of a super cluster in the next ticks, each once in a row, as both schedulers see it."""
    found: list[Health] = []
    for _ in range(ticks):
        world.tick()
        seen = {observer.pool.views[name].health for observer in world.observers.values()}
        assert len(seen) == 1
        found += [state for state in seen if not found or found[-1] is not state]
    return found


@pytest.fixture
def world() -> Iterator[World]:
    made = World(4, 3, 7)
    yield made
    made.close()


@pytest.mark.parametrize("how", ["alive", "answers"])
def test_every_state_is_reached_and_left(world: World, how: str) -> None:
    site = world.sites["r2"]
    assert states(world, "r2", 1) == [Health.READY]
    setattr(site, how, False)
    assert states(world, "r2", 20) == [Health.READY, Health.SUSPECT, Health.LOST][how == "answers" :]
    assert {name for _, name in world.moved} == {"r2"}
    setattr(site, how, True)
    assert states(world, "r2", 5) == [Health.RECOVERING, Health.READY]
    heal(world)


def test_a_glitch_shorter_than_the_grace_moves_nothing(world: World) -> None:
    for name in ("r1", "r2"):
        world.sites[name].alive = False
        states(world, name, int(PATIENCE.lost_after / BEAT) - 1)
        world.sites[name].alive = True
        assert states(world, name, 4)[-1] is Health.READY
    heal(world)
    assert world.moved == []


@pytest.mark.parametrize("restart", [False, True])
def test_most_of_the_pool_at_once_moves_nothing(world: World, restart: bool) -> None:
    for name in ("r1", "r2", "r3"):
        world.sites[name].alive = False
    for ticks in (10, 50):
        states(world, "r1", ticks)
        for which in ("namespaces", "pods") if restart else ():
            world.start(which)
    heal(world)
    assert world.moved == []


@pytest.mark.parametrize("restart", [False, True])
def test_a_change_of_leader_does_not_begin_the_patience_anew(world: World, restart: bool) -> None:
    world.sites["r2"].alive = False
    states(world, "r2", int(PATIENCE.lost_after / BEAT))
    assert world.moved == []
    for _ in range(int(AFTER / BEAT) + 2):
        for which in ("namespaces", "pods") if restart else ():
            world.start(which)
        world.tick()
    assert {what for what, _ in world.moved} == {"slices", "pods"}
    heal(world)


@pytest.mark.parametrize("restart", [False, True])
def test_a_flapping_super_cluster_is_not_trusted_at_once_by_another_leader(
    world: World, restart: bool
) -> None:
    site = world.sites["r2"]
    for _ in range(4):
        site.answers = False
        world.tick()
        for which in ("namespaces", "pods") if restart else ():
            world.start(which)
        site.answers = True
        world.tick()
    assert states(world, "r2", 3) == [Health.RECOVERING]
    heal(world)


def test_a_new_leader_still_moves_nothing_after_most_of_the_pool_was_gone(world: World) -> None:
    world.sites["r2"].alive = False
    states(world, "r2", int(PATIENCE.lost_after / BEAT))
    for name in ("r1", "r3", "r4"):
        world.sites[name].alive = False
    states(world, "r1", 20)
    for name in ("r1", "r3", "r4"):
        world.sites[name].alive = True
    before = len(world.moved)
    for _ in range(int(PATIENCE.lost_after / BEAT) - 1):
        for which in ("namespaces", "pods"):
            world.start(which)
        world.tick()
    assert len(world.moved) == before
    heal(world)


def test_without_a_fence_no_pod_of_a_fixed_name_ends_on_a_lost_super_cluster(world: World) -> None:
    site = world.sites["r2"]
    site.alive = False
    before = set(site.running)
    states(world, "r2", 100)
    there = {
        (tenant, *pod.key) for tenant, account in world.accounts.items() for pod in account.pods.values()
    }
    assert {each for each in before if each[2] == "set-0"} <= there
    assert set(site.running) == before
    terminating = [pod for pod in world.all_pods() if pod.deleting]
    assert terminating
    site.fenced = True
    site.running.clear()
    world.store("r2")
    states(world, "r2", 20)
    assert not any(pod.deleting for pod in world.all_pods())
    heal(world)
