"""Conversions between types, and getters of times. Pure.

Each function takes the remaining work, then the arguments, target first. Messages are cel-go's.
"""

from collections.abc import Callable
from datetime import timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from vcsync.apimachinery import gotext
from vcsync.apimachinery.cel import addresses, arithmetic
from vcsync.apimachinery.cel.arguments import Function
from vcsync.apimachinery.cel.values import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    CelError,
    Duration,
    NoOverload,
    Timestamp,
    TypeValue,
    UInt,
    Work,
    is_number,
    type_name,
)


def _failed(value: Any, target: str) -> CelError:
    return CelError(f"type conversion error from '{type_name(value)}' to '{target}'")


def _int(_: Work, value: Any) -> int:
    if isinstance(value, Timestamp):
        return int(value) // 1_000_000_000
    if isinstance(value, bool | Duration):
        raise _failed(value, "int")
    if isinstance(value, int):
        return arithmetic.whole(int(value), 0)
    if isinstance(value, float):
        if not INT_MIN < value < INT_MAX:
            raise CelError("integer overflow")
        return int(value)
    if isinstance(value, str):
        try:
            if len(value) > 20 or "_" in value or value != value.strip():
                raise ValueError(value)  # noqa: TRY301 -- told as what Python raises is
            return arithmetic.whole(int(value), 0)
        except ValueError:
            raise _failed(value, "int") from None
    raise _failed(value, "int")


def _uint(work: Work, value: Any) -> int:
    if isinstance(value, float) and not 0 <= value < UINT_MAX:
        raise CelError("unsigned integer overflow")
    if isinstance(value, str | float | int) and not isinstance(value, bool | Duration | Timestamp):
        return arithmetic.whole(int(value) if isinstance(value, UInt | float) else _int(work, value), UInt(0))
    raise _failed(value, "uint")


def _double(_: Work, value: Any) -> float:
    if is_number(value):
        return float(value)
    if isinstance(value, str):
        try:
            if "_" in value or value != value.strip() or len(value) > 4096:
                raise ValueError(value)  # noqa: TRY301 -- told as what Python raises is
            return float(value)
        except ValueError:
            raise _failed(value, "double") from None
    raise _failed(value, "double")


def _string(_: Work, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Duration | Timestamp):
        return value.text()
    if is_number(value):
        return gotext.general(value) if isinstance(value, float) else str(int(value))
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None
    if isinstance(value, addresses.Address | addresses.Range):
        return str(value)
    raise _failed(value, "string")


def _bytes(_: Work, value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "replace")
    raise _failed(value, "bytes")


def _bool(_: Work, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    known = {"1": True, "t": True, "T": True, "TRUE": True, "true": True, "True": True,
             "0": False, "f": False, "F": False, "FALSE": False, "false": False, "False": False}  # fmt: skip
    if isinstance(value, str) and value in known:
        return known[value]
    raise _failed(value, "bool")


def _duration(_: Work, value: Any) -> Duration:
    if isinstance(value, Duration):
        return value
    if isinstance(value, str):
        return Duration.parse(value)
    raise _failed(value, "google.protobuf.Duration")


def _timestamp(_: Work, value: Any) -> Timestamp:
    if isinstance(value, Timestamp):
        return value
    if isinstance(value, str):
        return Timestamp.parse(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return Timestamp(int(value) * 1_000_000_000)
    raise _failed(value, "google.protobuf.Timestamp")


def _clock(read: Callable[[Any], int], of_duration: Callable[[int], int] | None = None) -> Function:
    """Return a getter of a part of a time, in a time zone if one is given."""

    def get(_: Work, value: Any, zone: str = "") -> int:
        if isinstance(value, Duration) and of_duration is not None and not zone:
            return of_duration(int(value))
        if not isinstance(value, Timestamp):
            raise NoOverload
        moment = value.moment()
        try:
            return read(moment.astimezone(_zone(zone)) if zone else moment)
        except OverflowError:
            raise CelError("timestamp overflow") from None

    return get


def _zone(name: str) -> Any:
    sign, colon = (-1 if name.startswith("-") else 1), name.find(":")
    if colon > 0:
        hours, minutes = name[:colon].lstrip("+-"), name[colon + 1 :]
        digits = name.isascii() and hours.isdigit() and minutes.isdigit() and len(name) <= 6
        if digits and int(hours) < 24 and int(minutes) < 60:
            return timezone(sign * timedelta(hours=int(hours), minutes=int(minutes)))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise CelError(f"unknown time zone {name}") from None


def _towards_zero(unit: int) -> Callable[[int], int]:
    return lambda value: abs(value) // unit * (1 if value >= 0 else -1)


FUNCTIONS: dict[str, Function] = {
    "int": _int,
    "uint": _uint,
    "double": _double,
    "string": _string,
    "bytes": _bytes,
    "bool": _bool,
    "duration": _duration,
    "timestamp": _timestamp,
    "dyn": lambda _, value: value,
    "type": lambda _, value: TypeValue(type_name(value)),
    "getFullYear": _clock(lambda moment: moment.year),
    "getMonth": _clock(lambda moment: moment.month - 1),
    "getDate": _clock(lambda moment: moment.day),
    "getDayOfMonth": _clock(lambda moment: moment.day - 1),
    "getDayOfWeek": _clock(lambda moment: moment.isoweekday() % 7),
    "getDayOfYear": _clock(lambda moment: moment.timetuple().tm_yday - 1),
    "getHours": _clock(lambda moment: moment.hour, _towards_zero(3_600_000_000_000)),
    "getMinutes": _clock(lambda moment: moment.minute, _towards_zero(60_000_000_000)),
    "getSeconds": _clock(lambda moment: moment.second, _towards_zero(1_000_000_000)),
    "getMilliseconds": _clock(lambda moment: moment.microsecond // 1000, _towards_zero(1_000_000)),
}
"""Implementation of each function, by name."""
