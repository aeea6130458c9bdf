"""Gives each reconcile an id, and counts reconciles by result and duration. Pure.

The results and the buckets are those of controller-runtime's `controller_runtime_reconcile_total` and
`controller_runtime_reconcile_time_seconds`.
"""

import itertools
from bisect import bisect_left
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Final, Literal, NamedTuple

Result = Literal["success", "requeue_after", "error"]

BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the duration histogram's buckets, in seconds. A last bucket takes all longer durations."""


class Reconcile(NamedTuple):
    """One reconcile of an object by a controller."""

    id: str
    controller: str


current: ContextVar[Reconcile | None] = ContextVar("reconcile", default=None)
"""The reconcile that runs in this task; None outside of a reconcile."""


class Durations:
    """A histogram of seconds.

    Attributes:
        counts: number of durations in each of `BUCKETS`, and in the one above them.
        total: the sum of all durations, in seconds.
    """

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.total += seconds

    def cumulative(self) -> Iterator[tuple[str, float]]:
        """Iterate over (upper bound, number of durations up to it), in the form of a Prometheus histogram."""
        bounds = (*(str(bound) for bound in BUCKETS), "+Inf")
        yield from zip(bounds, map(float, itertools.accumulate(self.counts)), strict=True)


class Reconciles:
    """Counts the reconciles of one worker pool. The number of series is limited by the number of controllers.

    Args:
        prefix: prefix of the ids; unique for each process and pool.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._numbers = itertools.count(1)
        self.results: dict[tuple[str, Result], int] = {}
        self.durations: dict[str, Durations] = {}

    def begin(self, controller: str) -> Reconcile:
        """Give an id to a reconcile that begins."""
        return Reconcile(f"{self._prefix}-{next(self._numbers):x}", controller)

    def end(self, reconcile: Reconcile, result: Result, seconds: float) -> None:
        """Count a reconcile that has ended after `seconds`."""
        key = (reconcile.controller, result)
        self.results[key] = self.results.get(key, 0) + 1
        durations = self.durations.get(reconcile.controller)
        if durations is None:
            durations = self.durations[reconcile.controller] = Durations()
        durations.add(seconds)
