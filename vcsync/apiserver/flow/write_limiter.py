"""Limits how many writes of one namespace are in progress. The others wait without delaying other namespaces.

Writes in progress share the event loop with the writes of all tenants. With sixteen writes of one namespace in progress,
another tenant's next step waits for a step of each, and for their commits; two keep the loop nearly as busy. All callers
of a tenant share the limit of its namespace, its controllers and syncers included. Each event-loop iteration admits one
waiting write. If no other namespace has written in the last second, the limit is lifted so that writes can share a commit.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

MAX_CONCURRENT_WRITES = 2
"""Most writes of one namespace in progress."""
SLOT_SECONDS = 0.05
"""A write that takes longer does not wait for the event loop, and no longer counts against the limit."""
ALONE_SECONDS = 1.0
"""The limit of a namespace is lifted when no other namespace has written for this long."""

Key = tuple[str, str]
"""Tenant, namespace."""


class WriteSlot:
    """One write in progress of a namespace."""

    __slots__ = ("_limiter", "key", "since")

    def __init__(self, limiter: "NamespaceWriteLimiter", key: Key, since: float) -> None:
        """Create a slot; only the limiter does.

        Args:
            limiter: The limiter that gave the slot.
            key: The namespace of the write.
            since: The time at which the write began, by the limiter's clock.
        """
        self._limiter = limiter
        self.key = key
        self.since = since

    def release(self) -> None:
        """Release the slot. Calls after the first do nothing."""
        self._limiter.release(self)


class _NamespaceWrites:
    """The writes of one namespace.

    Attributes:
        key: The namespace.
        slots: The writes in progress, oldest first.
        waiting: The writes that wait, in order of arrival.
        timer: Fires when the oldest slot is overdue; None while no write waits.
    """

    __slots__ = ("key", "slots", "timer", "waiting")

    def __init__(self, key: Key) -> None:
        self.key = key
        self.slots: list[WriteSlot] = []
        self.waiting: deque[asyncio.Future[WriteSlot]] = deque()
        self.timer: asyncio.TimerHandle | None = None


class NamespaceWriteLimiter:
    """Limits the concurrent writes of each namespace. It keeps no state about namespaces without writes."""

    def __init__(
        self,
        limit: int = MAX_CONCURRENT_WRITES,
        slot_seconds: float = SLOT_SECONDS,
        alone_seconds: float = ALONE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create a limiter without writes.

        Args:
            limit: Most writes of one namespace in progress.
            slot_seconds: Time after which a write no longer counts against the limit.
            alone_seconds: Time without writes of other namespaces after which the limit of a namespace is lifted.
            clock: Returns the time in seconds.
        """
        self._limit = limit
        self._slot_seconds = slot_seconds
        self._alone_seconds = alone_seconds
        self._clock = clock
        self._latest: tuple[Key, float] = (("", ""), -math.inf)
        self._latest_of_another = self._latest
        """The latest write of another namespace than `_latest`."""
        self._namespaces: dict[Key, _NamespaceWrites] = {}
        self._ready: deque[_NamespaceWrites] = deque()
        """Namespaces of which one waiting write may begin."""
        self._next: asyncio.Handle | None = None

    async def acquire(self, key: Key) -> WriteSlot:
        """Wait, first come first served, until a write of a namespace may begin.

        Returns:
            The write's slot. The caller releases it.
        """
        if self._latest[0] != key:
            self._latest_of_another = self._latest
        self._latest = (key, self._clock())
        writes = self._namespaces.get(key)
        if writes is None:
            writes = self._namespaces[key] = _NamespaceWrites(key)
        if not writes.waiting and self._may_begin(writes):
            return self._new_slot(writes)
        future: asyncio.Future[WriteSlot] = asyncio.get_running_loop().create_future()
        writes.waiting.append(future)
        self._start_timer(writes)
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                future.result().release()
            raise

    def release(self, slot: WriteSlot) -> None:
        """Release a slot; see `WriteSlot.release`."""
        writes = self._namespaces.get(slot.key)
        if writes is not None and slot in writes.slots:
            writes.slots.remove(slot)
            self._advance(writes)

    def waiting(self, tenant: str) -> int:
        """Return how many writes of a tenant wait."""
        found = [writes for (owner, _), writes in self._namespaces.items() if owner == tenant]
        return sum(not each.done() for writes in found for each in writes.waiting)

    def _may_begin(self, writes: _NamespaceWrites) -> bool:
        """Return whether one more write of a namespace may begin."""
        if len(writes.slots) < self._limit:
            return True
        other = self._latest_of_another if self._latest[0] == writes.key else self._latest
        return self._clock() - other[1] > self._alone_seconds

    def _new_slot(self, writes: _NamespaceWrites) -> WriteSlot:
        slot = WriteSlot(self, writes.key, self._clock())
        writes.slots.append(slot)
        return slot

    def _advance(self, writes: _NamespaceWrites) -> None:
        """Schedule the next waiting write of a namespace if it may begin; forget a namespace without writes."""
        while writes.waiting and writes.waiting[0].done():  # cancelled while it waited
            writes.waiting.popleft()
        if not writes.waiting and writes.timer is not None:
            writes.timer.cancel()
            writes.timer = None
        if writes.waiting and self._may_begin(writes):
            self._ready.append(writes)
            if self._next is None:
                self._next = asyncio.get_running_loop().call_soon(self._begin)
        elif not writes.slots and not writes.waiting and self._namespaces.get(writes.key) is writes:
            del self._namespaces[writes.key]

    def _begin(self) -> None:
        """Let one of the ready writes begin; schedule the next one for the next iteration of the event loop."""
        self._next = None
        writes = self._ready.popleft()
        if writes.waiting and not writes.waiting[0].done() and self._may_begin(writes):
            writes.waiting.popleft().set_result(self._new_slot(writes))
            self._start_timer(writes)
        self._advance(writes)
        if self._ready and self._next is None:
            self._next = asyncio.get_running_loop().call_soon(self._begin)

    def _start_timer(self, writes: _NamespaceWrites) -> None:
        """Start the timer that takes overdue slots back, so that no write waits for one that does not end."""
        if writes.timer is None and writes.waiting and writes.slots:
            left = writes.slots[0].since + self._slot_seconds - self._clock()
            writes.timer = asyncio.get_running_loop().call_later(max(0.0, left), self._drop_overdue, writes)

    def _drop_overdue(self, writes: _NamespaceWrites) -> None:
        writes.timer = None
        overdue = self._clock() - self._slot_seconds
        writes.slots = [each for each in writes.slots if each.since > overdue]
        self._start_timer(writes)
        self._advance(writes)


class LimitedWrite:
    """One write of a namespace, which starts without a slot."""

    __slots__ = ("_key", "_limiter", "_slot")

    def __init__(self, limiter: NamespaceWriteLimiter, key: Key) -> None:
        """Create a write of the namespace `key`, limited by `limiter`."""
        self._limiter = limiter
        self._key = key
        self._slot: WriteSlot | None = None

    async def acquire(self) -> None:
        """Wait for a slot; calls after the first do nothing.

        Call it when the write waits for nothing but other writes of its namespace.
        """
        if self._slot is None:
            self._slot = await self._limiter.acquire(self._key)

    def release(self) -> None:
        """Release the slot, if there is one."""
        if self._slot is not None:
            self._slot.release()


_current: ContextVar[LimitedWrite | None] = ContextVar("limited_write", default=None)


@contextmanager
def limited_write(limiter: NamespaceWriteLimiter, key: Key) -> Iterator[LimitedWrite]:
    """Limit the write that the block does.

    The slot that the write acquires is released at the end of the block, or earlier by `release_current_slot`.
    """
    write = LimitedWrite(limiter, key)
    token = _current.set(write)
    try:
        yield write
    finally:
        _current.reset(token)
        write.release()


def release_current_slot() -> None:
    """Release the slot of the write in whose context this runs, if it has one.

    Call it before waiting for something outside the event loop, so that other writes of the namespace can begin.
    """
    write = _current.get()
    if write is not None:
        write.release()
