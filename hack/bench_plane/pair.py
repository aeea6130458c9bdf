"""Two embedded control planes on one etcd: the same requests, half of them to each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from hack.bench_plane import runs
from hack.bench_plane.load import Ask, Figure, Target, cpu_seconds, measure
from hack.embedded import ControlPlane
from hack.etcd import Etcd
from hack.parity import sides
from hack.parity.ask import Side

CLIENTS = 8
"""At each process."""
REQUESTS = 1000
"""Number of requests of each kind at each process."""


def run(folder: Path) -> dict[str, Figure]:
    """Start both, measure, and end them. CPU is the sum of both processes and etcd."""
    with (
        Etcd(folder / "etcd") as etcd,
        ControlPlane(folder / "one", etcd=etcd.url) as one,
        ControlPlane(folder / "other", etcd=etcd.url) as other,
    ):
        first = sides.side("one", one.create("bench"))
        second = Side("other", first.url.replace(one.url, other.url), first.users)
        return asyncio.run(_measure([first, second], [etcd.pid, one.pid, other.pid]))


async def _measure(both: list[Side], pids: list[int]) -> dict[str, Figure]:
    await runs.prepare(Target(both[0], pids))
    work: dict[str, Callable[[int], runs.Operation]] = {
        "create": lambda which: runs.create(which * REQUESTS),
        "get": lambda which: _shifted(runs.get(2 * REQUESTS), which * REQUESTS),
        "patch": lambda which: _shifted(runs.patch(2 * REQUESTS, which), which * REQUESTS),
    }
    return {f"{name} a Pod": await _at_both(both, pids, made) for name, made in work.items()}


def _shifted(one: runs.Operation, by: int) -> runs.Operation:
    async def shifted(ask: Ask, number: int) -> None:
        await one(ask, by + number)

    return shifted


async def _at_both(
    both: list[Side], pids: list[int], work: Callable[[int], Callable[[Ask, int], Awaitable[object]]]
) -> Figure:
    before = cpu_seconds(pids)
    found = await asyncio.gather(
        *(measure(Target(side, pids), REQUESTS, CLIENTS, work(which)) for which, side in enumerate(both))
    )
    spent = cpu_seconds(pids) - before
    return Figure(
        sum(each.rate for each in found),
        max(each.p50 for each in found),
        max(each.p99 for each in found),
        1000 * spent / (len(both) * REQUESTS),
    )
