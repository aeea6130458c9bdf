"""How many writes of one namespace are in hand at once: the others wait where they keep nobody.

Writes that are begun take their turns on the event loop with those of all tenants. Of sixteen of one namespace somebody
else's next step waits for a step of each, and for their commits; two keep the loop nearly as busy. Those who write for a tenant,
its controllers and syncers too, share its namespace's two. Of all that wait one begins in each round of the loop. While
nobody writes elsewhere nobody would be kept: then any number begins, and many are committed together.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

MOST = 2
"""Writes of one namespace in hand at once."""
HELD_SECONDS = 0.05
"""A write that takes longer waits for something else than the event loop: it keeps none of its namespace any more."""
ALONE_SECONDS = 1.0
"""Since when nobody has written elsewhere when a namespace's writes keep nobody."""

Key = tuple[str, str]
"""Tenant, namespace."""


class Hold:
    """A write's place among those in hand; `release` gives it to the next."""

    __slots__ = ("_hands", "key", "since")

    def __init__(self, hands: "Hands", key: Key, since: float) -> None:
        """Take whose it is, whose write, and since when."""
        self._hands = hands
        self.key = key
        self.since = since

    def release(self) -> None:
        """Give the place back, if that was not done."""
        self._hands.release(self)


class _Place:
    """One namespace's writes: those in hand, longest first, those that wait, and what looks after the former."""

    __slots__ = ("held", "key", "timer", "waiting")

    def __init__(self, key: Key) -> None:
        self.key = key
        self.held: list[Hold] = []
        self.waiting: deque[asyncio.Future[Hold]] = deque()
        self.timer: asyncio.TimerHandle | None = None


class Hands:
    """The writes in hand, by namespace. Of a namespace without any nothing is kept."""

    def __init__(
        self,
        most: int = MOST,
        seconds: float = HELD_SECONDS,
        alone: float = ALONE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take how many of one namespace there may be, see the constants for the rest, and a clock of seconds."""
        self._most = most
        self._seconds = seconds
        self._alone = alone
        self._clock = clock
        self._latest: tuple[Key, float] = (("", ""), -math.inf)
        self._before = self._latest  # the latest of another namespace than that
        self._places: dict[Key, _Place] = {}
        self._ready: deque[_Place] = deque()  # of which one may begin
        self._next: asyncio.Handle | None = None

    async def take(self, key: Key) -> Hold:
        """Wait until a write of a namespace may begin, first come first served; release what is returned."""
        if self._latest[0] != key:
            self._before = self._latest
        self._latest = (key, self._clock())
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = _Place(key)
        if not place.waiting and self._room(place):
            return self._give(place)
        future: asyncio.Future[Hold] = asyncio.get_running_loop().create_future()
        place.waiting.append(future)
        self._look_after(place)
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                future.result().release()
            raise

    def release(self, hold: Hold) -> None:
        """Take a place back; see `Hold.release`."""
        place = self._places.get(hold.key)
        if place is not None and hold in place.held:
            place.held.remove(hold)
            self._go_on(place)

    def waiting(self, tenant: str) -> int:
        """Return how many writes of a tenant wait."""
        places = [place for (of, _), place in self._places.items() if of == tenant]
        return sum(not each.done() for place in places for each in place.waiting)

    def _room(self, place: _Place) -> bool:
        """Tell whether one more may begin."""
        if len(place.held) < self._most:
            return True
        other = self._before if self._latest[0] == place.key else self._latest
        return self._clock() - other[1] > self._alone

    def _give(self, place: _Place) -> Hold:
        hold = Hold(self, place.key, self._clock())
        place.held.append(hold)
        return hold

    def _go_on(self, place: _Place) -> None:
        """Let one that waits begin when it is its turn, or forget the namespace."""
        while place.waiting and place.waiting[0].done():  # who was cancelled waits no longer
            place.waiting.popleft()
        if not place.waiting and place.timer is not None:
            place.timer.cancel()
            place.timer = None
        if place.waiting and self._room(place):
            self._ready.append(place)
            if self._next is None:
                self._next = asyncio.get_running_loop().call_soon(self._begin)
        elif not place.held and not place.waiting and self._places.get(place.key) is place:
            del self._places[place.key]

    def _begin(self) -> None:
        """Let one begin, of those that may; the next one in the next round of the loop."""
        self._next = None
        place = self._ready.popleft()
        if place.waiting and not place.waiting[0].done() and self._room(place):
            place.waiting.popleft().set_result(self._give(place))
            self._look_after(place)
        self._go_on(place)
        if self._ready and self._next is None:
            self._next = asyncio.get_running_loop().call_soon(self._begin)

    def _look_after(self, place: _Place) -> None:
        """See to it that nobody waits for writes that do not come to an end."""
        if place.timer is None and place.waiting and place.held:
            left = place.held[0].since + self._seconds - self._clock()
            place.timer = asyncio.get_running_loop().call_later(max(0.0, left), self._overdue, place)

    def _overdue(self, place: _Place) -> None:
        place.timer = None
        late = self._clock() - self._seconds
        place.held = [each for each in place.held if each.since > late]
        self._look_after(place)
        self._go_on(place)


class Grip:
    """What one write has of its namespace's places: nothing at first."""

    __slots__ = ("_hands", "_hold", "_key")

    def __init__(self, hands: Hands, key: Key) -> None:
        """Take whose places they are."""
        self._hands = hands
        self._key = key
        self._hold: Hold | None = None

    async def take(self) -> None:
        """Wait for a place, once; for when there is nothing more to wait for but others of the namespace."""
        if self._hold is None:
            self._hold = await self._hands.take(self._key)

    def release(self) -> None:
        """Give the place back, if there is one."""
        if self._hold is not None:
            self._hold.release()


_grip: ContextVar[Grip | None] = ContextVar("grip", default=None)


@contextmanager
def gripping(hands: Hands, key: Key) -> Iterator[Grip]:
    """Let a write take a place, and have it until the block ends or `put_down` is called in it."""
    grip = Grip(hands, key)
    token = _grip.set(grip)
    try:
        yield grip
    finally:
        _grip.reset(token)
        grip.release()


def put_down() -> None:
    """Keep nobody of one's namespace from writing any more: what comes now is waited for elsewhere."""
    grip = _grip.get()
    if grip is not None:
        grip.release()
