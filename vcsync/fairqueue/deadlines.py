"""An ordered collection of deadlines that are cheap to set and to cancel."""

import math
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

T = TypeVar("T")

_STALE_SLACK = 64  # cancelled deadlines kept beyond the number of valid ones


class Deadlines(Generic[T]):
    """A heap of (deadline, value). Cancelled elements stay in it until they reach the top or too many are stale.

    Setting, cancelling and taking cost O(log n) amortised. Memory is proportional to the number of valid deadlines.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, T]] = []
        self._valid: set[int] = set()  # tickets of deadlines that have been neither taken nor cancelled
        self._last_ticket = 0
        self.earliest = math.inf  # a lower bound: it may belong to a cancelled or taken deadline

    def __len__(self) -> int:
        return len(self._valid)

    def set(self, due: float, value: T) -> int:
        """Add a deadline. Return the ticket that cancels it."""
        self._last_ticket += 1
        self._valid.add(self._last_ticket)
        heappush(self._heap, (due, self._last_ticket, value))
        self.earliest = self._heap[0][0]
        return self._last_ticket

    def cancel(self, ticket: int) -> None:
        """Cancel a deadline that has not been taken yet."""
        self._valid.remove(ticket)
        if len(self._heap) > 2 * len(self._valid) + _STALE_SLACK:
            self._heap = [element for element in self._heap if element[1] in self._valid]
            heapify(self._heap)
            self.earliest = self._heap[0][0] if self._heap else math.inf

    def next(self) -> float | None:
        """Return the earliest deadline, or None if no deadline is set."""
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
        return value
