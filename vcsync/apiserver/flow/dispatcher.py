"""Dispatches requests: shares seats between tenants, and the seats of a tenant between its priority levels.

A request that finds a free seat runs immediately. Otherwise it waits in a queue of its flow, bounded in length and time, or
is refused with 429.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.flow.classification import LevelConfiguration, Schema
from vcsync.apiserver.flow.memory_budget import LIGHT, MAX_BYTES, Budget
from vcsync.apiserver.flow.tenant_queues import Flow, Space
from vcsync.apiserver.flow.work_estimator import WorkEstimator
from vcsync.apiserver.flow.write_limiter import NamespaceWriteLimiter
from vcsync.apiserver.request.caller import Asked
from vcsync.process.tasks import retrieve

MAX_INFLIGHT = 400
"""kube-apiserver's default of `--max-requests-inflight`."""
MAX_MUTATING_INFLIGHT = 200
"""kube-apiserver's default of `--max-mutating-requests-inflight`. The number of seats is the sum of both."""
WAIT_SECONDS = 15.0
"""Time that a request waits for a seat: a quarter of the time that a request may take, as with kube-apiserver."""
MAX_WAITING = 600
"""Requests of one tenant that wait, in all of its priority levels."""
MAX_WATCHES = 5000
"""Open watches of one tenant."""
MAX_WATCHES_OF_USER = 2500
"""Open watches of one user."""
MAX_WEIGHT = 10
"""Largest weight of a tenant here, so that the others never wait long."""
MAX_SPACES = 2048
"""Tenants whose configuration is cached. Beyond that, the configurations of idle tenants are dropped."""
RETRY_AFTER = 1
"""Seconds in the Retry-After header of refused requests."""


class Requester(Protocol):
    """The caller of a request; `request.caller.Caller` implements it."""

    @property
    def user(self) -> User:
        """Name and groups of the user."""

    @property
    def system(self) -> bool:
        """Whether the caller is the operator or one of vcsync's programs."""


Load = Callable[[str], Awaitable[tuple[Sequence[Schema], Sequence[LevelConfiguration]]]]
"""Reads the FlowSchemas and priority levels of a tenant. Raises StoreError."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of concurrent requests; see the constants of this module."""

    seats: int = MAX_INFLIGHT + MAX_MUTATING_INFLIGHT
    wait_seconds: float = WAIT_SECONDS
    waiting: int = MAX_WAITING
    memory: int = MAX_BYTES
    watches: int = MAX_WATCHES
    watches_of_user: int = MAX_WATCHES_OF_USER


class Seat:
    """The seats of a request, or its place in a queue until it has them.

    Attributes:
        space: The tenant.
        flow: The FlowSchema and priority level of the request.
        width: Number of seats that the request takes.
        free: Whether it takes none: exempt requests of system callers.
        ready: Set once the request has its seats; None if it never waited.
        place: Number of the queue in which it waits.
        taken: Whether it has its seats.
    """

    __slots__ = ("_charged", "_gate", "_watcher", "flow", "free", "place", "ready", "space", "taken", "width")

    def __init__(self, gate: "SeatDispatcher", space: Space, flow: Flow, width: int, *, free: bool) -> None:
        """Create a request without seats. The arguments are the attributes."""
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

    def seats_of(self, free: int) -> int:
        """Return how many seats the request takes when `free` ones are free.

        It takes a quarter of them at most, so that a wide request does not wait forever under load.
        """
        return max(1, min(self.width, free // 4))

    async def wait(self) -> None:
        """Wait until the request has its seats.

        Raises:
            StatusError: 429, the wait took too long.
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
        """Give the seats back, if the request has any."""
        if self.taken:
            self.taken = False
            self._gate.leave(self)

    def watch(self, caller: Requester) -> None:
        """Count the request as an open watch until `end`. Watches of system callers are not counted.

        Raises:
            StatusError: 429, the tenant or the user has too many open watches.
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
        """Wait for the memory of the request. Calls after the first only count more memory and do not wait.

        Args:
            size: Bytes of JSON that will be decoded or encoded.

        Raises:
            StatusError: 429, the wait took too long.
        """
        if size <= LIGHT:
            return
        budget, name = self._gate.budget, self.space.name
        if self._charged:
            budget.charge(name, size)
        else:
            size = await budget.acquire(name, size)
        self._charged += size

    def end(self) -> None:
        """Give back seats and memory, and stop counting the watch: the request has ended."""
        self.leave()
        if self._charged:
            self._gate.budget.release(self.space.name, self._charged)
            self._charged = 0
        if (user := self._watcher) is not None:
            self._watcher = None
            space = self.space
            space.watching -= 1
            space.watches[user] -= 1
            if not space.watches[user]:
                del space.watches[user]


def refusal() -> StatusError:
    """Return a 429 with kube-apiserver's message."""
    return errors.too_many_requests("Too many requests, please try again later.", RETRY_AFTER)


class SeatDispatcher:
    """Gives seats to the requests of all tenants.

    Args:
        bounds: Limits of concurrent requests.
        load: Reads the configuration of a tenant.
        weight: Returns the weight of a tenant. Changes take effect after `changed`.

    Attributes:
        spaces: Tenants whose configuration is cached, oldest first.
        used: Number of seats taken.
        budget: Memory of requests.
        work_estimator: Estimates how many seats a list takes.
        write_limiter: Limits the concurrent writes of each namespace.
    """

    def __init__(self, bounds: Bounds, load: Load, weight: Callable[[str], int] = lambda _: 1) -> None:
        self.bounds = bounds
        self._weight = weight
        self.spaces: dict[str, Space] = {}
        self.used = 0
        self._load = load
        self._loading: dict[str, asyncio.Task[None]] = {}
        self._ring: OrderedDict[str, Space] = OrderedDict()
        self.budget = Budget(bounds.memory)
        self.work_estimator = WorkEstimator()
        self.write_limiter = NamespaceWriteLimiter()

    def known(self, tenant: str) -> bool:
        """Return whether a tenant's configuration has been read since it last changed."""
        space = self.spaces.get(tenant)
        return space is not None and not space.stale and tenant not in self._loading

    async def prepare(self, tenant: str) -> None:
        """Read a tenant's configuration if it has changed. Concurrent calls share one read.

        Changes that arrive meanwhile are read by the next request.

        Raises:
            StoreError: The store cannot be read.
        """
        if self.known(tenant):
            return
        task = self._loading.get(tenant)
        if task is None:
            task = self._loading[tenant] = asyncio.create_task(self._read(tenant))
            task.add_done_callback(retrieve)
        await asyncio.shield(task)

    async def _read(self, tenant: str) -> None:
        try:
            await self._load_space(tenant)
        finally:
            del self._loading[tenant]

    async def _load_space(self, tenant: str) -> None:
        space = self.spaces.get(tenant)
        if space is None:
            while len(self.spaces) >= MAX_SPACES and (idle := self._idle_space()):
                del self.spaces[idle]
            space = self.spaces[tenant] = Space(tenant, max(1, self.bounds.seats // 2))
        space.stale = False
        space.weight = min(self._weight(tenant), MAX_WEIGHT)
        try:
            space.configure(*await self._load(tenant))
        except BaseException:
            space.stale = True
            raise

    def _idle_space(self) -> str | None:
        return next((name for name, space in self.spaces.items() if space.idle and not space.stale), None)

    def changed(self, tenant: str) -> None:
        """Mark a tenant's configuration as changed, so that the next request reads it."""
        space = self.spaces.get(tenant)
        if space is not None:
            space.stale = True

    def changed_all(self) -> None:
        """Mark every configuration as changed."""
        for space in self.spaces.values():
            space.stale = True

    def enter(self, tenant: str, caller: Requester, asked: Asked, width: int = 1) -> Seat:
        """Give a request its seats, or a place in a queue.

        If the returned seat has a `ready` future, the caller calls `wait` on it. The configuration of the tenant must
        have been read; see `prepare`.

        Args:
            tenant: Tenant whose seats the request takes; `system` for system callers.
            caller: Caller of the request.
            asked: Attributes of the request.
            width: Number of seats that the request needs.

        Raises:
            StatusError: 429.
        """
        space = self.spaces[tenant]
        flow = space.classify(caller.user, asked)
        level = flow.level
        width = min(width, level.widest) if width > 1 else 1
        seat = Seat(self, space, flow, width, free=caller.system and level.exempt)
        free = self.bounds.seats - self.used
        if seat.free or (not level.waiting and space.has_room(level, free, seat.seats_of(free))):
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
        seat.taken, seat.width = True, seat.seats_of(free)
        seat.space.take(flow.level, seat.width, free=seat.free)
        self.used += 0 if seat.free else seat.width
        flow.level.dispatched[flow.schema] = flow.level.dispatched.get(flow.schema, 0) + 1

    def leave(self, seat: Seat) -> None:
        """Take the seats of a request back, and give them to waiting requests."""
        seat.space.leave(seat.flow.level, seat.width, free=seat.free)
        self.used -= 0 if seat.free else seat.width
        if self._ring:
            self._serve()

    def settle(self, space: Space) -> None:
        """Forget a tenant in the order of turns if none of its requests waits."""
        if not space.waiting:
            self._ring.pop(space.name, None)

    def _serve(self) -> None:
        """Give free seats to waiting requests; tenants take turns, each with as many requests as its weight."""
        passed = 0
        while passed < len(self._ring) and (free := self.bounds.seats - self.used) > 0:
            name, space = next(iter(self._ring.items()))
            seat = space.dequeue(free)
            space.turns = space.turns - 1 if seat is not None else 0
            if space.turns <= 0:
                space.turns = space.weight
                self._ring.move_to_end(name)
            if seat is None:
                passed += 1
                continue
            passed = 0
            self._take(seat, free)
            if seat.ready is not None and not seat.ready.done():
                seat.ready.set_result(None)
            self.settle(space)
