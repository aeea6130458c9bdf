"""`python -m hack.bench_plane`: compares the embedded control plane with kube-apiserver and etcd."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from hack.bench.formats import machine
from hack.bench_plane import many, pair, rights, runs, space, stores, tenants
from hack.bench_plane.load import Figure, Target
from hack.embedded import ControlPlane
from hack.parity import sides
from hack.testbed import TestBed
from hack.testbed.bed import SHARED

WATCHERS = 200
WRITES = 200


@dataclass
class Found:
    """The results of one side."""

    figures: dict[str, Figure] = field(default_factory=dict)
    space: space.Space | None = None
    many: many.Many | None = None


def main() -> int:
    """Measure both sides, print the tables, and store all results."""
    options = _options()
    only = re.compile(options.only)
    both = [name for name in ("requests", "watch", "rights", "space", "many") if only.search(name)]
    real, ours = Found(), Found()
    idle, two = None, None
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vcsync-bench-")))
        if both:
            print("measuring kube-apiserver with etcd", flush=True)
            real = _measure_real(folder / "real", both, options)
            print("measuring the embedded control plane", flush=True)
            ours = _measure_ours(folder / "ours", both, options)
        if only.search("pair"):
            print("measuring two embedded control planes on one etcd", flush=True)
            two = pair.run(folder / "pair")
        if only.search("stores"):
            print("measuring a process on a file and one on etcd", flush=True)
            print("\n".join(stores.report(stores.run(folder / "stores"))))
        if only.search("tenants"):
            print(f"making {options.tenants} tenants, then {options.many} Pods", flush=True)
            idle = tenants.measure(ControlPlane(folder / "idle"), options.tenants, options.many)
    print("\n".join(report(real, ours, two, idle)))
    options.json.parent.mkdir(parents=True, exist_ok=True)
    parts = {"real": real, "ours": ours, "tenants": idle}
    document = {name: dataclasses.asdict(each) for name, each in parts.items() if each is not None}
    figures = {name: dataclasses.asdict(each) for name, each in (two or {}).items()}
    options.json.write_text(json.dumps({"machine": machine(), **document, "pair": figures}, indent=1))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m hack.bench_plane", description=__doc__)
    parser.add_argument("--pods", type=int, default=5000, help="Pods that are listed (default 5000)")
    parser.add_argument("--many", type=int, default=100_000, help="Pods of the part `many` (default 100000)")
    parser.add_argument("--tenants", type=int, default=10_000, help="idle tenants (default 10000)")
    parser.add_argument(
        "--only", default="", help="parts: requests, watch, rights, space, many, pair, stores, tenants"
    )
    parser.add_argument("--json", type=Path, default=Path("build/bench-plane.json"))
    return parser.parse_args()


def _measure_real(folder: Path, parts: Sequence[str], options: argparse.Namespace) -> Found:
    with TestBed(
        supers=0, tenants=["bench"], directory=folder, without_admission=sides.WITHOUT_ADMISSION
    ) as bed:
        cluster = bed.tenants["bench"]
        cluster.pause("kube-controller-manager")
        try:
            pids = [cluster.pids["kube-apiserver"], bed.state.processes[SHARED]["etcd"].pid]
            target = Target(sides.side("real", cluster.kubeconfig), pids)
            return asyncio.run(_measure(target, cluster.kubeconfig, target, parts, options))
        finally:
            cluster.resume("kube-controller-manager")


def _measure_ours(folder: Path, parts: Sequence[str], options: argparse.Namespace) -> Found:
    with ControlPlane(folder, arguments=sides.WEBHOOKS) as plane:
        kubeconfig, other = plane.create("bench"), plane.create("other")
        target, neighbour = (Target(sides.side("ours", each), [plane.pid]) for each in (kubeconfig, other))
        return asyncio.run(_measure(target, kubeconfig, neighbour, parts, options))


async def _measure(
    target: Target, kubeconfig: Path, other: Target, parts: Sequence[str], options: argparse.Namespace
) -> Found:
    found = Found()
    await runs.prepare(target)
    if "requests" in parts:
        found.figures |= await runs.operations(target, options.pods)
    if "watch" in parts:
        found.figures[f"event to each of {WATCHERS} watchers"] = await runs.fan_out(target, WATCHERS, WRITES)
    if "rights" in parts:
        found.figures |= await rights.run(target)
    if "space" in parts:
        found.space = await space.run(target)
        found.figures |= found.space.figures
    if "many" in parts:
        found.many = await many.run(target, kubeconfig, other, options.many)
    return found


def report(
    real: Found, ours: Found, two: Mapping[str, Figure] | None, idle: tenants.Tenants | None
) -> list[str]:
    """Format all results as rows; ratios are embedded control plane to real server."""
    lines = [*_figures(real.figures, ours.figures), ""]
    for name, of in _WEIGHTS:
        left, right = of(real), of(ours)
        if left is not None and right is not None:
            lines.append(f"{name:54}{left:12.2f}{right:12.2f}{right / left if left else 0:9.2f}")
    for name, figure in (two or {}).items():
        cost = f"{figure.rate:.0f} requests/s, p99 {figure.p99:.1f} ms, {figure.cpu:.3f} ms CPU each"
        lines.append(f"two processes on one etcd, {name}: {cost}")
    if idle is not None:
        lines.append(
            f"{idle.count} tenants: {idle.rate:.0f} made per second, {idle.memory / 1000:.1f} KB each when idle "
            f"({idle.grown / 1000:.1f} KB in the process that made them), start-up with all {idle.restart:.1f} s "
            f"({idle.cpu:.1f} s CPU), without any {idle.bare:.1f} s, "
            f"with {idle.pods} Pods besides {idle.full:.1f} s"
        )
    return lines


def _figures(real: Mapping[str, Figure], ours: Mapping[str, Figure]) -> list[str]:
    lines = [f"{'':36}{'requests/s':>22}{'p99 ms':>18}{'CPU ms/request':>20}{'CPU ratio':>11}"]
    for name, left in real.items():
        right = ours[name]
        lines.append(
            f"{name:36}{left.rate:11.0f}{right.rate:11.0f}{left.p99:9.1f}{right.p99:9.1f}"
            f"{left.cpu:10.3f}{right.cpu:10.3f}{right.cpu / left.cpu if left.cpu else 0:11.2f}"
        )
    return lines


Weight = Callable[[Found], float | None]


def _many(of: Callable[[many.Many], float]) -> Weight:
    return lambda found: None if found.many is None else of(found.many)


def _space(of: Callable[[space.Space], float]) -> Weight:
    return lambda found: None if found.space is None else of(found.space)


_WEIGHTS: Sequence[tuple[str, Weight]] = (
    ("200 CRDs, 1,000 roles, 50 webhooks (MB)", _space(lambda each: each.memory / 1e6)),
    ("memory per stored Pod (KB)", _many(lambda each: each.memory / 1e3)),
    ("memory more while all are listed (MB)", _many(lambda each: each.peak / 1e6)),
    ("list of all of them (s)", _many(lambda each: each.listing)),
    ("list of all of them (s CPU)", _many(lambda each: each.cpu)),
    ("another client's get, p99 (ms)", _many(lambda each: each.quiet)),
    ("another client's get during lists, p99 (ms)", _many(lambda each: each.busy)),
)
"""Return the results other than requests: (name, value)."""


if __name__ == "__main__":
    sys.exit(main())
