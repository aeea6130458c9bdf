"""Least and most of costs and sizes, while they are estimated. Pure."""

import math
from dataclasses import dataclass
from typing import NamedTuple

from vcsync.controlplane.cel.expression import Expr, Type

UNBOUNDED = 2**64 - 1
TRAVERSAL, REGEX = 0.1, 0.25


class Range(NamedTuple):
    """Least and most of a cost or size."""

    least: int
    most: int

    def add(self, other: "Range") -> "Range":
        """Return the sum."""
        return Range(min(self.least + other.least, UNBOUNDED), min(self.most + other.most, UNBOUNDED))

    def multiply(self, other: "Range") -> "Range":
        """Return the product."""
        return Range(min(self.least * other.least, UNBOUNDED), min(self.most * other.most, UNBOUNDED))

    def scale(self, factor: float) -> "Range":
        """Return a multiple, rounded up."""
        return Range(scaled(self.least, factor), scaled(self.most, factor))

    def union(self, other: "Range") -> "Range":
        """Return what encloses both."""
        return Range(min(self.least, other.least), max(self.most, other.most))


def scaled(value: int, factor: float) -> int:
    """Return a multiple, rounded up."""
    return min(math.ceil(float(value) * factor), UNBOUNDED)


def fixed(value: int) -> Range:
    """Return a figure that is known."""
    return Range(value, value)


NOTHING, ONE, UNKNOWN = fixed(0), fixed(1), Range(0, UNBOUNDED)


@dataclass(frozen=True, slots=True)
class Entry:
    """Sizes of a container's keys (or indices) and values."""

    kind: str
    key: Range
    value: Range


@dataclass(frozen=True, slots=True)
class Local:
    """A variable of a loop."""

    path: tuple[str, ...]
    size: Range | None
    entry: Entry | None


@dataclass(frozen=True, slots=True)
class Operand:
    """A target or argument: where its value comes from, its type, its size if it is known."""

    expr: Expr | None
    path: tuple[str, ...]
    type: Type
    size: Range | None


class Call(NamedTuple):
    """What a call costs, and the size of its result if it is known."""

    cost: Range
    size: Range | None = None
