"""A work queue that shares its throughput between groups (tenants) by weight, retries included.

The method is deficit round robin. An item is in at most one place: *queued* (ready), *delayed* (ready at its
deadline) or *in process* (popped, not done yet). Items in process may be asked for again; that is remembered
and carried out by `done()`, so an item is never handled twice at once and no request is lost.
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

    Groups that have ready items and are under their limit take turns; in its turn a group pops up to
    `quantum * weight` items. Retries and delayed items pass through the same turns as first attempts.
    Within a group order is first in, first out, priority items first.

    Life of an item: `add` or `add_after`, `pop`, then optionally `retry` (it failed) or `again` (look again
    later), then `done`. A `done` without `retry` is a success and ends the item's backoff.

    `on_ready`, when set, is called whenever an item became ready to pop or the next deadline came nearer.
    It must not call back into the queue.
    """

    def __init__(self, *, quantum: int = 1, backoff: Backoff | None = None, limit: int | None = None) -> None:
        """Make an empty queue.

        Args:
            quantum: items per turn and unit of weight.
            backoff: how long what failed waits.
            limit: how many items of a group that was never told otherwise are in process at once; None: no bound.

        Raises:
            ValueError: a number is below 1.
        """
        if quantum < 1:
            raise ValueError(f"quantum must be at least 1 item, not {quantum}")
        if limit is not None and limit < 1:
            raise ValueError(f"limit must be at least 1 item, or None for no limit, not {limit}")
        self.on_ready: Callable[[], None] | None = None
        self._quantum = quantum
        self._backoff = backoff or Backoff()
        self._weights: dict[str, int] = {}
        self._limits: dict[str, int] = {}
        self._ceilings: dict[str, int] = {}
        self._usual_limit = _NO_LIMIT if limit is None else limit
        self._groups: dict[str, Group[K]] = {}
        # In order of their turns; the first one has it now.
        self._active: OrderedDict[str, Group[K]] = OrderedDict()
        self._deadlines: Deadlines[Entry[K]] = Deadlines()
        self._queued = 0
        self._in_process = 0

    # Settings of groups

    def set_weight(self, group: str, weight: int) -> None:
        """Give a group its share (1..1000; 1 for groups never told) from its next turn on.

        `ValueError` if `weight` is out of range.
        """
        if not 1 <= weight <= MAX_WEIGHT:
            raise ValueError(f"weight of group {group!r} must be between 1 and {MAX_WEIGHT}, not {weight}")
        if weight == _DEFAULT_WEIGHT:
            self._weights.pop(group, None)
        else:
            self._weights[group] = weight

    def set_limit(self, group: str, in_flight: int | None) -> None:
        """Bound how many items of a group are in process at once; None: as usual, 0: hold the group.

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
        """Bound a group for a while, whatever its limit says; None ends that. `ValueError` if it is below 1."""
        if in_flight is None:
            self._ceilings.pop(group, None)
        elif in_flight < 1:
            raise ValueError(f"in_flight of group {group!r} must be at least 1, not {in_flight}")
        else:
            self._ceilings[group] = in_flight
        self._apply_limit(group)

    def has_ceiling(self, group: str) -> bool:
        """Whether the group is bounded by `set_ceiling`."""
        return group in self._ceilings

    def forget_group(self, group: str) -> None:
        """Drop a group's queued and delayed items, its backoff, weight and limit.

        Its items in process finish normally and are not handled again, unless they are added anew after this.
        """
        self._weights.pop(group, None)
        self._limits.pop(group, None)
        self._ceilings.pop(group, None)
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

    # What producers call

    def add(self, group: str, item: K, *, now: float, priority: bool = False) -> None:
        """Ask for an item to be handled as soon as it is its turn.

        Queued already: nothing changes, except that `priority` moves it up. Delayed: it is brought forward.
        In process: it is handled once more after `done()`. `priority` puts it before the group's ordinary
        items, never before other groups.
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
        """Ask for an item to be handled `delay` seconds from now, at once if that is not positive.

        The earliest wish wins. `ValueError` if `delay` is infinite or not a number.
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
        """Reset an item's backoff: its next failure counts as its first. The item stays where it is."""
        entry = self._entry(group, item)
        if entry is not None:
            entry.attempts = 0

    # What handlers call

    def pop(self, *, now: float) -> tuple[str, K] | None:
        """Take the next item into process, or None if none is ready.

        Takes the same time however many groups there are; each deadline passed adds O(log delayed), once.
        """
        if self._deadlines.earliest <= now:
            self._release_due(now)
        if not self._active:
            return None
        state = next(iter(self._active.values()))
        if state.credit == 0:  # its turn begins
            state.credit = self._quantum * self._weights.get(state.name, _DEFAULT_WEIGHT)
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

    def retry(self, group: str, item: K, *, now: float) -> float:
        """Tell, before `done()`, that an item in process failed; returns the seconds of backoff it is given.

        If it was asked for earlier than that, the earlier wish wins. Infinity: its group was forgotten, it is
        not retried. `ValueError` if the item is not in process.
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
        """Tell, before `done()`, that an item in process is to be looked at again `delay` seconds from now.

        Unlike `add_after` this is the handler's wish, which ends with its group: it has no effect after
        `forget_group`. `ValueError` if the item is not in process or `delay` not a finite number.
        """
        _require_finite(delay)
        entry = self._entry_in_process(group, item)
        if not entry.dropped:
            entry.ask_again(now + delay)

    def done(self, group: str, item: K, *, now: float) -> None:
        """End the processing of an item, and queue or delay it if it was asked for again.

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

    # What observers call

    def next_deadline(self) -> float | None:
        """When the earliest delayed item becomes ready, or None if nothing is delayed."""
        return self._deadlines.next()

    def statistics(self) -> QueueStatistics:
        """Sizes of the queue."""
        return QueueStatistics(self._queued, len(self._deadlines), self._in_process, len(self._groups))

    def depth(self, group: str) -> int:
        """Number of a group's items that wait, queued or delayed."""
        state = self._groups.get(group)
        return 0 if state is None else len(state.entries) - state.in_process

    def ready(self, group: str) -> int:
        """Number of a group's items that wait to be handled now; those that are delayed until later do not count."""
        state = self._groups.get(group)
        return 0 if state is None else len(state.ordinary) + len(state.priority)

    def oldest(self, group: str, now: float) -> tuple[K, float, int] | None:
        """The group's item that is due for longest and still not settled, or None if nothing is due.

        Tells (item, age in seconds, failures in a row). Items that wait for a retry or are in process count
        as due. Looks at every item of the group.
        """
        state = self._groups.get(group)
        if state is None:
            return None
        entry = min(state.entries.values(), key=lambda entry: entry.wanted_at)
        if entry.wanted_at > now:
            return None
        return entry.item, now - entry.wanted_at, entry.attempts

    def attempts(self, group: str, item: K) -> int:
        """How often in a row an item has failed; 0 if it did not or is not known."""
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
        """Let the group join or leave the turns, as its limit and its items demand."""
        if not state.eligible():
            if state.active:
                self._end_turns(state)
        elif not state.active:
            state.active = True
            self._active[state.name] = state
            self._notify()

    def _end_turns(self, state: Group[K]) -> None:
        # Unused credit is not saved up: a group that comes back gets no more than its share of a round.
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
        """Queue or delay an entry whose processing ended."""
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
        if nearer:
            self._notify()

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
