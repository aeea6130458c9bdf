"""A cache of the most recently used values. Pure."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


class RecentlyUsed(Generic[_Key, _Value]):
    """A cache that drops the least recently used value when it is full.

    Args:
        capacity: Values that are cached.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._values: OrderedDict[_Key, _Value] = OrderedDict()

    def get(self, key: _Key) -> _Value | None:
        """Return the cached value of a key, or None."""
        found = self._values.get(key)
        if found is not None:
            self._values.move_to_end(key)
        return found

    def put(self, key: _Key, value: _Value) -> None:
        """Cache a value. Drops the least recently used one if the cache is full."""
        self._values[key] = value
        if len(self._values) > self._capacity:
            self._values.popitem(last=False)
