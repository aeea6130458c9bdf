"""Slices that are taken away count, and have a finalizer, until their super cluster has freed them: a model of all histories."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from vcsync.api import names
from vcsync.nsscheduler.reconcile import Plan
from vcsync.scheduling.ledger import Entry
from vcsync.scheduling.resources import Resources, add, times
from vcsync.scheduling.snapshot import Health, SuperView
from vcsync.tenancy.distribution import entry_of

from .fakes import NAMESPACE, ROOT
from .test_reconcile import SLICE, Stage, view

SUPERS = ("r1", "r2", "r3")
COUNTED = ("cpu", "memory", "pods")
CPU = 800  # thousandths of each super cluster
PODS = {"r1": 10, "r2": 30, "r3": 100}
SIZES = (
    SLICE,
    '{"cpu":"200m","memory":"50Mi"}',
    '{"cpu":"30m","memory":"10Mi"}',
    '{"cpu":"1m","memory":"1Mi"}',
)
CAPS: tuple[dict[str, str], ...] = ({}, {"cpu": "400m"}, {"cpu": "900m", "pods": "12"}, {"cpu": "1500m"})
supers = st.sampled_from(SUPERS)
granters = st.none() | st.sets(supers)
which = st.integers(0, 1)


def total(amounts: Iterable[Resources]) -> Resources:
    found: Resources = {}
    for each in amounts:
        found = add(found, each)
    return found


class Drained(RuleBasedStateMachine):
    """Two namespaces of one tenant beside another one's, and the syncers, each of which knows the entries of some earlier time.

    `uses` has what a super cluster may use at most: what its syncer has set as the quota of the super namespace.
    """

    @initialize(other=st.integers(0, 3), slices=st.integers(1, 12), cap=st.sampled_from(CAPS))
    def begin(self, other: int, slices: int, cap: dict[str, str]) -> None:
        self.stages = (Stage(), Stage())
        self.pods = dict(PODS)
        self.views = {name: self.view(name) for name in SUPERS}
        self.leaving: tuple[dict[str, int], dict[str, int]] = ({}, {})
        self.spec: dict[str, object] = {"quota": cap}
        self.other = Entry({"cpu": 100, "memory": 1000}, {"r1": other})
        self.uses: tuple[dict[str, Resources], dict[str, Resources]] = ({}, {})
        self.number = 1
        self.quota_changes(0, slices, granting=set(SUPERS))

    def view(self, name: str, **fields: Any) -> SuperView:
        return view(name, cpu=f"{CPU}m", pods=str(self.pods[name]), **fields)

    def entry(self, number: int) -> Entry:
        """Return what a namespace holds by its entry."""
        entry = self.stages[number].meta.entry()
        return Entry({}, {}) if entry is None else entry_of(entry)

    def held(self, number: int) -> Resources:
        entry = self.entry(number)
        return total(entry.holds(name) for name in {**entry.placements, **entry.clearing})

    def turn(self, number: int) -> Plan:
        """Let the scheduler decide. What the tenant may use stays within its cap, but for what it had before and what moves."""
        stage, before = self.stages[number], self.entry(number)
        in_use = total((self.held(0), self.held(1)))
        stage.views, stage.spec, stage.leaving = self.views, self.spec, self.leaving[number]
        stage.others.put(("other", "shop"), self.other)
        stage.others.put((ROOT, "second"), self.entry(1 - number))
        plan = stage.turn()
        after, now = self.entry(number), total((self.held(0), self.held(1)))
        for name, limit in stage_cap(self.spec).items():
            moved = sum(
                max(
                    0, times(before.size, slices)[name] - after.size[name] * after.placements.get(super_id, 0)
                )
                for super_id, slices in before.placements.items()
                if after.placements and (self.views[super_id].draining or super_id in stage.leaving)
            )
            assert now.get(name, 0) <= max(limit, in_use.get(name, 0)) + moved, name
        return plan

    def decide(self, number: int, granting: set[str] | None) -> None:
        """Let the scheduler decide at once, and some syncers grant what they read; None for not yet."""
        if granting is not None:
            self.turn(number)
            for name in sorted(granting):
                self.grant(number, name)

    # The tenant and the operator

    @rule(number=which, slices=st.integers(0, 12), granting=granters)
    def quota_changes(self, number: int, slices: int, granting: set[str] | None) -> None:
        self.stages[number].tenant.hards = [{"cpu": f"{slices}00m"}] if slices else []
        self.decide(number, granting)

    @rule(number=which, text=st.sampled_from(SIZES), granting=granters)
    def slice_size_changes(self, number: int, text: str, granting: set[str] | None) -> None:
        if NAMESPACE in self.stages[number].tenant.objects:
            self.stages[number].annotate(text)
            self.decide(number, granting)

    @rule(number=which, granting=granters)
    def namespace_is_deleted(self, number: int, granting: set[str] | None) -> None:
        self.stages[number].tenant.objects.clear()
        self.decide(number, granting)

    @rule(number=which, granting=granters)
    def namespace_is_created(self, number: int, granting: set[str] | None) -> None:
        self.number += 1
        metadata = {"uid": f"uid-{self.number}", "annotations": {names.SLICE: SLICE}}
        self.stages[number].tenant.put(NAMESPACE, {"metadata": metadata})
        self.decide(number, granting)

    @rule(suspended=st.booleans(), granting=granters)
    def tenant_is_suspended(self, suspended: bool, granting: set[str] | None) -> None:
        self.spec["suspended"] = suspended
        for number in (0, 1):
            self.decide(number, granting)

    @rule(cap=st.sampled_from(CAPS), granting=granters)
    def cap_changes(self, cap: dict[str, str], granting: set[str] | None) -> None:
        self.spec["quota"] = cap
        for number in (0, 1):
            self.decide(number, granting)

    @rule(
        name=supers,
        cordoned=st.booleans(),
        draining=st.booleans(),
        health=st.sampled_from((Health.READY, Health.READY, Health.LOST, Health.RECOVERING)),
    )
    def super_cluster_changes(self, name: str, cordoned: bool, draining: bool, health: Health) -> None:
        self.views[name] = self.view(name, draining=draining, cordoned=cordoned, health=health)
        for each in self.leaving:
            each.pop(name, None)

    @rule(number=which, name=supers, stay=st.integers(0, 2), granting=granters)
    def namespace_leaves_a_lost_super_cluster(
        self, number: int, name: str, stay: int, granting: set[str] | None
    ) -> None:
        self.super_cluster_changes(name, cordoned=False, draining=False, health=Health.LOST)
        self.leaving[number][name] = stay
        self.decide(number, granting)

    @rule(name=supers, more=st.sampled_from((20, 200)), granting=granters)
    def nodes_take_more_pods(self, name: str, more: int, granting: set[str] | None) -> None:
        if self.pods[name] < 400:
            self.pods[name] += more
            self.super_cluster_changes(name, cordoned=False, draining=False, health=Health.READY)
            for number in (0, 1):
                self.decide(number, granting)

    # The scheduler

    @rule(number=which)
    def scheduler_decides(self, number: int) -> None:
        self.turn(number)

    # The syncers

    def slices(self, number: int, name: str) -> Resources:
        """Return the amounts of the slices on a super cluster, as its syncer reads them."""
        entry = self.stages[number].meta.entry()
        if entry is None or entry.deleting or not entry.status.placements.get(name):
            return {}
        return times(entry_of(entry).size, entry.status.placements[name])

    @rule(number=which, name=supers)
    def syncer_grants(self, number: int, name: str) -> None:
        self.grant(number, name)

    def grant(self, number: int, name: str) -> None:
        """Grant more slices at once. Fewer ones are still in use."""
        if self.views[name].health is not Health.LOST:
            before = self.uses[number].get(name, {})
            now = self.slices(number, name)
            self.uses[number][name] = {each: max(before.get(each, 0), now.get(each, 0)) for each in COUNTED}

    @rule(number=which, name=supers)
    def syncer_frees(self, number: int, name: str) -> None:
        """Pods beyond the slices have ended, and the syncer says so by its finalizer."""
        stage = self.stages[number]
        entry = stage.meta.entry()
        if entry is None or self.views[name].health is Health.LOST:
            return
        self.uses[number][name] = self.slices(number, name)
        done = [names.clear_finalizer(name)]
        if not self.uses[number][name]:
            done.append(names.drain_finalizer(name))
        kept = [each for each in entry.finalizers if each not in done]
        stage.meta.patch(NAMESPACE, {"metadata": {"finalizers": kept}})

    # What always holds

    @invariant()
    def whatever_may_be_in_use_counts_and_has_a_finalizer(self) -> None:
        if not hasattr(self, "stages"):
            return
        for number in (0, 1):
            entry = self.stages[number].meta.entry()
            for name, amounts in self.uses[number].items():
                if not any(amounts.values()):
                    continue
                assert entry is not None, f"{name} is forgotten"
                assert names.drain_finalizer(name) in entry.finalizers
                held = entry_of(entry).holds(name)
                assert all(amounts[each] <= held.get(each, 0) for each in COUNTED), name

    @invariant()
    def nothing_is_distributed_twice(self) -> None:
        if not hasattr(self, "stages"):
            return
        for name in SUPERS:
            held = total([self.other.holds(name), *(self.entry(number).holds(name) for number in (0, 1))])
            for each, most in self.views[name].capacity.items():
                assert held.get(each, 0) <= most, (name, each)

    def teardown(self) -> None:
        """All that was taken away ends being counted once all syncers work, and a lower cap has reached its end."""
        if not hasattr(self, "stages"):
            return
        for name in SUPERS:
            self.super_cluster_changes(name, cordoned=False, draining=False, health=Health.READY)
        for _ in range(6):
            for number in (0, 1):
                self.turn(number)
                for name in SUPERS:
                    self.grant(number, name)
                    self.syncer_frees(number, name)
        for number in (0, 1):
            entry = self.stages[number].meta.entry()
            placed = {} if entry is None else dict(entry.status.placements)
            assert set(() if entry is None else entry.finalizers) == {*map(names.drain_finalizer, placed)}
            for name in SUPERS:
                uses = self.uses[number].get(name, {})
                used = {each: amount for each, amount in uses.items() if amount}
                assert used == self.slices(number, name)
            assert not self.entry(number).clearing
        limit = stage_cap(self.spec).get("cpu")
        assert limit is None or total((self.held(0), self.held(1))).get("cpu", 0) <= limit


def stage_cap(spec: dict[str, object]) -> Resources:
    """Return the cap of the tenant, in thousandths."""
    cap = spec["quota"]
    assert isinstance(cap, dict)
    return {
        name: int(text.removesuffix("m")) * (1 if text.endswith("m") else 1000) for name, text in cap.items()
    }


TestDrained = Drained.TestCase
TestDrained.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
