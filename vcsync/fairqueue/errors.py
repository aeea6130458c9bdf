"""The last error of each failing item, for the operators' window: bounded, and fair to groups."""

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)

_LONGEST_MESSAGE = 500  # characters; API servers may answer with whole documents


class LastError(NamedTuple):
    """Why an item failed: type and text of the error, the pool's clock then (seconds), failures in a row."""

    message: str
    time: float
    attempts: int


class LastErrors(Generic[K]):
    """At most `size` errors. When full, the group that has most gives up its oldest one.

    So a tenant with many failing items cannot hide the errors of the others.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._length = 0
        self._groups: dict[str, OrderedDict[K, LastError]] = {}

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[tuple[str, K, LastError]]:
        for group, errors in self._groups.items():
            for item, error in errors.items():
                yield group, item, error

    def record(self, group: str, item: K, error: Exception, *, time: float, attempts: int) -> None:
        """Note an item's newest error in place of its earlier one."""
        message = f"{type(error).__name__}: {error}"
        if len(message) > _LONGEST_MESSAGE:
            message = message[: _LONGEST_MESSAGE - 1] + "…"
        self.settle(group, item)
        self._groups.setdefault(group, OrderedDict())[item] = LastError(message, time, attempts)
        self._length += 1
        if self._length > self._size:
            largest = max(self._groups, key=lambda name: len(self._groups[name]))
            self.settle(largest, next(iter(self._groups[largest])))

    def settle(self, group: str, item: K) -> None:
        """Remove an item's error, if there is one."""
        errors = self._groups.get(group)
        if errors is None or errors.pop(item, None) is None:
            return
        self._length -= 1
        if not errors:
            del self._groups[group]
