"""One tenant's priority and fairness: how its requests are classified, and which of those that wait is next. Pure."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vcsync.controlplane.behaviour import User
from vcsync.controlplane.flow import rules
from vcsync.controlplane.flow.levels import Level
from vcsync.controlplane.flow.rules import LevelRead, Schema
from vcsync.controlplane.identity.caller import Asked

MAX_REMEMBERED = 2048
"""Kinds of requests whose class is remembered."""
SCHEMA_HEADER = "X-Kubernetes-PF-FlowSchema-UID"
LEVEL_HEADER = "X-Kubernetes-PF-PriorityLevel-UID"
CATCH_ALL = "catch-all"


@dataclass(frozen=True, slots=True)
class Flow:
    """What requests of one kind, by one user, fall under.

    Attributes:
        key: which of the level's queues they wait in, 64 bits.
        headers: what answers tell of it.
    """

    schema: str
    level: Level
    key: int
    headers: Mapping[str, str]


@dataclass(slots=True)
class Space:
    """A tenant.

    Attributes:
        in_use: seats taken.
        waiting: requests that wait.
        watching: open watches.
        watches: the same, by user.
        reserved: sum of what each level keeps from the others.
        ring: levels in which somebody waits, in order of their turns.
        stale: whether its configuration is to be read anew.
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
    _schemas: Sequence[Schema] = ()
    _remembered: dict[tuple[Any, ...], Flow] = field(default_factory=dict)

    @property
    def idle(self) -> bool:
        """Whether nothing would be lost with it but what can be read again."""
        return not (self.waiting or self.watching or any(each.in_use for each in self.levels.values()))

    def configure(self, schemas: Sequence[Schema], levels: Sequence[LevelRead]) -> None:
        """Take over configurations; what goes on under old ones is not disturbed."""
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
        self._remembered.clear()

    def classify(self, user: User, asked: Asked) -> Flow:
        """Find what a request falls under."""
        about = asked.namespace if asked.resource_request else asked.path
        key = (user.name, user.groups, asked.verb, asked.group, asked.resource, asked.subresource, about)
        found = self._remembered.get(key)
        if found is None:
            if len(self._remembered) >= MAX_REMEMBERED:
                self._remembered.clear()
            found = self._remembered[key] = self._classify(user, asked)
        return found

    def _classify(self, user: User, asked: Asked) -> Flow:
        for schema in self._schemas:
            if rules.matches(schema.spec, user, asked):
                level = self.levels[schema.spec.priorityLevelConfiguration.name]
                apart = rules.distinguisher(schema.spec, user, asked)
                return _flow(schema.name, schema.uid, level, apart)
        return _flow(CATCH_ALL, "", self.levels[CATCH_ALL], "")

    def room(self, level: Level, free: int, width: int = 1) -> bool:
        """Tell whether a level may have so many more seats when so many are free for all tenants.

        A tenant has never more than what it leaves to others: so there is always room for one who comes newly.
        """
        if self.in_use + width > free:
            return False
        if level.exempt or level.in_use + width <= level.nominal:
            return True
        others = self.reserved - level.reserved
        return level.in_use + width <= level.upper and others + level.in_use + width <= self.seats

    def take(self, level: Level, width: int = 1, *, free: bool) -> None:
        """Give seats; `free`: such as are nobody's."""
        self.in_use += 0 if free else width
        self.reserved -= level.reserved
        level.in_use += width
        self.reserved += level.reserved

    def leave(self, level: Level, width: int = 1, *, free: bool) -> None:
        """Take seats back."""
        self.in_use -= 0 if free else width
        self.reserved -= level.reserved
        level.in_use -= width
        self.reserved += level.reserved

    def enqueue(self, flow: Flow, waiter: Any, limit: int) -> int | None:
        """Let a request wait; see `Level.enqueue`."""
        level = flow.level
        number = level.enqueue(waiter, flow.key, limit)
        if number is not None:
            self.waiting += 1
            self.ring.setdefault(id(level), level)
        return number

    def dequeue(self, free: int) -> Any:
        """Take out who is next, None: nobody can be served now. Levels take turns."""
        for level in self._turns():
            if self.room(level, free, level.first().fitting(free)):
                waiter = level.dequeue()
                self.waiting -= 1
                self.ring.move_to_end(id(level))
                self._settle(level)
                return waiter
        return None

    def remove(self, level: Level, number: int, waiter: Any) -> None:
        """Let somebody wait no longer."""
        level.remove(number, waiter)
        self.waiting -= 1
        self._settle(level)

    def _turns(self) -> Iterator[Level]:
        return iter(list(self.ring.values()))

    def _settle(self, level: Level) -> None:
        if not level.waiting:
            self.ring.pop(id(level), None)


def _flow(schema: str, uid: str, level: Level, apart: str) -> Flow:
    # The hash is salted for each process: nobody can choose names that share queues with somebody else's.
    key = hash((schema, apart)) & (2**64 - 1)
    return Flow(schema, level, key, {SCHEMA_HEADER: uid, LEVEL_HEADER: level.uid})
