"""Schedules of CronJobs: parses them, and computes their next time. Pure.

Grammar and messages are those of the standard parser of github.com/robfig/cron/v3. So is the rule about day of the month
and day of the week: a date must match both if one of them is `*`, otherwise it must match at least one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from vcsync.patterns.linear import linear

YEARS_AHEAD = 5
"""Years within which the next time must be. A schedule without such a time never occurs."""
_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = linear(r"([0-9]+(?:\.[0-9]*)?)(ns|us|µs|ms|s|m|h)")
_DURATION = linear(rf"[+-]?(?:{_PART.pattern})+|0")
_INTEGER = linear(r"[+-]?[0-9]+")
_LONGEST = 4096
_AGE = (1000, 9000)
"""Bounds of the years in which computations with times cannot overflow."""
_LONGEST_PERIOD = 1e9
"""Most seconds of a period, about 30 years. A longer period is shortened to this."""


class ScheduleError(ValueError):
    """A text is not a schedule. The message says why."""


@dataclass(frozen=True, slots=True)
class _Field:
    low: int
    high: int
    names: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Times:
    """The minutes of a schedule. If `both_days`, a date must match both `days` and `weekdays`, otherwise at least one."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    both_days: bool
    zone: tzinfo | None = None


@dataclass(frozen=True, slots=True)
class Every:
    """A period in whole seconds."""

    seconds: int


Schedule = Times | Every


def _named(words: str, first: int) -> dict[str, int]:
    return {each: first + index for index, each in enumerate(words.split())}


_FIELDS = (
    _Field(0, 59, {}),
    _Field(0, 23, {}),
    _Field(1, 31, {}),
    _Field(1, 12, _named("jan feb mar apr may jun jul aug sep oct nov dec", 1)),
    _Field(0, 6, _named("sun mon tue wed thu fri sat", 0)),
)


def schedule_error(text: str) -> str:
    """Return why a text is not a schedule, or an empty text if it is one."""
    try:
        parse_schedule(text)
    except ScheduleError as error:
        return str(error)
    return ""


def parse_schedule(text: str) -> Schedule:
    """Parse a schedule.

    Raises:
        ScheduleError: The text is not a schedule.
    """
    text, zone = text[:_LONGEST], None
    if text.startswith(("TZ=", "CRON_TZ=")):
        place, _, text = text.partition(" ")
        zone, text = _zone(place.partition("=")[2]), text.strip()
    if text.startswith("@"):
        if text not in _DESCRIPTORS:
            return _every(text)
        text = _DESCRIPTORS[text]
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise ScheduleError(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    found = [_field(field, rule) for field, rule in zip(fields, _FIELDS, strict=True)]
    minutes, hours, days, months, weekdays = (each for each, _ in found)
    return Times(minutes, hours, days, months, weekdays, found[2][1] or found[4][1], zone)


def next_after(schedule: Schedule, after: datetime, zone: tzinfo = UTC) -> datetime | None:
    """Return the next time of a schedule, strictly after a time.

    Args:
        schedule: The schedule.
        after: The time, with its zone.
        zone: Time zone of the schedule, unless the schedule names one.

    Returns:
        The time in UTC. None if there is none within `YEARS_AHEAD`, or if the year of `after` is out of range.
    """
    if not _AGE[0] < after.year < _AGE[1]:
        return None
    if isinstance(schedule, Every):
        return after.replace(microsecond=0) + timedelta(seconds=schedule.seconds)
    if not (schedule.minutes and schedule.hours and schedule.months):
        return None
    local = after.replace(microsecond=0).astimezone(schedule.zone or zone)
    local, floored = _later(local, timedelta(seconds=1)), False
    last_year = local.year + YEARS_AHEAD
    while local.year <= last_year:
        for part in _PARTS:
            local, floored, wrapped = _forward(part, schedule, local, floored)
            if wrapped:
                break
        else:
            return local.astimezone(UTC)
    return None


@dataclass(frozen=True, slots=True)
class _Part:
    """One part of a time, as `SpecSchedule.Next` of robfig/cron goes forward to the first that fits."""

    fits: Callable[[Times, datetime], bool]
    floor: Callable[[datetime], datetime]
    step: Callable[[datetime], datetime]
    wrapped: Callable[[datetime], bool]


def _forward(part: _Part, schedule: Times, local: datetime, floored: bool) -> tuple[datetime, bool, bool]:
    """Go forward to the first value of a part that fits.

    Every step adds time that has passed, so none ends before where it began. A loop that sets a local hour again can be sent back
    forever by a change of the clock: by half an hour on Lord Howe Island.

    Returns:
        The time, whether its smaller parts begin at their least value, and whether the larger parts must be looked at again.
    """
    while not part.fits(schedule, local):
        if not floored:
            local, floored = part.floor(local), True
        local = part.step(local)
        if part.wrapped(local):
            return local, floored, True
    return local, floored, False


def _later(local: datetime, by: timedelta) -> datetime:
    """Add elapsed time, regardless of changes between standard time and daylight saving time."""
    return (local.astimezone(UTC) + by).astimezone(local.tzinfo)


def _at(local: datetime, wall: datetime) -> datetime:
    """Return a local date and time in the zone of another, as Go's `time.Date` does if clocks skip it or show it twice."""
    guess = wall.replace(tzinfo=UTC, fold=0)
    for _ in range(2):
        offset = guess.astimezone(local.tzinfo).utcoffset() or timedelta()
        guess = wall.replace(tzinfo=UTC, fold=0) - offset
    return guess.astimezone(local.tzinfo)


def _next_month(local: datetime) -> datetime:
    first = (local.replace(day=1) + timedelta(days=31)).replace(day=1)
    return _at(local, first + timedelta(days=local.day - 1))


def _next_day(local: datetime) -> datetime:
    """Return the beginning of the next day. If clocks skip midnight, it is an hour off, as upstream.

    A day that the zone does not have is skipped. Upstream does not return then.
    """
    then = _at(local, local + timedelta(days=1))
    if then.date() <= local.date():
        then = _at(local, local + timedelta(days=2))
    return _later(then, timedelta(hours=24 - then.hour if then.hour > 12 else -then.hour))


def _day_fits(schedule: Times, local: datetime) -> bool:
    day, weekday = local.day in schedule.days, local.isoweekday() % 7 in schedule.weekdays
    return day and weekday if schedule.both_days else day or weekday


_PARTS = (
    _Part(
        lambda schedule, local: local.month in schedule.months,
        lambda local: _at(local, local.replace(day=1, hour=0, minute=0, second=0)),
        _next_month,
        lambda local: local.month == 1,
    ),
    _Part(
        _day_fits,
        lambda local: _at(local, local.replace(hour=0, minute=0, second=0)),
        _next_day,
        lambda local: local.day == 1,
    ),
    _Part(
        lambda schedule, local: local.hour in schedule.hours,
        lambda local: _at(local, local.replace(minute=0, second=0)),
        lambda local: _later(local, timedelta(hours=1)),
        lambda local: local.hour == 0,
    ),
    _Part(
        lambda schedule, local: local.minute in schedule.minutes,
        lambda local: local.astimezone(UTC).replace(second=0).astimezone(local.tzinfo),
        lambda local: _later(local, timedelta(minutes=1)),
        lambda local: local.minute == 0,
    ),
    _Part(
        lambda _schedule, local: local.second == 0,
        lambda local: local,
        lambda local: _later(local, timedelta(seconds=1)),
        lambda local: local.second == 0,
    ),
)


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ScheduleError(f"provided bad location {name}: unknown time zone {name}") from None


def _every(text: str) -> Every:
    if not text.startswith("@every "):
        raise ScheduleError(f"unrecognized descriptor: {text}")
    duration = text.removeprefix("@every ")
    if not _DURATION.fullmatch(duration):
        raise ScheduleError(f'failed to parse duration {text}: time: invalid duration "{duration}"')
    seconds = sum(float(each[1]) * _UNITS[each[2]] for each in _PART.finditer(duration))
    if duration.startswith("-"):
        seconds = 0.0
    return Every(max(1, int(min(seconds, _LONGEST_PERIOD))))


def _field(text: str, rule: _Field) -> tuple[frozenset[int], bool]:
    """Return the numbers of a field, and whether it is `*` or `?`."""
    numbers: set[int] = set()
    everything = False
    for each in text.split(","):
        if each:
            found, star = _range(each, rule)
            numbers.update(found)
            everything |= star
    return frozenset(numbers), everything


def _range(text: str, rule: _Field) -> tuple[range, bool]:
    span, *steps = text.split("/")
    ends = span.split("-")
    star = ends[0] in ("*", "?")
    if star:
        low, high = rule.low, rule.high
    else:
        low = high = _number(ends[0], rule.names)
        if len(ends) == 2:
            high = _number(ends[1], rule.names)
        elif len(ends) > 2:
            raise ScheduleError(f"too many hyphens: {text}")
    step = 1
    if len(steps) == 1:
        step = _number(steps[0], {})
        high = rule.high if len(ends) == 1 else high
    elif steps:
        raise ScheduleError(f"too many slashes: {text}")
    if low < rule.low:
        raise ScheduleError(f"beginning of range ({low}) below minimum ({rule.low}): {text}")
    if high > rule.high:
        raise ScheduleError(f"end of range ({high}) above maximum ({rule.high}): {text}")
    if low > high:
        raise ScheduleError(f"beginning of range ({low}) beyond end of range ({high}): {text}")
    if step == 0:
        raise ScheduleError(f"step of range should be a positive number: {text}")
    return range(low, high + 1, step), star and step == 1


def _number(text: str, names: Mapping[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not _INTEGER.fullmatch(text) or len(text) > 18:
        raise ScheduleError(
            f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax'
        )
    if int(text) < 0:
        raise ScheduleError(f"negative number ({int(text)}) not allowed: {text}")
    return int(text)
