"""Which start of a CronJob is due, and how many were missed. Pure.

Behaviour: `utils.go` of Kubernetes' `pkg/controller/cronjob`.
"""

from datetime import UTC, datetime, timedelta, tzinfo

from msgspec import Struct

from vcsync.api.schedules import Schedule, ScheduleError, next_after

MANY = 100
"""More missed starts than these are told."""
SKEW_SECONDS = 0.1
"""So much after a start it is looked for, for clocks that differ."""


class Due(Struct, frozen=True):
    """The latest start that has come and not been made; `time` None: none. `missed`: roughly how many came."""

    time: datetime | None
    missed: int


def due(
    schedule: Schedule, zone: tzinfo, since: datetime, now: datetime, deadline_seconds: int | None = None
) -> Due:
    """Return what is due.

    Args:
        schedule: when it starts.
        zone: where its hours are read.
        since: the last start, or when the CronJob was made.
        now: the time.
        deadline_seconds: what came longer ago than this is not looked at.

    Raises:
        ScheduleError: it never comes.
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
    # One period back from the last start, as periods may differ; then forward again to now.
    candidate = next_after(schedule, first + timedelta(seconds=(missed - 2) * period), zone)
    latest: datetime | None = None
    while candidate is not None and candidate <= now:
        latest = candidate
        candidate = next_after(schedule, candidate, zone)
    return Due(None if latest is None else latest.astimezone(UTC), missed)


def next_in(schedule: Schedule, zone: tzinfo, since: datetime, now: datetime) -> float | None:
    """Seconds until the next start; None: there is none."""
    try:
        found = due(schedule, zone, since, now)
        latest = found.time or (now if found.missed else since)
    except ScheduleError:
        latest = now
    then = next_after(schedule, latest, zone)
    return None if then is None else max(0.0, (then - now).total_seconds()) + SKEW_SECONDS
