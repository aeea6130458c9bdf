"""Values that are more than they look: times, durations, quantities, base64 - between JSON's text and protobuf. Pure."""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9})\d*)?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII
)
PLAIN_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
MICROSECONDS = re.compile(r"[.,]\d{6}(?!\d)", re.ASCII)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZERO_SECONDS = -62135596800
"""Go's zero time, 0001-01-01T00:00:00Z, which JSON shows as null."""

QUANTITY = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?P<suffix>[eEinumkKMGTP]*[+-]?\d*)", re.ASCII)
SUFFIX = re.compile(r"(?:[KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?", re.ASCII)
QUANTITY_FORMAT = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
QUANTITY_SUFFIX = "unable to parse quantity's suffix"
LONGEST_QUANTITY = 256
_NO_DIGITS = frozenset({"+", "-", ".", "+.", "-."})
"""What Go's parser takes for zero although it has no digit."""
BASE64 = re.compile(r"[A-Za-z0-9+/\r\n]*={0,2}[\r\n]*", re.ASCII)
DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)(?=[.\d]|\Z)", re.ASCII)
NUMBER_AND_UNIT = re.compile(r"(?:\d+\.?\d*|\.\d+)([^.\d]*)", re.ASCII)
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


class BadValue(ValueError):
    """A text is not what its type wants; the message is the one of Go's parser."""


TIME_LAYOUT = "2006-01-02T15:04:05Z07:00"
MICRO_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"


def seconds_of(text: str, layout: str = TIME_LAYOUT) -> tuple[int, int]:
    """Return seconds since 1970 and nanoseconds of an RFC 3339 time.

    A Time takes any fraction of a second, a MicroTime wants six digits.

    Raises:
        BadValue: it is none.
    """
    match = RFC3339.fullmatch(text)
    if match is None or (layout == MICRO_LAYOUT and not MICROSECONDS.match(text, 19)):
        raise BadValue(_unparsed(text, layout))
    year, month, day, hour, minute, second = (int(each) for each in match.groups()[:6])
    zone_hours, zone_minutes = int(match[9] or 0), int(match[10] or 0)
    zone = (zone_hours * 60 + zone_minutes) * 60
    try:
        at = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        raise BadValue(f'parsing time "{text}": {_part(text)} out of range') from None
    for name, wrong in (("hour", zone_hours > 24), ("minute", zone_minutes > 60)):
        if wrong:
            raise BadValue(f'parsing time "{text}": time zone offset {name} out of range')
    seconds = int((at - EPOCH).total_seconds()) - (-zone if match[8] == "-" else zone)
    return seconds, int((match[7] or "0").ljust(9, "0"))


@lru_cache(maxsize=8192)
def whole_seconds(text: str) -> int | None:
    """Return the seconds since 1970 of a time written as the server writes it (`2006-01-02T15:04:05Z`), else None.

    A shortcut: an object tells few different times, many times over.
    """
    if not PLAIN_TIME.fullmatch(text):
        return None
    try:
        return int(datetime.fromisoformat(text).timestamp())
    except ValueError:
        return None


@lru_cache(maxsize=8192)
def time_text(seconds: int) -> str | None:
    """Write seconds since 1970 as JSON has a Time; None for Go's zero time."""
    if seconds == ZERO_SECONDS:
        return None
    try:
        at = EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        raise BadValue("time is out of range") from None
    return f"{at.year:04}-{at.month:02}-{at.day:02}T{at.hour:02}:{at.minute:02}:{at.second:02}Z"


def micro_time_text(seconds: int, nanos: int) -> str | None:
    """Write a time as JSON has a MicroTime; None for Go's zero time."""
    text = time_text(seconds + nanos // 10**9)
    return None if text is None else f"{text[:-1]}.{nanos % 10**9 // 1000:06}Z"


def quantity(value: object) -> str:
    """Return a quantity as text. A number is taken as written; null is zero. The text is kept as it is.

    Raises:
        BadValue: it is none.
    """
    if value is None:
        return "0"
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise BadValue(QUANTITY_FORMAT)
    text = str(value).strip()
    if text in _NO_DIGITS:
        return "0"
    match = QUANTITY.fullmatch(text) if len(text) <= LONGEST_QUANTITY else None
    if match is None:
        raise BadValue(QUANTITY_FORMAT)
    if not SUFFIX.fullmatch(match["suffix"]):
        raise BadValue(QUANTITY_SUFFIX)
    return text


def base64_text(text: str) -> str:
    """Return base64 as Go writes it: without line breaks.

    Raises:
        BadValue: it is not base64.
    """
    plain = text.replace("\n", "").replace("\r", "") if "\n" in text or "\r" in text else text
    if len(plain) % 4 or not BASE64.fullmatch(plain):
        raise BadValue(f"illegal base64 data at input byte {_first_bad(text)}")
    return plain


def duration_of(text: str) -> int:
    """Return the nanoseconds of a Go duration like `1h0m0s`.

    Raises:
        BadValue: it is none.
    """
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if rest == "0":
        return 0
    total, end = 0, 0
    for match in DURATION.finditer(rest):
        if match.start() != end:
            break
        whole, _, part = match[1].partition(".")
        unit = NANOSECONDS[match[2]]
        total += int(whole or "0") * unit + int(part or "0") * unit // 10 ** len(part)
        end = match.end()
    if not rest or end != len(rest):
        raise BadValue(_bad_duration(text, rest[end:]))
    return sign * total


def _bad_duration(text: str, wrong: str) -> str:
    """Say what Go says of a duration in which `wrong` is the first number and unit that cannot be read."""
    found = NUMBER_AND_UNIT.match(wrong)
    if found is None:
        return f'time: invalid duration "{text}"'
    if not found[1]:
        return f'time: missing unit in duration "{text}"'
    return f'time: unknown unit "{found[1]}" in duration "{text}"'


def duration_text(nanos: int) -> str:
    """Write nanoseconds as Go's Duration.String does."""
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


def _first_bad(text: str) -> int:
    """Return where Go's decoder stops."""
    for at, each in enumerate(text):
        if not (each.isascii() and (each.isalnum() or each in "+/\r\n")):
            return at
    return len(text) // 4 * 4


LAYOUT = (
    ("2006", 4),
    ("-", 1),
    ("01", 2),
    ("-", 1),
    ("02", 2),
    ("T", 1),
    ("15", 2),
    (":", 1),
    ("04", 2),
    (":", 1),
    ("05", 2),
)


def _unparsed(text: str, layout: str) -> str:
    """Say where a text leaves the layout, in the words of Go's time.Parse."""
    rest = text
    for element, width in LAYOUT:
        piece = rest[:width]
        if (element.isdigit() and not (len(piece) == width and piece.isdigit())) or (
            not element.isdigit() and piece != element
        ):
            return f'parsing time "{text}" as "{layout}": cannot parse "{rest}" as "{element}"'
        rest = rest[width:]
    element = "Z07:00"
    if layout == MICRO_LAYOUT:
        element, rest = (element, rest[7:]) if MICROSECONDS.match(rest) else (".000000", rest)
    return f'parsing time "{text}" as "{layout}": cannot parse "{rest}" as "{element}"'


def _part(text: str) -> str:
    """Name the first part of a well-formed time that is out of range."""
    month, day, hour, minute = (int(text[at : at + 2]) for at in (5, 8, 11, 14))
    for name, wrong in (
        ("month", not 1 <= month <= 12),
        ("day", not 1 <= day <= 31),
        ("hour", hour > 23),
        ("minute", minute > 59),
    ):
        if wrong:
            return name
    return "second" if int(text[17:19]) > 59 else "day"
