"""Converts times, durations, quantities and base64 between their JSON texts and protobuf. Pure."""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from vcsync.apimachinery.schema.scalars import (
    FORMAT_WRONG,
    MICROS_LAYOUT,
    SECONDS_LAYOUT,
    SUFFIX_WRONG,
    base64_text,
    out_of_range,
    why_no_time,
)
from vcsync.apimachinery.schema.scalars import InvalidScalar as BadValue
from vcsync.objects.text_cache import cache_short_texts

__all__ = [
    "MICROS_LAYOUT",
    "BadValue",
    "base64_text",
    "duration_of",
    "duration_text",
    "micro_time_text",
    "quantity",
    "seconds_of",
    "time_text",
    "whole_seconds",
]

RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9})\d*)?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII
)
PLAIN_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
MICROSECONDS = re.compile(r"[.,]\d{6}(?!\d)", re.ASCII)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZERO_SECONDS = -62135596800
"""Go's zero time, 0001-01-01T00:00:00Z, which is null in JSON."""

QUANTITY = re.compile(r"[+-]?(?:\d++\.?\d*+|\.\d++)(?P<suffix>[eEinumkKMGTP]*+[+-]?\d*+)", re.ASCII)
SUFFIX = re.compile(r"(?:[KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?", re.ASCII)
LONGEST_QUANTITY = 256
_NO_DIGITS = frozenset({"+", "-", ".", "+.", "-."})
"""Texts without digits that Go's parser accepts as zero."""
DURATION = re.compile(r"(\d++(?:\.\d*+)?|\.\d++)(ns|us|µs|μs|ms|s|m|h)(?=[.\d]|\Z)", re.ASCII)
LONGEST_DURATION = 1000
"""Most characters of a duration. Go formats every duration with at most 25."""
MAX_NANOSECONDS = 2**63 - 1
NUMBER_AND_UNIT = re.compile(r"(?:\d++\.?\d*+|\.\d++)([^.\d]*+)", re.ASCII)
NANOSECONDS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}


def seconds_of(text: str, layout: str = SECONDS_LAYOUT) -> tuple[int, int]:
    """Return seconds since 1970 and nanoseconds of an RFC 3339 time.

    A Time may have any fraction of a second; a MicroTime must have six digits.

    Raises:
        BadValue: The text is not such a time.
    """
    match = RFC3339.fullmatch(text)
    if match is None or (layout == MICROS_LAYOUT and not MICROSECONDS.match(text, 19)):
        raise BadValue(why_no_time(text, layout))
    year, month, day, hour, minute, second = (int(each) for each in match.groups()[:6])
    zone_hours, zone_minutes = int(match[9] or 0), int(match[10] or 0)
    zone = (zone_hours * 60 + zone_minutes) * 60
    try:
        at = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        raise BadValue(out_of_range(text)) from None
    for name, wrong in (("hour", zone_hours > 24), ("minute", zone_minutes > 60)):
        if wrong:
            raise BadValue(f'parsing time "{text}": time zone offset {name} out of range')
    seconds = int((at - EPOCH).total_seconds()) - (-zone if match[8] == "-" else zone)
    return seconds, int((match[7] or "0").ljust(9, "0"))


@cache_short_texts(8192, 32)
def whole_seconds(text: str) -> int | None:
    """Return the seconds since 1970 of a time in canonical form (`2006-01-02T15:04:05Z`), otherwise None.

    The cache pays because objects repeat a few different times.
    """
    if not PLAIN_TIME.fullmatch(text):
        return None
    try:
        return int(datetime.fromisoformat(text).timestamp())
    except ValueError:
        return None


@lru_cache(maxsize=8192)
def time_text(seconds: int) -> str | None:
    """Format seconds since 1970 as a Time in JSON. Returns None for Go's zero time."""
    if seconds == ZERO_SECONDS:
        return None
    try:
        at = EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        raise BadValue("time is out of range") from None
    return f"{at.year:04}-{at.month:02}-{at.day:02}T{at.hour:02}:{at.minute:02}:{at.second:02}Z"


def micro_time_text(seconds: int, nanos: int) -> str | None:
    """Format a time as a MicroTime in JSON. Returns None for Go's zero time."""
    text = time_text(seconds + nanos // 10**9)
    return None if text is None else f"{text[:-1]}.{nanos % 10**9 // 1000:06}Z"


def quantity(value: object) -> str:
    """Return a quantity as text, unchanged. A JSON number is formatted; null is zero.

    Raises:
        BadValue: The value is not a quantity.
    """
    if value is None:
        return "0"
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise BadValue(FORMAT_WRONG)
    text = str(value).strip()
    if text in _NO_DIGITS:
        return "0"
    match = QUANTITY.fullmatch(text) if len(text) <= LONGEST_QUANTITY else None
    if match is None:
        raise BadValue(FORMAT_WRONG)
    if not SUFFIX.fullmatch(match["suffix"]):
        raise BadValue(SUFFIX_WRONG)
    return text


def duration_of(text: str) -> int:
    """Return the nanoseconds of a Go duration such as `1h0m0s`.

    Raises:
        BadValue: The text is not a duration.
    """
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if rest == "0":
        return 0
    total, end = 0, 0
    while len(rest) <= LONGEST_DURATION and (match := DURATION.match(rest, end)) is not None:
        whole, _, part = match[1].partition(".")
        unit = NANOSECONDS[match[2]]
        total += int(whole or "0") * unit + int(part or "0") * unit // 10 ** len(part)
        end = match.end()
    if not rest or end != len(rest):
        raise BadValue(_bad_duration(text, rest[end:]))
    if total > MAX_NANOSECONDS:
        raise BadValue(f'time: invalid duration "{text}"')
    return sign * total


def _bad_duration(text: str, wrong: str) -> str:
    """Return Go's error about a duration. `wrong` begins with the first number and unit that cannot be parsed."""
    found = NUMBER_AND_UNIT.match(wrong)
    if found is None:
        return f'time: invalid duration "{text}"'
    if not found[1]:
        return f'time: missing unit in duration "{text}"'
    return f'time: unknown unit "{found[1]}" in duration "{text}"'


def duration_text(nanos: int) -> str:
    """Format nanoseconds as Go's Duration.String does."""
    sign, rest = ("-", -nanos) if nanos < 0 else ("", nanos)
    if rest == 0:
        return "0s"
    for unit in ("ns", "µs", "ms"):
        if rest < NANOSECONDS[unit] * 1000 and NANOSECONDS[unit] < 10**9:
            return f"{sign}{_decimal(rest, NANOSECONDS[unit])}{unit}"
    hours, rest = divmod(rest, NANOSECONDS["h"])
    minutes, rest = divmod(rest, NANOSECONDS["m"])
    text = f"{_decimal(rest, 10**9)}s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    return f"{sign}{hours}h{text}" if hours else sign + text


def _decimal(value: int, unit: int) -> str:
    whole, part = divmod(value, unit)
    if not part:
        return str(whole)
    return f"{whole}.{str(part).zfill(len(str(unit)) - 1).rstrip('0')}"
