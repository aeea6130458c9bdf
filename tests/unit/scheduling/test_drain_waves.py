"""Namespaces leave super clusters that drain in waves: bounded, in turn, and none waits for one that cannot leave."""

from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from vcsync.scheduling.drain_waves import UNDER_WAY_SECONDS, DrainWaves, Standing
from vcsync.scheduling.failover import SMALLEST_WAVE, wave_size


def keys(count, tenant="acme"):
    return [(tenant, f"ns-{number:03}") for number in range(count)]


class Drain:
    """One super cluster that drains."""

    def __init__(self, sliced):
        self.waves = DrainWaves()
        self.sliced, self.clearing = set(sliced), set()
        self.now = 0.0
        self.chance = Random(7)
        self.waves.follow(["r1"])

    def look(self):
        standing = Standing(self.sliced, self.clearing)
        return self.waves.release("r1", standing, self.now, self.chance)

    def decide(self, key, *, room=True):
        """The namespace scheduler decides on a namespace."""
        held = self.waves.held(key)
        if key in self.sliced and not held and room:
            self.sliced.remove(key)
            self.clearing.add(key)
        self.waves.note_decided(key, held)

    def clear(self, key):
        self.clearing.discard(key)


def test_the_next_namespaces_leave_as_others_have_been_cleared():
    drain = Drain(keys(25))
    first = drain.look()
    assert len(first) == SMALLEST_WAVE
    for key in first:
        drain.decide(key)
    assert drain.look() == []
    drain.clear(first[0])
    drain.clear(first[1])
    assert len(drain.look()) == 2


def test_namespaces_keep_their_slices_until_their_turn_comes():
    drain = Drain(keys(25))
    first = drain.look()
    for key in keys(25):
        drain.decide(key)
    assert drain.clearing == set(first)
    drain.waves.follow([])
    assert drain.waves.held(keys(25)[0]) == frozenset()


def test_namespaces_without_room_hold_back_no_others():
    drain = Drain(keys(25))
    for key in drain.look():
        drain.decide(key, room=False)
    second = drain.look()
    assert len(second) == SMALLEST_WAVE
    drain.decide(keys(25)[0])
    assert drain.waves.held(second[0]) == frozenset(), "they leave as soon as there is room"


def test_a_namespace_that_nobody_clears_holds_back_others_for_a_time_only():
    drain = Drain(keys(25))
    for key in drain.look():
        drain.decide(key)
    drain.now = UNDER_WAY_SECONDS - 1
    assert drain.look() == []
    drain.now = UNDER_WAY_SECONDS
    assert len(drain.look()) == SMALLEST_WAVE


def test_a_scheduler_that_begins_counts_what_is_under_way():
    drain = Drain(keys(25))
    drain.clearing = set(keys(8, "umbrella"))
    assert len(drain.look()) == SMALLEST_WAVE - 8


def test_a_drain_that_begins_again_releases_anew():
    drain = Drain(keys(25))
    first = drain.look()
    drain.waves.follow([])
    drain.waves.follow(["r1"])
    assert all(drain.waves.held(key) for key in first)
    assert len(drain.look()) == SMALLEST_WAVE


class Draining(RuleBasedStateMachine):
    """Namespaces find room or not, syncers clear them sooner or later, schedulers begin anew."""

    @initialize(count=st.integers(0, 60), seed=st.integers(0, 5))
    def begin(self, count, seed):
        self.drain = Drain(keys(count))
        self.drain.chance = Random(seed)
        self.full = set()

    @rule()
    def look(self):
        before = self._under_way()
        wave = self.drain.look()
        there = len(self.drain.sliced | self.drain.clearing)
        assert len(set(wave)) == len(wave)
        assert len(wave) <= max(0, wave_size(there) - len(before))

    @rule(data=st.data())
    def decide(self, data):
        for key in sorted(self.drain.sliced):
            if data.draw(st.booleans()):
                room = key not in self.full
                held = self.drain.waves.held(key)
                self.drain.decide(key, room=room)
                assert (key in self.drain.sliced) == (bool(held) or not room)

    @precondition(lambda self: self.drain.clearing)
    @rule(data=st.data())
    def clear(self, data):
        self.drain.clear(data.draw(st.sampled_from(sorted(self.drain.clearing))))

    @precondition(lambda self: self.drain.sliced)
    @rule(data=st.data())
    def fill(self, data):
        self.full = set(data.draw(st.lists(st.sampled_from(sorted(self.drain.sliced)))))

    @rule()
    def begin_anew(self):
        self.drain.waves = DrainWaves()
        self.drain.waves.follow(["r1"])

    def _under_way(self):
        return self.drain.clearing

    @invariant()
    def a_bounded_part_is_under_way(self):
        if hasattr(self, "drain"):
            assert len(self.drain.clearing) <= SMALLEST_WAVE

    def teardown(self):
        """Whatever has happened, everything for which there is room leaves."""
        if not hasattr(self, "drain"):
            return
        for _ in range(len(self.drain.sliced) + 2):
            self.drain.look()
            for key in list(self.drain.sliced):
                self.drain.decide(key)
            self.drain.clearing.clear()
        assert self.drain.sliced == set()


TestDraining = Draining.TestCase
TestDraining.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)
