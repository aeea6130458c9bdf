"""The cost of the door for an external control plane: CPU of a get, and memory of a watch."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from hack.bench_plane.load import Ask, Figure, Target, measure, session
from hack.embedded import ControlPlane
from hack.parity import sides
from hack.testbed import TestBed
from hack.testbed.processes import resident_memory

PLACE = "/api/v1/namespaces/default/configmaps/bench-door"
FOLDER = "/api/v1/namespaces/default/configmaps"
CLIENTS = (1, 16)
ROUNDS = 3
AT_ONCE = 20
"""Number of watches that are opened at once."""
SETTLE_SECONDS = 3.0
TENANT = "umbrella"


@dataclass(frozen=True)
class Gets:
    """A get with some concurrent clients: directly, and through the door.

    `added`: milliseconds of CPU that one get costs more through the door, in both servers together.
    """

    clients: int
    direct: Figure
    door: Figure
    added: float


@dataclass(frozen=True)
class Watches:
    """Open watches through the door: `memory` is the bytes by which its process grew per watch."""

    count: int
    memory: float


def run(folder: Path, requests: int, watches: int) -> tuple[list[Gets], Watches]:
    """Start a kube-apiserver and a door before it, and measure both."""
    with (
        TestBed(supers=0, tenants=(TENANT,), directory=folder / "testbed") as bed,
        ControlPlane(folder / "door", arguments=("--max-watches-per-tenant", str(3 * watches))) as plane,
    ):
        tenant = bed.tenants[TENANT]
        plane.vcsync("tenant", "connect", TENANT, "--kubeconfig", str(tenant.kubeconfig))
        server = [tenant.pids["kube-apiserver"]]
        direct = Target(sides.side("direct", tenant.kubeconfig), server)
        door = Target(sides.side("door", plane.kubeconfig(TENANT)), [*server, plane.pid])
        return asyncio.run(_measure(direct, door, plane.pid, requests, watches))


async def _measure(
    direct: Target, door: Target, pid: int, requests: int, watches: int
) -> tuple[list[Gets], Watches]:
    async with session(direct, 1) as ask:
        await ask("POST", FOLDER, {"metadata": {"name": PLACE.rpartition("/")[2]}, "data": {"a": "b"}})
    gets = [await _gets(direct, door, clients, requests) for clients in CLIENTS]
    return gets, await _watches(door, pid, watches)


async def _gets(direct: Target, door: Target, clients: int, requests: int) -> Gets:
    """Measure both in turns, and return the round with the least CPU of each, which other load disturbed least."""
    figures: dict[str, list[Figure]] = {"direct": [], "door": []}
    for _ in range(ROUNDS):
        for name, target in (("direct", direct), ("door", door)):
            figures[name].append(await measure(target, requests, clients, _get))
    least = {name: min(found, key=lambda figure: figure.cpu) for name, found in figures.items()}
    return Gets(clients, least["direct"], least["door"], least["door"].cpu - least["direct"].cpu)


async def _get(ask: Ask, _: int) -> None:
    await ask("GET", PLACE)


async def _watches(door: Target, pid: int, count: int) -> Watches:
    """Open watches, each on a connection of its own, and return the growth of the door's process."""
    async with AsyncExitStack() as stack:
        ask = await stack.enter_async_context(session(door, count + 1))
        await ask("GET", PLACE)
        before = resident_memory(pid)
        opened = asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as tasks:
            watching = []
            for _ in range(count):
                await opened.acquire()
                watching.append(tasks.create_task(ask.lines(f"{FOLDER}?watch=1", 2**62, opened.release)))
            for _ in range(AT_ONCE):
                await opened.acquire()
            await asyncio.sleep(SETTLE_SECONDS)
            grown = resident_memory(pid) - before
            for each in watching:
                each.cancel()
    return Watches(count, grown / count)
