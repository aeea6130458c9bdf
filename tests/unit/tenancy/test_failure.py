"""The failure machine: tables, and random cuts against a model."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from vcsync.scheduling.snapshot import Health
from vcsync.tenancy.failure import Member, Patience, Sighting, advance, is_crowded, vanished_together

PATIENCE = Patience(suspect_after=75, lost_after=300)
WELL = Sighting(0.0)
UNREADY = Sighting(0.0, unready=True)


def silent(seconds: float) -> Sighting:
    return Sighting(seconds)


def unanswered(seconds: float) -> Sighting:
    return Sighting(0.0, seconds, unready=True)


def walk(*steps: tuple[float, Sighting]) -> Member:
    """Return the state of one super cluster of a pool of one after sightings at some times."""
    members: dict[str, Member] = {}
    for now, sighting in steps:
        members = advance(members, {"r1": sighting}, now, PATIENCE)
    return members["r1"]


@pytest.mark.parametrize(
    ("sighting", "state"),
    [
        (Sighting(None), Health.UNKNOWN),
        (WELL, Health.READY),
        (silent(74.9), Health.READY),
        (silent(75), Health.SUSPECT),
        (silent(299.9), Health.SUSPECT),
        (silent(300), Health.LOST),
        (unanswered(0), Health.SUSPECT),
        (unanswered(299.9), Health.SUSPECT),
        (unanswered(300), Health.LOST),
        (Sighting(80.0, 310.0), Health.LOST),
        (UNREADY, Health.SUSPECT),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_one_sighting_decides(sighting: Sighting, state: Health, first: bool) -> None:
    steps = (
        [(1000.0, sighting)] if first or sighting.silent_for is None else [(0.0, WELL), (1000.0, sighting)]
    )
    assert walk(*steps).state is state


@pytest.mark.parametrize(
    ("members", "out_of_touch", "crowded"),
    [
        ([], [], False),
        ([Member(Health.READY, 0)], [False], False),
        ([Member(Health.SUSPECT, 0)], [True], True),
        ([Member(Health.READY, 0), Member(Health.SUSPECT, 0)], [False, True], False),
        ([Member(Health.LOST, 0), Member(Health.SUSPECT, 0), Member(Health.READY, 0)], [True, False], False),
        ([Member(Health.LOST, 0), Member(Health.SUSPECT, 0)], [True], True),
        ([Member(Health.READY, 0)] * 3 + [Member(Health.SUSPECT, 0, held=True)], [False] * 3 + [True], True),
    ],
)
def test_nothing_may_move_while_most_of_the_pool_is_out_of_touch(
    members: list[Member], out_of_touch: list[bool], crowded: bool
) -> None:
    assert is_crowded(members, out_of_touch) is crowded


def test_a_super_cluster_without_ready_nodes_is_never_lost() -> None:
    assert walk((0, WELL), (10, UNREADY), (100_000, UNREADY)).state is Health.SUSPECT


def test_a_first_glitch_leaves_nothing_behind() -> None:
    assert walk((0, WELL), (75, silent(75)), (76, WELL)).state is Health.READY


def test_what_was_there_at_first_sight_is_no_failure() -> None:
    assert walk((0, UNREADY), (10, WELL)) == Member(Health.READY, 10)
    assert walk((0, silent(5000)), (10, WELL)) == Member(Health.READY, 10)


def test_a_lost_super_cluster_has_to_work_for_a_quiet_time() -> None:
    returned = [(0, WELL), (300, silent(300)), (400, WELL)]
    assert walk(*returned) == Member(Health.RECOVERING, 400, failures=1, quiet=30)
    assert walk(*returned, (429, WELL)).state is Health.RECOVERING
    assert walk(*returned, (430, WELL)).state is Health.READY


def test_a_lost_super_cluster_that_answers_without_nodes_is_suspect() -> None:
    assert walk((0, WELL), (300, silent(300)), (400, UNREADY)).state is Health.SUSPECT


def test_a_flapping_super_cluster_needs_more_quiet_each_time() -> None:
    steps: list[tuple[float, Sighting]] = [(0, WELL)]
    quiets = []
    for failure in range(1, 12):
        steps += [(failure * 100, unanswered(0)), (failure * 100 + 1, WELL)]
        quiets.append(walk(*steps).quiet)
    assert quiets == [0, 30, 60, 120, 240, 480, 960, 1800, 1800, 1800, 1800]


def test_old_failures_are_forgotten() -> None:
    twice = [(0, WELL), (10, unanswered(0)), (20, WELL), (30, unanswered(0)), (40, WELL), (70, WELL)]
    assert walk(*twice) == Member(Health.READY, 70, failures=2)
    assert walk(*twice, (70 + 3600, WELL)) == Member(Health.READY, 70)


@pytest.mark.parametrize(
    ("absences", "lost"),
    [
        ((300,), {0}),
        ((300, 0), {0}),
        ((300, 300), set()),
        ((300, 300, 0), set()),
        ((300, 300, 0, 0), {0, 1}),
        ((310, 80, 0), set()),
        ((310, 74, 0), {0}),
        ((900, 300), {0, 1}),  # one vanished long before the other
        ((900, 300, 300), {0}),
        ((900, 300, 0), {0, 1}),
    ],
)
def test_most_of_the_pool_is_not_lost_at_once(absences: tuple[float, ...], lost: set[int]) -> None:
    members = advance({}, {f"r{n}": silent(absent) for n, absent in enumerate(absences)}, 0.0, PATIENCE)
    assert {n for n in range(len(absences)) if members[f"r{n}"].state is Health.LOST} == lost
    held = {n for n, absent in enumerate(absences) if absent >= 300} - lost
    assert {n for n in range(len(absences)) if members[f"r{n}"].held} == held


def test_the_rest_is_lost_once_the_others_are_seen_again() -> None:
    together = {"r1": silent(300), "r2": silent(300), "r3": WELL}
    members = advance({}, together, 0.0, PATIENCE)
    members = advance(members, together | {"r2": WELL}, 1.0, PATIENCE)
    assert (members["r1"].state, members["r2"].state) == (Health.LOST, Health.READY)


def test_a_lost_super_cluster_stays_lost_when_more_vanish() -> None:
    members = advance({}, {"r1": silent(300), "r2": WELL}, 0.0, PATIENCE)
    members = advance(members, {"r1": silent(400), "r2": silent(100)}, 100.0, PATIENCE)
    assert members["r1"].state is Health.LOST


class RandomCuts(RuleBasedStateMachine):
    """Cuts syncers, API servers and the observer itself at random, and compares with what really happened."""

    @initialize(size=st.integers(1, 6))
    def begin(self, size: int) -> None:
        self.now = 0.0
        self.heard = {f"r{n}": 0.0 for n in range(size)}
        self.failing: dict[str, float] = {}  # API servers that do not answer, as their syncers say
        self.dead: set[str] = set()  # syncers that do not run
        self.cut_off = False
        self.seen_last: set[str] = set()  # those that worked when the observer was cut off
        self.members: dict[str, Member] = {}
        self.look()

    def absence(self, name: str) -> float:
        quiet = self.now - self.heard[name]
        return max(quiet, self.now - self.failing[name]) if name in self.failing else quiet

    def look(self) -> None:
        for name in self.heard:
            if not (self.cut_off or name in self.dead):
                self.heard[name] = self.now
        sightings = {
            name: Sighting(self.now - at, self.now - self.failing[name] if name in self.failing else None)
            for name, at in self.heard.items()
        }
        before = self.members
        self.members = advance(before, sightings, self.now, PATIENCE)
        backwards = dict(reversed(sightings.items()))
        assert self.members == advance(before, backwards, self.now, PATIENCE)
        # Nothing changes any more without new knowledge.
        assert advance(self.members, sightings, self.now, PATIENCE) == self.members
        newly = [
            name
            for name, member in self.members.items()
            if member.state is Health.LOST and (name not in before or before[name].state is not Health.LOST)
        ]
        for name in newly:
            absent = self.absence(name)
            assert absent >= PATIENCE.lost_after
            near = [
                other
                for other in self.heard
                if self.visible(other) and abs(self.absence(other) - absent) <= PATIENCE.lost_after
            ]
            # Half of the pool at most: every super cluster that is gone together with this one.
            assert len(near) == 1 or not self.most_vanished(absent)
        for name, member in self.members.items():
            was = before.get(name)
            if was is not None and was.state is Health.LOST and member.state is not Health.LOST:
                assert not self.visible(name)
            if was is not None and was.state is Health.LOST:
                assert member.state is not Health.READY, "it became ready without a quiet time"
            if was is not None and was.state is not Health.READY and member.state is Health.READY:
                assert was.failures < 2 or self.now - was.since >= was.quiet > 0

    def visible(self, name: str) -> bool:
        """Return whether the absence of a super cluster shows."""
        return name in self.failing or self.absence(name) >= PATIENCE.suspect_after

    def most_vanished(self, absent: float) -> bool:
        """Return whether some window around this absence has most of the pool that was there then."""
        absences = [self.absence(name) if self.visible(name) else 0.0 for name in self.heard]
        gone = [each for each, name in zip(absences, self.heard, strict=True) if self.visible(name)]
        present = len(self.heard) - len(gone)
        for start in gone:
            inside = [each for each in gone if start <= each <= start + PATIENCE.lost_after]
            later = sum(each < start for each in gone)
            near = start <= absent <= max(inside) and len(inside) > 1
            if near and len(inside) * 2 > present + later + len(inside):
                return True
        return False

    @rule(seconds=st.sampled_from([1, 20, 76, 150, 299, 301, 2000]))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds
        self.look()

    @rule(data=st.data())
    def syncer_changes(self, data: st.DataObject) -> None:
        self.dead ^= {data.draw(st.sampled_from(sorted(self.heard)))}
        self.look()

    @rule(data=st.data())
    def api_server_changes(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.heard)))
        if name not in self.dead and not self.cut_off:  # otherwise nobody tells
            if name in self.failing:
                del self.failing[name]
            else:
                self.failing[name] = self.now
            self.look()

    @rule()
    def observer_changes(self) -> None:
        self.cut_off = not self.cut_off
        self.seen_last = {name for name in self.heard if name not in self.dead and name not in self.failing}
        self.look()

    @invariant()
    def an_observer_that_is_cut_off_gives_up_none_of_those_that_it_saw(self) -> None:
        if self.cut_off and len(self.heard) > 1 and len(self.seen_last) * 2 > len(self.heard):
            assert all(self.members[name].state is not Health.LOST for name in self.seen_last)


RandomCuts.TestCase.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
TestRandomCuts = RandomCuts.TestCase


def test_nothing_suspicious_gives_an_empty_range() -> None:
    shortest, longest = vanished_together([WELL, silent(300), WELL], PATIENCE)
    assert shortest > longest
