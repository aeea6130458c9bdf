"""Namespaces leave lost super clusters in waves: bounded, within capacity and quota, and nothing moves while held."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from vcsync.api.specs import STAY, Failover
from vcsync.scheduling.failover import Departures, may_leave, moves_after, next_wave, slices_for, wave_size
from vcsync.scheduling.ledger import Entry, Ledger
from vcsync.scheduling.place import SliceRequest, place_slices
from vcsync.scheduling.resources import subtract, times
from vcsync.scheduling.snapshot import Health, SuperView

SIZE = {"cpu": 100, "memory": 100}
SUPERS = ("r1", "r2", "r3")
KEYS = (*(("acme", f"ns-{number}") for number in range(4)), ("umbrella", "shop"))
CAP = 14  # slices of acme


def chance():
    return Random(7)


@pytest.mark.parametrize(
    ("policy", "seconds"),
    [
        (STAY, None),
        (Failover(policy="Stay", after_seconds=5), None),
        (Failover(policy="MoveAfter"), 300.0),
        (Failover(policy="MoveAfter", after_seconds=0), 0.0),
        (Failover(policy="MoveStateless", after_seconds=60), 60.0),
    ],
)
def test_a_policy_says_after_which_time_slices_move(policy, seconds):
    assert moves_after(policy) == seconds
    assert may_leave(policy, float("inf")) is (seconds is not None)
    if seconds is not None:
        assert may_leave(policy, seconds)
        assert not may_leave(policy, seconds - 1)


def keys(count):
    return [("acme", f"ns-{number:03}") for number in range(count)]


def wave(there, released=(), tried=(), due=None, stay=0):
    return next_wave(there, dict.fromkeys(released, stay), tried, there if due is None else due, chance())


def test_a_wave_takes_a_bounded_number_in_an_order_that_the_seed_gives():
    there = dict.fromkeys(keys(50), 1)
    found = wave(there)
    assert len(found) == len(set(found)) == 10
    assert found == wave(dict(reversed(there.items())))
    assert found != sorted(found)
    assert wave_size(1000) == 50


def test_tenants_take_turns_in_a_wave():
    """One with a thousand namespaces takes no more of a wave than one with two, until the latter has left."""
    many = [("acme", f"ns-{number:03}") for number in range(1000)]
    few = [("umbrella", f"ns-{number}") for number in range(2)]
    there = dict.fromkeys([*many, *few], 1)
    for seed in range(5):
        found = next_wave(there, {}, (), there, Random(seed))
        assert len(found) == 50
        assert set(few) < set(found[:4])
    two, three = (("two", "shop"), ("three", "shop"))
    there = dict.fromkeys([*many[:20], two, three], 1)
    assert set(next_wave(there, dict.fromkeys(many[:8], 0), (), there, chance())) == {two, three}


def test_the_next_wave_waits_for_those_that_are_not_decided_yet():
    there = dict.fromkeys(keys(50), 1)
    assert wave(there, keys(10)) == []
    there[keys(1)[0]] = 0  # it has left
    assert len(wave(there, keys(10))) == 1


def test_a_tenant_whose_namespaces_find_no_room_holds_back_only_itself():
    there = dict.fromkeys([*keys(50), ("umbrella", "shop")], 1)
    assert wave(there, keys(10), keys(10)) == [("umbrella", "shop")]
    there[keys(1)[0]] = 0  # there was room
    assert len(wave(there, keys(10), keys(10))) == 10


def test_a_namespace_whose_remaining_slices_must_stay_is_not_under_way():
    there = dict.fromkeys(keys(20), 2)
    assert len(wave(there, keys(10), stay=2)) == 10
    assert wave(there, keys(10), stay=1) == []


def test_only_namespaces_whose_policy_lets_them_leave_go():
    there = dict.fromkeys(keys(5), 1)
    due = [keys(5)[3], ("acme", "elsewhere")]
    assert wave(there, due=due) == [keys(5)[3]]


@pytest.mark.parametrize(
    ("amounts", "slices"),
    [({}, 0), ({"cpu": 1}, 1), ({"cpu": 100}, 1), ({"cpu": 101, "memory": 1}, 2), ({"disk": 9}, 0)],
)
def test_slices_for_an_amount_contain_it(amounts, slices):
    assert slices_for(amounts, SIZE) == slices


def views(**fields):
    full = {"cpu": 1000, "memory": 1000}
    return {super_id: SuperView(super_id, fields.get(super_id, Health.READY), full) for super_id in SUPERS}


def test_slices_leave_only_the_lost_super_cluster_and_the_others_stay():
    request = SliceRequest(6, SIZE, current={"r1": 2, "r2": 2, "r3": 2}, leaving={"r2": 0})
    assert place_slices(views(r2=Health.LOST), {}, request).placements == {"r1": 3, "r3": 3}


def test_slices_that_must_stay_do_not_leave():
    request = SliceRequest(6, SIZE, current={"r1": 2, "r2": 3, "r3": 1}, leaving={"r2": 2})
    assert place_slices(views(r2=Health.LOST), {}, request).placements == {"r1": 2, "r2": 2, "r3": 2}


def test_slices_without_room_elsewhere_stay():
    full = {"cpu": 900, "memory": 900}
    request = SliceRequest(3, SIZE, current={"r2": 3}, leaving={"r2": 0})
    decision = place_slices(views(r2=Health.LOST), {"r1": full, "r3": full}, request)
    assert decision.placements == {"r1": 1, "r2": 1, "r3": 1}


def test_pinned_slices_stay():
    request = SliceRequest(2, SIZE, current={"r2": 2}, pins={"r2": 1}, leaving={"r2": 0})
    assert place_slices(views(r2=Health.LOST), {}, request).placements["r2"] == 1


def test_a_namespace_without_room_under_the_tenants_cap_keeps_what_it_has():
    request = SliceRequest(
        2, SIZE, current={"r2": 2}, leaving={"r2": 0}, tenant_free={"cpu": 200}, tenant_clearing={"cpu": 100}
    )
    assert sum(place_slices(views(r2=Health.LOST), {}, request).placements.values()) == 2


def test_a_return_cancels_what_has_not_left():
    departures = Departures()
    departures.follow({"r2"}, held=False)
    departures.release("r2", KEYS[0], 1)
    assert departures.leaving(KEYS[0]) == {"r2": 1}
    departures.follow({"r2"}, held=True)
    assert departures.leaving(KEYS[0]) == {}
    departures.follow({"r2"}, held=False)
    assert departures.leaving(KEYS[0]) == {"r2": 1}
    departures.follow(set(), held=False)
    departures.follow({"r2"}, held=False)
    assert departures.leaving(KEYS[0]) == {}


class Waves(RuleBasedStateMachine):
    """Super clusters that are lost and return, while namespaces leave them and syncers clear what is left."""

    @initialize(
        capacities=st.fixed_dictionaries({each: st.integers(0, 12) for each in SUPERS}), seed=st.integers()
    )
    def begin(self, capacities, seed):
        self.chance = Random(seed)
        self.views = {
            each: SuperView(each, Health.READY, times(SIZE, slices)) for each, slices in capacities.items()
        }
        self.ledger = Ledger()
        self.wanted = dict.fromkeys(KEYS, 0)
        self.departures = Departures()
        self.held = False

    def follow(self):
        lost = {each for each, view in self.views.items() if view.health is Health.LOST}
        self.departures.follow(lost, held=self.held)
        return lost

    def health(self, super_id, health):
        view = self.views[super_id]
        self.views[super_id] = SuperView(super_id, health, view.capacity)
        self.follow()

    @rule(super_id=st.sampled_from(SUPERS), lost=st.booleans())
    def lose_or_return(self, super_id, lost):
        self.health(super_id, Health.LOST if lost else Health.READY)

    @rule(held=st.booleans())
    def hold(self, held):
        self.held = held
        self.follow()

    @rule(key=st.sampled_from(KEYS), slices=st.integers(0, 6))
    def want(self, key, slices):
        self.wanted[key] = slices

    @rule(stay=st.integers(0, 2))
    def wave(self, stay):
        if self.held:
            return
        for super_id in sorted(self.follow()):
            there = {key: self.ledger.get(key).placements[super_id] for key in self.ledger.on(super_id)}
            for key in next_wave(
                there, self.departures.released(super_id), self.departures.tried(super_id), KEYS, self.chance
            ):
                self.departures.release(super_id, key, stay)

    @rule(key=st.sampled_from(KEYS))
    def decide(self, key):
        present = self.ledger.get(key) or Entry(SIZE, {})
        acme = {"cpu": CAP * SIZE["cpu"]} if key[0] == "acme" else {}
        leaving = self.departures.leaving(key)
        request = SliceRequest(
            self.wanted[key],
            SIZE,
            current=present.placements,
            clearing=present.clearing,
            tenant_free=subtract(acme, self.ledger.used_by(key[0], without=key)) if acme else {},
            tenant_clearing=self.ledger.cleared_by(key[0], without=key) if acme else {},
            leaving=leaving,
        )
        allocated = {each: self.ledger.allocated(each, without=key) for each in self.views}
        decision = place_slices(self.views, allocated, request)
        clearing = {
            each: left
            for each in {**present.placements, **present.clearing}
            if any(
                (
                    left := subtract(present.holds(each), times(SIZE, decision.placements.get(each, 0)))
                ).values()
            )
            and left["cpu"] > 0
        }
        self.check(key, present, decision, leaving)
        self.departures.note_tried(key)
        self.ledger.put(key, Entry(SIZE, decision.placements, clearing))

    def check(self, key, present, decision, leaving):
        assert sum(decision.placements.values()) + decision.waiting == self.wanted[key]
        kept = sum(present.placements.values()) <= self.wanted[key]
        for super_id, slices in present.placements.items():
            now = decision.placements.get(super_id, 0)
            if kept and now < slices:  # the quota has not shrunk: it has left
                assert not self.held
                assert super_id in leaving
                assert self.views[super_id].health is Health.LOST
                assert now >= min(slices, leaving[super_id])
            if now > slices:
                assert self.views[super_id].health is Health.READY

    @precondition(lambda self: any(entry.clearing for entry in map(self.ledger.get, KEYS) if entry))
    @rule(key=st.sampled_from(KEYS), super_id=st.sampled_from(SUPERS))
    def clear(self, key, super_id):
        entry = self.ledger.get(key)
        if entry is None or self.views[super_id].health is Health.LOST:
            return  # nobody can clear what is out of touch
        clearing = {each: left for each, left in entry.clearing.items() if each != super_id}
        self.ledger.put(key, Entry(SIZE, entry.placements, clearing))

    @invariant()
    def never_over_capacity(self):
        for super_id, view in getattr(self, "views", {}).items():
            for name, amount in self.ledger.allocated(super_id).items():
                assert amount <= view.capacity[name]

    @invariant()
    def never_over_quota(self):
        if hasattr(self, "ledger"):
            assert self.ledger.used_by("acme").get("cpu", 0) <= CAP * SIZE["cpu"]

    @invariant()
    def sums_are_exact(self):
        if not hasattr(self, "ledger"):
            return
        entries = [entry for key in KEYS if (entry := self.ledger.get(key)) is not None]
        for super_id in SUPERS:
            total = sum(entry.holds(super_id).get("cpu", 0) for entry in entries)
            assert self.ledger.allocated(super_id).get("cpu", 0) == total


TestWaves = Waves.TestCase
TestWaves.settings = settings(max_examples=60, stateful_step_count=40)


@given(
    st.dictionaries(st.sampled_from(KEYS), st.integers(0, 3)),
    st.dictionaries(st.sampled_from(KEYS), st.integers(0, 3)),
    st.sets(st.sampled_from(KEYS)),
    st.sets(st.sampled_from(KEYS)),
    st.integers(),
)
def test_a_wave_names_only_namespaces_that_are_there_due_and_not_released(there, released, tried, due, seed):
    found = next_wave(there, released, tried, due, Random(seed))
    assert set(found) <= {key for key in due if there.get(key)} - released.keys()
