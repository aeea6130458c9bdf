"""The drift ledger: the latest repairs, their number by kind and cause, and whether there are many."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Final

from vcsync.syncer.drift.repairs import Repair

KEPT: Final = 500
"""Repairs that are kept. The oldest is dropped first."""
RATE_SECONDS: Final = 600.0
"""Interval in which repairs are counted for the alarm."""
MANY: Final = 20
"""Repairs within `RATE_SECONDS` above which there are many."""
UNKNOWN: Final = "an unknown field manager"


class DriftLedger:
    """The repairs of one syncer.

    Args:
        clock: Monotonic seconds.

    Attributes:
        total: Number of repairs since this process started.
        counts: The same by plural name of the kind and cause.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._repairs: deque[Repair] = deque(maxlen=KEPT)
        self._times: deque[float] = deque(maxlen=KEPT)
        self._alarmed = -RATE_SECONDS
        self.total = 0
        self.counts: Counter[tuple[str, str]] = Counter()

    def record(self, repair: Repair) -> None:
        """Add a repair."""
        self._repairs.append(repair)
        self._times.append(self._clock())
        self.total += 1
        self.counts[repair.kind, repair.cause] += 1

    def restore(self, repairs: Sequence[Repair]) -> None:
        """Add repairs of an earlier process before those of this one."""
        known = set(self._repairs)
        merged = [*(each for each in repairs if each not in known), *self._repairs]
        self._repairs = deque(sorted(merged, key=lambda repair: repair.when), maxlen=KEPT)

    def repairs(self) -> list[Repair]:
        """Return all that are kept, oldest first."""
        return list(self._repairs)

    def latest(self, count: int = 50) -> list[Repair]:
        """Return the most recent repairs, newest first."""
        return self.repairs()[: -count - 1 : -1]

    def alarm(self) -> str:
        """Return a message if there were many repairs recently and this has not been said for `RATE_SECONDS`, else nothing."""
        now = self._clock()
        while self._times and self._times[0] <= now - RATE_SECONDS:
            self._times.popleft()
        count = len(self._times)
        if count <= MANY or now - self._alarmed < RATE_SECONDS:
            return ""
        self._alarmed = now
        recent = self.latest(count)
        [(kind, most)] = Counter(repair.kind for repair in recent).most_common(1)
        managers = Counter(change.manager for repair in recent for change in repair.changes[:1])
        by = managers.most_common(1)[0][0] if managers else ""
        return (
            f"{count} objects that differed from their tenants' were repaired within ten minutes: {most} of them "
            f"{kind}, most often changed by {by or UNKNOWN}; 'vcsync drift' lists them"
        )
