"""The state of a group in a fair queue, and of each of its items."""

from collections import OrderedDict
from collections.abc import Hashable
from enum import Enum
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_PRIORITY_RUN = 8  # priority items of a group that are popped in a row before one of its ordinary items


class Place(Enum):
    """The place of an item. An item is in one place at a time."""

    QUEUED = "queued"
    DELAYED = "delayed"
    IN_PROCESS = "in process"


class Group(Generic[K]):
    """A group with items. It is created with its first item and dropped with its last one."""

    __slots__ = (
        "active",
        "credit",
        "entries",
        "in_process",
        "limit",
        "name",
        "ordinary",
        "priority",
        "priority_run",
    )

    def __init__(self, name: str, limit: int) -> None:
        self.name = name
        self.limit = limit
        self.entries: dict[K, Entry[K]] = {}
        self.ordinary: OrderedDict[K, Entry[K]] = OrderedDict()
        self.priority: OrderedDict[K, Entry[K]] = OrderedDict()
        self.priority_run = 0
        self.in_process = 0
        self.credit = 0  # items that it may still pop in its current turn
        self.active = False  # whether it takes turns

    def eligible(self) -> bool:
        """Return whether it may take a turn: an item is ready, and the limit is not reached."""
        return bool(self.ordinary or self.priority) and self.in_process < self.limit

    def take(self) -> "Entry[K]":
        """Remove and return the next ready entry. Ordinary entries do not starve behind priority entries."""
        if self.priority and (not self.ordinary or self.priority_run < _PRIORITY_RUN):
            self.priority_run += 1
            return self.priority.popitem(last=False)[1]
        self.priority_run = 0
        return self.ordinary.popitem(last=False)[1]


class Entry(Generic[K]):
    """The state of one item."""

    __slots__ = (
        "attempts",
        "dropped",
        "due",
        "failed",
        "group",
        "item",
        "place",
        "priority",
        "ticket",
        "wanted_at",
    )

    def __init__(self, group: Group[K], item: K, wanted_at: float) -> None:
        self.group = group
        self.item = item
        self.place = Place.QUEUED
        self.wanted_at = wanted_at  # when it became due, unless it has been settled since
        self.attempts = 0  # failures in a row
        self.ticket = 0  # cancels its deadline, while delayed
        # The deadline of a delayed item, or the time to handle an item in process again.
        self.due: float | None = None
        # The following attributes are used while in process:
        self.priority = False  # whether the next run has priority
        self.failed = False
        self.dropped = False  # whether its group was forgotten, so that `retry` and `again` have no effect

    def ask_again(self, at: float) -> None:
        """Request, while in process, that it is handled again. The earliest time counts."""
        if self.due is None or at < self.due:
            self.due = at
