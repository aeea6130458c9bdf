"""A cache of the most recently used values. Pure."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


class RecentlyUsed(Generic[_Key, _Value]):
    """A cache that drops the least recently used values when it is full.

    Args:
        capacity: The sum of the sizes of the cached values: their number, unless `put` gets sizes.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._used = 0
        self._values: OrderedDict[_Key, tuple[_Value, int]] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of cached values."""
        return len(self._values)

    @property
    def used(self) -> int:
        """The sum of the sizes of the cached values."""
        return self._used

    def get(self, key: _Key) -> _Value | None:
        """Return the cached value of a key, or None."""
        found = self._values.get(key)
        if found is None:
            return None
        self._values.move_to_end(key)
        return found[0]

    def put(self, key: _Key, value: _Value, size: int = 1) -> None:
        """Cache a value, and drop the least recently used ones until it fits. A value larger than the cache is not cached."""
        before = self._values.pop(key, None)
        self._used -= before[1] if before else 0
        if size > self._capacity:
            return
        self._values[key] = (value, size)
        self._used += size
        while self._used > self._capacity:
            _, (_, dropped) = self._values.popitem(last=False)
            self._used -= dropped

    def drop(self, unwanted: Callable[[_Value], bool]) -> None:
        """Drop the values for which a function returns true."""
        for key in [key for key, (value, _) in self._values.items() if unwanted(value)]:
            _, size = self._values.pop(key)
            self._used -= size

    def clear(self) -> None:
        """Drop all values."""
        self._values.clear()
        self._used = 0
