"""Sets of completion indexes in the notation of Jobs, such as `0,2-5`. Pure.

Kept as ordered intervals: a Job may have a hundred thousand indexes.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator

Intervals = tuple[tuple[int, int], ...]
_MOST_DIGITS = 10


def parse(text: str, completions: int) -> Intervals:
    """Parse a list of indexes; indexes beyond the completions and invalid intervals are left out."""
    found: list[tuple[int, int]] = []
    for each in text.split(",") if text else ():
        first, _, last = each.partition("-")
        if not _is_number(first) or (last and not _is_number(last)):
            continue
        low = int(first)
        high = min(int(last or first), completions - 1)
        if low <= high:
            found.append((low, high))
    return merged(found)


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) <= _MOST_DIGITS


def merged(intervals: Iterable[tuple[int, int]]) -> Intervals:
    """Sort intervals and join adjacent ones."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(intervals):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return tuple(found)


def with_indexes(intervals: Intervals, indexes: Iterable[int]) -> Intervals:
    """Add single indexes."""
    return merged((*intervals, *((each, each) for each in indexes)))


def total(intervals: Intervals) -> int:
    """Return the number of indexes."""
    return sum(high - low + 1 for low, high in intervals)


def has(intervals: Intervals, index: int) -> bool:
    """Return whether an index is in the set."""
    place = bisect_right(intervals, index, key=lambda each: each[0])
    return place > 0 and index <= intervals[place - 1][1]


def common(one: Intervals, other: Intervals) -> int:
    """Return the number of indexes in both sets, which both may have thousands of intervals."""
    found, first, second = 0, 0, 0
    while first < len(one) and second < len(other):
        (low, high), (begin, end) = one[first], other[second]
        found += max(0, min(high, end) - max(low, begin) + 1)
        if high < end:
            first += 1
        else:
            second += 1
    return found


def to_text(intervals: Intervals) -> str:
    """Return a list of indexes as in `status.completedIndexes`."""
    return ",".join(_range_text(low, high) for low, high in intervals)


def missing(intervals: Intervals, completions: int) -> Iterator[int]:
    """Iterate over the indexes below `completions` that are not in the set, in ascending order."""
    candidate = 0
    for low, high in intervals:
        yield from range(candidate, min(low, completions))
        candidate = max(candidate, high + 1)
    yield from range(candidate, completions)


def _range_text(low: int, high: int) -> str:
    if low == high:
        return str(low)
    return f"{low},{high}" if high == low + 1 else f"{low}-{high}"
