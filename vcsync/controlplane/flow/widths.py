"""How many seats a list takes: by the bytes of what such a list read last. Pure.

Behaviour: apiserver's `util/flowcontrol/request/list_work_estimator.go` for lists that are read in pieces: one seat for
each 100 kB, ten at most, and no more than 15 % of the priority level's.
"""

from dataclasses import dataclass, field

BYTES_PER_SEAT = 100_000
MAX_SEATS = 10
MAX_REMEMBERED = 10_000
LEVEL_SHARE = 0.15

Key = tuple[str, str, str, str]
"""Tenant, group, plural, namespace."""


@dataclass(slots=True)
class Widths:
    """Remembers how much collections hold that were listed and are not small."""

    _known: dict[Key, tuple[int, int]] = field(default_factory=dict)

    def told(self, key: Key, objects: int, size: int, *, whole: bool) -> None:
        """Take note of what a list has read; of one that did not read all, only if it is more than was known."""
        known = self._known.get(key)
        if not whole and known is not None and known[0] >= objects:
            return
        if size > BYTES_PER_SEAT:
            if known is None and len(self._known) >= MAX_REMEMBERED:
                self._known.clear()
            self._known[key] = (objects, size)
        elif known is not None:
            del self._known[key]

    def of(self, key: Key, limit: int) -> int:
        """Return how many seats a list takes.

        Args:
            key: of the collection.
            limit: objects that it reads at most; 0: any number.
        """
        known = self._known.get(key)
        if known is None:
            return 1
        objects, size = known
        if 0 < limit < objects:
            size = size * limit // objects
        return max(1, min(MAX_SEATS, -(-size // BYTES_PER_SEAT)))
