"""Health of a super cluster: one definition, with a reason."""

from datetime import UTC, datetime, timedelta

import pytest

from vcsync.api.conditions import Condition
from vcsync.api.objects import SuperCluster
from vcsync.api.specs import SuperClusterSpec, SuperClusterStatus
from vcsync.scheduling.snapshot import Health
from vcsync.tenancy.health import Judgement, Patience, judge, judge_stored, lasting, silence_of

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
    ("silent_for", "reachable", "ready", "judged"),
    [
        (None, "True", "True", Judgement(Health.UNKNOWN, "its syncer has not reported yet")),
        (0, "True", "True", Judgement(Health.READY)),
        (74.9, "True", "True", Judgement(Health.READY)),
        (75, "True", "True", Judgement(Health.SUSPECT, "no heartbeat for 75s")),
        (0, "False", "False", Judgement(Health.SUSPECT, "refused")),
        (0, "Unknown", "True", Judgement(Health.SUSPECT, "refused")),
        (0, "True", "False", Judgement(Health.SUSPECT, "NoReadyNode")),
        (299.9, "False", "True", Judgement(Health.SUSPECT, "no heartbeat for 4m")),
        (300, "True", "True", Judgement(Health.LOST, "no heartbeat for 5m")),
        (300, "False", "False", Judgement(Health.LOST, "no heartbeat for 5m")),
    ],
)
def test_health_follows_heartbeats_and_then_conditions(
    silent_for: float | None, reachable: str, ready: str, judged: Judgement
) -> None:
    assert judge(super_cluster(reachable, ready), silent_for, PATIENCE) == judged


def test_a_super_cluster_without_conditions_is_judged_by_its_heartbeat() -> None:
    found = SuperCluster(name="r1", spec=SuperClusterSpec(id="r1"))
    assert judge(found, 0) == Judgement(Health.READY)


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
