"""Conversion of failures into records and back."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from vcsync.api.specs import FailureRecord
from vcsync.scheduling.snapshot import Health
from vcsync.tenancy.failure import Member, Patience, Sighting, advance, longest_quiet
from vcsync.tenancy.failure_record import (
    SAME_SECONDS,
    Crowd,
    Moment,
    is_outdated,
    patience_of,
    restore,
    stored,
)

PATIENCE = Patience(suspect_after=75, lost_after=300)
WALL = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
NOW = 10_000.0
WELL = Sighting(0.0)
NEVER = float("-inf")


def at(seconds: float) -> Moment:
    """Return the moment that is so many seconds after the first one."""
    return Moment(NOW + seconds, WALL + seconds)


def record_of(
    state: Health, since: float = 0.0, absent: float | None = None, failures: int = 0
) -> FailureRecord:
    """Return the record of a state that began some seconds ago, of a super cluster out of touch for so long."""
    member = Member(state, NOW - since, failures)
    sighting = WELL if absent is None else Sighting(absent)
    found = stored(member, sighting, at(0), PATIENCE, Crowd())
    assert found is not None
    return found


seconds = st.floats(0, 5000)
members = st.one_of(
    st.builds(
        Member,
        st.sampled_from([Health.READY, Health.SUSPECT, Health.LOST]),
        st.builds(lambda age: NOW - age, seconds),
        st.integers(0, 40),
    ),
    st.builds(
        Member,
        st.just(Health.RECOVERING),
        st.builds(lambda age: NOW - age, seconds),
        st.integers(1, 40),
        st.floats(0, longest_quiet(PATIENCE)),
    ),
)


@given(
    member=members,
    later=seconds,
    crowd=st.builds(Crowd, st.booleans(), st.none() | st.builds(lambda age: NOW - age, seconds)),
)
def test_what_is_stored_is_restored_no_earlier_and_hardly_later(
    member: Member, later: float, crowd: Crowd
) -> None:
    lost = member.state is Health.LOST
    absent = NOW - member.since + PATIENCE.lost_after if lost else 0.0
    record = stored(member, Sighting(absent), at(0), PATIENCE, crowd)
    assert record is not None
    assert not is_outdated(record, record)
    found = restore(record, Sighting(absent + later if lost else 0.0), at(later), PATIENCE)
    assert replace(found.member, since=0, quiet=0) == replace(member, since=0, quiet=0)
    assert member.since - 0.01 <= found.member.since <= min(member.since + 1.01, NOW + later)
    assert member.quiet <= found.member.quiet <= member.quiet + 1
    if crowd.present:
        assert found.crowded_at == NOW + later
    elif crowd.last is None:
        assert found.crowded_at == NEVER
    else:
        assert crowd.last - 0.01 <= found.crowded_at <= min(crowd.last + 1.01, NOW + later)


@given(member=members, ages=st.lists(seconds, max_size=5))
def test_times_do_not_creep_through_many_terms(member: Member, ages: list[float]) -> None:
    found, now = member, 0.0
    for age in ages:
        record = stored(found, WELL, at(now), PATIENCE, Crowd())
        assert record is not None
        now += age
        found = restore(record, WELL, at(now), PATIENCE).member
    assert member.since - 0.01 <= found.since <= member.since + 1.01


@given(
    record=st.builds(
        FailureRecord,
        state=st.sampled_from(["Ready", "Lost"]),
        since=st.text(),
        out_of_touch_time=st.none() | st.text(),
        pool_vanished_time=st.none() | st.text(),
    )
)
def test_any_text_is_a_time_or_an_error(record: FailureRecord) -> None:
    try:
        found = restore(record, Sighting(400.0), at(0), PATIENCE)
    except ValueError:
        return
    assert found.member.since <= NOW


def test_nothing_is_stored_while_nothing_is_known() -> None:
    assert stored(Member(Health.UNKNOWN, NOW), Sighting(None), at(0), PATIENCE, Crowd()) is None


def test_a_record_says_what_is_known() -> None:
    member = Member(Health.LOST, NOW - 60, failures=2)
    crowd = Crowd(last=NOW - 10)
    assert stored(member, Sighting(400.0), at(0), Patience(4.5, 300), crowd) == FailureRecord(
        state="Lost",
        since="2025-12-31T23:59:00Z",
        failures=2,
        out_of_touch_time="2025-12-31T23:53:20Z",
        suspect_after_seconds=5,
        lost_after_seconds=300,
        pool_vanished_time="2025-12-31T23:59:50Z",
    )


@pytest.mark.parametrize("state", [Health.READY, Health.RECOVERING, Health.SUSPECT, Health.LOST])
def test_a_time_in_the_future_counts_as_now(state: Health) -> None:
    absent = 400.0 if state is Health.LOST else None
    record = replace(record_of(state, absent=absent, failures=3), pool_vanished_time="2026-01-01T00:05:00Z")
    sighting = Sighting(absent or 0.0)
    found = restore(record, sighting, at(-3600), PATIENCE)
    assert found.member == replace(found.member, state=state, since=NOW - 3600, failures=3)
    assert found.crowded_at == NOW - 3600


def test_a_quiet_time_is_bounded() -> None:
    record = replace(record_of(Health.RECOVERING, failures=1), quiet_seconds=10**12)
    assert restore(record, WELL, at(0), PATIENCE).member.quiet == longest_quiet(PATIENCE)


@pytest.mark.parametrize("field", ["since", "out_of_touch_time", "pool_vanished_time"])
def test_a_malformed_time_is_an_error(field: str) -> None:
    record = replace(record_of(Health.LOST, absent=400.0), **{field: "yesterday"})
    with pytest.raises(ValueError, match="yesterday"):
        restore(record, Sighting(400.0), at(0), PATIENCE)


@pytest.mark.parametrize(
    ("sighting", "later", "expected"),
    [
        pytest.param(Sighting(500.0), 100, Member(Health.LOST, NOW - 50, 1), id="still away"),
        pytest.param(Sighting(240.0), 100, Member(Health.LOST, NOW - 50, 1), id="its clock is wrong"),
        pytest.param(WELL, 100, Member(Health.LOST, NOW - 50, 1), id="back"),
        pytest.param(Sighting(80.0), 100, Member(Health.SUSPECT, NOW + 100, 2), id="away again"),
        pytest.param(Sighting(0.0, 20.0), 100, Member(Health.SUSPECT, NOW + 100, 2), id="back and failing"),
    ],
)
def test_a_loss_holds_only_while_the_super_cluster_has_not_been_back(
    sighting: Sighting, later: float, expected: Member
) -> None:
    record = record_of(Health.LOST, since=50, absent=400.0, failures=1)
    assert restore(record, sighting, at(later), PATIENCE).member == expected


def test_a_syncer_that_comes_back_without_its_api_server_does_not_end_a_loss() -> None:
    member = Member(Health.LOST, NOW - 500, 1)
    record = stored(member, Sighting(0.0, 10.0), at(0), PATIENCE, Crowd())
    assert record is not None
    assert is_outdated(record_of(Health.LOST, since=500, absent=800.0, failures=1), record)
    assert restore(record, Sighting(0.0, 40.0), at(30), PATIENCE).member == member
    assert restore(record, Sighting(0.0, 20.0), at(30), PATIENCE).member.state is Health.SUSPECT


@pytest.mark.parametrize(
    ("state", "failures", "sighting", "counted"),
    [
        pytest.param(Health.READY, 0, Sighting(80.0), 1, id="a leader was there shortly before"),
        pytest.param(Health.READY, 0, Sighting(0.0, 75.0), 1, id="the same, unanswered"),
        pytest.param(Health.READY, 0, Sighting(0.0, unready=True), 1, id="without nodes"),
        pytest.param(Health.READY, 0, Sighting(250.0), 0, id="nobody led when it failed"),
        pytest.param(Health.READY, 0, Sighting(5000.0), 0, id="everything was stopped"),
        pytest.param(Health.READY, 0, Sighting(0.0, 76.0), 0, id="nobody led when it stopped to answer"),
        pytest.param(Health.READY, 1, Sighting(5000.0), 2, id="it has failed before"),
        pytest.param(Health.RECOVERING, 1, Sighting(5000.0), 2, id="it has just returned"),
        pytest.param(Health.SUSPECT, 1, Sighting(5000.0), 1, id="it had failed already"),
    ],
)
def test_a_failure_that_is_found_counts_unless_everything_was_stopped(
    state: Health, failures: int, sighting: Sighting, counted: int
) -> None:
    record = record_of(state, since=1000, failures=failures)
    member = restore(record, sighting, at(0), PATIENCE).member
    assert advance({"r1": member}, {"r1": sighting}, NOW, PATIENCE)["r1"].failures == counted


def test_a_restart_of_everything_does_not_wait() -> None:
    found = {"r1": restore(record_of(Health.READY, since=1000), Sighting(5000.0), at(0), PATIENCE).member}
    found = advance(found, {"r1": Sighting(5000.0)}, NOW, PATIENCE)
    assert found["r1"].state is Health.LOST
    assert advance(found, {"r1": WELL}, NOW + 1, PATIENCE)["r1"] == Member(Health.READY, NOW + 1)


RECORD = record_of(Health.LOST, since=60, absent=400.0, failures=1)
LATER = "2026-01-01T00:01:00Z"


@pytest.mark.parametrize(
    "change",
    [
        {"state": "Suspect"},
        {"since": LATER},
        {"failures": 2},
        {"quiet_seconds": 30},
        {"out_of_touch_time": LATER},
        {"out_of_touch_time": None},
        {"suspect_after_seconds": 30},
        {"lost_after_seconds": 45},
        {"pool_vanished": True},
        {"pool_vanished_time": LATER},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_record_that_differs_is_outdated(change: dict[str, object]) -> None:
    assert is_outdated(RECORD, replace(RECORD, **change))


def test_a_record_is_outdated_if_there_is_none_or_it_is_malformed() -> None:
    assert is_outdated(None, RECORD)
    assert is_outdated(replace(RECORD, since="yesterday"), RECORD)


@given(drift=st.floats(-SAME_SECONDS + 1, SAME_SECONDS - 1))
def test_the_drift_of_clocks_makes_no_record_outdated(drift: float) -> None:
    member, moment = Member(Health.LOST, NOW - 60, 1), Moment(NOW, WALL + drift)
    record = stored(member, Sighting(400.0), moment, PATIENCE, Crowd())
    assert record is not None
    assert not is_outdated(RECORD, record)


def test_the_time_of_a_super_cluster_without_failures_makes_no_record_outdated() -> None:
    well = record_of(Health.READY)
    assert not is_outdated(well, replace(well, since=LATER))
    failed = record_of(Health.READY, failures=1)
    assert is_outdated(failed, replace(failed, since=LATER))


def test_an_old_crowd_may_stay_in_the_record() -> None:
    assert not is_outdated(replace(RECORD, pool_vanished_time=LATER), RECORD)


def test_a_record_has_the_limits_of_its_scheduler() -> None:
    assert patience_of(record_of(Health.READY)) == PATIENCE
