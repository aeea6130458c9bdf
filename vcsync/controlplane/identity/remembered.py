"""Values that are kept as long as they are used. Pure."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


class Remembered(Generic[_Key, _Value]):
    """The values of the keys that were used last."""

    def __init__(self, capacity: int) -> None:
        """Keep so many."""
        self._capacity = capacity
        self._values: OrderedDict[_Key, _Value] = OrderedDict()

    def get(self, key: _Key) -> _Value | None:
        """Return what is kept."""
        found = self._values.get(key)
        if found is not None:
            self._values.move_to_end(key)
        return found

    def put(self, key: _Key, value: _Value) -> None:
        """Keep a value, in the place of the one that was not used longest."""
        self._values[key] = value
        if len(self._values) > self._capacity:
            self._values.popitem(last=False)
