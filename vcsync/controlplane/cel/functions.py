"""Functions of rules: the standard ones, strings, lists, sets, optionals. Pure.

Each takes the work that is left, then the arguments, target first. Messages are cel-go's.
"""

import functools
import itertools
import json
import math
from collections.abc import Callable
from datetime import timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from vcsync.controlplane.cel import authorizing, formatting, kubernetes
from vcsync.controlplane.cel.values import (
    INT_MAX,
    INT_MIN,
    NONE,
    UINT_MAX,
    CelError,
    Duration,
    NoOverload,
    Optional,
    SetList,
    Timestamp,
    TypeValue,
    UInt,
    Work,
    compare,
    equal,
    is_number,
    type_name,
)
from vcsync.controlplane.crd import gotext, patterns

Function = Callable[..., Any]
_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
_UPPER = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")


def _is(*types: type) -> Callable[[Function], Function]:
    """Check the types of arguments; booleans are no integers, and a function may take fewer arguments than types."""

    def wrap(function: Function) -> Function:
        @functools.wraps(function)
        def checked(work: Work, *args: Any) -> Any:
            for value, type_ in zip(args, types, strict=False):
                if not isinstance(value, type_) or (type_ is int and isinstance(value, bool)):
                    raise NoOverload
            return function(work, *args)

        return checked

    return wrap


def _whole(value: int, like: Any) -> int:
    """Keep a result in the range of its type."""
    if isinstance(like, UInt):
        if not 0 <= value <= UINT_MAX:
            raise CelError("unsigned integer overflow")
        return UInt(value)
    if not INT_MIN <= value <= INT_MAX:
        raise CelError("integer overflow")
    return value


def _same_numbers(left: Any, right: Any) -> bool:
    if not (is_number(left) and is_number(right)):
        return False
    kinds = [(isinstance(each, float), isinstance(each, UInt)) for each in (left, right)]
    return kinds[0] == kinds[1]


def _add(work: Work, left: Any, right: Any) -> Any:
    if _same_numbers(left, right):
        return left + right if isinstance(left, float) else _whole(int(left) + int(right), left)
    if isinstance(left, Timestamp) and isinstance(right, Duration):
        return Timestamp(int(left) + int(right))
    if isinstance(left, Duration) and isinstance(right, Timestamp | Duration):
        return type(right)(int(left) + int(right))
    if not any(isinstance(left, type_) and isinstance(right, type_) for type_ in (str, bytes, list)):
        raise NoOverload
    work.spend((len(left) + len(right)) // 256)
    return _joined(work, left, right) if isinstance(left, SetList) else left + right


def _joined(work: Work, left: SetList, right: list[Any]) -> list[Any]:
    """Concatenate lists that are sets or maps: items that are there already are replaced, or not added."""
    keys = left.declared.map_keys if left.declared.list_type == "map" else ()
    found = list(left)
    for each in right:
        at = next((at for at, other in enumerate(found) if _identical(work, each, other, keys)), None)
        if at is None:
            found.append(each)
        elif keys:
            found[at] = each
    return SetList(found, left.declared)


def _identical(work: Work, left: Any, right: Any, keys: tuple[str, ...]) -> bool:
    if not keys:
        return equal(left, right, work)
    work.spend()
    raw, other = getattr(left, "raw", left), getattr(right, "raw", right)
    if not isinstance(raw, dict) or not isinstance(other, dict):
        return False
    return all(raw.get(name) == other.get(name) for name in keys)


def _subtract(_: Work, left: Any, right: Any) -> Any:
    if _same_numbers(left, right):
        return left - right if isinstance(left, float) else _whole(int(left) - int(right), left)
    if isinstance(left, Timestamp) and isinstance(right, Duration):
        return Timestamp(int(left) - int(right))
    if isinstance(left, Duration | Timestamp) and type(left) is type(right):
        return Duration(int(left) - int(right))
    raise NoOverload


def _multiply(_: Work, left: Any, right: Any) -> Any:
    if not _same_numbers(left, right):
        raise NoOverload
    return left * right if isinstance(left, float) else _whole(int(left) * int(right), left)


def _divide(_: Work, left: Any, right: Any) -> Any:
    if not _same_numbers(left, right):
        raise NoOverload
    if isinstance(left, float):
        if right == 0:
            return float("nan") if left == 0 or math.isnan(left) else float("inf") * (1 if left > 0 else -1)
        return left / right
    if right == 0:
        raise CelError("division by zero")
    quotient = abs(int(left)) // abs(int(right))
    return _whole(quotient if (left < 0) == (right < 0) else -quotient, left)


def _modulo(_: Work, left: Any, right: Any) -> Any:
    if not _same_numbers(left, right) or isinstance(left, float):
        raise NoOverload
    if right == 0:
        raise CelError("modulus by zero")
    rest = abs(int(left)) % abs(int(right))
    return _whole(rest if left >= 0 else -rest, left)


def _negate(_: Work, value: Any) -> Any:
    if not is_number(value) or isinstance(value, UInt):
        raise NoOverload
    return -value if isinstance(value, float) else _whole(-value, value)


@_is(bool)
def _not(_: Work, value: bool) -> bool:
    return not value


def _ordered(check: Callable[[int], bool]) -> Function:
    return lambda _, left, right: check(compare(left, right))


def _in(work: Work, value: Any, container: Any) -> bool:
    if isinstance(container, list):
        return any(equal(value, each, work) for each in container)
    if isinstance(container, dict):
        return not isinstance(value, list | dict | Optional) and value in container
    raise NoOverload


def _size(_: Work, value: Any) -> int:
    if isinstance(value, str | bytes | list | dict):
        return len(value)
    raise NoOverload


def _failed(value: Any, target: str) -> CelError:
    return CelError(f"type conversion error from '{type_name(value)}' to '{target}'")


def _int(_: Work, value: Any) -> int:
    if isinstance(value, Timestamp):
        return int(value) // 1_000_000_000
    if isinstance(value, bool | Duration):
        raise _failed(value, "int")
    if isinstance(value, int):
        return _whole(int(value), 0)
    if isinstance(value, float):
        if not INT_MIN < value < INT_MAX:
            raise CelError("integer overflow")
        return int(value)
    if isinstance(value, str):
        try:
            if len(value) > 20 or "_" in value or value != value.strip():
                raise ValueError(value)  # noqa: TRY301 -- told as what Python raises is
            return _whole(int(value), 0)
        except ValueError:
            raise _failed(value, "int") from None
    raise _failed(value, "int")


def _uint(work: Work, value: Any) -> int:
    if isinstance(value, float) and not 0 <= value < UINT_MAX:
        raise CelError("unsigned integer overflow")
    if isinstance(value, str | float | int) and not isinstance(value, bool | Duration | Timestamp):
        return _whole(int(value) if isinstance(value, UInt | float) else _int(work, value), UInt(0))
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
        return gotext.number(value) if isinstance(value, float) else str(int(value))
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None
    if isinstance(value, kubernetes.Address | kubernetes.Range):
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
    """Make a getter of a time's part, in a time zone if one is given."""

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
        if hours.isdigit() and minutes.isdigit() and len(name) <= 6 and int(hours) < 24:
            return timezone(sign * timedelta(hours=int(hours), minutes=int(minutes)))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise CelError(f"unknown time zone {name}") from None


def _towards_zero(unit: int) -> Callable[[int], int]:
    return lambda value: abs(value) // unit * (1 if value >= 0 else -1)


@_is(str, str)
def _matches(_: Work, text: str, pattern: str) -> bool:
    try:
        return patterns.compiled(pattern).found_in(text)
    except patterns.InvalidPattern as why:
        raise CelError(str(why)) from None


@_is(str, str)
def _find(_: Work, text: str, pattern: str) -> str:
    found = _find_all(_, text, pattern, 1)
    return str(found[0]) if found else ""


@_is(str, str, int)
def _find_all(_: Work, text: str, pattern: str, most: int = -1) -> list[str]:
    try:
        return patterns.compiled(pattern).all_in(text, most)
    except patterns.InvalidPattern as why:
        raise CelError(f"Illegal regex: {why}") from None


@_is(str, int)
def _char_at(_: Work, text: str, at: int) -> str:
    if not 0 <= at <= len(text):
        raise CelError(f"index out of range: {at}")
    return text[at : at + 1]


def _index_of(work: Work, target: Any, wanted: Any, start: int = 0) -> int:
    if isinstance(target, list):
        return next((at for at, each in enumerate(target) if equal(each, wanted, work)), -1)
    if not isinstance(target, str) or not isinstance(wanted, str):
        raise NoOverload
    if start < 0:
        raise CelError(f"index out of range: {start}")
    if not wanted:
        return start
    return target.find(wanted, start) if start <= len(target) else -1


def _last_index_of(work: Work, target: Any, wanted: Any, start: int | None = None) -> int:
    if isinstance(target, list):
        found = [at for at, each in enumerate(target) if equal(each, wanted, work)]
        return found[-1] if found else -1
    if not isinstance(target, str) or not isinstance(wanted, str):
        raise NoOverload
    if start is None:
        return target.rfind(wanted)
    if start < 0:
        raise CelError(f"index out of range: {start}")
    return target.rfind(wanted, 0, start + len(wanted)) if start <= len(target) else -1


@_is(str, str, str, int)
def _replace(work: Work, text: str, old: str, new: str, most: int = -1) -> str:
    work.spend((len(text) + text.count(old) * len(new)) // 256)
    if text.count(old) * len(new) > 50_000_000:
        raise CelError("result is too large")
    return text.replace(old, new, most)


@_is(str, str, int)
def _split(_: Work, text: str, separator: str, most: int = -1) -> list[str]:
    if most == 0:
        return []
    if not separator:
        return list(text) if most < 0 or most >= len(text) else [*text[: most - 1], text[most - 1 :]]
    return text.split(separator, most - 1 if most > 0 else -1)


@_is(str, int, int)
def _substring(_: Work, text: str, start: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    if not 0 <= start <= len(text):
        raise CelError(f"index out of range: {start}")
    if not 0 <= stop <= len(text):
        raise CelError(f"index out of range: {stop}")
    if start > stop:
        raise CelError(f"invalid substring range. start: {start}, end: {stop}")
    return text[start:stop]


@_is(list, str)
def _join(work: Work, items: list[Any], separator: str = "") -> str:
    if not all(isinstance(each, str) for each in items):
        raise NoOverload
    total = sum(len(each) for each in items) + len(separator) * len(items)
    work.spend(total // 256)
    if total > 50_000_000:
        raise CelError("result is too large")
    return separator.join(items)


def _sorted_by(_: Work, items: list[Any], keys: list[Any] | None = None) -> list[Any]:
    if not isinstance(items, list):
        raise NoOverload
    by = items if keys is None else keys
    order = functools.cmp_to_key(compare)
    return [items[at] for at in sorted(range(len(items)), key=lambda at: order(by[at]))]


@_is(list)
def _is_sorted(_: Work, items: list[Any]) -> bool:
    return all(compare(*pair) <= 0 for pair in itertools.pairwise(items))


def _extreme(name: str, sign: int) -> Function:
    def find(_: Work, items: Any) -> Any:
        if not isinstance(items, list):
            raise NoOverload
        if not items:
            raise CelError(f"{name} called on empty list")
        best = items[0]
        for each in items[1:]:
            if sign * compare(each, best) > 0:
                best = each
        return best

    return find


@_is(list)
def _sum(work: Work, items: list[Any]) -> Any:
    total: Any = None
    for each in items:
        total = each if total is None else _add(work, total, each)
    return 0 if total is None else total


@_is(list, int, int)
def _slice(_: Work, items: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise CelError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise CelError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if end > len(items):
        raise CelError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


@_is(list, int)
def _flatten(work: Work, items: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise CelError("level must be non-negative")
    found: list[Any] = []
    for each in items:
        work.spend()
        found += _flatten(work, each, depth - 1) if isinstance(each, list) and depth > 0 else [each]
    return found


@_is(list)
def _distinct(work: Work, items: list[Any]) -> list[Any]:
    found: list[Any] = []
    for each in items:
        if not any(equal(each, other, work) for other in found):
            found.append(each)
    return found


@_is(int)
def _range(work: Work, count: int) -> list[int]:
    work.spend(max(count, 0))
    return list(range(count))


@_is(list, list)
def _contains_all(work: Work, items: list[Any], wanted: list[Any]) -> bool:
    return all(any(equal(each, other, work) for other in items) for each in wanted)


@_is(list, list)
def _intersects(work: Work, left: list[Any], right: list[Any]) -> bool:
    return any(any(equal(each, other, work) for other in right) for each in left)


def _equivalent(work: Work, left: Any, right: Any) -> bool:
    return bool(_contains_all(work, left, right)) and bool(_contains_all(work, right, left))


@_is(Optional)
def _value(_: Work, value: Optional) -> Any:
    if not value.present:
        raise CelError("optional.none() dereference")
    return value.value


def _of_non_zero(_: Work, value: Any) -> Optional:
    zero = value is None or (
        not isinstance(value, TypeValue) and not value and not hasattr(value, "type_name")
    )
    return NONE if zero else Optional(value)


@_is(dict)
def _insert(_: Work, into: dict[Any, Any], *more: Any) -> dict[Any, Any]:
    entries = more[0] if len(more) == 1 else {more[0]: more[1]}
    if not isinstance(entries, dict):
        raise NoOverload
    for key, value in entries.items():
        if key in into:
            raise CelError(f"insert failed: key {key} already exists")
        into[key] = value
    return into


def _text(check: Callable[[str, str], Any]) -> Function:
    return _is(str, str)(lambda _, text, other: check(text, other))


def _of_text(change: Callable[[str], Any]) -> Function:
    return _is(str)(lambda _, text: change(text))


_STRIPPED = " \t\n\v\f\r\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
_DAY = 86_400_000_000_000

FUNCTIONS: dict[str, Function] = {
    "_+_": _add,
    "_-_": _subtract,
    "_*_": _multiply,
    "_/_": _divide,
    "_%_": _modulo,
    "-_": _negate,
    "!_": _not,
    "_<_": _ordered(lambda order: order < 0),
    "_<=_": _ordered(lambda order: order <= 0),
    "_>_": _ordered(lambda order: order > 0),
    "_>=_": _ordered(lambda order: order >= 0),
    "@in": _in,
    "size": _size,
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
    "contains": _text(lambda text, other: other in text),
    "startsWith": _text(str.startswith),
    "endsWith": _text(str.endswith),
    "matches": _matches,
    "find": _find,
    "findAll": _find_all,
    "charAt": _char_at,
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "lowerAscii": _of_text(lambda text: text.translate(_LOWER)),
    "upperAscii": _of_text(lambda text: text.translate(_UPPER)),
    "replace": _replace,
    "split": _split,
    "substring": _substring,
    "trim": _of_text(lambda text: text.strip(_STRIPPED)),
    "join": _join,
    "format": _is(str, list)(formatting.format_text),
    "jsonpatch.escapeKey": _of_text(lambda text: text.replace("~", "~0").replace("/", "~1")),
    "strings.quote": _of_text(lambda text: json.dumps(text, ensure_ascii=False)),
    "isSorted": _is_sorted,
    "sum": _sum,
    "min": _extreme("min", -1),
    "max": _extreme("max", 1),
    "slice": _slice,
    "flatten": _flatten,
    "sort": _sorted_by,
    "@sortByAssociatedKeys": _sorted_by,
    "distinct": _distinct,
    "reverse": _is(list)(lambda _, items: items[::-1]),
    "lists.range": _range,
    "sets.contains": _contains_all,
    "sets.intersects": _intersects,
    "sets.equivalent": _equivalent,
    "optional.of": lambda _, value: Optional(value),
    "optional.ofNonZeroValue": _of_non_zero,
    "optional.none": lambda _: NONE,
    "hasValue": _is(Optional)(lambda _, value: value.present),
    "value": _value,
    "cel.@mapInsert": _insert,
    **kubernetes.FUNCTIONS,
    **authorizing.FUNCTIONS,
}
"""Name -> implementation."""
