"""The start of a CronJob that is due, and the number of missed starts. Pure.

Behaviour: `utils.go` of Kubernetes' `pkg/controller/cronjob`.
"""

from datetime import UTC, datetime, timedelta, tzinfo

from msgspec import Struct

from vcsync.objects.cron_schedules import Every, Schedule, ScheduleError, next_after

MANY = 100
"""Number of missed starts above which a warning is reported."""
SHORTEST_SPAN = 300.0
"""Seconds that are not halved any more in the search for a start; they have a few starts."""
SKEW_SECONDS = 0.1
"""Seconds added to the time of the next start, for clocks that differ."""


class Due(Struct, frozen=True):
    """The latest start that is due and has no Job yet. `time`: None if no start is due.

    `missed`: approximate number of missed starts.
    """

    time: datetime | None
    missed: int


def due(
    schedule: Schedule, zone: tzinfo, since: datetime, now: datetime, deadline_seconds: int | None = None
) -> Due:
    """Return the start that is due.

    Args:
        schedule: the schedule.
        zone: the time zone of the schedule.
        since: the last start, or the creation of the CronJob.
        now: the current time.
        deadline_seconds: starts longer ago than this are ignored.

    Raises:
        ScheduleError: the schedule has no next time.
    """
    if deadline_seconds is not None:
        since = max(since, now - timedelta(seconds=deadline_seconds))
    first = next_after(schedule, since, zone)
    if first is None:
        raise ScheduleError("time difference between two schedules is less than 1 second")
    if now < first:
        return Due(None, 0)
    second = next_after(schedule, first, zone)
    if second is None or now < second:
        return Due(first.astimezone(UTC), 1)
    period = round((second - first).total_seconds())
    missed = int((now - first).total_seconds()) // period + 1
    # Periods may differ, so step back one period from the last start, and then forward to now.
    candidate = next_after(schedule, first + timedelta(seconds=(missed - 2) * period), zone)
    latest = None if candidate is None or candidate > now else _last_until(schedule, zone, candidate, now)
    return Due(None if latest is None else latest.astimezone(UTC), missed)


def _last_until(schedule: Schedule, zone: tzinfo, start: datetime, now: datetime) -> datetime:
    """Return the last start that is not after now, from an earlier start.

    The span between both is halved, because it may have a start each minute: such a schedule with a gap of months has a long
    period in `due`, from whose last multiple upstream goes forward minute by minute.
    """
    after = now
    while True:
        then = next_after(schedule, start, zone)
        if then is None or then > now:
            return start
        start = then
        middle = start + (after - start) / 2
        if isinstance(schedule, Every) or (after - start).total_seconds() < SHORTEST_SPAN:
            continue
        then = next_after(schedule, middle, zone)
        if then is not None and then <= now:
            start = then
        else:
            after = middle


def next_in(schedule: Schedule, zone: tzinfo, since: datetime, now: datetime) -> float | None:
    """Return the seconds until the next start; None: the schedule has no further start."""
    try:
        found = due(schedule, zone, since, now)
        latest = found.time or (now if found.missed else since)
    except ScheduleError:
        latest = now
    then = next_after(schedule, latest, zone)
    return None if then is None else max(0.0, (then - now).total_seconds()) + SKEW_SECONDS
