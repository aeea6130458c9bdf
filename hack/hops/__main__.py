"""`python -m hack.hops`: creates Pods one at a time in `vcsync up`, and prints the medians of the hops of their way.

With `--peer DIR`, another checkout is measured in turns on the same machine, and the table has the ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from functools import partial
from pathlib import Path

import msgspec

from hack.bench.load import pod
from hack.bench_up.runs import NAMESPACE, burst, prepare, seeing
from hack.bench_up.system import Up
from hack.hops.path import Seen, Step, Way, table, ways, writes_per_pod
from vcsync.kube.resources import PODS

TENANT = "acme"
NODES = 2
SLICE_PODS = 500
REST_SECONDS = 0.5
"""Pause before each Pod, in which the consequences of the one before end."""
TRACED = Path(__file__).with_name("traced.py")
HERE = TRACED.parents[2]


def main() -> int:
    """Measure, and print the table."""
    options = _options()
    checkouts = {"this": HERE} | ({"peer": options.peer.resolve()} if options.peer else {})
    measured: dict[str, list[Way]] = {name: [] for name in checkouts}
    bursts: dict[str, list[float]] = {name: [] for name in checkouts}
    for _ in range(options.rounds):
        for name, checkout in checkouts.items():
            found, writes = _measure(checkout, options.pods, options.burst)
            measured[name] += found
            bursts[name].append(writes)
    incomplete = [name for name, found in measured.items() if not found]
    if incomplete:
        print(f"no Pod of {', '.join(incomplete)} has all its steps")
        return 1
    print(table(measured, bursts))
    counts = ", ".join(f"{len(found)} of {name}" for name, found in measured.items())
    print(f"\nMedians of Pods created one at a time: {counts}, of {options.pods * options.rounds} each.")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m hack.hops", description=__doc__)
    parser.add_argument("--pods", type=int, default=50, help="Pods of each round (default 50)")
    parser.add_argument("--rounds", type=int, default=2, help="rounds (default 2)")
    parser.add_argument(
        "--burst", type=int, default=200, help="Pods created at once after them (default 200)"
    )
    parser.add_argument("--peer", type=Path, help="folder of another checkout, measured in turns")
    return parser.parse_args()


def _measure(checkout: Path, pods: int, at_once: int) -> tuple[list[Way], float]:
    """Return the ways of Pods created one at a time, and the writes in the tenant per Pod of a burst."""
    with tempfile.TemporaryDirectory(prefix="vcsync-hops-") as folder:
        notes = Path(folder) / "steps"
        program = (str(TRACED), str(notes))
        with Up(Path(folder), [TENANT], NODES, SLICE_PODS, program=program, checkout=checkout) as up:
            seen = asyncio.run(_create(up, pods, at_once))
        steps = _steps(notes)
    return ways(steps, seen), writes_per_pod(steps, [f"load-{number}" for number in range(at_once)])


async def _create(up: Up, pods: int, at_once: int) -> dict[str, Seen]:
    found: dict[str, Seen] = {}
    async with up.clients() as clients:
        await prepare(clients)
        client = clients.tenants[TENANT]
        async with seeing(clients) as seen:
            for number in range(pods):
                key = (TENANT, f"hop-{number}")
                await asyncio.sleep(REST_SECONDS)
                sent = time.monotonic()
                await client.create(PODS, pod(key[1]), NAMESPACE)
                await seen.until(partial(seen.running.__contains__, key), f"Pod {key[1]} runs", 300.0)
                found[key[1]] = Seen(sent, seen.running[key])
        await burst(up, clients, clients.tenants, at_once)
    return found


def _steps(file: Path) -> list[Step]:
    decoder = msgspec.json.Decoder(Step)
    return [decoder.decode(line) for line in file.read_bytes().splitlines()]


if __name__ == "__main__":
    raise SystemExit(main())
