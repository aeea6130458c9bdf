"""Functions of lists and sets. Pure.

Each function takes the remaining work, then the arguments, target first. Messages are cel-go's.
"""

import functools
import itertools
from typing import Any

from vcsync.apimachinery.cel import arithmetic
from vcsync.apimachinery.cel.arguments import Function, of_types
from vcsync.apimachinery.cel.values import CelError, NoOverload, Work, compare, equal


def _sorted_by(_: Work, items: list[Any], keys: list[Any] | None = None) -> list[Any]:
    if not isinstance(items, list):
        raise NoOverload
    by = items if keys is None else keys
    order = functools.cmp_to_key(compare)
    return [items[at] for at in sorted(range(len(items)), key=lambda at: order(by[at]))]


@of_types(list)
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


@of_types(list)
def _sum(work: Work, items: list[Any]) -> Any:
    total: Any = None
    for each in items:
        total = each if total is None else arithmetic.add(work, total, each)
    return 0 if total is None else total


@of_types(list, int, int)
def _slice(_: Work, items: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise CelError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise CelError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if end > len(items):
        raise CelError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


@of_types(list, int)
def _flatten(work: Work, items: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise CelError("level must be non-negative")
    found: list[Any] = []
    for each in items:
        work.spend()
        found += _flatten(work, each, depth - 1) if isinstance(each, list) and depth > 0 else [each]
    return found


@of_types(list)
def _distinct(work: Work, items: list[Any]) -> list[Any]:
    found: list[Any] = []
    for each in items:
        if not any(equal(each, other, work) for other in found):
            found.append(each)
    return found


@of_types(int)
def _range(work: Work, count: int) -> list[int]:
    work.spend(max(count, 0))
    return list(range(count))


@of_types(list, list)
def _contains_all(work: Work, items: list[Any], wanted: list[Any]) -> bool:
    return all(any(equal(each, other, work) for other in items) for each in wanted)


@of_types(list, list)
def _intersects(work: Work, left: list[Any], right: list[Any]) -> bool:
    return any(any(equal(each, other, work) for other in right) for each in left)


def _equivalent(work: Work, left: Any, right: Any) -> bool:
    return bool(_contains_all(work, left, right)) and bool(_contains_all(work, right, left))


FUNCTIONS: dict[str, Function] = {
    "isSorted": _is_sorted,
    "sum": _sum,
    "min": _extreme("min", -1),
    "max": _extreme("max", 1),
    "slice": _slice,
    "flatten": _flatten,
    "sort": _sorted_by,
    "@sortByAssociatedKeys": _sorted_by,
    "distinct": _distinct,
    "reverse": of_types(list)(lambda _, items: items[::-1]),
    "lists.range": _range,
    "sets.contains": _contains_all,
    "sets.intersects": _intersects,
    "sets.equivalent": _equivalent,
}
"""Implementation of each function, by name."""
