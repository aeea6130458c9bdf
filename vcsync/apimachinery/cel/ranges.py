"""Lower and upper bounds of costs and sizes, for estimates. Pure."""

import math
from dataclasses import dataclass
from typing import NamedTuple

from vcsync.apimachinery.cel.expression import Expr, Type

UNBOUNDED = 2**64 - 1
TRAVERSAL, REGEX = 0.1, 0.25


class Range(NamedTuple):
    """The lower and upper bound of a cost or size."""

    least: int
    most: int

    def add(self, other: "Range") -> "Range":
        """Return the sum of two ranges."""
        return Range(min(self.least + other.least, UNBOUNDED), min(self.most + other.most, UNBOUNDED))

    def multiply(self, other: "Range") -> "Range":
        """Return the product of two ranges."""
        return Range(min(self.least * other.least, UNBOUNDED), min(self.most * other.most, UNBOUNDED))

    def scale(self, factor: float) -> "Range":
        """Return a multiple of a range, rounded up."""
        return Range(scaled(self.least, factor), scaled(self.most, factor))

    def union(self, other: "Range") -> "Range":
        """Return the smallest range that contains both."""
        return Range(min(self.least, other.least), max(self.most, other.most))


def scaled(value: int, factor: float) -> int:
    """Return a multiple of a number, rounded up."""
    return min(math.ceil(float(value) * factor), UNBOUNDED)


def fixed(value: int) -> Range:
    """Return the range of a known number."""
    return Range(value, value)


NOTHING, ONE, UNKNOWN = fixed(0), fixed(1), Range(0, UNBOUNDED)


@dataclass(frozen=True, slots=True)
class Entry:
    """The sizes of a container's keys (or indices) and values."""

    kind: str
    key: Range
    value: Range


@dataclass(frozen=True, slots=True)
class Local:
    """A loop variable."""

    path: tuple[str, ...]
    size: Range | None
    entry: Entry | None


@dataclass(frozen=True, slots=True)
class Operand:
    """A target or argument of a call: the path of its value, its type, and its size if known."""

    expr: Expr | None
    path: tuple[str, ...]
    type: Type
    size: Range | None


class Call(NamedTuple):
    """The cost of a call, and the size of its result if known."""

    cost: Range
    size: Range | None = None
