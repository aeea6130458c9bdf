"""Slices that are taken away count, and have a finalizer, until their super cluster has freed them: a model of all histories."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from vcsync.api import names
from vcsync.scheduling.ledger import Entry
from vcsync.scheduling.resources import Resources, times
from vcsync.scheduling.snapshot import Health
from vcsync.tenancy.distribution import entry_of

from .fakes import NAMESPACE
from .test_reconcile import KEY, SLICE, Stage, view

SUPERS = ("r1", "r2", "r3")
COUNTED = ("cpu", "memory")
CPU = 800  # thousandths of each super cluster
SIZES = (SLICE, '{"cpu":"200m","memory":"50Mi"}', '{"cpu":"30m","memory":"10Mi"}')
supers = st.sampled_from(SUPERS)
granters = st.none() | st.sets(supers)


class Drained(RuleBasedStateMachine):
    """One namespace among others, and the syncers, each of which knows the entry of some earlier time.

    `uses` has what a super cluster may use at most: what its syncer has set as the quota of the super namespace.
    """

    @initialize(other=st.integers(0, 3), slices=st.integers(1, 12))
    def begin(self, other: int, slices: int) -> None:
        self.stage = Stage()
        self.stage.views = {name: view(name, cpu=f"{CPU}m") for name in SUPERS}
        self.stage.others.put(("other", "shop"), Entry({"cpu": 100, "memory": 1000}, {"r1": other}))
        self.other = other * 100
        self.uses: dict[str, Resources] = {}
        self.number = 1
        self.quota_changes(slices, granting=set(SUPERS))

    def decide(self, granting: set[str] | None) -> None:
        """Let the scheduler decide at once, and some syncers grant what they read; None for not yet."""
        if granting is not None:
            self.stage.turn()
            for name in sorted(granting):
                self.grant(name)

    # The tenant and the operator

    @rule(slices=st.integers(0, 12), granting=granters)
    def quota_changes(self, slices: int, granting: set[str] | None) -> None:
        self.stage.tenant.hards = [{"cpu": f"{slices}00m"}] if slices else []
        self.decide(granting)

    @rule(text=st.sampled_from(SIZES), granting=granters)
    def slice_size_changes(self, text: str, granting: set[str] | None) -> None:
        if NAMESPACE in self.stage.tenant.objects:
            self.stage.annotate(text)
            self.decide(granting)

    @rule(granting=granters)
    def namespace_is_deleted(self, granting: set[str] | None) -> None:
        self.stage.tenant.objects.clear()
        self.decide(granting)

    @rule(granting=granters)
    def namespace_is_created(self, granting: set[str] | None) -> None:
        self.number += 1
        metadata = {"uid": f"uid-{self.number}", "annotations": {names.SLICE: SLICE}}
        self.stage.tenant.put(NAMESPACE, {"metadata": metadata})
        self.decide(granting)

    @rule(suspended=st.booleans(), granting=granters)
    def tenant_is_suspended(self, suspended: bool, granting: set[str] | None) -> None:
        self.stage.spec["suspended"] = suspended
        self.decide(granting)

    @rule(name=supers, draining=st.booleans(), lost=st.booleans())
    def super_cluster_changes(self, name: str, draining: bool, lost: bool) -> None:
        health = Health.LOST if lost else Health.READY
        self.stage.views[name] = view(name, cpu=f"{CPU}m", draining=draining, health=health)
        self.stage.leaving.pop(name, None)

    @rule(name=supers, stay=st.integers(0, 2), granting=granters)
    def namespace_leaves_a_lost_super_cluster(self, name: str, stay: int, granting: set[str] | None) -> None:
        self.super_cluster_changes(name, draining=False, lost=True)
        self.stage.leaving[name] = stay
        self.decide(granting)

    # The scheduler

    @rule()
    def scheduler_decides(self) -> None:
        self.stage.turn()

    # The syncers

    def slices(self, name: str) -> Resources:
        """Return the amounts of the slices on a super cluster, as its syncer reads them."""
        entry = self.stage.meta.entry()
        if entry is None or entry.deleting or not entry.status.placements.get(name):
            return {}
        return times(entry_of(entry).size, entry.status.placements[name])

    @rule(name=supers)
    def syncer_grants(self, name: str) -> None:
        self.grant(name)

    def grant(self, name: str) -> None:
        """Grant more slices at once. Fewer ones are still in use."""
        if self.stage.views[name].health is not Health.LOST:
            before = self.uses.get(name, {})
            now = self.slices(name)
            self.uses[name] = {each: max(before.get(each, 0), now.get(each, 0)) for each in COUNTED}

    @rule(name=supers)
    def syncer_frees(self, name: str) -> None:
        """Pods beyond the slices have ended, and the syncer says so by its finalizer."""
        entry = self.stage.meta.entry()
        if entry is None or self.stage.views[name].health is Health.LOST:
            return
        self.uses[name] = self.slices(name)
        done = [names.clear_finalizer(name)]
        if not self.uses[name]:
            done.append(names.drain_finalizer(name))
        kept = [each for each in entry.finalizers if each not in done]
        self.stage.meta.patch(NAMESPACE, {"metadata": {"finalizers": kept}})

    # What always holds

    @invariant()
    def whatever_may_be_in_use_counts_and_has_a_finalizer(self) -> None:
        if not hasattr(self, "stage"):
            return
        entry = self.stage.meta.entry()
        for name, amounts in self.uses.items():
            if not any(amounts.values()):
                continue
            assert entry is not None, f"{name} is forgotten"
            assert names.drain_finalizer(name) in entry.finalizers
            held = entry_of(entry).holds(name)
            assert all(amounts[each] <= held.get(each, 0) for each in COUNTED), name

    @invariant()
    def nothing_is_distributed_twice(self) -> None:
        if not hasattr(self, "stage"):
            return
        entry = self.stage.meta.entry()
        for name in SUPERS:
            held = 0 if entry is None else entry_of(entry).holds(name).get("cpu", 0)
            assert held + (self.other if name == "r1" else 0) <= CPU

    def teardown(self) -> None:
        """All that was taken away ends being counted once all syncers work."""
        if not hasattr(self, "stage"):
            return
        for name in SUPERS:
            self.super_cluster_changes(name, draining=False, lost=False)
        for _ in range(4):
            self.scheduler_decides()
            for name in SUPERS:
                self.syncer_grants(name)
                self.syncer_frees(name)
        self.scheduler_decides()
        entry = self.stage.meta.entry()
        placed = {} if entry is None else dict(entry.status.placements)
        wanted = {names.drain_finalizer(name) for name in placed}
        assert set(() if entry is None else entry.finalizers) == wanted
        for name in SUPERS:
            used = {each: amount for each, amount in self.uses.get(name, {}).items() if amount}
            assert used == self.slices(name)
            assert self.stage.inputs().ledger.get(KEY) is None or not entry_of(entry).clearing


TestDrained = Drained.TestCase
TestDrained.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
