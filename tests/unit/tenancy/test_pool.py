import json
from typing import Any

import pytest

from vcsync.kube.cache import Change
from vcsync.kube.envelope import Envelope, parse
from vcsync.scheduling.snapshot import Health, Taint
from vcsync.tenancy import Patience, Pool
from vcsync.tenancy import pool as pool_module

EPOCH = 1767225600.0  # 2026-01-01T00:00:00Z
PATIENCE = Patience(suspect_after=75, lost_after=300)


class Stage:
    """A pool with clocks of the test's own."""

    def __init__(self) -> None:
        self.now = 0.0
        self.changes = 0
        self.pool = Pool(
            object(),  # type: ignore[arg-type]  # the reflector is not run
            patience=PATIENCE,
            on_change=self.changed,
            clock=lambda: self.now,
            wall_clock=lambda: EPOCH + self.now,
        )
        self.seen: dict[str, Envelope] = {}

    def changed(self) -> None:
        self.changes += 1

    def report(
        self, heartbeat: float | None = None, *, name: str = "r1", status: Any = None, **spec: Any
    ) -> None:
        beat = (
            None
            if heartbeat is None
            else f"2026-01-01T00:{int(heartbeat) // 60:02}:{int(heartbeat) % 60:02}Z"
        )
        body = {
            "metadata": {"name": name, "resourceVersion": str(len(self.seen))},
            "spec": {"id": name, **spec},
            "status": {"allocatable": {"cpu": "4", "memory": "1Gi"}, "heartbeatTime": beat, **(status or {})},
        }
        envelope = parse(json.dumps(body).encode())
        self.pool.observe(Change(self.seen.get(name), envelope))
        self.seen[name] = envelope

    def health(self) -> Health:
        return self.pool.views["r1"].health

    def passes(self, seconds: float) -> None:
        self.now += seconds
        self.pool.look()


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_a_super_cluster_becomes_what_the_schedulers_need(stage):
    stage.report(
        0,
        headroom={"cpu": "25%"},
        taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}],
        cordoned=True,
        prices={"cpu": "0.05"},
        status={"largestNode": {"cpu": "2"}},
    )
    view = stage.pool.views["r1"]
    assert view.capacity == {"cpu": 3000, "memory": 1024**3 * 1000}
    assert view.largest_node == {"cpu": 2000}
    assert (view.cordoned, view.draining) == (True, False)
    assert view.taints == (Taint("gpu", "yes", "NoSchedule"),)
    assert view.price == {"cpu": 50_000}


def test_silence_makes_suspect_then_lost_and_a_heartbeat_heals(stage):
    stage.report(0)
    assert stage.health() is Health.READY
    stage.passes(74)
    assert stage.health() is Health.READY
    stage.passes(1)
    assert stage.health() is Health.SUSPECT
    stage.passes(225)
    assert stage.health() is Health.LOST
    stage.report(stage.now)
    assert stage.health() is Health.READY


def test_who_never_reported_is_unknown(stage):
    stage.report(None)
    assert stage.health() is Health.UNKNOWN


def test_a_restart_does_not_make_a_dead_super_cluster_look_alive(stage):
    stage.now = 400
    stage.report(0)
    assert stage.health() is Health.LOST


def test_a_syncers_wrong_clock_does_not_matter_once_it_was_seen(stage):
    stage.now = 1000
    stage.report(0)
    stage.passes(10)
    stage.report(10)
    assert stage.health() is Health.READY
    stage.passes(70)
    stage.report(10, cordoned=True)  # something else changed: that is no heartbeat
    stage.passes(10)
    assert stage.health() is Health.SUSPECT


def test_a_syncer_ahead_of_time_is_taken_as_new(stage):
    stage.report(600)
    assert stage.health() is Health.READY


@pytest.mark.parametrize("kind", ["Reachable", "Ready"])
def test_a_syncer_that_says_it_is_not_well_is_believed(stage, kind):
    condition = {
        "type": kind,
        "status": "False",
        "reason": "No",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    stage.report(0, status={"conditions": [condition]})
    assert stage.health() is Health.SUSPECT


def test_nobody_grows_suspect_while_we_are_blind(stage):
    blind_since: list[float | None] = [None]
    reflector = type("Reflector", (), {"synced": True, "stale_since": property(lambda _: blind_since[0])})()
    stage.pool.reflector = reflector
    stage.report(0)
    stage.passes(50)
    blind_since[0] = stage.now
    stage.passes(1000)
    assert stage.health() is Health.READY
    blind_since[0] = None
    stage.passes(5)  # the first look with open eyes
    stage.passes(24)
    assert stage.health() is Health.READY
    stage.passes(1)
    assert stage.health() is Health.SUSPECT


def test_only_differences_are_told(stage):
    stage.report(0)
    assert stage.changes == 1
    stage.report(10)
    assert stage.changes == 1
    stage.report(10, cordoned=True)
    stage.pool.observe(Change(stage.seen["r1"], None))
    assert stage.changes == 3
    assert stage.pool.views == {}


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ({"headroom": {"cpu": "lots"}}, "headroom"),
        ({"id": "other"}, "spec.id 'other' differs from metadata.name 'r1'"),
        ({"status": {"allocatable": {"cpu": "much"}}}, "'much' is not a quantity"),
    ],
)
def test_what_cannot_be_read_keeps_its_view_and_is_a_problem(stage, broken, says):
    stage.report(0)
    view = stage.pool.views["r1"]
    stage.report(1, **broken)
    assert says in stage.pool.problems["r1"]
    assert stage.pool.views["r1"] == view
    stage.report(2)
    assert stage.pool.problems == {}


def test_what_has_not_reported_lately_or_has_no_nodes_yet_is_waited_for(stage: Stage) -> None:
    stage.report(None, name="new")
    stage.report(0, name="fresh")
    stage.report(0, name="empty", status={"allocatable": {}})
    stage.report(None, name="cordoned", cordoned=True)
    stage.report(
        0,
        name="broken",
        status={
            "allocatable": {},
            "conditions": [
                {
                    "type": "Reachable",
                    "status": "False",
                    "reason": "Down",
                    "message": "it is",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
            ],
        },
    )
    assert stage.pool.unreported() == ["empty", "new"]
    stage.report(1, name="new")
    stage.report(1, name="empty")
    assert stage.pool.unreported() == []
    stage.passes(80)
    assert stage.pool.unreported() == ["broken", "empty", "fresh", "new"]


async def test_those_that_begin_wait_for_first_heartbeats_a_few_seconds_at_most(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    async def sleep(_seconds: float) -> None:
        stage.now += 1
        if stage.now == 2:
            stage.report(2, name="r2")

    monkeypatch.setattr(pool_module.asyncio, "sleep", sleep)
    stage.report(None)
    stage.report(None, name="r2")
    await stage.pool.wait_reported(told.append, 5)
    assert stage.now == 5
    assert told[0] == "waiting up to 5 seconds for the first heartbeat of r1, r2"
    assert told[-1] == "waiting up to 5 seconds for the first heartbeat of r1"
    stage.report(5)
    await stage.pool.wait_reported(told.append, 5)
    assert stage.now == 5, "everyone has reported: nothing is waited for"
