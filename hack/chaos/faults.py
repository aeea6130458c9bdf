"""Faults of roles, servers and connections: SIGKILL at random moments; cut, stalled and refused connections."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from hack.system import SystemFailed
from hack.testbed.faultproxy import FaultProxy
from hack.testbed.faults import (
    Fault,
    Stall,
    Truncate,
    When,
    always,
    expired,
    next_pages,
    reads,
    too_many_requests,
    unavailable,
    watches,
    writes,
)

SHARE_AT_WORK = 0.8
"""Share of kills that wait until the role is ready; the others happen while it starts."""
SHARE_AWAY = 0.3
"""Share of kills after which the role is not restarted immediately."""
READY_SECONDS = 90.0
"""Seconds within which a role must be ready, allowing for cut connections and a busy machine."""

API_SERVER = "kube-apiserver"

CONNECTION_FAULTS = ("cut", "cut", "cut", "stall", "refuse")
REQUEST_FAULTS: Mapping[str, tuple[Fault, When]] = {
    "busy": (too_many_requests(), always),
    "unavailable": (unavailable(), always),
    "failing writes": (unavailable(), writes),
    "expired watches": (expired(as_event=True), watches),
    "expired pages": (expired(), next_pages),
    "truncated watches": (Truncate(after_lines=3), watches),
    "truncated reads": (Truncate(after_bytes=500), reads),
}


class Roles(Protocol):
    """The part of `hack.system.System` that the killer uses; all of it blocks."""

    role_names: tuple[str, ...]
    ahead: dict[str, float]
    """Role -> seconds by which its wall clock is ahead from its next start."""

    def kill(self, role: str) -> str:
        """End a role by SIGKILL; returns its last output if it had ended by itself."""

    def spawn(self, role: str) -> None:
        """Start a role without waiting for it."""

    def wait_ready(self, role: str, timeout: float = ...) -> None:
        """Wait until a role is ready; raises SystemFailed if it ended or takes too long."""


class Server(Protocol):
    """The part of `hack.testbed.cluster.Cluster` that outages use; all of it blocks."""

    def kill(self, component: str) -> None:
        """End a server by SIGKILL."""

    def start(self, component: str) -> None:
        """Restart it at the same address with the same data, and wait until it serves."""


class Members(Protocol):
    """The part of `hack.testbed.bed.TestBed` that outages use for an etcd's members; all of it blocks."""

    @property
    def etcd_members(self) -> tuple[str, ...]:
        """Their names."""

    def stop_member(self, name: str) -> None:
        """End a member by SIGKILL."""

    def start_member(self, name: str) -> None:
        """Restart it with its data."""


class Etcd:
    """An etcd that loses one member, which does not interrupt writes, or a majority, which does.

    Args:
        members: of the etcd.
        seed: of the choice of lost members.
    """

    def __init__(self, members: Members, seed: int) -> None:
        self._members = members
        self._random = random.Random(f"{seed}/members")  # noqa: S311
        self._lost: list[str] = []

    def kill(self, _: str) -> None:
        """Lose some."""
        names = self._members.etcd_members
        self._lost = self._random.sample(names, self._random.randint(1, len(names) // 2 + 1))
        for name in self._lost:
            self._members.stop_member(name)

    def start(self, _: str) -> None:
        """Restart the lost members."""
        for name in self._lost:
            self._members.start_member(name)


class Outages:
    """Kills servers, one at a time, and restarts each.

    Their unfinished work remains: an object may be marked for deletion and not be removed.

    Args:
        servers: cluster name -> its server, or the server that all clusters share.
        seed: of the moments.
        longest_service: maximum seconds between two outages.
        longest_absence: maximum seconds that a server is down.
    """

    def __init__(
        self,
        servers: Mapping[str, Server],
        seed: int,
        *,
        longest_service: float,
        longest_absence: float = 2.0,
    ) -> None:
        self._servers = servers
        self._random = random.Random(f"{seed}/outages")  # noqa: S311
        self._longest_service = longest_service
        self._longest_absence = longest_absence
        self.outages: Counter[str] = Counter()

    async def run(self, stop: asyncio.Event) -> None:
        """Kill until stopped; all servers run again afterwards."""
        while not stop.is_set():
            await asyncio.sleep(self._random.uniform(0.0, self._longest_service))
            name = self._random.choice(sorted(self._servers))
            await asyncio.to_thread(self._servers[name].kill, API_SERVER)
            self.outages[name] += 1
            try:
                await asyncio.sleep(self._random.uniform(0.0, self._longest_absence))
            finally:
                await asyncio.to_thread(self._servers[name].start, API_SERVER)


class Killer:
    """Kills roles at random moments and restarts them, each independently of the others.

    Args:
        roles: the running system.
        seed: of the moments.
        longest_life: maximum seconds until a ready or starting role is killed.
        longest_absence: maximum seconds that a role is down; most are restarted immediately.
        clocks: seconds by which the wall clock of a restarted role may be ahead.
    """

    def __init__(
        self,
        roles: Roles,
        seed: int,
        *,
        longest_life: float,
        longest_absence: float = 2.0,
        clocks: Sequence[float] = (0.0,),
    ) -> None:
        self._clocks = clocks
        self._roles = roles
        self._seed = seed
        self._longest_life = longest_life
        self._longest_absence = longest_absence
        self.kills: Counter[str] = Counter()
        """Number of kills of each role while it worked."""
        self.kills_at_start: Counter[str] = Counter()
        """Number of kills of each role while it started."""
        self.ended: list[str] = []
        """Roles that ended or hung by themselves while they started, with the end of their log."""
        self.ended_at_work: list[str] = []
        """Roles that ended by themselves while they worked."""

    async def run(self, stop: asyncio.Event, *, at_least: int) -> None:
        """Kill until stopped, and at least this many times each working role; all roles run again afterwards."""
        async with asyncio.TaskGroup() as tasks:
            for role in self._roles.role_names:
                tasks.create_task(self._haunt(role, stop, at_least))
        for role in self._roles.role_names:
            while not await self._works(role):
                await asyncio.to_thread(self._roles.kill, role)
                await asyncio.to_thread(self._roles.spawn, role)

    async def _haunt(self, role: str, stop: asyncio.Event, at_least: int) -> None:
        chance = random.Random(f"{self._seed}/killer/{role}")  # noqa: S311
        while not stop.is_set() or self.kills[role] < at_least:
            # The kill may hit the role at any point of its start, or long after it.
            works = chance.random() < SHARE_AT_WORK and await self._works(role)
            await asyncio.sleep(chance.uniform(0.0, self._longest_life))
            said = await asyncio.to_thread(self._roles.kill, role)
            if works and said:
                self.ended_at_work.append(said)
            (self.kills if works else self.kills_at_start)[role] += 1
            if chance.random() < SHARE_AWAY:
                await asyncio.sleep(chance.uniform(0.0, self._longest_absence))
            self._roles.ahead[role] = chance.choice(self._clocks)
            await asyncio.to_thread(self._roles.spawn, role)

    async def _works(self, role: str) -> bool:
        try:
            await asyncio.to_thread(self._roles.wait_ready, role, READY_SECONDS)
        except SystemFailed as failure:
            self.ended.append(str(failure))
            return False
        return True


class Cutter:
    """Disturbs connections of the roles, through the proxies in front of all API servers.

    Args:
        proxies: cluster name -> the proxy between the roles and the cluster.
        seed: of the moments and of the faults.
        pause: maximum seconds between two faults.
        requests: whether the proxies parse requests, so that answers can be faults, too.
    """

    def __init__(
        self, proxies: Mapping[str, FaultProxy], seed: int, *, pause: float, requests: bool = False
    ) -> None:
        self._proxies = proxies
        self._random = random.Random(f"{seed}/cutter")  # noqa: S311
        self._pause = pause
        self._kinds = (*CONNECTION_FAULTS, *(REQUEST_FAULTS if requests else ()))
        self._locks = {name: asyncio.Lock() for name in proxies}
        self.faults: Counter[str] = Counter()

    async def run(self, stop: asyncio.Event) -> None:
        """Disturb connections until stopped; no fault remains."""
        try:
            while not stop.is_set():
                await asyncio.sleep(self._random.uniform(0.1, self._pause))
                name = self._random.choice(sorted(self._proxies))
                fault = self._random.choice(self._kinds)
                if not self._locks[name].locked():
                    self.faults[f"{fault} {name}"] += 1
                    async with self._locks[name]:
                        await self._do(fault, self._proxies[name])
        finally:
            for proxy in self._proxies.values():
                proxy.lift()

    @asynccontextmanager
    async def closed(self, name: str) -> AsyncIterator[None]:
        """Cut a cluster off from all roles during the block. Nothing else disturbs its connections meanwhile."""
        proxy = self._proxies[name]
        async with self._locks[name]:
            proxy.refuse()
            proxy.cut()
            try:
                yield
            finally:
                await proxy.accept()

    async def _do(self, fault: str, proxy: FaultProxy) -> None:
        lasting = self._random.uniform(0.2, 3.0)
        match fault:
            case "cut":
                proxy.cut()
            case "stall":
                with proxy.fault(Stall()):
                    await asyncio.sleep(lasting)
            case "refuse":
                proxy.refuse()
                proxy.cut()
                try:
                    await asyncio.sleep(lasting)
                finally:
                    await proxy.accept()
            case _:
                kind, when = REQUEST_FAULTS[fault]
                with proxy.fault(kind, when):
                    await asyncio.sleep(lasting)
