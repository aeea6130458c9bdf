"""`python -m hack.bench_up`: measures `vcsync up` with many tenants, and its hollow super clusters used directly."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

import msgspec

from hack.bench.formats import machine
from hack.bench_up import report, runs
from hack.bench_up.report import Results
from hack.bench_up.system import SUPERS, Up

PARTS = ("idle", "pods", "memory", "direct", "deployments")
SETTLING_SECONDS = 10.0
"""Seconds after the first Pods, for their Events and other consequences."""
PODS_OF_A_NODE = 500
CPUS_OF_A_NODE = 32
CPUS_OF_A_TENANT = 2


def main() -> int:
    """Measure, print the table, and store all results."""
    options = _options()
    tenants = [f"t{number:03}" for number in range(options.tenants)]
    pods = 2 * options.pods + 2 * options.tenants
    nodes = 2 + max(pods // PODS_OF_A_NODE, options.tenants * CPUS_OF_A_TENANT // CPUS_OF_A_NODE)
    results = Results(tenants=len(tenants))
    with (
        tempfile.TemporaryDirectory(prefix="vcsync-bench-") as folder,
        Up(Path(folder), tenants, nodes, pods_of_a_slice(len(tenants), nodes), options.profile) as up,
    ):
        results.started = up.started
        try:
            asyncio.run(measure(up, results, options))
        finally:
            print(report.table(report.lines(results)), flush=True)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    document = {"machine": machine(), "results": msgspec.to_builtins(results)}
    options.json.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=1))
    return 0


def pods_of_a_slice(tenants: int, nodes: int) -> int:
    """Return the number of Pods in each tenant's single slice, so that together they have nearly all."""
    return len(SUPERS) * nodes * PODS_OF_A_NODE * 9 // 10 // tenants


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m hack.bench_up", description=__doc__)
    parser.add_argument("--tenants", type=int, default=100, help="number of tenants (default 100)")
    parser.add_argument("--pods", type=int, default=10_000, help="Pods of a burst (default 10000)")
    parser.add_argument("--deployments", type=int, default=100, help="Deployments to measure (default 100)")
    parser.add_argument("--idle", type=float, default=60.0, help="seconds of idleness (default 60)")
    parser.add_argument("--only", action="append", choices=PARTS, help="measure only this; may be repeated")
    parser.add_argument("--profile", type=Path, help="sample where CPU time goes, and write it here")
    parser.add_argument("--json", type=Path, default=Path("build/bench-up.json"))
    return parser.parse_args()


async def measure(up: Up, results: Results, options: argparse.Namespace) -> None:
    """Measure one part after another; the greedy tenant comes last, because it leaves objects behind."""
    parts = options.only or PARTS
    async with up.clients() as clients:
        await runs.prepare(clients)
        if "idle" in parts:
            await asyncio.sleep(SETTLING_SECONDS)
            results.idle = await runs.idle(up, options.idle)
        if "pods" in parts:
            results.pods = await runs.burst(up, clients, clients.tenants, options.pods)
        if "memory" in parts:
            results.memory = up.memory()
        if "direct" in parts:
            results.direct = await runs.burst(up, clients, clients.supers, options.pods)
        if "deployments" in parts:
            quiet, busy, *_ = clients.tenants
            await runs.deployments(clients, quiet, 3, "warm")
            results.alone = await runs.deployments(clients, quiet, options.deployments, "alone")
            async with runs.greedy(clients.tenants[busy]) as made:
                began = time.monotonic()
                results.beside = await runs.deployments(clients, quiet, options.deployments, "beside")
                results.jobs_per_second = made[0] / (time.monotonic() - began)


if __name__ == "__main__":
    raise SystemExit(main())
