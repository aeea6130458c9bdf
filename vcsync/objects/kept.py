"""A cache of compiled values, limited by their size, for the event loop and threads. Pure."""

import threading
from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Kept(Generic[K, V]):
    """A least-recently-used cache of compiled values, safe for the event loop and threads."""

    def __init__(self, limit: int) -> None:
        """Take the limit: the sum of the sizes that `put` gets."""
        self._limit = limit
        self._size = 0
        self._found: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        """Return the cached value of a key, or None."""
        with self._lock:
            found = self._found.get(key)
            if found is None:
                return None
            self._found.move_to_end(key)
            return found[0]

    def put(self, key: K, value: V, size: int) -> None:
        """Cache a value, and evict the least recently used ones."""
        with self._lock:
            _, before = self._found.pop(key, (None, 0))
            self._found[key] = (value, size)
            self._size += size - before
            while self._size > self._limit and len(self._found) > 1:
                _, (_, gone) = self._found.popitem(last=False)
                self._size -= gone
