"""What a fair queue remembers about a group that has items, and about each of them."""

from collections import OrderedDict
from collections.abc import Hashable
from enum import Enum
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_PRIORITY_RUN = 8  # priority items of a group popped in a row before one of its ordinary items gets its turn


class Place(Enum):
    """Where an item is; it is in one place at a time."""

    QUEUED = "queued"
    DELAYED = "delayed"
    IN_PROCESS = "in process"


class Group(Generic[K]):
    """A group that has items. Made with its first item, dropped with its last one."""

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
        self.credit = 0  # items it may still pop in its present turn
        self.active = False  # it takes turns

    def eligible(self) -> bool:
        """Whether it may take a turn: something is ready and the limit leaves room."""
        return bool(self.ordinary or self.priority) and self.in_process < self.limit

    def take(self) -> "Entry[K]":
        """Remove and return the next ready entry; ordinary ones do not starve behind priority ones."""
        if self.priority and (not self.ordinary or self.priority_run < _PRIORITY_RUN):
            self.priority_run += 1
            return self.priority.popitem(last=False)[1]
        self.priority_run = 0
        return self.ordinary.popitem(last=False)[1]


class Entry(Generic[K]):
    """Everything known about one item."""

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
        self.wanted_at = wanted_at  # since when it is due and has not been settled
        self.attempts = 0  # failures in a row
        self.ticket = 0  # delayed: cancels its deadline
        self.due: float | None = None  # delayed: its deadline; in process: when to handle it again, if at all
        # The rest is meaningful while in process:
        self.priority = False  # the next run has priority
        self.failed = False
        self.dropped = False  # its group was forgotten: the handler's wish to see it again no longer counts

    def ask_again(self, at: float) -> None:
        """Note, while in process, a wish to handle it again; the earliest one counts."""
        if self.due is None or at < self.due:
            self.due = at
