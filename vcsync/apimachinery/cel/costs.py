"""The cost of function calls at run time. Pure.

Source: `CallCost` of k8s.io/apiserver `pkg/cel/library/cost.go`, then `costCall` of cel-go's runtime cost.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from vcsync.apimachinery.cel.authorizing import CHECK_COST
from vcsync.apimachinery.cel.values import Struct, size

TRAVERSAL = 0.1
REGEX = 0.25
_LONG_REGEX = 128


def _traversed(count: int, factor: float = TRAVERSAL) -> int:
    return math.ceil(count * factor)


def _traversal(value: Any) -> int:
    if isinstance(value, str | bytes):
        return int(len(value) * TRAVERSAL)
    if isinstance(value, list):
        return sum(_traversal(each) for each in value)
    if isinstance(value, dict):
        return sum(_traversal(name) + _traversal(each) for name, each in value.items())
    if isinstance(value, Struct):
        return 1 + len(value.raw)
    return 1


def _first(args: Sequence[Any]) -> int:
    return _traversed(size(args[0]))


def _twice(args: Sequence[Any]) -> int:
    return _traversed(size(args[0]), 2 * TRAVERSAL)


def _regex(args: Sequence[Any]) -> int:
    return math.ceil((1 + size(args[0])) * TRAVERSAL) * math.ceil(size(args[1]) * REGEX)


def _join(args: Sequence[Any]) -> int:
    total = sum(size(each) for each in args[0]) if isinstance(args[0], list) else 1
    return _traversed(total, 2 * TRAVERSAL)


def _contains_address(args: Sequence[Any]) -> int:
    own = size(args[0])
    text = _traversed(size(args[1])) if isinstance(args[1], str) else 0
    return _traversed(2 * own) + text


def _contains_range(args: Sequence[Any]) -> int:
    return _contains_address(args) + _traversed(size(args[0])) + 1


def _address(args: Sequence[Any]) -> int:
    return _traversed(size(args[0])) if isinstance(args[0], str) else 1


def _format_check(args: Sequence[Any]) -> int:
    return math.ceil((1 + size(args[1])) * TRAVERSAL) * math.ceil(_LONG_REGEX * REGEX)


def _whole(args: Sequence[Any]) -> int:
    return _traversal(args[0])


def _smaller(args: Sequence[Any]) -> int:
    return _traversed(min(size(args[0]), size(args[1])))


def _both(args: Sequence[Any]) -> int:
    if isinstance(args[0], str | bytes):
        return _traversed(size(args[0]) + size(args[1]))
    return 1


def _compared(args: Sequence[Any]) -> int:
    return _smaller(args) if isinstance(args[0], str | bytes) else 1


def _product(args: Sequence[Any]) -> int:
    return _traversed(size(args[0])) * _traversed(size(args[1]))


def _sets(args: Sequence[Any]) -> int:
    return 1 + size(args[0]) * size(args[1])


def _square(args: Sequence[Any]) -> int:
    return 11 + size(args[0]) ** 2


def _copied(args: Sequence[Any]) -> int:
    return 11 + (size(args[0]) if isinstance(args[0], list) else args[0] if isinstance(args[0], int) else 1)


def _selected(args: Sequence[Any]) -> int:
    length = size(args[1])
    return 10 + _traversed(length) + 50 * _traversed(length, 0.5)


def _converted(args: Sequence[Any]) -> int:
    return _first(args) if isinstance(args[0], str | bytes) else 1


_COSTS: dict[str, Callable[[Sequence[Any]], int]] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _whole),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim"), _first),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _twice),
    **dict.fromkeys(("find", "findAll", "matches"), _regex),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _first),
    **dict.fromkeys(("startsWith", "endsWith", "strings.quote", "format"), _first),
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), _compared),
    **dict.fromkeys(("sets.contains", "sets.intersects", "sets.equivalent"), _sets),
    **dict.fromkeys(("sort", "@sortByAssociatedKeys", "distinct"), _square),
    **dict.fromkeys(("slice", "flatten", "reverse", "lists.range"), _copied),
    "check": lambda _: CHECK_COST,
    **dict.fromkeys(("fieldSelector", "labelSelector"), _selected),
    "join": _join,
    "ip": _address,
    "containsIP": _contains_address,
    "containsCIDR": _contains_range,
    "validate": _format_check,
    "contains": _product,
    "_==_": _smaller,
    "_+_": _both,
    "string": _converted,
    "bytes": _converted,
    "@in": lambda args: size(args[1]) if isinstance(args[1], list) else 1,
}


def call_cost(name: str, args: Sequence[Any]) -> int:
    """Return the cost of one call with these arguments."""
    cost = _COSTS.get(name)
    return 1 if cost is None or not args else cost(args)
