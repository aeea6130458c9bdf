"""Schedules of CronJobs: whether a text is one. Pure.

The grammar and the words are those of github.com/robfig/cron/v3's standard parser.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_DESCRIPTORS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_DURATION = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?(?:ns|us|µs|ms|s|m|h))+|0")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_LONGEST = 4096


class _Wrong(ValueError):
    """A schedule is none."""


@dataclass(frozen=True, slots=True)
class _Field:
    low: int
    high: int
    names: Mapping[str, int]


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
    """Say why a text is no schedule; empty: it is one."""
    try:
        _check(text[:_LONGEST])
    except _Wrong as wrong:
        return str(wrong)
    return ""


def _check(text: str) -> None:
    if text.startswith(("TZ=", "CRON_TZ=")):
        zone, _, text = text.partition(" ")
        name = zone.partition("=")[2]
        try:
            ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise _Wrong(f"provided bad location {name}: unknown time zone {name}") from None
        text = text.strip()
    if text.startswith("@"):
        _check_descriptor(text)
        return
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise _Wrong(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    for field, rule in zip(fields, _FIELDS, strict=True):
        for each in field.split(","):
            if each:
                _check_range(each, rule)


def _check_descriptor(text: str) -> None:
    if text in _DESCRIPTORS:
        return
    if not text.startswith("@every "):
        raise _Wrong(f"unrecognized descriptor: {text}")
    duration = text.removeprefix("@every ")
    if not _DURATION.fullmatch(duration):
        raise _Wrong(f'failed to parse duration {text}: time: invalid duration "{duration}"')


def _check_range(text: str, rule: _Field) -> None:
    span, *steps = text.split("/")
    ends = span.split("-")
    if ends[0] in ("*", "?"):
        low, high = rule.low, rule.high
    else:
        low = high = _number(ends[0], rule.names)
        if len(ends) == 2:
            high = _number(ends[1], rule.names)
        elif len(ends) > 2:
            raise _Wrong(f"too many hyphens: {text}")
    step = 1
    if len(steps) == 1:
        step = _number(steps[0], {})
        high = rule.high if len(ends) == 1 else high
    elif steps:
        raise _Wrong(f"too many slashes: {text}")
    if low < rule.low:
        raise _Wrong(f"beginning of range ({low}) below minimum ({rule.low}): {text}")
    if high > rule.high:
        raise _Wrong(f"end of range ({high}) above maximum ({rule.high}): {text}")
    if low > high:
        raise _Wrong(f"beginning of range ({low}) beyond end of range ({high}): {text}")
    if step == 0:
        raise _Wrong(f"step of range should be a positive number: {text}")


def _number(text: str, names: Mapping[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not _INTEGER.fullmatch(text) or len(text) > 18:
        raise _Wrong(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    if int(text) < 0:
        raise _Wrong(f"negative number ({int(text)}) not allowed: {text}")
    return int(text)
