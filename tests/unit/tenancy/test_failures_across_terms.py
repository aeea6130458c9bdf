"""Leaders that change at random decide as one that never ends: never earlier, and at most one look later."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from hypothesis import event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from structlog.testing import capture_logs

from vcsync.api.objects import to_wire
from vcsync.kube.cache import Change
from vcsync.objects.envelope import Envelope, parse
from vcsync.objects.times import unix_time_text
from vcsync.scheduling.snapshot import Health
from vcsync.tenancy import Patience, Pool

EPOCH = 1767225600.0  # 2026-01-01T00:00:00Z
PATIENCE = Patience(suspect_after=20, lost_after=60)
LOOK = 5
"""Seconds between two looks, and between two heartbeats."""


class Site:
    """A super cluster, and what is stored of it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = self.answers = self.has_nodes = True
        self.failure: Any = None
        self.version = 0
        self._conditions: dict[str, tuple[bool, float]] = {}
        self._beat = 0.0
        self.report(0.0)

    @property
    def works(self) -> bool:
        return self.alive and self.answers and self.has_nodes

    def report(self, now: float) -> None:
        """Let its syncer write a heartbeat."""
        self._beat = now
        for kind, holds in (("Reachable", self.answers), ("Ready", self.answers and self.has_nodes)):
            if self._conditions.get(kind, (None, 0))[0] is not holds:
                self._conditions[kind] = holds, now

    def envelope(self) -> Envelope:
        self.version += 1
        conditions = [
            {
                "type": kind,
                "status": str(holds),
                "reason": "R",
                "lastTransitionTime": unix_time_text(EPOCH + since),
            }
            for kind, (holds, since) in self._conditions.items()
        ]
        status = {
            "heartbeatTime": unix_time_text(EPOCH + self._beat),
            "conditions": conditions,
            "failure": self.failure,
        }
        body = {
            "metadata": {"name": self.name, "resourceVersion": str(self.version)},
            "spec": {"id": self.name},
            "status": status,
        }
        return parse(json.dumps(body).encode())


class Leader:
    """One term."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._seen: dict[str, Envelope] = {}
        self.pool = Pool(
            object(),  # type: ignore[arg-type]  # the reflector is not run
            patience=PATIENCE,
            clock=lambda: stage.now + stage.boot,
            wall_clock=lambda: EPOCH + stage.now + stage.jump,
        )
        reflector = SimpleNamespace(synced=False, stale_since=None)
        self.pool.reflector = reflector  # type: ignore[assignment]
        self.see()
        reflector.synced = True

    def see(self) -> None:
        for name, found in self._stage.objects.items():
            if self._seen.get(name) is not found:
                self.pool.observe(Change(self._seen.get(name), found))
                self._seen[name] = found

    def states(self) -> dict[str, Health]:
        return {name: view.health for name, view in self.pool.views.items()}

    def lost(self) -> dict[str, float]:
        """Return the super clusters that slices may leave, with the seconds since they were lost."""
        return {} if self.pool.held else self.pool.lost()


class Stage:
    """Super clusters and a clock. The leader looks every `LOOK` seconds, and stores what it knows."""

    def __init__(self, size: int) -> None:
        self.now = 0.0
        self.boot = 0.0
        """Monotonic seconds at time 0."""
        self.jump = 0.0
        """Seconds by which the wall clock of the scheduler is ahead."""
        self.sites = {f"r{number}": Site(f"r{number}") for number in range(1, size + 1)}
        self.objects = {name: site.envelope() for name, site in self.sites.items()}
        self.records = 0
        self.leader = Leader(self)

    def step(self, *others: Leader) -> None:
        """Let one look pass."""
        self.now += LOOK
        for name, site in self.sites.items():
            if site.alive:
                site.report(self.now)
                self.objects[name] = site.envelope()
        for leader in (self.leader, *others):
            leader.see()
            leader.pool.look()
        self.store()

    def store(self) -> None:
        for found, record in self.leader.pool.outdated():
            self.sites[found.name].failure = to_wire(record)
            self.objects[found.name] = self.sites[found.name].envelope()
            self.records += 1
        self.leader.see()
        assert not self.leader.pool.outdated()

    def change_leader(self) -> None:
        self.boot += 1000  # its machine has been up for another time
        self.leader = Leader(self)

    def steps(self, seconds: float) -> None:
        for _ in range(int(seconds / LOOK)):
            self.step()


class ChangesOfLeader(RuleBasedStateMachine):
    """Compares leaders that follow each other with one that never ends."""

    @initialize(size=st.integers(1, 5))
    def begin(self, size: int) -> None:
        self.stage = Stage(size)
        self.steady = Leader(self.stage)
        self.steady.pool._clock = lambda: self.stage.now
        self.before = self.steady.lost(), self.steady.states()

    def look(self) -> None:
        self.stage.step(self.steady)
        self.compare()
        lost, states = self.steady.lost(), self.steady.states()
        changed = self.stage.leader.lost()
        for name, lasts in lost.items():
            if name in self.before[0]:
                assert changed[name] >= lasts - LOOK, "it moves late"
        for name, state in states.items():
            if state is Health.READY and self.before[1].get(name) is Health.READY:
                assert self.stage.leader.states()[name] is Health.READY, "it is trusted late"
            event(f"a super cluster is {state.name}")
        if self.steady.pool.held:
            event("nothing may move")
        self.before = lost, states

    def compare(self) -> None:
        """Check that nothing is decided that the steady leader does not decide."""
        lost, states = self.steady.lost(), self.steady.states()
        for name, lasts in self.stage.leader.lost().items():
            assert name in lost, "it moves though it must not"
            assert lasts <= lost[name], "it moves early"
        for name, state in self.stage.leader.states().items():
            if state is Health.READY:
                assert states[name] is Health.READY, "it is trusted early"

    @rule(looks=st.sampled_from([1, 2, 4, 8, 13, 40]))
    def time_passes(self, looks: int) -> None:
        for _ in range(looks):
            self.look()

    @rule(looks=st.integers(1, 15))
    def leaders_change_with_each_look(self, looks: int) -> None:
        for _ in range(looks):
            self.another_leader_begins()
            self.look()

    @rule()
    def another_leader_begins(self) -> None:
        self.stage.change_leader()
        self.compare()

    @rule(data=st.data(), what=st.sampled_from(["alive", "answers", "has_nodes"]))
    def something_changes(self, data: st.DataObject, what: str) -> None:
        site = self.stage.sites[data.draw(st.sampled_from(sorted(self.stage.sites)))]
        setattr(site, what, not getattr(site, what))

    @rule(data=st.data(), looks=st.integers(1, 3), times=st.integers(1, 5))
    def one_flaps(self, data: st.DataObject, looks: int, times: int) -> None:
        site = self.stage.sites[data.draw(st.sampled_from(sorted(self.stage.sites)))]
        if not site.works:
            return
        for _ in range(times):
            site.answers = False
            self.time_passes(looks)
            self.another_leader_begins()
            site.answers = True
            self.time_passes(looks)

    @rule(data=st.data())
    def most_vanish(self, data: st.DataObject) -> None:
        order = data.draw(st.permutations(sorted(self.stage.sites)))
        for name in order[: len(order) // 2 + 1]:
            self.stage.sites[name].alive = False

    @rule()
    def all_return(self) -> None:
        for site in self.stage.sites.values():
            site.alive = site.answers = site.has_nodes = True

    def teardown(self) -> None:
        """Nothing is stored at rest."""
        if not hasattr(self, "stage"):
            return
        self.all_return()
        # The time after which failures are forgotten, after the longest quiet time.
        self.stage.steps(20 * PATIENCE.lost_after)
        assert set(self.stage.leader.states().values()) == {Health.READY}
        before = self.stage.records
        self.stage.change_leader()
        self.stage.steps(PATIENCE.lost_after)
        assert self.stage.records == before


TestChangesOfLeader = ChangesOfLeader.TestCase
TestChangesOfLeader.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


def test_a_clock_that_jumped_back_makes_moves_late_and_never_early() -> None:
    stage = Stage(3)
    stage.sites["r2"].alive = False
    stage.steps(PATIENCE.lost_after + 2 * LOOK)
    assert stage.leader.lost() == {"r2": 2.0 * LOOK}
    stage.jump = -30.0
    stage.change_leader()
    assert stage.leader.lost().get("r2", 0.0) <= 2.0 * LOOK
    stage.steps(PATIENCE.lost_after)
    assert stage.leader.lost()["r2"] > 2.0 * LOOK


def test_a_syncer_whose_clock_is_behind_makes_nothing_lost_whoever_leads() -> None:
    """Everything that leaders decide at the beginning of a term is undone with the next heartbeat, up to a minute later."""
    stage = Stage(3)
    behind = PATIENCE.lost_after + LOOK
    stage.now = 1000.0

    def report() -> None:
        for name, site in stage.sites.items():
            site.report(stage.now - (behind if name == "r1" else 0))
            stage.objects[name] = site.envelope()

    report()
    for _ in range(5):
        for _ in range(2):
            stage.change_leader()
            assert stage.leader.lost() == {}
            assert not stage.leader.pool.held
            stage.store()
        stage.now += LOOK
        report()
        stage.leader.see()
        assert stage.leader.states()["r1"] is Health.READY
        stage.store()


def test_a_record_that_cannot_be_read_counts_as_none_and_is_replaced() -> None:
    for broken in (
        {"state": "Gone", "since": "2026-01-01T00:00:00Z"},
        {"state": "Lost", "since": "yesterday"},
        5,
    ):
        stage = Stage(3)
        stage.sites["r2"].alive = False
        stage.steps(PATIENCE.lost_after + 4 * LOOK)
        stage.sites["r2"].failure = broken
        stage.objects["r2"] = stage.sites["r2"].envelope()
        with capture_logs() as logs:
            stage.change_leader()
        assert [(log["event"], log["super_cluster"]) for log in logs] == [
            ("record of failures cannot be read", "r2")
        ]
        assert stage.leader.lost() == {}, "a heartbeat may arrive at once"
        stage.steps(PATIENCE.suspect_after)
        assert stage.leader.lost() == {"r2": 0.0}
        assert stage.sites["r2"].failure["state"] == "Lost"


def test_a_scheduler_that_was_cut_off_with_the_syncers_moves_nothing_after_its_restart() -> None:
    stage = Stage(3)
    stage.sites["r2"].alive = False
    stage.steps(PATIENCE.lost_after + 2 * LOOK)
    assert stage.leader.lost()
    # The meta cluster is away: nobody writes to it and nobody reads it.
    stage.now += 10 * PATIENCE.lost_after
    stage.change_leader()
    assert stage.leader.lost() == {}
    stage.steps(PATIENCE.lost_after - LOOK)
    assert stage.leader.lost() == {}
    stage.steps(2 * LOOK)
    assert set(stage.leader.lost()) == {"r2"}
