"""What happens to roles, servers and connections: SIGKILL at random moments, cut, stalled and refused connections."""

import asyncio
import random
from collections import Counter
from collections.abc import Mapping
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
"""Share of kills that wait until the role does its work; the others hit it while it starts."""
SHARE_AWAY = 0.3
"""Share of kills after which the role does not come back at once."""
READY_SECONDS = 90.0
"""How long a role may take to do its work, with cut connections and on a busy machine."""

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
    """What the killer needs of `hack.system.System`; all of it blocks."""

    role_names: tuple[str, ...]

    def kill(self, role: str) -> None:
        """End a role by SIGKILL."""

    def spawn(self, role: str) -> None:
        """Start a role without waiting for it."""

    def wait_ready(self, role: str, timeout: float = ...) -> None:
        """Wait until a role does its work; raises SystemFailed if it ended or takes too long."""


class Server(Protocol):
    """What outages need of `hack.testbed.cluster.Cluster`; all of it blocks."""

    def kill(self, component: str) -> None:
        """End a server by SIGKILL."""

    def start(self, component: str) -> None:
        """Start it where and as it was, and wait until it serves."""


class Outages:
    """Kills API servers, one at a time, and starts each again.

    What they had begun is left half done: an object may be marked as deleted and not be removed.

    Args:
        servers: cluster name -> the cluster.
        seed: of the moments.
        longest_service: most seconds between two outages.
        longest_absence: most seconds that a server is away.
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
        """Kill until told to stop; all servers run again afterwards."""
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
    """Kills roles at random moments and starts them again, each independently of the others.

    Args:
        roles: the running system.
        seed: of the moments.
        longest_life: most seconds that a role lives on once it works, or while it starts.
        longest_absence: most seconds a role is away; most come back at once.
    """

    def __init__(self, roles: Roles, seed: int, *, longest_life: float, longest_absence: float = 2.0) -> None:
        self._roles = roles
        self._seed = seed
        self._longest_life = longest_life
        self._longest_absence = longest_absence
        self.kills: Counter[str] = Counter()
        """Kills of each role while it worked."""
        self.kills_at_start: Counter[str] = Counter()
        """Kills of each role while it started."""
        self.ended: list[str] = []
        """Roles that ended or hung by themselves meanwhile, with the end of their log."""

    async def run(self, stop: asyncio.Event, *, at_least: int) -> None:
        """Kill until told to stop, and at least so many times each role at work; all roles run again afterwards."""
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
            # From within its start to long after it: no line of it is safe.
            works = chance.random() < SHARE_AT_WORK and await self._works(role)
            await asyncio.sleep(chance.uniform(0.0, self._longest_life))
            await asyncio.to_thread(self._roles.kill, role)
            (self.kills if works else self.kills_at_start)[role] += 1
            if chance.random() < SHARE_AWAY:
                await asyncio.sleep(chance.uniform(0.0, self._longest_absence))
            await asyncio.to_thread(self._roles.spawn, role)

    async def _works(self, role: str) -> bool:
        try:
            await asyncio.to_thread(self._roles.wait_ready, role, READY_SECONDS)
        except SystemFailed as failure:
            self.ended.append(str(failure))
            return False
        return True


class Cutter:
    """Does faults to connections of the roles, through the proxies in front of all API servers.

    Args:
        proxies: cluster name -> the proxy that the roles reach it by.
        seed: of the moments and of the faults.
        pause: longest time between two faults, in seconds.
        requests: whether the proxies see requests, so that answers can be faults too.
    """

    def __init__(
        self, proxies: Mapping[str, FaultProxy], seed: int, *, pause: float, requests: bool = False
    ) -> None:
        self._proxies = proxies
        self._random = random.Random(f"{seed}/cutter")  # noqa: S311
        self._pause = pause
        self._kinds = (*CONNECTION_FAULTS, *(REQUEST_FAULTS if requests else ()))
        self.faults: Counter[str] = Counter()

    async def run(self, stop: asyncio.Event) -> None:
        """Do faults until told to stop; none is left behind."""
        try:
            while not stop.is_set():
                await asyncio.sleep(self._random.uniform(0.1, self._pause))
                name = self._random.choice(sorted(self._proxies))
                fault = self._random.choice(self._kinds)
                self.faults[f"{fault} {name}"] += 1
                await self._do(fault, self._proxies[name])
        finally:
            for proxy in self._proxies.values():
                proxy.lift()

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
