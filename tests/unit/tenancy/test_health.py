"""Health of a super cluster: one definition, with a reason."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from vcsync.api.conditions import Condition
from vcsync.api.objects import SuperCluster
from vcsync.api.specs import FailureRecord, SuperClusterSpec, SuperClusterStatus
from vcsync.scheduling.snapshot import Health
from vcsync.tenancy.failure import Patience
from vcsync.tenancy.health import (
    HELD,
    Judgement,
    absences_stored,
    judge_all_stored,
    judge_stored,
    lasting,
    silence_of,
)

TIME = "2026-01-01T00:00:00Z"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
PATIENCE = Patience(suspect_after=75, lost_after=300)


def super_cluster(reachable: str = "True", ready: str = "True", heartbeat: str | None = TIME) -> SuperCluster:
    conditions = (
        Condition(
            type="Reachable",
            status=reachable,
            reason="NoAnswer",
            message="refused",
            last_transition_time=TIME,
        ),
        Condition(type="Ready", status=ready, reason="NoReadyNode", message="", last_transition_time=TIME),
    )
    status = SuperClusterStatus(conditions=conditions, heartbeat_time=heartbeat)
    return SuperCluster(name="r1", spec=SuperClusterSpec(id="r1"), status=status)


@pytest.mark.parametrize(
    ("seconds", "reachable", "ready", "judged"),
    [
        (0, "True", "True", Judgement(Health.READY)),
        (74.9, "True", "True", Judgement(Health.READY)),
        (75, "True", "True", Judgement(Health.SUSPECT, "no heartbeat for 75s")),
        (9, "False", "False", Judgement(Health.SUSPECT, "its API server has not answered for 9s: refused")),
        (9, "Unknown", "True", Judgement(Health.SUSPECT, "its API server has not answered for 9s: refused")),
        (0, "True", "False", Judgement(Health.SUSPECT, "NoReadyNode")),
        (299.9, "False", "True", Judgement(Health.SUSPECT, "no heartbeat for 4m")),
        (300, "True", "True", Judgement(Health.LOST, "no heartbeat for 5m")),
        (300, "False", "False", Judgement(Health.LOST, "no heartbeat for 5m")),
    ],
)
def test_health_follows_heartbeats_and_then_conditions(
    seconds: float, reachable: str, ready: str, judged: Judgement
) -> None:
    found = judge_stored(super_cluster(reachable, ready), NOW + timedelta(seconds=seconds), PATIENCE)
    assert replace(found, lasts=None, out_of_touch=False) == judged


def test_a_super_cluster_that_never_reported_is_unknown() -> None:
    judged = judge_stored(super_cluster(heartbeat=None), NOW)
    assert judged == Judgement(Health.UNKNOWN, "its syncer has not reported yet")


def test_a_super_cluster_whose_syncer_reports_in_vain_is_lost() -> None:
    found = super_cluster("False", "False", heartbeat="2026-01-01T00:08:00Z")
    judged = judge_stored(found, NOW + timedelta(minutes=8))
    assert judged == Judgement(
        Health.LOST, "its API server has not answered for 8m: refused", 180, out_of_touch=True
    )


@pytest.mark.parametrize(
    ("seconds", "reachable", "lasts"),
    [(80, "True", 5), (310, "True", 10), (80, "False", 80), (310, "False", 10)],
)
def test_a_stored_state_has_lasted_for_a_time(seconds: int, reachable: str, lasts: int) -> None:
    assert judge_stored(super_cluster(reachable), NOW + timedelta(seconds=seconds), PATIENCE).lasts == lasts


def test_a_super_cluster_without_conditions_is_judged_by_its_heartbeat() -> None:
    status = SuperClusterStatus(heartbeat_time=TIME)
    found = SuperCluster(name="r1", spec=SuperClusterSpec(id="r1"), status=status)
    assert judge_stored(found, NOW) == Judgement(Health.READY)


@pytest.mark.parametrize(
    ("seconds", "reachable", "ready", "absent"),
    [
        (74, "True", "False", None),
        (75, "True", "True", 75),
        (9, "False", "True", 9),
        (400, "True", "True", 400),
    ],
)
def test_a_stored_super_cluster_is_out_of_touch_for_a_time(
    seconds: int, reachable: str, ready: str, absent: float | None
) -> None:
    found = absences_stored([super_cluster(reachable, ready)], NOW + timedelta(seconds=seconds), PATIENCE)
    assert found == {"r1": absent}


def test_most_of_a_stored_pool_is_not_lost_at_once() -> None:
    pool = [replace(super_cluster(), name=name) for name in ("r1", "r2")]
    pool.append(replace(super_cluster(heartbeat="2026-01-01T00:08:00Z"), name="r3"))
    judged = judge_all_stored(pool, NOW + timedelta(minutes=8))
    assert {name: each.health for name, each in judged.items()} == {
        "r1": Health.SUSPECT,
        "r2": Health.SUSPECT,
        "r3": Health.READY,
    }
    assert judged["r1"].reason == f"no heartbeat for 8m; {HELD}"


def recorded(state: Any, **known: Any) -> SuperCluster:
    """A super cluster that was last heard of at `NOW`, with a record of ten minutes later."""
    found = super_cluster()
    record = FailureRecord(state=state, since="2026-01-01T00:10:00Z", **known)
    return replace(found, status=replace(found.status, failure=record))


@pytest.mark.parametrize(
    ("found", "minutes", "health", "lasts"),
    [
        pytest.param(recorded("Lost"), 12, Health.LOST, 120, id="lost"),
        pytest.param(recorded("Lost", lost_after_seconds=60), 12, Health.LOST, 120, id="other limits"),
        pytest.param(
            recorded("Suspect", lost_after_seconds=3600), 12, Health.SUSPECT, 120, id="patient schedulers"
        ),
        pytest.param(recorded("Suspect"), 12, Health.LOST, 420, id="no scheduler runs"),
        pytest.param(
            recorded("Ready", suspect_after_seconds=1800, lost_after_seconds=3600),
            12,
            Health.READY,
            None,
            id="ready",
        ),
    ],
)
def test_what_schedulers_have_recorded_is_taken_up(
    found: SuperCluster, minutes: int, health: Health, lasts: int | None
) -> None:
    judged = judge_stored(found, NOW + timedelta(minutes=minutes))
    assert (judged.health, judged.lasts) == (health, lasts)
    assert judged.out_of_touch is (health is not Health.READY)


def test_a_super_cluster_that_recovers_is_shown_as_such() -> None:
    found = recorded("Recovering", failures=3, quiet_seconds=120)
    found = replace(found, status=replace(found.status, heartbeat_time="2026-01-01T00:10:50Z"))
    assert judge_stored(found, NOW + timedelta(minutes=11)) == Judgement(
        Health.RECOVERING,
        "it works again, and counts as ready after 2m without failure (failures so far: 3)",
        60,
    )


def test_a_record_with_a_malformed_time_counts_as_none() -> None:
    found = recorded("Lost")
    broken = FailureRecord(state="Lost", since="yesterday")
    found = replace(found, status=replace(found.status, failure=broken))
    assert judge_stored(found, NOW).health is Health.READY


@pytest.mark.parametrize(
    ("heartbeat", "health"),
    [(None, Health.UNKNOWN), (TIME, Health.LOST), ("2026-01-01T00:08:00Z", Health.READY)],
)
def test_a_stored_object_is_judged_by_its_age(heartbeat: str | None, health: Health) -> None:
    found = super_cluster(heartbeat=heartbeat)
    assert judge_stored(found, NOW + timedelta(minutes=8)).health is health


@pytest.mark.parametrize(
    ("heartbeat", "seconds"),
    [
        (None, None),
        ("", None),
        (TIME, 60.0),
        ("2026-01-01T00:00:30", 30.0),
        ("2026-01-01T01:00:00+01:00", 60.0),
        ("2026-01-01T09:00:00Z", 0.0),
        ("yesterday", 0.0),
    ],
)
def test_a_heartbeat_has_an_age(heartbeat: str | None, seconds: float | None) -> None:
    assert silence_of(heartbeat, NOW + timedelta(minutes=1)) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119.9, "119s"),
        (120, "2m"),
        (3599, "59m"),
        (3600, "1h"),
        (86399, "23h"),
        (86400, "1d"),
        (200000, "2d"),
    ],
)
def test_durations_are_shown_as_kubectl_shows_ages(seconds: float, text: str) -> None:
    assert lasting(seconds) == text


@pytest.mark.parametrize("health", Health)
def test_the_health_has_a_word_for_people(health: Health) -> None:
    assert Judgement(health).word == health.name.capitalize()
