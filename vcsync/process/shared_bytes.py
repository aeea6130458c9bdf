"""Divides bytes of memory between addresses, so that one leaves room for all others. Pure."""

from collections import Counter


class SharedBytes:
    """A number of bytes that addresses share.

    No address has more bytes than remain free: a single one gets at most half of all, and less the more others have.

    Args:
        limit: Bytes in total.
    """

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._used: Counter[str] = Counter()

    def take(self, source: str, size: int) -> bool:
        """Count more bytes of an address. False: it has its share, and nothing is counted."""
        if self._used[source] + size > self._free - size:
            return False
        self._used[source] += size
        self._free -= size
        return True

    def give_back(self, source: str, size: int) -> None:
        """Stop counting bytes of an address."""
        self._free += size
        self._used[source] -= size
        if self._used[source] <= 0:
            del self._used[source]
