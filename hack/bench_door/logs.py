"""Throughput of a long log, from the API server of the container's cluster and through the door before it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import msgspec

from hack.bench_plane.load import Ask, Flow, Refused, Target, cpu_seconds, session
from hack.embedded import ControlPlane
from hack.parity import sides
from hack.testbed import TestBed

TENANT = "umbrella"
NAMESPACE = "/api/v1/namespaces/default"
POD = "bench-log"
LINE_BYTES = 1024
ROUNDS = 5
POLL_SECONDS = 0.5
READY_SECONDS = 180.0


def run(folder: Path, megabytes: int) -> tuple[Flow, Flow]:
    """Run a container that has written a log, and read it directly and through the door, in turns.

    Returns:
        The fastest round of each.
    """
    with (
        TestBed(supers=1, tenants=(), real_nodes=True, directory=folder / "testbed") as bed,
        ControlPlane(folder / "door") as plane,
    ):
        cluster = bed.supers["r1"]
        plane.vcsync("tenant", "connect", TENANT, "--kubeconfig", str(cluster.kubeconfig))
        server = [cluster.pids["kube-apiserver"]]
        direct = Target(sides.side("direct", cluster.kubeconfig), server)
        door = Target(sides.side("door", plane.kubeconfig(TENANT)), [*server, plane.pid])
        return asyncio.run(_measure(direct, door, megabytes))


async def _measure(direct: Target, door: Target, megabytes: int) -> tuple[Flow, Flow]:
    async with session(direct, 1) as ask:
        await _write(ask, megabytes)
    found: dict[str, list[Flow]] = {"direct": [], "door": []}
    for _ in range(ROUNDS):
        for name, target in (("direct", direct), ("door", door)):
            found[name].append(await _read(target))
    fastest = {name: min(logs, key=lambda log: log.seconds) for name, logs in found.items()}
    return fastest["direct"], fastest["door"]


async def _write(ask: Ask, megabytes: int) -> None:
    """Create the Pod, and wait until it has written its log.

    Raises:
        TimeoutError: It has not within `READY_SECONDS`.
    """
    lines = megabytes * 1_000_000 // LINE_BYTES
    script = f"yes {'x' * (LINE_BYTES - 1)} | head -n {lines}"
    container: dict[str, Any] = {"name": "main", "image": "busybox:1.35", "command": ["sh", "-c", script]}
    spec = {"containers": [container], "restartPolicy": "Never", "automountServiceAccountToken": False}
    async with asyncio.timeout(READY_SECONDS):
        while True:
            try:
                await ask("POST", f"{NAMESPACE}/pods", {"metadata": {"name": POD}, "spec": spec})
            except Refused:  # The ServiceAccount is not there yet.
                await asyncio.sleep(POLL_SECONDS)
            else:
                break
        while True:
            pod = msgspec.json.decode(await ask("GET", f"{NAMESPACE}/pods/{POD}"))
            if pod["status"].get("phase") == "Succeeded":
                return
            await asyncio.sleep(POLL_SECONDS)


async def _read(target: Target) -> Flow:
    async with session(target, 1) as ask:
        await ask("GET", f"{NAMESPACE}/pods/{POD}/log?tailLines=1")
        before, began = cpu_seconds(target.pids), time.monotonic()
        size = await ask.size(f"{NAMESPACE}/pods/{POD}/log")
        seconds = time.monotonic() - began
        return Flow(size, seconds, cpu_seconds(target.pids) - before)
