import json
from types import SimpleNamespace
from typing import Any

import pytest

from vcsync.api.objects import SuperCluster
from vcsync.api.specs import SuperClusterSpec
from vcsync.kube.cache import Change
from vcsync.objects.envelope import Envelope, parse
from vcsync.scheduling.snapshot import Health, Taint
from vcsync.syncer.heartbeat import capacity, status_patch
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
        self.pool.reflector = SimpleNamespace(synced=True, stale_since=None)  # type: ignore[assignment]
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


def test_a_super_cluster_becomes_a_view(stage):
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


def test_a_silent_super_cluster_is_suspect_then_lost_until_its_next_heartbeat(stage):
    stage.report(0)
    assert stage.health() is Health.READY
    stage.passes(74)
    assert stage.health() is Health.READY
    stage.passes(1)
    assert stage.health() is Health.SUSPECT
    assert stage.pool.views["r1"].out_of_touch == "no heartbeat since 2026-01-01T00:00:00Z"
    stage.passes(225)
    assert stage.health() is Health.LOST
    assert stage.pool.state_for("r1") == 0
    stage.report(stage.now)
    assert stage.health() is Health.RECOVERING
    assert stage.pool.judgement("r1").reason == (
        "it works again, and counts as ready after 30s without failure (failures so far: 1)"
    )
    stage.passes(30)
    assert stage.health() is Health.READY


def test_a_super_cluster_whose_api_server_does_not_answer_is_lost_although_its_syncer_reports(stage):
    stage.report(0)
    unreachable = {
        "conditions": [
            {
                "type": "Reachable",
                "status": "False",
                "reason": "NoAnswer",
                "message": "refused",
                "lastTransitionTime": "2026-01-01T00:00:10Z",
            }
        ]
    }
    stage.now = 10
    for heartbeat in range(10, 311, 20):
        assert stage.health() is not Health.LOST
        stage.passes(heartbeat - stage.now)
        stage.report(heartbeat, status=unreachable)
    assert stage.health() is Health.LOST
    assert stage.pool.judgement("r1").reason == "its API server has not answered for 5m: refused"
    assert stage.pool.views["r1"].out_of_touch == "its API server has not answered since 2026-01-01T00:00:10Z"


def test_views_do_not_change_while_only_time_passes(stage):
    stage.report(0)
    stage.passes(400)
    changes = stage.changes
    stage.passes(400)
    assert stage.changes == changes


def test_a_super_cluster_that_never_reported_is_unknown(stage):
    stage.report(None)
    assert stage.health() is Health.UNKNOWN


def failure(state, **fields):
    return {"failure": {"state": state, "since": "2026-01-01T00:00:00Z", **fields}}


def test_a_restart_does_not_make_a_dead_super_cluster_look_alive(stage):
    stage.now = 400
    stage.report(0, status=failure("Suspect", outOfTouchTime="2026-01-01T00:00:00Z"))
    assert stage.health() is Health.LOST


@pytest.mark.parametrize("record", [None, failure("Ready"), failure("Ready", failures=1), failure("Suspect")])
def test_a_syncers_clock_alone_makes_no_super_cluster_lost(stage, record):
    """Its clock may be behind: its next heartbeat is due within seconds."""
    stage.now = 400
    stage.report(0, status=record)
    assert stage.health() is Health.SUSPECT
    stage.passes(74)
    assert stage.health() is Health.SUSPECT
    assert stage.pool.lost() == {}
    stage.passes(1)
    assert stage.health() is Health.LOST


@pytest.mark.parametrize("record", [None, failure("Ready"), failure("Ready", failures=1)])
def test_a_syncer_whose_clock_is_behind_is_trusted_with_its_second_heartbeat(stage, record):
    stage.now = 400
    stage.report(80, status=record)
    assert stage.health() is Health.SUSPECT
    stage.passes(20)
    stage.report(100, status=record)
    assert stage.health() is Health.READY
    [(_, kept)] = stage.pool.outdated() or [(None, None)]
    assert kept is None or kept.failures <= 1, "a wrong clock is no failure"


def test_a_syncers_clock_alone_does_not_make_an_api_server_that_does_not_answer_lost(stage):
    stage.now = 400
    unreachable = {
        "conditions": [
            {
                "type": "Reachable",
                "status": "False",
                "reason": "NoAnswer",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
        ]
    }
    stage.report(395, status=unreachable)
    assert stage.health() is Health.SUSPECT
    stage.passes(75)
    assert stage.health() is Health.LOST


def test_the_record_counts_and_not_the_clock_of_a_syncer(stage):
    """It was out of touch for 100 seconds when the term began. Its last heartbeat claims 300."""
    stage.now = 400
    stage.report(100, status=failure("Suspect", outOfTouchTime="2026-01-01T00:05:00Z"))
    assert stage.health() is Health.SUSPECT
    stage.passes(199)
    assert stage.health() is Health.SUSPECT
    stage.passes(1)
    assert stage.health() is Health.LOST


def test_a_record_of_silence_says_nothing_about_a_super_cluster_that_was_back_since(stage):
    stage.now = 1200
    stage.report(800, status=failure("Suspect", outOfTouchTime="2026-01-01T00:05:00Z"))
    assert stage.health() is Health.SUSPECT


def test_doubts_do_not_end_while_no_heartbeat_can_be_seen(stage):
    stage.now = 400
    stage.report(0)
    stage.pool.reflector.stale_since = 400
    stage.passes(100)
    stage.pool.reflector.stale_since = None
    stage.pool.look()
    stage.passes(74)
    assert stage.health() is Health.SUSPECT
    stage.passes(1)
    assert stage.health() is Health.LOST


def test_what_only_a_syncers_clock_says_is_not_recorded(stage):
    stage.now = 400
    stage.report(0)
    [(_, record)] = stage.pool.outdated()
    assert (record.state, record.out_of_touch_time) == ("Suspect", None)
    stage.passes(75)
    [(_, record)] = stage.pool.outdated()
    assert (record.state, record.out_of_touch_time) == ("Lost", "2026-01-01T00:00:00Z")


def test_a_syncers_wrong_clock_does_not_matter_after_its_first_heartbeat(stage):
    stage.now = 1000
    stage.report(0)
    stage.passes(10)
    stage.report(10)
    assert stage.health() is Health.READY
    stage.passes(70)
    stage.report(10, cordoned=True)  # something else changed: that is no heartbeat
    stage.passes(10)
    assert stage.health() is Health.SUSPECT


def test_a_heartbeat_from_the_future_counts_as_new(stage):
    stage.report(600)
    assert stage.health() is Health.READY


@pytest.mark.parametrize("kind", ["Reachable", "Ready"])
def test_a_condition_that_is_not_true_makes_a_super_cluster_suspect(stage, kind):
    condition = {
        "type": kind,
        "status": "False",
        "reason": "No",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    stage.report(0, status={"conditions": [condition]})
    assert stage.health() is Health.SUSPECT


def test_a_suspect_super_cluster_that_falls_silent_is_out_of_touch(stage):
    stage.report(0, status=without_nodes(reachable=True))
    assert (stage.health(), stage.pool.views["r1"].out_of_touch) == (Health.SUSPECT, "")
    stage.passes(75)
    assert stage.pool.views["r1"].out_of_touch == "no heartbeat since 2026-01-01T00:00:00Z"


def test_no_super_cluster_becomes_suspect_without_connection_to_the_meta_cluster(stage):
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


def test_only_differences_are_reported(stage):
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
def test_an_unreadable_super_cluster_keeps_its_view_and_is_a_problem(stage, broken, says):
    stage.report(0)
    view = stage.pool.views["r1"]
    stage.report(1, **broken)
    assert says in stage.pool.problems["r1"]
    assert stage.pool.views["r1"] == view
    stage.report(2)
    assert stage.pool.problems == {}


def without_nodes(*, reachable: bool) -> dict[str, Any]:
    """The status that a syncer writes of a super cluster of which it knows no node."""
    status: dict[str, Any] = status_patch(
        SuperCluster(name="r1", spec=SuperClusterSpec(id="r1")),
        capacity(()),
        allocated={},
        reachable=reachable,
        why_unreachable="it is down",
        identity="here",
        version="",
        now="2026-01-01T00:00:00Z",
    )["status"]
    del status["heartbeatTime"]
    return status


def test_super_clusters_without_recent_report_or_without_nodes_are_waited_for(stage: Stage) -> None:
    stage.report(None, name="new")
    stage.report(0, name="fresh")
    stage.report(0, name="empty", status=without_nodes(reachable=True))
    stage.report(None, name="cordoned", cordoned=True)
    stage.report(0, name="broken", status=without_nodes(reachable=False))
    assert stage.pool.unreported() == ["empty", "new"]
    stage.report(1, name="new")
    stage.report(1, name="empty")
    assert stage.pool.unreported() == []
    stage.passes(80)
    assert stage.pool.unreported() == ["broken", "empty", "fresh", "new"]


async def test_the_wait_for_first_heartbeats_is_limited(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports: list[str] = []

    async def sleep(_seconds: float) -> None:
        stage.now += 1
        if stage.now == 2:
            stage.report(2, name="r2")

    monkeypatch.setattr(pool_module.asyncio, "sleep", sleep)
    stage.report(None)
    stage.report(None, name="r2")
    await stage.pool.wait_reported(reports.append, 5)
    assert stage.now == 5
    assert reports[0] == "waiting up to 5 seconds for the first heartbeat of r1, r2"
    assert reports[-1] == "waiting up to 5 seconds for the first heartbeat of r1"
    stage.report(5)
    await stage.pool.wait_reported(reports.append, 5)
    assert stage.now == 5, "everyone has reported: nothing is waited for"


@pytest.mark.parametrize("how", ["asked", "deleted"])
def test_a_super_cluster_that_is_to_go_is_drained(stage: Stage, how: str) -> None:
    if how == "asked":
        stage.report(0, drain=True)
    else:
        body = {
            "metadata": {"name": "r1", "resourceVersion": "1", "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"id": "r1"},
        }
        stage.pool.observe(Change(None, parse(json.dumps(body).encode())))
    assert stage.pool.views["r1"].draining


@pytest.mark.parametrize(
    ("spec", "reported", "taken_out"),
    [({}, True, {"r1"}), ({"drain": True}, False, {"r1"}), ({}, False, set())],
)
def test_a_missing_super_cluster_was_not_taken_out_unless_it_was_to_be_drained(
    stage: Stage, spec: dict[str, Any], reported: bool, taken_out: set[str]
) -> None:
    stage.report(0, **spec)
    stage.report(0, name="r2")
    stage.pool.observe(Change(stage.seen["r1"], None, reported))
    assert stage.pool.taken_out == taken_out
    assert set(stage.pool.views) == {"r2"}
    stage.report(0)
    assert stage.pool.taken_out == set(), "it is back"


def test_a_super_cluster_that_was_never_readable_was_not_taken_out(stage: Stage) -> None:
    stage.report(0, id="other")
    stage.pool.observe(Change(stage.seen["r1"], None))
    assert (stage.pool.taken_out, stage.pool.problems) == (set(), {})


def test_a_judgement_says_why(stage: Stage) -> None:
    stage.report(0)
    assert stage.pool.judgement("r1").word == "Ready"
    stage.passes(80)
    judgement = stage.pool.judgement("r1")
    assert (judgement.word, judgement.reason) == ("Suspect", "no heartbeat for 80s")


def test_an_unreadable_super_cluster_is_not_a_change(stage: Stage) -> None:
    stage.report(0)
    stage.report(1, status={"allocatable": {"cpu": "much"}})
    stage.passes(1)
    assert stage.changes == 1


def test_a_lost_super_cluster_is_lost_since_this_process_knows(stage: Stage) -> None:
    stage.report(0)
    stage.report(0, name="r2")
    assert stage.pool.lost() == {}
    for heartbeat in range(50, 350, 50):
        stage.passes(50)
        stage.report(heartbeat, name="r2")
    assert stage.pool.lost() == {"r1": 0.0}
    stage.passes(20)
    assert stage.pool.lost() == {"r1": 20.0}
    assert not stage.pool.held


def test_nothing_may_move_while_most_of_what_is_not_lost_is_out_of_touch_and_for_a_while_after(
    stage: Stage,
) -> None:
    for name in ("r1", "r2", "r3"):
        stage.report(0, name=name)
    assert not stage.pool.held
    stage.passes(80)
    assert stage.pool.held
    stage.report(80, name="r1")
    assert stage.pool.held
    stage.report(80, name="r2")
    for heartbeat in range(100, 380, 20):
        stage.passes(20)
        stage.report(heartbeat, name="r1")
        stage.report(heartbeat, name="r2")
        assert stage.pool.held, heartbeat
    assert stage.pool.lost() == {"r3": 60.0}, "it is lost, and still nothing moves"
    stage.passes(20)
    assert not stage.pool.held


def test_nothing_may_move_while_most_of_the_pool_vanished_at_once(stage: Stage) -> None:
    for name in ("r1", "r2"):
        stage.report(0, name=name)
    stage.passes(400)
    assert stage.pool.lost() == {}
    assert stage.pool.held


def test_a_fenced_super_cluster_is_lost_for_good(stage: Stage) -> None:
    stage.report(0, fenced=True)
    view = stage.pool.views["r1"]
    assert (view.health, view.fenced, view.out_of_touch) == (Health.LOST, True, "its operator has fenced it")
    assert stage.pool.lost() == {"r1": float("inf")}
    stage.report(0, fenced=False)
    assert stage.health() is Health.READY
