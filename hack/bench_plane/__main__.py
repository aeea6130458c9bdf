"""`python -m hack.bench_plane`: the table of the embedded control plane beside kube-apiserver with etcd."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from hack.bench.report import machine
from hack.bench_plane import runs, tenants
from hack.bench_plane.load import Figure, Target
from hack.embedded import ControlPlane
from hack.parity import sides
from hack.testbed import TestBed
from hack.testbed.bed import SHARED

WATCHERS = 200
WRITES = 200


def main() -> int:
    """Measure both sides, print the table, store it."""
    parser = argparse.ArgumentParser(prog="python -m hack.bench_plane", description=__doc__)
    parser.add_argument("--pods", type=int, default=5000, help="Pods that are listed (default 5000)")
    parser.add_argument("--tenants", type=int, default=10000, help="idle tenants (default 10000)")
    parser.add_argument("--json", type=Path, default=Path("build/bench-plane.json"))
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vcsync-bench-")))
        print("measuring kube-apiserver with etcd", flush=True)
        real = _measure_real(folder / "real", options.pods)
        print("measuring the embedded control plane", flush=True)
        plane = stack.enter_context(ControlPlane(folder / "ours"))
        ours = asyncio.run(
            _measure(Target(sides.side("ours", plane.create("bench")), [plane.pid]), options.pods)
        )
        print(f"making {options.tenants} tenants", flush=True)
        idle = tenants.measure(plane, options.tenants)
    print(table(real, ours))
    print(
        f"\n{idle.count} tenants: {idle.rate:.0f} made per second, {idle.memory / 1000:.1f} KB of memory each, "
        f"start-up with all {idle.restart:.1f} s"
    )
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(document(real, ours, idle), indent=1))
    return 0


def _measure_real(folder: Path, pods: int) -> dict[str, Figure]:
    with TestBed(
        supers=0, tenants=["bench"], directory=folder, without_admission=sides.WITHOUT_ADMISSION
    ) as bed:
        cluster = bed.tenants["bench"]
        cluster.pause("kube-controller-manager")
        try:
            pids = [cluster.pids["kube-apiserver"], bed.state.processes[SHARED]["etcd"].pid]
            return asyncio.run(_measure(Target(sides.side("real", cluster.kubeconfig), pids), pods))
        finally:
            cluster.resume("kube-controller-manager")


async def _measure(target: Target, pods: int) -> dict[str, Figure]:
    await runs.prepare(target)
    found = await runs.operations(target, pods)
    found[f"event to each of {WATCHERS} watchers"] = await runs.fan_out(target, WATCHERS, WRITES)
    return found


def table(real: Mapping[str, Figure], ours: Mapping[str, Figure]) -> str:
    """The figures side by side; ratios are ours to the real server's."""
    lines = [f"{'':32}{'requests/s':>22}{'p99 ms':>18}{'CPU ms/request':>20}{'CPU ratio':>11}"]
    for name, left in real.items():
        right = ours[name]
        lines.append(
            f"{name:32}{left.rate:11.0f}{right.rate:11.0f}{left.p99:9.1f}{right.p99:9.1f}"
            f"{left.cpu:10.3f}{right.cpu:10.3f}{right.cpu / left.cpu if left.cpu else 0:11.2f}"
        )
    return "\n".join(lines)


def document(real: Mapping[str, Figure], ours: Mapping[str, Figure], idle: tenants.Tenants) -> dict[str, Any]:
    """Everything as plain values."""
    return {
        "machine": machine(),
        "real": {name: dataclasses.asdict(figure) for name, figure in real.items()},
        "ours": {name: dataclasses.asdict(figure) for name, figure in ours.items()},
        "tenants": dataclasses.asdict(idle),
    }


if __name__ == "__main__":
    sys.exit(main())
