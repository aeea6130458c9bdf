"""Many tenants in one process, which only the embedded control plane has."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import aiohttp

from hack.bench_plane import many, runs
from hack.bench_plane.load import Target, cpu_seconds
from hack.embedded import ControlPlane
from hack.parity import sides
from hack.testbed.processes import resident_memory

AT_ONCE = 8


@dataclass(frozen=True)
class Tenants:
    """Cost of creating tenants, and the memory of idle ones.

    `rate`: new tenants per second with all default objects. `memory`: bytes per idle tenant, from the difference between
    a process that was just started with all of them and one without tenants. `grown`: bytes per tenant by which the
    process that created them has grown. `restart`: seconds from start to ready with all of them; `cpu`: CPU seconds of
    that start; `bare`: seconds of a start without tenants. `full`: seconds of a start with all of them and `pods` Pods in
    one of them.
    """

    count: int
    rate: float
    memory: float
    grown: float
    restart: float
    cpu: float
    bare: float
    pods: int
    full: float


def measure(plane: ControlPlane, count: int, pods: int) -> Tenants:
    """Start a process, create `count` tenants, restart it, and restart it again with `pods` Pods."""
    begin = time.perf_counter()
    plane.start()
    bare, empty = time.perf_counter() - begin, resident_memory(plane.pid)
    begin = time.perf_counter()
    asyncio.run(_make(plane, count))
    rate = count / (time.perf_counter() - begin)
    # Let deferred work finish.
    time.sleep(5)
    grown = (resident_memory(plane.pid) - empty) / count
    plane.stop()
    restart, cpu = _start(plane)
    time.sleep(5)
    memory = (resident_memory(plane.pid) - empty) / count
    asyncio.run(_fill(Target(sides.side("full", plane.kubeconfig("idle-0")), [plane.pid]), pods))
    plane.stop()
    full, _ = _start(plane)
    plane.stop()
    return Tenants(count, rate, memory, grown, restart, cpu, bare, pods, full)


def _start(plane: ControlPlane) -> tuple[float, float]:
    """Return (wall-clock seconds, CPU seconds) until it was ready."""
    begin = time.perf_counter()
    plane.start()
    return time.perf_counter() - begin, cpu_seconds([plane.pid])


async def _fill(target: Target, pods: int) -> None:
    await runs.prepare(target)
    await many.create(target, pods)


async def _make(plane: ControlPlane, count: int) -> None:
    admin = sides.side("admin", plane.data / "admin.kubeconfig")
    context = admin.users["admin"].context
    numbers = iter(range(count))
    connector = aiohttp.TCPConnector(ssl=context, limit=AT_ONCE)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def client() -> None:
            for number in numbers:
                body = {"name": f"idle-{number}"}
                async with session.post(f"{plane.url}/vcsync/v1/tenants", json=body) as response:
                    if response.status != 201:
                        raise RuntimeError(f"tenant {number}: {response.status} {await response.text()}")

        async with asyncio.TaskGroup() as tasks:
            for _ in range(AT_ONCE):
                tasks.create_task(client())
