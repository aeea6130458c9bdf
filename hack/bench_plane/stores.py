"""The CPU of a creation by one process on a file and by one process on etcd, in alternating rounds."""

from __future__ import annotations

import asyncio
import re
import statistics
import urllib.request
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from hack.bench_plane import runs
from hack.bench_plane.load import Target, cpu_seconds, measure
from hack.embedded import ControlPlane
from hack.etcd import Etcd
from hack.parity import sides

ROUNDS = 4
"""Rounds that count, after one that does not."""
REQUESTS = 150
"""Creations of one round at each side."""


@dataclass(frozen=True)
class Cost:
    """Medians of all rounds: CPU ms of a creation, the ratio of the processes, and how often etcd was called."""

    file: float
    process: float
    etcd: float
    ratio: float
    calls: dict[str, float]


def run(folder: Path) -> dict[str, Cost]:
    """Start both, measure with each number of clients, and end them."""
    with (
        Etcd(folder / "etcd") as etcd,
        ControlPlane(folder / "file") as file,
        ControlPlane(folder / "process", etcd=etcd.url) as process,
    ):
        on_file = Target(sides.side("file", file.create("bench")), [file.pid])
        on_etcd = Target(sides.side("etcd", process.create("bench")), [process.pid])
        return asyncio.run(_measure(on_file, on_etcd, etcd))


def report(costs: dict[str, Cost]) -> list[str]:
    """Format the results as rows."""
    return [
        f"create a Pod, {name}: a file {each.file:.2f} ms, a process on etcd {each.process:.2f} ms ({each.ratio:.2f}), "
        f"etcd {each.etcd:.2f} ms; calls {each.calls}"
        for name, each in costs.items()
    ]


async def _measure(on_file: Target, on_etcd: Target, etcd: Etcd) -> dict[str, Cost]:
    for each in (on_file, on_etcd):
        await runs.prepare(each)
    made, found = 0, {}
    for clients in runs.CLIENTS:
        rounds = []
        before: Counter[str] = Counter()
        for number in range(ROUNDS + 1):
            if number == 1:
                before = _calls(etcd.url)
            file = await measure(on_file, REQUESTS, clients, runs.create(made))
            begun = cpu_seconds([etcd.pid])
            process = await measure(on_etcd, REQUESTS, clients, runs.create(made))
            spent = 1000 * (cpu_seconds([etcd.pid]) - begun) / REQUESTS
            made += REQUESTS
            if number:
                rounds.append((file.cpu, process.cpu, spent, process.cpu / file.cpu))
        after = _calls(etcd.url)
        calls = {name: round((after[name] - before[name]) / REQUESTS / ROUNDS, 2) for name in after}
        file_cpu, process_cpu, etcd_cpu, ratio = (
            statistics.median(column) for column in zip(*rounds, strict=True)
        )
        used = {name: each for name, each in calls.items() if each}
        found[f"{clients} clients"] = Cost(file_cpu, process_cpu, etcd_cpu, ratio, used)
    return found


def _calls(url: str) -> Counter[str]:
    """Return how often each method of etcd was called."""
    with urllib.request.urlopen(f"{url}/metrics") as answer:  # noqa: S310 - it is http
        text = answer.read().decode()
    found: Counter[str] = Counter()
    for line in re.finditer(
        r'^grpc_server_started_total\{.*grpc_method="(\w+)".*\} (\S+)$', text, re.MULTILINE
    ):
        found[line[1]] += int(float(line[2]))
    return found
