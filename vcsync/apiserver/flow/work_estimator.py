"""Estimates how many seats a list takes, from the size of the last result of the same list. Pure.

Behaviour: apiserver's `util/flowcontrol/request/list_work_estimator.go` for lists that are read in pieces: one seat for
each 100 kB, ten at most, and no more than 15 % of the priority level's.
"""

from dataclasses import dataclass, field

BYTES_PER_SEAT = 100_000
MAX_SEATS = 10
MAX_COLLECTIONS = 10_000
"""Collections whose size is remembered."""
LEVEL_SHARE = 0.15
"""Part of a priority level's seats that one request may take."""

Key = tuple[str, str, str, str]
"""Tenant, group, plural, namespace."""


@dataclass(slots=True)
class WorkEstimator:
    """Remembers the number and size of objects in listed collections, except small ones."""

    _known: dict[Key, tuple[int, int]] = field(default_factory=dict)

    def record(self, key: Key, objects: int, size: int, *, whole: bool) -> None:
        """Remember the size of a list. A partial list is remembered only if it had more objects than the last one.

        Args:
            key: The collection.
            objects: Number of objects in the list.
            size: Bytes of the list.
            whole: Whether the list had all objects of the collection.
        """
        known = self._known.get(key)
        if not whole and known is not None and known[0] >= objects:
            return
        if size > BYTES_PER_SEAT:
            if known is None and len(self._known) >= MAX_COLLECTIONS:
                self._known.clear()
            self._known[key] = (objects, size)
        elif known is not None:
            del self._known[key]

    def seats(self, key: Key, limit: int) -> int:
        """Return how many seats a list takes.

        Args:
            key: The collection.
            limit: Most objects that the list returns; 0: any number.
        """
        known = self._known.get(key)
        if known is None:
            return 1
        objects, size = known
        if 0 < limit < objects:
            size = size * limit // objects
        return max(1, min(MAX_SEATS, -(-size // BYTES_PER_SEAT)))
