"""The memory of very many Pods, and the latency of other requests while all of them are listed."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hack.bench.meter import percentile
from hack.bench_plane.load import PODS, Ask, Target, cpu_seconds, measure, pod, session
from hack.testbed.processes import resident_memory

CLIENTS = 16
OTHERS = "/api/v1/namespaces/default"
"""The other requests: a get of a small object that is unrelated to the Pods."""
QUIET_SECONDS = 5.0
PAUSE_SECONDS = 0.005
SETTLE_SECONDS = 10.0
LISTS = 3


@dataclass(frozen=True)
class Many:
    """`memory`: bytes of all processes per created Pod; `peak`: additional bytes while listing.

    `quiet` and `busy`: p99 in ms of other clients' gets without and during lists; `listing`: seconds of one list;
    `cpu`: CPU seconds of the server for it, with those gets.
    """

    count: int
    memory: float
    peak: float
    quiet: float
    busy: float
    listing: float
    cpu: float


async def run(target: Target, kubeconfig: Path, other: Target, count: int) -> Many:
    """Create `count` Pods, then send requests to `other` while `target` lists all Pods."""
    before = _weight(target)
    await create(target, count)
    await asyncio.sleep(SETTLE_SECONDS)
    stands = _weight(target)
    async with session(other, 1) as ask:
        end = time.monotonic() + QUIET_SECONDS
        quiet, _ = await _gets(ask, other, lambda: time.monotonic() > end)
        busy, seconds, peak = [], [], 0
        spent = cpu_seconds(target.pids)
        for _ in range(LISTS):
            lister = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "hack.bench_plane.lister", str(kubeconfig), PODS,
                stdout=asyncio.subprocess.PIPE,
            )  # fmt: skip
            output = asyncio.ensure_future(lister.communicate())
            found, most = await _gets(ask, other, output.done)
            busy += found
            peak = max(peak, most)
            seconds.append(float((await output)[0].split()[1]))
        spent = cpu_seconds(target.pids) - spent
    return Many(
        count,
        (stands - before) / count,
        peak - stands,
        percentile(quiet, 0.99),
        percentile(busy, 0.99),
        min(seconds),
        spent / LISTS,
    )


async def create(target: Target, count: int) -> None:
    """Create `count` Pods in the default namespace, which must be ready for them."""
    await measure(target, count, CLIENTS, _create)


async def _create(ask: Ask, number: int) -> None:
    await ask("POST", PODS, pod(f"many-{number}"))


async def _gets(ask: Ask, target: Target, ended: Callable[[], bool]) -> tuple[list[float], int]:
    """Get until cancelled; return latencies in ms, and the highest memory seen."""
    latencies, most = [], 0
    while not ended():
        begin = time.perf_counter()
        await ask("GET", OTHERS)
        latencies.append(1000 * (time.perf_counter() - begin))
        most = max(most, _weight(target))
        await asyncio.sleep(PAUSE_SECONDS)
    return latencies, most


def _weight(target: Target) -> int:
    return sum(map(resident_memory, target.pids))
