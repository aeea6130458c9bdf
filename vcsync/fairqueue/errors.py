"""Keeps the last error of each failing item, for /status. Memory is limited, and shared fairly between groups."""

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, NamedTuple, TypeVar

from vcsync.fairqueue.sizes import GroupSizes

K = TypeVar("K", bound=Hashable)

_LONGEST_MESSAGE = 500  # characters; API servers may answer with whole documents


class LastError(NamedTuple):
    """Last error of an item.

    Attributes:
        message: type and text of the error.
        time: seconds of the pool's clock.
        attempts: failures in a row.
        reconcile: id of the reconcile that failed.
    """

    message: str
    time: float
    attempts: int
    reconcile: str = ""


class LastErrors(Generic[K]):
    """The last error of each failing item, for at most `size` items.

    When it is full, it drops the oldest error of the group that has the most errors. So a tenant with many failing items
    cannot hide the errors of others.

    Args:
        size: the largest number of errors.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._length = 0
        self._groups: dict[str, OrderedDict[K, LastError]] = {}
        self._sizes = GroupSizes()

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[tuple[str, K, LastError]]:
        for group, errors in self._groups.items():
            for item, error in errors.items():
                yield group, item, error

    def record(
        self, group: str, item: K, error: Exception, *, time: float, attempts: int, reconcile: str = ""
    ) -> None:
        """Replace the last error of an item."""
        message = f"{type(error).__name__}: {error}"
        if len(message) > _LONGEST_MESSAGE:
            message = message[: _LONGEST_MESSAGE - 1] + "…"
        self.settle(group, item)
        errors = self._groups.setdefault(group, OrderedDict())
        errors[item] = LastError(message, time, attempts, reconcile)
        self._sizes.change(group, len(errors) - 1, len(errors))
        self._length += 1
        if self._length > self._size:
            largest = self._sizes.largest()
            self.settle(largest, next(iter(self._groups[largest])))

    def settle(self, group: str, item: K) -> None:
        """Remove the error of an item, if it has one."""
        errors = self._groups.get(group)
        if errors is None or errors.pop(item, None) is None:
            return
        self._length -= 1
        self._sizes.change(group, len(errors) + 1, len(errors))
        if not errors:
            del self._groups[group]
