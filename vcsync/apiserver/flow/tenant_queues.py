"""Priority and fairness of one tenant: classifies its requests, and chooses the next one that waits. Pure."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vcsync.apimachinery.strategy import User
from vcsync.apiserver.flow import classification as rules
from vcsync.apiserver.flow.classification import LevelConfiguration, Schema
from vcsync.apiserver.flow.priority_level import Level
from vcsync.apiserver.request.caller import Asked
from vcsync.objects.recently_used import RecentlyUsed

MAX_CACHED = 512 * 1024
"""Bytes of a tenant's kinds of requests whose classification is cached."""
_ENTRY = 256
"""Bytes of one of them without its texts."""
SCHEMA_HEADER = "X-Kubernetes-PF-FlowSchema-UID"
LEVEL_HEADER = "X-Kubernetes-PF-PriorityLevel-UID"
CATCH_ALL = "catch-all"


@dataclass(frozen=True, slots=True)
class Flow:
    """The classification of a request.

    Attributes:
        schema: Name of the FlowSchema.
        level: The priority level.
        key: Hash of the flow, 64 bits, which determines its queues.
        headers: Response headers that name the FlowSchema and the priority level.
    """

    schema: str
    level: Level
    key: int
    headers: Mapping[str, str]


@dataclass(slots=True)
class Space:
    """The priority levels and requests of one tenant.

    Attributes:
        name: The tenant.
        seats: Seats that the tenant may take.
        in_use: Seats taken.
        waiting: Number of waiting requests.
        reserved: Sum of the seats that each level keeps from the others.
        watching: Number of open watches.
        watches: Number of open watches by user.
        levels: Priority levels by name.
        ring: Levels with waiting requests, in the order of their turns.
        stale: Whether the configuration must be read again.
        weight: Share of the tenant among all tenants while seats are scarce.
        turns: Requests that it may still run before another tenant's turn.
    """

    name: str
    seats: int
    in_use: int = 0
    waiting: int = 0
    reserved: int = 0
    watching: int = 0
    watches: dict[str, int] = field(default_factory=dict)
    levels: dict[str, Level] = field(default_factory=dict)
    ring: OrderedDict[int, Level] = field(default_factory=OrderedDict)
    stale: bool = False
    weight: int = 1
    turns: int = 1
    _schemas: Sequence[Schema] = ()
    _classified: RecentlyUsed[tuple[Any, ...], Flow] = field(default_factory=lambda: RecentlyUsed(MAX_CACHED))

    @property
    def idle(self) -> bool:
        """Whether the object can be dropped: no request runs or waits, and no watch is open."""
        return not (self.waiting or self.watching or any(each.in_use for each in self.levels.values()))

    def configure(self, schemas: Sequence[Schema], levels: Sequence[LevelConfiguration]) -> None:
        """Apply a configuration. Requests that run or wait under the old one are not affected."""
        shares = sum(each.spec.shares for each in levels)
        known: dict[str, Level] = {}
        for read in levels:
            level = known[read.name] = self.levels.get(read.name) or Level(read.name)
            level.set(read.uid, read.spec)
            level.share(read.spec, self.seats, shares)
        if CATCH_ALL not in known:
            known[CATCH_ALL] = self.levels.get(CATCH_ALL) or Level(CATCH_ALL, nominal=1, upper=self.seats)
        for name, level in self.levels.items():
            if name not in known:
                level.lower = 0
        gone = [each for name, each in self.levels.items() if name not in known and each.in_use]
        self.levels = known
        self.reserved = sum(each.reserved for each in (*known.values(), *gone))
        self._schemas = rules.ordered(
            [each for each in schemas if each.spec.priorityLevelConfiguration.name in known]
        )
        self._classified.clear()

    def classify(self, user: User, asked: Asked) -> Flow:
        """Return the classification of a request."""
        about = asked.namespace if asked.resource_request else asked.path
        key = (user.name, user.groups, asked.verb, asked.group, asked.resource, asked.subresource, about)
        found = self._classified.get(key)
        if found is None:
            found = self._classify(user, asked)
            size = len(user.name) + len(about) + sum(map(len, user.groups))
            self._classified.put(key, found, _ENTRY + size)
        return found

    def _classify(self, user: User, asked: Asked) -> Flow:
        for schema in self._schemas:
            if rules.matches(schema.spec, user, asked):
                level = self.levels[schema.spec.priorityLevelConfiguration.name]
                distinguisher = rules.distinguisher(schema.spec, user, asked)
                return _flow(schema.name, schema.uid, level, distinguisher)
        return _flow(CATCH_ALL, "", self.levels[CATCH_ALL], "")

    def has_room(self, level: Level, free: int, width: int = 1) -> bool:
        """Return whether a level may take `width` more seats when `free` ones are free for all tenants.

        A tenant never takes more than its weight times what it leaves free, so that other tenants always find seats.
        """
        if self.in_use + width > free and self.in_use + width > min(free * self.weight, self.seats):
            return False
        if level.exempt or level.in_use + width <= level.nominal:
            return True
        others = self.reserved - level.reserved
        return level.in_use + width <= level.upper and others + level.in_use + width <= self.seats

    def take(self, level: Level, width: int = 1, *, free: bool) -> None:
        """Count seats as taken. `free`: they do not count against the tenant."""
        self.in_use += 0 if free else width
        self.reserved -= level.reserved
        level.in_use += width
        self.reserved += level.reserved

    def leave(self, level: Level, width: int = 1, *, free: bool) -> None:
        """Count seats as given back; see `take`."""
        self.in_use -= 0 if free else width
        self.reserved -= level.reserved
        level.in_use -= width
        self.reserved += level.reserved

    def enqueue(self, flow: Flow, waiter: Any, limit: int) -> int | None:
        """Add a request to a queue; see `Level.enqueue`."""
        level = flow.level
        number = level.enqueue(waiter, flow.key, limit)
        if number is not None:
            self.waiting += 1
            self.ring.setdefault(id(level), level)
        return number

    def dequeue(self, free: int) -> Any:
        """Remove and return the next request that can run now, or None. Levels take turns."""
        for level in self._turns():
            if self.has_room(level, free, level.first().seats_of(free)):
                waiter = level.dequeue()
                self.waiting -= 1
                self.ring.move_to_end(id(level))
                self._settle(level)
                return waiter
        return None

    def remove(self, level: Level, number: int, waiter: Any) -> None:
        """Remove a request that no longer waits."""
        level.remove(number, waiter)
        self.waiting -= 1
        self._settle(level)

    def _turns(self) -> Iterator[Level]:
        return iter(list(self.ring.values()))

    def _settle(self, level: Level) -> None:
        if not level.waiting:
            self.ring.pop(id(level), None)


def _flow(schema: str, uid: str, level: Level, distinguisher: str) -> Flow:
    # The hash is salted in each process, so that tenants cannot choose names that share queues with another flow.
    key = hash((schema, distinguisher)) & (2**64 - 1)
    return Flow(schema, level, key, {SCHEMA_HEADER: uid, LEVEL_HEADER: level.uid})
