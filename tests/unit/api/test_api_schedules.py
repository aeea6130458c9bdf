"""The next times of schedules of CronJobs."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vcsync.objects.cron_schedules import Every, next_after, parse_schedule

FIELDS = st.tuples(
    st.sampled_from(["*", "0", "*/7", "5-9", "59", "3,33"]),
    st.sampled_from(["*", "0", "2", "1-3", "*/6"]),
    st.sampled_from(["*", "1", "31", "15-20", "?"]),
    st.sampled_from(["*", "2", "jan-mar", "*/3"]),
    st.sampled_from(["*", "0", "MON-fri", "6", "?"]),
).map(" ".join)
BEGINNING = datetime(2024, 1, 1, tzinfo=UTC)
MOMENTS = st.integers(0, 6 * 366 * 86400).map(lambda seconds: BEGINNING + timedelta(seconds=seconds))


def following(schedule: str, after: str, zone: str = "UTC") -> str | None:
    moment = datetime.fromisoformat(after).replace(tzinfo=UTC)
    found = next_after(parse_schedule(schedule), moment, ZoneInfo(zone))
    return None if found is None else found.strftime("%Y-%m-%d %H:%M:%S")


@pytest.mark.parametrize(
    ("schedule", "after", "then"),
    [
        ("* * * * *", "2026-01-01 00:00:00", "2026-01-01 00:01:00"),
        ("* * * * *", "2026-01-01 00:00:59.5", "2026-01-01 00:01:00"),
        ("*/15 * * * *", "2026-01-01 23:45:00", "2026-01-02 00:00:00"),
        ("30 6-16/4 * * 1-5", "2026-01-02 14:31:00", "2026-01-05 06:30:00"),
        ("0 0 29 2 *", "2026-01-01 00:00:00", "2028-02-29 00:00:00"),
        ("0 0 13 * 5", "2026-01-01 00:00:00", "2026-01-02 00:00:00"),
        ("0 0 */13 * 5", "2026-01-01 00:00:00", "2026-01-02 00:00:00"),
        ("0 0 13 * *", "2026-01-01 00:00:00", "2026-01-13 00:00:00"),
        ("59 23 31 2 *", "2026-01-01 00:00:00", None),
        ("* * * * *", "9999-12-31 23:59:59", None),
        (", * * * *", "2026-01-01 00:00:00", None),
        ("@hourly", "2026-01-01 00:00:00", "2026-01-01 01:00:00"),
        ("@weekly", "2026-01-01 00:00:00", "2026-01-04 00:00:00"),
        ("@yearly", "2026-01-01 00:00:00", "2027-01-01 00:00:00"),
        ("@every 1h30m", "2026-01-01 00:00:10", "2026-01-01 01:30:10"),
        ("TZ=Asia/Tokyo 0 9 * * *", "2026-01-01 00:00:00", "2026-01-02 00:00:00"),
    ],
)
def test_next_time_of_a_schedule(schedule: str, after: str, then: str | None) -> None:
    assert following(schedule, after) == then


@pytest.mark.parametrize(
    ("schedule", "after", "then"),
    [
        # Clocks in Berlin go from 2 to 3 on 2026-03-29 and from 3 to 2 on 2026-10-25.
        ("30 2 * * *", "2026-03-28 12:00:00", "2026-03-30 00:30:00"),
        ("0 3 * * *", "2026-03-28 12:00:00", "2026-03-29 01:00:00"),
        ("30 2 * * *", "2026-10-24 12:00:00", "2026-10-25 00:30:00"),
        ("30 2 * * *", "2026-10-25 00:30:00", "2026-10-25 01:30:00"),
    ],
)
def test_next_times_around_a_change_of_the_clock(schedule: str, after: str, then: str) -> None:
    assert following(schedule, after, "Europe/Berlin") == then


# What robfig/cron 3.0.1 answers. Clocks change by half an hour on Lord Howe Island, at midnight in Brazil, Chile and Egypt.
# Samoa had no 30 December 2011, for which upstream does not return.
@pytest.mark.parametrize(
    ("schedule", "zone", "after", "then"),
    [
        ("59 2 * * *", "Australia/Lord_Howe", "2022-04-01 19:29:00", "2022-04-02 16:29:00"),
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04 00:00:00", "2026-04-04 14:45:00"),
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04 14:45:00", "2026-04-04 15:15:00"),
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-02 20:00:00", "2026-10-04 15:15:00"),
        ("15 3 * * *", "Australia/Lord_Howe", "2026-10-02 20:00:00", "2026-10-04 16:15:00"),
        ("*/20 * * * *", "Australia/Lord_Howe", "2026-10-03 15:20:00", "2026-10-03 15:40:00"),
        ("0 0 * * *", "America/Sao_Paulo", "2018-11-03 12:00:00", "2018-11-05 02:00:00"),
        ("30 0 * * *", "America/Sao_Paulo", "2018-11-03 12:00:00", "2018-11-05 02:30:00"),
        ("0 0 4 * *", "America/Sao_Paulo", "2018-11-01 12:00:00", "2018-12-04 02:00:00"),
        ("30 23 * * *", "America/Sao_Paulo", "2018-02-17 12:00:00", "2018-02-18 01:30:00"),
        ("30 23 * * *", "America/Sao_Paulo", "2018-02-18 01:30:00", "2018-02-18 02:30:00"),
        ("0 0 * * *", "Africa/Cairo", "2026-04-23 12:00:00", "2026-04-24 21:00:00"),
        ("0 1 24 4 *", "Africa/Cairo", "2026-04-23 12:00:00", "2027-04-23 23:00:00"),
        ("0 2 * * *", "America/New_York", "2026-03-07 12:00:00", "2026-03-09 06:00:00"),
        ("30 1 * * *", "America/New_York", "2026-11-01 05:30:00", "2026-11-01 06:30:00"),
        ("0 12 * * *", "Pacific/Apia", "2011-12-29 23:00:00", "2011-12-30 22:00:00"),
        ("0 0 30 12 *", "Pacific/Apia", "2011-12-01 00:00:00", "2012-12-29 10:00:00"),
        ("0 0 * * *", "America/Santiago", "2026-09-05 12:00:00", "2026-09-07 03:00:00"),
        ("0 0 29 2 *", "America/Santiago", "2026-01-01 00:00:00", "2028-02-29 03:00:00"),
        ("0 0 30 2 *", "UTC", "2026-01-01 00:00:00", None),
        ("0 0 31 4,6,9,11 *", "Europe/Berlin", "2026-01-01 00:00:00", None),
        ("* * * 8-12,1-4 *", "UTC", "2026-04-30 23:59:00", "2026-08-01 00:00:00"),
    ],
)
def test_the_next_time_is_that_of_upstream(schedule: str, zone: str, after: str, then: str | None) -> None:
    assert following(schedule, after, zone) == then


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("0.5s", 1), ("-3h", 1), ("1.9s", 1), ("99999999h", 10**9)]
)
def test_periods_are_whole_seconds_at_least_one(text: str, seconds: int) -> None:
    assert parse_schedule(f"@every {text}") == Every(seconds)


@settings(max_examples=60, deadline=None)
@given(schedule=FIELDS, after=MOMENTS, zone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York"]))
def test_the_next_time_is_the_first_later_match(schedule: str, after: datetime, zone: str) -> None:
    times, place = parse_schedule(schedule), ZoneInfo(zone)
    then = next_after(times, after, place)
    if then is None:
        return
    assert then > after
    assert (then.second, then.microsecond) == (0, 0)
    assert next_after(times, then - timedelta(seconds=1), place) == then
    halfway = after + (then - after) / 2
    assert next_after(times, halfway, place) == then
