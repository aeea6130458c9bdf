"""A work queue that shares its throughput between groups (tenants) by weight, retries included.

The method is deficit round robin. An item is in at most one place: *queued* (ready), *delayed* (ready at its
deadline) or *in process* (popped, not done yet). An item in process may be added again. `done()` then enqueues it, so an
item is never handled twice concurrently, and no request is lost.
"""

import math
import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from vcsync.fairqueue.backoff import Backoff
from vcsync.fairqueue.deadlines import Deadlines
from vcsync.fairqueue.groups import Entry, Group, Place

K = TypeVar("K", bound=Hashable)

MAX_WEIGHT = 1000
MOST_DEBT = 1000.0
"""Largest number of items for which a group gives up its turns, so that it has one again after a bounded time."""
_DEFAULT_WEIGHT = 1
_NO_LIMIT = sys.maxsize
_QUEUED, _DELAYED, _IN_PROCESS = Place.QUEUED, Place.DELAYED, Place.IN_PROCESS  # looked up once


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """Number of items in each place, and of groups that have any item."""

    queued: int
    delayed: int
    in_process: int
    groups: int


class FairQueue(Generic[K]):
    """Weighted fair queue of de-duplicated items. Not thread-safe; `now` is seconds of one monotonic clock.

    Groups that have ready items and are under their limit take turns; in one turn a group pops up to
    `quantum * weight` items. Retries and delayed items pass through the same turns as first attempts.
    Within a group, priority items come first; otherwise the order is first in, first out.

    Items may differ in cost. A group that was charged for an item (`charge`) gives up as many of its next items as that item
    cost more than a usual one. Turns thus share the cost, and not the number of items. While no other group has a turn, a debt
    delays nothing and is forgotten. It outlasts the group's last item, so that it cannot be avoided by having one item at a time.

    The life of an item: `add` or `add_after`, `pop`, then optionally `retry` (it failed) or `again` (handle it again
    later), then `done`. A `done` without `retry` is a success and ends the backoff of the item.

    `on_ready`, if set, is called whenever an item becomes ready, and `on_deadline` whenever the next deadline becomes earlier.
    Both may read `has_turns` and `queued`, and must not call the queue otherwise.
    """

    def __init__(self, *, quantum: int = 1, backoff: Backoff | None = None, limit: int | None = None) -> None:
        """Create an empty queue.

        Args:
            quantum: items per turn and unit of weight.
            backoff: pauses of failed items.
            limit: default for the largest number of items of a group in process; None for no limit.

        Raises:
            ValueError: a number is below 1.
        """
        if quantum < 1:
            raise ValueError(f"quantum must be at least 1 item, not {quantum}")
        if limit is not None and limit < 1:
            raise ValueError(f"limit must be at least 1 item, or None for no limit, not {limit}")
        self.on_ready: Callable[[], None] | None = None
        self.on_deadline: Callable[[], None] | None = None
        self._quantum = quantum
        self._backoff = backoff or Backoff()
        self._weights: dict[str, int] = {}
        self._limits: dict[str, int] = {}
        self._ceilings: dict[str, int] = {}
        self._debts: dict[str, float] = {}  # items that a group has to give up
        self._usual_limit = _NO_LIMIT if limit is None else limit
        self._groups: dict[str, Group[K]] = {}
        # In the order of their turns; the first group has the current turn.
        self._active: OrderedDict[str, Group[K]] = OrderedDict()
        self._deadlines: Deadlines[Entry[K]] = Deadlines()
        self._queued = 0
        self._in_process = 0

    # Settings of groups

    def set_weight(self, group: str, weight: int) -> None:
        """Set the weight of a group (1 to 1000; the default is 1), from its next turn on.

        `ValueError` if `weight` is out of range.
        """
        if not 1 <= weight <= MAX_WEIGHT:
            raise ValueError(f"weight of group {group!r} must be between 1 and {MAX_WEIGHT}, not {weight}")
        if weight == _DEFAULT_WEIGHT:
            self._weights.pop(group, None)
        else:
            self._weights[group] = weight

    def set_limit(self, group: str, in_flight: int | None) -> None:
        """Limit the number of items of a group in process. None sets the default, 0 pauses the group.

        Items in process beyond a lowered limit finish normally. `ValueError` if `in_flight` is negative.
        """
        if in_flight is None:
            self._limits.pop(group, None)
        elif in_flight < 0:
            raise ValueError(
                f"in_flight of group {group!r} must be 0 or more, or None for no limit, not {in_flight}"
            )
        else:
            self._limits[group] = in_flight
        self._apply_limit(group)

    def set_ceiling(self, group: str, in_flight: int | None) -> None:
        """Set a second limit of a group, besides `set_limit`; None removes it. `ValueError` if it is below 1."""
        if in_flight is None:
            self._ceilings.pop(group, None)
        elif in_flight < 1:
            raise ValueError(f"in_flight of group {group!r} must be at least 1, not {in_flight}")
        else:
            self._ceilings[group] = in_flight
        self._apply_limit(group)

    def has_ceiling(self, group: str) -> bool:
        """Return whether the group has a limit from `set_ceiling`."""
        return group in self._ceilings

    def forget_group(self, group: str) -> None:
        """Drop a group's queued and delayed items, its backoff, weight, limit and debt.

        Its items in process finish normally and are not handled again, unless they are added again after this.
        """
        self._weights.pop(group, None)
        self._limits.pop(group, None)
        self._ceilings.pop(group, None)
        self._debts.pop(group, None)
        state = self._groups.get(group)
        if state is None:
            return
        self._queued -= len(state.ordinary) + len(state.priority)
        state.ordinary.clear()
        state.priority.clear()
        state.limit = self._usual_limit
        kept: dict[K, Entry[K]] = {}
        for item, entry in state.entries.items():
            if entry.place is _IN_PROCESS:
                entry.due = None
                entry.attempts = 0
                entry.priority = entry.failed = False
                entry.dropped = True
                kept[item] = entry
            elif entry.place is _DELAYED:
                self._cancel_deadline(entry)
        state.entries = kept
        self._update_turn(state)
        if not kept:
            del self._groups[group]

    # Methods for producers

    def add(self, group: str, item: K, *, now: float, priority: bool = False) -> None:
        """Enqueue an item.

        If it is queued already, nothing changes, except that `priority` moves it forward. If it is delayed, it is queued
        now. If it is in process, it is handled again after `done()`. `priority` puts the item before the group's ordinary
        items, but not before other groups.
        """
        state = self._groups.get(group) or self._new_group(group)
        entry = state.entries.get(item)
        if entry is None:
            entry = state.entries[item] = Entry(state, item, now)
            self._enqueue(entry, priority)
        elif entry.place is _IN_PROCESS:
            entry.ask_again(now)
            entry.priority |= priority
            entry.dropped = False
        elif entry.place is _DELAYED:
            self._cancel_deadline(entry)
            entry.wanted_at = min(entry.wanted_at, now)
            self._enqueue(entry, priority)
        elif priority and item in state.ordinary:
            state.priority[item] = state.ordinary.pop(item)

    def add_after(self, group: str, item: K, delay: float, *, now: float) -> None:
        """Enqueue an item after `delay` seconds, or immediately if that is not positive.

        Of several times for an item the earliest counts. `ValueError` if `delay` is infinite or not a number.
        """
        _require_finite(delay)
        if delay <= 0:
            self.add(group, item, now=now)
            return
        due = now + delay
        state = self._groups.get(group) or self._new_group(group)
        entry = state.entries.get(item)
        if entry is None:
            entry = state.entries[item] = Entry(state, item, due)
            self._set_deadline(entry, due)
        elif entry.place is _IN_PROCESS:
            entry.ask_again(due)
            entry.dropped = False
        elif entry.due is not None and due < entry.due:  # it is delayed, until later
            self._cancel_deadline(entry)
            entry.wanted_at = min(entry.wanted_at, due)
            self._set_deadline(entry, due)

    def forget(self, group: str, item: K) -> None:
        """Reset an item's backoff: its next failure counts as its first. The item itself is not moved."""
        entry = self._entry(group, item)
        if entry is not None:
            entry.attempts = 0

    # Methods for handlers

    def pop(self, *, now: float) -> tuple[str, K] | None:
        """Return the next item, which is in process from now on; None if none is ready.

        This takes constant time, plus O(log delayed) for each item whose deadline has passed, and O(1) for each turn that is
        given up for a debt.
        """
        if self._deadlines.earliest <= now:
            self._release_due(now)
        if not self._active:
            return None
        state = self._next_turn()
        entry = state.take()
        entry.place = _IN_PROCESS
        state.in_process += 1
        state.credit -= 1
        self._queued -= 1
        self._in_process += 1
        if not state.eligible():
            self._end_turns(state)
        elif state.credit == 0:
            self._active.move_to_end(state.name)
        return state.name, entry.item

    def charge(self, group: str, item: K, items: float) -> None:
        """Report, before `done()`, that an item in process costs as much as `items` usual ones besides itself.

        This has no effect after `forget_group`. `ValueError` if the item is not in process or `items` is not a finite number
        of zero or more.
        """
        if not 0 <= items < math.inf:
            raise ValueError(f"items must be a finite number of 0 or more, not {items}")
        entry = self._entry_in_process(group, item)
        if items and not entry.dropped:
            self._debts[group] = min(self._debts.get(group, 0.0) + items, MOST_DEBT)
            state = entry.group
            if state.credit:  # the rest of its turn pays first
                self._pay(state)
                if state.credit == 0:
                    self._active.move_to_end(group)

    def retry(self, group: str, item: K, *, now: float) -> float:
        """Report, before `done()`, that an item in process failed. Return its backoff in seconds.

        If the item was added for an earlier time, that time counts. The result is infinite if the group was forgotten, so
        that the item is not retried. `ValueError` if the item is not in process.
        """
        entry = self._entry_in_process(group, item)
        if entry.dropped:
            return math.inf
        entry.attempts += 1
        entry.failed = True
        delay = self._backoff.delay(group, item, entry.attempts)
        entry.ask_again(now + delay)
        return delay

    def again(self, group: str, item: K, delay: float, *, now: float) -> None:
        """Request, before `done()`, that an item in process is handled again after `delay` seconds.

        Unlike `add_after`, this has no effect after `forget_group`. `ValueError` if the item is not in process or `delay`
        is not a finite number.
        """
        _require_finite(delay)
        entry = self._entry_in_process(group, item)
        if not entry.dropped:
            entry.ask_again(now + delay)

    def done(self, group: str, item: K, *, now: float) -> None:
        """End the processing of an item, and queue or delay it if it was added again.

        `ValueError` if the item is not in process.
        """
        entry = self._entry_in_process(group, item)
        state = entry.group
        state.in_process -= 1
        self._in_process -= 1
        if entry.due is None:
            del state.entries[item]
        else:
            self._put_back(entry, entry.due, now)
        if not state.entries:
            del self._groups[group]
        elif not state.active:
            self._update_turn(state)

    # Methods for observers

    @property
    def has_turns(self) -> bool:
        """Whether `pop` would return an item of those that are ready."""
        return bool(self._active)

    @property
    def queued(self) -> int:
        """Number of ready items, including those of groups that have reached their limit."""
        return self._queued

    def release_due(self, now: float) -> None:
        """Make the items ready whose deadline has passed, as `pop` does."""
        self._release_due(now)

    def next_deadline(self) -> float | None:
        """Return when the earliest delayed item becomes ready; None if none is delayed."""
        return self._deadlines.next()

    def statistics(self) -> QueueStatistics:
        """Return the sizes of the queue."""
        return QueueStatistics(self._queued, len(self._deadlines), self._in_process, len(self._groups))

    def depth(self, group: str) -> int:
        """Return the number of a group's items that are queued or delayed."""
        state = self._groups.get(group)
        return 0 if state is None else len(state.entries) - state.in_process

    def ready(self, group: str) -> int:
        """Return the number of a group's queued items. Delayed items do not count."""
        state = self._groups.get(group)
        return 0 if state is None else len(state.ordinary) + len(state.priority)

    def oldest(self, group: str, now: float) -> tuple[K, float, int] | None:
        """Return the group's item that has been due for longest; None if none is due.

        Items that wait for a retry or are in process count as due. This examines every item of the group.

        Returns:
            (item, seconds since it is due, failures in a row).
        """
        state = self._groups.get(group)
        if state is None:
            return None
        entry = min(state.entries.values(), key=lambda entry: entry.wanted_at)
        if entry.wanted_at > now:
            return None
        return entry.item, now - entry.wanted_at, entry.attempts

    def attempts(self, group: str, item: K) -> int:
        """Return the number of consecutive failures of an item; 0 if the item is not known."""
        entry = self._entry(group, item)
        return 0 if entry is None else entry.attempts

    # Groups and their turns

    def _new_group(self, name: str) -> Group[K]:
        state = self._groups[name] = Group(name, self._limit_of(name))
        return state

    def _limit_of(self, name: str) -> int:
        return min(self._limits.get(name, self._usual_limit), self._ceilings.get(name, _NO_LIMIT))

    def _apply_limit(self, name: str) -> None:
        state = self._groups.get(name)
        if state is not None:
            state.limit = self._limit_of(name)
            self._update_turn(state)

    def _update_turn(self, state: Group[K]) -> None:
        """Add the group to the turns or remove it, according to its limit and its items."""
        if not state.eligible():
            if state.active:
                self._end_turns(state)
        elif not state.active:
            state.active = True
            self._active[state.name] = state
            self._notify()

    def _next_turn(self) -> Group[K]:
        """Return the group that pops the next item. Groups that owe items before it give up their turns."""
        passed = 0
        while True:
            state = next(iter(self._active.values()))
            if state.credit == 0:  # its turn begins
                state.credit = self._turn_of(state.name)
                self._pay(state)
            if state.credit:
                return state
            self._active.move_to_end(state.name)
            passed += 1
            if passed % len(self._active) == 0:
                self._forget_common_debt()

    def _turn_of(self, name: str) -> int:
        """Return the number of items of a group's turn."""
        return self._quantum * self._weights.get(name, _DEFAULT_WEIGHT)

    def _pay(self, state: Group[K]) -> None:
        """Reduce the credit of a turn by what the group owes."""
        debt = self._debts.get(state.name)
        if debt is None:
            return
        paid = min(state.credit, int(debt))
        state.credit -= paid
        if debt > paid:
            self._debts[state.name] = debt - paid
        else:
            del self._debts[state.name]

    def _forget_common_debt(self) -> None:
        """Forget the turns that all groups would give up one after the other."""
        rounds = min(int(self._debts.get(name, 0.0)) // self._turn_of(name) for name in self._active)
        for name in self._active if rounds else ():
            self._debts[name] -= rounds * self._turn_of(name)

    def _end_turns(self, state: Group[K]) -> None:
        # Unused credit is not kept: a group that returns gets no more than its share of a round.
        state.active = False
        state.credit = 0
        del self._active[state.name]

    # Entries and their places

    def _entry(self, group: str, item: K) -> Entry[K] | None:
        state = self._groups.get(group)
        return None if state is None else state.entries.get(item)

    def _entry_in_process(self, group: str, item: K) -> Entry[K]:
        entry = self._entry(group, item)
        if entry is None or entry.place is not _IN_PROCESS:
            raise ValueError(
                f"item {item!r} of group {group!r} is not in process; call this between pop() and done()"
            )
        return entry

    def _enqueue(self, entry: Entry[K], priority: bool) -> None:
        state = entry.group
        entry.place = _QUEUED
        (state.priority if priority else state.ordinary)[entry.item] = entry
        self._queued += 1
        if state.active:
            self._notify()
        else:
            self._update_turn(state)

    def _put_back(self, entry: Entry[K], due: float, now: float) -> None:
        """Queue or delay an entry whose processing has ended."""
        if not entry.failed:
            entry.attempts = 0
            entry.wanted_at = due
        priority = entry.priority
        entry.due = None
        entry.priority = entry.failed = False
        if due <= now:
            self._enqueue(entry, priority)
        else:
            self._set_deadline(entry, due)

    def _notify(self) -> None:
        if self.on_ready is not None:
            self.on_ready()

    # Deadlines

    def _set_deadline(self, entry: Entry[K], due: float) -> None:
        nearer = due < self._deadlines.earliest
        entry.place = _DELAYED
        entry.due = due
        entry.ticket = self._deadlines.set(due, entry)
        if nearer and self.on_deadline is not None:
            self.on_deadline()

    def _cancel_deadline(self, entry: Entry[K]) -> None:
        self._deadlines.cancel(entry.ticket)
        entry.due = None

    def _release_due(self, now: float) -> None:
        while (entry := self._deadlines.take_due(now)) is not None:
            entry.due = None
            self._enqueue(entry, priority=False)


def _require_finite(delay: float) -> None:
    if not math.isfinite(delay):
        raise ValueError(f"delay must be a finite number of seconds, not {delay}")
