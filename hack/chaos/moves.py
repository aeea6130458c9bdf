"""Drains, rebalances, lost and fenced super clusters, and frozen syncers during a run."""

import asyncio
import os
import random
import signal
import subprocess
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from typing import Protocol

from hack.system import SystemFailed

PATIENCE = ("--suspect-after", "30", "--lost-after", "45")
"""Options of the roles. The first time is above the 20 seconds between two heartbeats."""
LOST_AFTER = 45.0
AGAIN_SECONDS = 2.0
POLICIES: tuple[tuple[str, ...], ...] = (
    ("--failover", "MoveAfter=5s", "--fail-back", "WithinBudget"),
    ("--failover", "MoveStateless=5s", "--fail-back", "NextRebalance"),
    ("--pod-replacement-policy", "TerminationStarted"),
)
"""Options of tenants, which take turns."""

Action = Callable[[str], Awaitable[None]]


class Commands(Protocol):
    """The part of `hack.system.System` that operators use; all of it blocks."""

    def vcsync(self, *arguments: str) -> str:
        """Run the `vcsync` command; raises SystemFailed if that fails."""

    def pid(self, role: str) -> int:
        """Return the process id of a role; raises KeyError if it does not run."""


class Door(Protocol):
    """The part of `hack.chaos.faults.Cutter` that cuts a super cluster off."""

    def closed(self, name: str) -> AbstractAsyncContextManager[None]:
        """Cut a cluster off from all roles during the block."""


class Nodes(Protocol):
    """The part of `hack.testbed.cluster.Cluster` that switches nodes off."""

    def pause(self, component: str) -> None:
        """Freeze a server."""

    def resume(self, component: str) -> None:
        """Continue it."""


class Moves:
    """Drains and rebalances, and beside them loses one super cluster at a time and has it back.

    Args:
        system: vcsync, whose commands it uses as an operator.
        door: cuts a super cluster off from all roles.
        supers: id -> super cluster.
        seed: of what is done, and when.
        pause: maximum seconds between two actions of either kind.
        pace: factor of all other durations.
    """

    def __init__(
        self,
        system: Commands,
        door: Door,
        supers: Mapping[str, Nodes],
        seed: int,
        *,
        pause: float = 10.0,
        pace: float = 1.0,
    ) -> None:
        self._system = system
        self._door = door
        self._pace = pace
        self._supers = supers
        self._seed = seed
        self._pause = pause
        self.done: Counter[str] = Counter()
        """Actions by name."""
        self.refused: list[str] = []
        """The errors of commands that were not repeated."""

    async def run(self, stop: asyncio.Event) -> None:
        """Act until stopped. Everything is undone then, once the pool answers."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._act(stop, "operations", (self._drain, self._drain, self._rebalance)))
            tasks.create_task(self._act(stop, "losses", (self._lose, self._fence, self._freeze)))

    async def _act(self, stop: asyncio.Event, kind: str, actions: tuple[Action, ...]) -> None:
        chance = random.Random(f"{self._seed}/moves/{kind}")  # noqa: S311
        while not stop.is_set():
            await asyncio.sleep(chance.uniform(0, self._pause))
            # Each in turn, so that also a short run has all of them.
            for action in chance.sample(actions, len(actions)):
                if not stop.is_set():
                    await action(chance.choice(sorted(self._supers)))

    async def _drain(self, super_id: str) -> None:
        patience = str(round(self._number("patience", 0, 30)))
        if await self._asked("super", "drain", super_id, "--eviction-seconds", patience):
            self.done["drain"] += 1
            await self._rest("drain", 5, 40)
        await self._insist("super", "undrain", super_id)

    async def _rebalance(self, _: str) -> None:
        if await self._asked("rebalance", "--no-wait"):
            self.done["rebalance"] += 1

    async def _lose(self, super_id: str) -> None:
        """Cut a super cluster off from all roles, for so long that it becomes suspect or lost. Its Pods run on."""
        self.done["loss"] += 1
        async with self._door.closed(super_id):
            await self._rest("loss", LOST_AFTER / 2, LOST_AFTER * 2)

    async def _fence(self, super_id: str) -> None:
        """Lose a super cluster whose nodes are switched off then, fence it, and lift the fence after its return."""
        cluster, fenced = self._supers[super_id], False
        try:
            async with self._door.closed(super_id):
                await self._rest("lost", LOST_AFTER * 4 / 3, LOST_AFTER * 4 / 3)
                for component in ("kube-scheduler", "kwok"):
                    cluster.pause(component)
                fenced = await self._asked("super", "fence", super_id)
                await self._rest("fence", 10, 30)
            cluster.resume("kwok")
            if fenced:
                self.done["fence"] += 1
                await self._insist("super", "unfence", super_id, "--timeout", "60", done="is not fenced")
        finally:
            for component in ("kwok", "kube-scheduler"):
                cluster.resume(component)

    async def _freeze(self, super_id: str) -> None:
        """Stop a syncer, which goes on later with what it knew and had begun."""
        role = f"syncer-{super_id}"
        with suppress(KeyError, ProcessLookupError):  # it is being restarted
            process = self._system.pid(role)
            os.kill(process, signal.SIGSTOP)
            self.done["freeze"] += 1
            await self._rest("freeze", 5, 40)
            if self._system.pid(role) == process:
                os.kill(process, signal.SIGCONT)

    def _number(self, what: str, least: float, most: float) -> float:
        """Return a number of seconds that depends on the seed and on how much has been done."""
        return random.Random(f"{self._seed}/{what}/{self.done.total()}").uniform(least, most)  # noqa: S311

    async def _rest(self, what: str, least: float, most: float) -> None:
        await asyncio.sleep(self._pace * self._number(what, least, most))

    async def _asked(self, *arguments: str) -> bool:
        """Run a command. Return whether it succeeded: the pool may not answer, or refuse."""
        try:
            await asyncio.to_thread(self._system.vcsync, *arguments)
        except (SystemFailed, subprocess.TimeoutExpired) as error:
            self.refused.append(str(error))
            return False
        return True

    async def _insist(self, *arguments: str, done: str = "") -> None:
        """Run a command until it succeeds, or refuses since nothing is left to be done."""
        while True:
            try:
                await asyncio.to_thread(self._system.vcsync, *arguments)
            except (SystemFailed, subprocess.TimeoutExpired) as error:
                if done and done in str(error):
                    return
                await asyncio.sleep(self._pace * AGAIN_SECONDS)
            else:
                return
