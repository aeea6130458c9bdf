"""Arithmetic, comparisons and sizes. Pure.

Each function takes the remaining work, then the arguments, target first. Messages are cel-go's.
"""

import math
from collections.abc import Callable
from typing import Any

from vcsync.apimachinery.cel.arguments import Function, of_types
from vcsync.apimachinery.cel.values import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    CelError,
    Duration,
    NoOverload,
    Optional,
    SetList,
    Timestamp,
    UInt,
    Work,
    compare,
    equal,
    is_number,
)


def whole(value: int, like: Any) -> int:
    """Return a result as the type of `like`, or raise if it overflows."""
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


def add(work: Work, left: Any, right: Any) -> Any:
    """Add numbers or times, or concatenate strings, bytes or lists."""
    if _same_numbers(left, right):
        return left + right if isinstance(left, float) else whole(int(left) + int(right), left)
    if isinstance(left, Timestamp) and isinstance(right, Duration):
        return left.moved(int(right))
    if isinstance(left, Duration) and isinstance(right, Timestamp):
        return right.moved(int(left))
    if isinstance(left, Duration) and isinstance(right, Duration):
        return Duration(int(left) + int(right))
    if not any(isinstance(left, type_) and isinstance(right, type_) for type_ in (str, bytes, list)):
        raise NoOverload
    work.spend((len(left) + len(right)) // 256)
    return _joined(work, left, right) if isinstance(left, SetList) else left + right


def _joined(work: Work, left: SetList, right: list[Any]) -> list[Any]:
    """Concatenate lists of type set or map: items of the right replace equal ones, or are not added."""
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
        return left - right if isinstance(left, float) else whole(int(left) - int(right), left)
    if isinstance(left, Timestamp) and isinstance(right, Duration):
        return left.moved(-int(right))
    if isinstance(left, Duration | Timestamp) and type(left) is type(right):
        return Duration(int(left) - int(right))
    raise NoOverload


def _multiply(_: Work, left: Any, right: Any) -> Any:
    if not _same_numbers(left, right):
        raise NoOverload
    return left * right if isinstance(left, float) else whole(int(left) * int(right), left)


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
    return whole(quotient if (left < 0) == (right < 0) else -quotient, left)


def _modulo(_: Work, left: Any, right: Any) -> Any:
    if not _same_numbers(left, right) or isinstance(left, float):
        raise NoOverload
    if right == 0:
        raise CelError("modulus by zero")
    rest = abs(int(left)) % abs(int(right))
    return whole(rest if left >= 0 else -rest, left)


def _negate(_: Work, value: Any) -> Any:
    if not is_number(value) or isinstance(value, UInt):
        raise NoOverload
    return -value if isinstance(value, float) else whole(-value, value)


@of_types(bool)
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


FUNCTIONS: dict[str, Function] = {
    "_+_": add,
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
}
"""Implementation of each function, by name."""
