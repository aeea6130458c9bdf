"""Deadlines in order, cheap to set and to cancel."""

import math
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

T = TypeVar("T")

_STALE_SLACK = 64  # cancelled deadlines kept beyond the number of valid ones


class Deadlines(Generic[T]):
    """A heap of (deadline, value). A cancelled element stays in it until it surfaces or too many are stale.

    Setting, cancelling and taking cost O(log n) amortised; memory is in proportion to the valid deadlines.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, T]] = []
        self._valid: set[int] = set()  # tickets of deadlines that were neither taken nor cancelled
        self._last_ticket = 0
        self.earliest = math.inf  # no deadline is before this; may be that of a cancelled one

    def __len__(self) -> int:
        return len(self._valid)

    def set(self, due: float, value: T) -> int:
        """Note a deadline; returns the ticket to cancel it with."""
        self._last_ticket += 1
        self._valid.add(self._last_ticket)
        heappush(self._heap, (due, self._last_ticket, value))
        self.earliest = self._heap[0][0]
        return self._last_ticket

    def cancel(self, ticket: int) -> None:
        """Forget a deadline that was not taken yet."""
        self._valid.remove(ticket)
        if len(self._heap) > 2 * len(self._valid) + _STALE_SLACK:
            self._heap = [element for element in self._heap if element[1] in self._valid]
            heapify(self._heap)
            self.earliest = self._heap[0][0] if self._heap else math.inf

    def next(self) -> float | None:
        """The earliest deadline, or None."""
        heap = self._heap
        while heap and heap[0][1] not in self._valid:
            heappop(heap)
        self.earliest = heap[0][0] if heap else math.inf
        return heap[0][0] if heap else None

    def take_due(self, now: float) -> T | None:
        """Remove the earliest deadline if it is not after `now`, and return its value."""
        due = self.next()
        if due is None or due > now:
            return None
        _, ticket, value = heappop(self._heap)
        self._valid.remove(ticket)
        self.earliest = self._heap[0][0] if self._heap else math.inf
        return value
