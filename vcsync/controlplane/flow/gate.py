"""Who is served now: seats shared out between tenants, then by each tenant's own priority levels.

A request that finds a seat goes on at once, without waiting for anything. One that does not waits in a queue of its
flow, bounded in number and time, or is refused with 429.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from vcsync.controlplane import errors
from vcsync.controlplane.behaviour import User
from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.flow.budget import LIGHT, MAX_BYTES, Budget
from vcsync.controlplane.flow.hands import Hands
from vcsync.controlplane.flow.rules import LevelRead, Schema
from vcsync.controlplane.flow.space import Flow, Space
from vcsync.controlplane.flow.widths import Widths
from vcsync.controlplane.identity.caller import Asked

MAX_INFLIGHT = 400
MAX_MUTATING_INFLIGHT = 200
"""Seats are the sum of both, as with kube-apiserver's priority and fairness."""
WAIT_SECONDS = 15.0
"""How long a request waits at most: a quarter of what a request may take, as with kube-apiserver."""
MAX_WAITING = 600
"""Requests of one tenant that wait, whatever its priority levels say."""
MAX_WATCHES = 5000
MAX_WATCHES_OF_USER = 2500
MAX_SPACES = 2048
"""Tenants whose configuration is kept in memory while nothing goes on in them."""
RETRY_AFTER = 1


class Asker(Protocol):
    """Who asks; `identity.caller.Caller` will do."""

    @property
    def user(self) -> User:
        """Name and groups."""

    @property
    def system(self) -> bool:
        """Whether it is the operator's or one of vcsync's own programs."""


Load = Callable[[str], Awaitable[tuple[Sequence[Schema], Sequence[LevelRead]]]]
"""Reads a tenant's flow schemas and priority levels; raises StoreError."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much goes on at once. See the constants for what each is."""

    seats: int = MAX_INFLIGHT + MAX_MUTATING_INFLIGHT
    wait_seconds: float = WAIT_SECONDS
    waiting: int = MAX_WAITING
    memory: int = MAX_BYTES
    watches: int = MAX_WATCHES
    watches_of_user: int = MAX_WATCHES_OF_USER


class Seat:
    """A request's right to be served, or its place in a queue until then; `leave` gives it back."""

    __slots__ = ("_charged", "_gate", "_watcher", "flow", "free", "place", "ready", "space", "taken", "width")

    def __init__(self, gate: "Gate", space: Space, flow: Flow, width: int, *, free: bool) -> None:
        """Begin without a seat; `width`: how many it takes; `free`: it takes none of anybody's."""
        self.width = width
        self._gate = gate
        self.space = space
        self.flow = flow
        self.free = free
        self.ready: asyncio.Future[None] | None = None
        self.place = -1
        self.taken = False
        self._watcher: str | None = None
        self._charged = 0

    def fitting(self, free: int) -> int:
        """Return how many seats it takes when so many are free: a quarter at most, so that it gets in when few are."""
        return max(1, min(self.width, free // 4))

    async def wait(self) -> None:
        """Return once there is a seat.

        Raises:
            StatusError: 429, it took too long.
        """
        if self.ready is None:
            return
        try:
            async with asyncio.timeout(self._gate.bounds.wait_seconds):
                await self.ready
        except TimeoutError:
            self.flow.level.refuse("time-out", self.flow.schema)
            raise refusal() from None
        finally:
            if not self.taken:
                self.space.remove(self.flow.level, self.place, self)
                self._gate.settle(self.space)

    def leave(self) -> None:
        """Give the seat back, if there is one."""
        if self.taken:
            self.taken = False
            self._gate.leave(self)

    def watch(self, caller: Asker) -> None:
        """Count the request as a watch until its end.

        Raises:
            StatusError: 429, there are too many.
        """
        space, user, bounds = self.space, caller.user.name, self._gate.bounds
        if caller.system:
            return
        if space.watching >= bounds.watches or space.watches.get(user, 0) >= bounds.watches_of_user:
            self.flow.level.refuse("watches", self.flow.schema)
            raise errors.too_many_requests("too many open watches, please try again later", RETRY_AFTER)
        space.watching += 1
        space.watches[user] = space.watches.get(user, 0) + 1
        self._watcher = user

    async def weigh(self, size: int) -> None:
        """Wait until the memory that the request takes can be had; what it takes besides is only counted.

        Args:
            size: bytes of JSON that are to be decoded or encoded.

        Raises:
            StatusError: 429, it took too long.
        """
        if size <= LIGHT:
            return
        budget, name = self._gate.budget, self.space.name
        if self._charged:
            budget.take(name, size)
        else:
            size = await budget.wait(name, size)
        self._charged += size

    def end(self) -> None:
        """Give everything back: the request is over."""
        self.leave()
        if self._charged:
            self._gate.budget.give(self.space.name, self._charged)
            self._charged = 0
        if (user := self._watcher) is not None:
            self._watcher = None
            space = self.space
            space.watching -= 1
            space.watches[user] -= 1
            if not space.watches[user]:
                del space.watches[user]


def refusal() -> StatusError:
    """429, in kube-apiserver's words."""
    return errors.too_many_requests("Too many requests, please try again later.", RETRY_AFTER)


class Gate:
    """Everybody's seats.

    Attributes:
        spaces: tenants of which something is known, those heard of first in front.
        used: seats taken.
        budget: memory that requests may take.
        widths: how many seats lists take.
        hands: which writes of a namespace have begun.
    """

    def __init__(self, bounds: Bounds, load: Load) -> None:
        """Take the bounds, and what reads a tenant's configuration."""
        self.bounds = bounds
        self.spaces: dict[str, Space] = {}
        self.used = 0
        self._load = load
        self._loading: dict[str, asyncio.Task[None]] = {}
        self._ring: OrderedDict[str, Space] = OrderedDict()
        self.budget = Budget(bounds.memory)
        self.widths = Widths()
        self.hands = Hands()

    def known(self, tenant: str) -> bool:
        """Whether a tenant's configuration has been read since it last changed."""
        space = self.spaces.get(tenant)
        return space is not None and not space.stale and tenant not in self._loading

    async def prepare(self, tenant: str) -> None:
        """Read a tenant's configuration; once, however many ask. What changes meanwhile is read by the next request.

        Raises:
            StoreError: it cannot be read.
        """
        if self.known(tenant):
            return
        task = self._loading.get(tenant)
        if task is None:
            task = self._loading[tenant] = asyncio.create_task(self._read(tenant))
            task.add_done_callback(_heard)
        await asyncio.shield(task)

    async def _read(self, tenant: str) -> None:
        try:
            await self._take_over(tenant)
        finally:
            del self._loading[tenant]

    async def _take_over(self, tenant: str) -> None:
        space = self.spaces.get(tenant)
        if space is None:
            while len(self.spaces) >= MAX_SPACES and (idle := self._an_idle_one()):
                del self.spaces[idle]
            space = self.spaces[tenant] = Space(tenant, max(1, self.bounds.seats // 2))
        space.stale = False
        try:
            space.configure(*await self._load(tenant))
        except BaseException:
            space.stale = True
            raise

    def _an_idle_one(self) -> str | None:
        return next((name for name, space in self.spaces.items() if space.idle and not space.stale), None)

    def changed(self, tenant: str) -> None:
        """Read a tenant's configuration anew when it is next needed."""
        space = self.spaces.get(tenant)
        if space is not None:
            space.stale = True

    def changed_all(self) -> None:
        """Read every configuration anew when it is next needed."""
        for space in self.spaces.values():
            space.stale = True

    def enter(self, tenant: str, caller: Asker, asked: Asked, width: int = 1) -> Seat:
        """Give a request its seat, or a place in a queue: then `wait` for it. The tenant must be known.

        Args:
            tenant: whose seat; of system callers `system`.
            caller: who asks.
            asked: what for.
            width: seats that it takes.

        Raises:
            StatusError: 429.
        """
        space = self.spaces[tenant]
        flow = space.classify(caller.user, asked)
        level = flow.level
        width = min(width, level.widest) if width > 1 else 1
        seat = Seat(self, space, flow, width, free=caller.system and level.exempt)
        free = self.bounds.seats - self.used
        if seat.free or (not level.waiting and space.room(level, free, seat.fitting(free))):
            self._take(seat, free)
            return seat
        if space.waiting >= self.bounds.waiting:
            level.refuse("tenant-full", flow.schema)
            raise refusal()
        place = space.enqueue(flow, seat, self.bounds.waiting)
        if place is None:
            level.refuse("queue-full" if level.queues else "concurrency-limit", flow.schema)
            raise refusal()
        seat.place = place
        seat.ready = asyncio.get_running_loop().create_future()
        self._ring.setdefault(space.name, space)
        return seat

    def _take(self, seat: Seat, free: int) -> None:
        flow = seat.flow
        seat.taken, seat.width = True, seat.fitting(free)
        seat.space.take(flow.level, seat.width, free=seat.free)
        self.used += 0 if seat.free else seat.width
        flow.level.dispatched[flow.schema] = flow.level.dispatched.get(flow.schema, 0) + 1

    def leave(self, seat: Seat) -> None:
        """Take seats back, and serve whoever waits."""
        seat.space.leave(seat.flow.level, seat.width, free=seat.free)
        self.used -= 0 if seat.free else seat.width
        if self._ring:
            self._serve()

    def settle(self, space: Space) -> None:
        """Take note that somebody waits no longer."""
        if not space.waiting:
            self._ring.pop(space.name, None)

    def _serve(self) -> None:
        """Give free seats to tenants in turns."""
        passed = 0
        while passed < len(self._ring) and (free := self.bounds.seats - self.used) > 0:
            name, space = next(iter(self._ring.items()))
            self._ring.move_to_end(name)
            seat = space.dequeue(free)
            if seat is None:
                passed += 1
                continue
            passed = 0
            self._take(seat, free)
            if seat.ready is not None and not seat.ready.done():
                seat.ready.set_result(None)
            self.settle(space)


def _heard(task: asyncio.Task[None]) -> None:
    """Take note of a failure of which nobody may be left to hear."""
    if not task.cancelled():
        task.exception()
