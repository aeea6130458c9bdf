"""The stage: a test bed with vcsync, and the two sides on which a load can be put."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct

from hack.bench import load
from hack.bench.meter import Meter, Reading, Usage, between, cpu_seconds, memory_bytes
from hack.system import System
from hack.testbed.bed import TestBed
from hack.testbed.cluster import Cluster
from vcsync.api import names
from vcsync.api.objects import VirtualCluster, cluster_key
from vcsync.api.resources import VIRTUAL_CLUSTERS
from vcsync.process import loop

TENANT = "acme"
SUPER = "r1"
FEWEST_NODES = 10
PODS_OF_A_NODE = 450
"""Pods on each node, of the 500 that it takes."""
NAMESPACE = "bench"
QUOTA = {"requests.cpu": "40", "requests.memory": "80Gi"}
SLICES = 20
SLICE = "cpu=2,memory=4Gi,pods={pods}"
"""The slice size: `SLICES` of them are as large as the quota, and have room for nearly all Pods of the nodes."""
SYNCER = f"syncer-{SUPER}"
SYNCER_SOURCE = f"syncer/{SUPER}"
"""Name of the syncer in /status."""

SETTLED_SECONDS = 1.0
SETTLED_CPU = 0.05
"""A load is over when the processes that handle it have used at most this many CPU seconds in `SETTLED_SECONDS`."""
SETTLE_LIMIT = 60.0
PLACEMENT_SECONDS = 60.0


class Side(Struct, frozen=True):
    """The side of a load: the super cluster directly, or the tenant."""

    name: str
    """`direct` or `tenant`."""
    cluster: Cluster
    labels: Mapping[str, str]
    """Labels that the load's Pods need on this side."""


class ProfiledSystem(System):
    """A system in which some roles record where they spend CPU time.

    Args:
        bed, directory: as for `System`.
        profiles: role -> file for its profile.
        nodes: number of nodes of the super cluster.
    """

    def __init__(self, bed: TestBed, directory: Path, profiles: Mapping[str, Path], nodes: int) -> None:
        size = SLICE.format(pods=nodes * PODS_OF_A_NODE // SLICES)
        super().__init__(bed, directory, tenant_options={TENANT: ("--slice-size", size)})
        self._profiles = dict(profiles)

    def command(self, role: str) -> tuple[str, ...]:
        """Return the role's command, which the sampler runs if `profiles` contains the role."""
        command = super().command(role)
        if role not in self._profiles:
            return command
        sampler = (sys.executable, "-m", "hack.bench.sampler", str(self._profiles[role]))
        return (*sampler, *command[1:])


class Stage:
    """A running test bed with vcsync installed, and meters on everything.

    Args:
        bed: a running test bed with one super cluster and one tenant.
        system: vcsync on it; its roles do not run yet.
    """

    def __init__(self, bed: TestBed, system: System) -> None:
        self.bed = bed
        self.system = system
        self.direct = Side("direct", bed.supers[SUPER], {})
        self.tenant = Side("tenant", bed.tenants[TENANT], {})
        self._meter = Meter(bed)
        self._running: set[str] = set()

    # --- vcsync

    def start_roles(self) -> None:
        """Start all roles, set the tenant's quota and wait until one of its Pods runs."""
        self.system.start()
        self._running = set(self.system.role_names)
        self._give_quota()
        loop.run(self._wait_until_placed())

    def stop_roles(self) -> None:
        """End all roles gracefully."""
        for role in sorted(self._running):
            self.system.terminate(role)
        self._running.clear()

    def roles(self) -> dict[str, int]:
        """Return the process ids of the running roles by name."""
        return {role: self.system.pid(role) for role in sorted(self._running)}

    def kill(self, role: str) -> None:
        """End a role as a crash would."""
        self.system.kill(role)
        self._running.discard(role)

    def respawn(self, role: str) -> None:
        """Start a role again, without waiting for it."""
        self.system.spawn(role)
        self._running.add(role)

    async def super_namespace(self) -> str:
        """Return the name in the super cluster of the namespace that the tenant's load uses."""
        async with load.client_of(self.bed.meta.kubeconfig, "meta") as meta:
            found = await meta.get(VIRTUAL_CLUSTERS, TENANT, names.DEFAULT_VC_NAMESPACE)
        return names.super_namespace(cluster_key(VirtualCluster.from_envelope(found)), NAMESPACE)

    # --- meters

    def read(self, *, ending: bool = False) -> Reading:
        """Read all meters; see `Meter.read`."""
        return self._meter.read(self.roles(), ending=ending)

    def usage_since(self, before: Reading) -> Usage:
        """Return the usage since a reading."""
        return between(before, self.read(ending=True))

    def memory(self) -> dict[str, int]:
        """Return the memory of each role in bytes."""
        return {role: memory_bytes(pid) for role, pid in self.roles().items()}

    async def settle(self) -> None:
        """Wait until the roles, the super cluster's scheduler and its kubelet have no more work with Pods."""
        processes = self._meter.processes(self.roles())
        workers = [
            pid
            for name, pid in processes.items()
            if name in self._running or name.endswith(("/kube-scheduler", "/kwok"))
        ]
        deadline = time.monotonic() + SETTLE_LIMIT
        used = SETTLED_CPU + 1
        before = sum(map(cpu_seconds, workers))
        while used > SETTLED_CPU and time.monotonic() < deadline:
            await asyncio.sleep(SETTLED_SECONDS)
            now = sum(map(cpu_seconds, workers))
            used, before = now - before, now

    # --- preparing

    def create_namespaces(self) -> None:
        """Create the load's namespace on both sides."""
        for side in (self.direct, self.tenant):
            body = {"metadata": {"name": NAMESPACE}}
            status, answer = side.cluster.call("POST", "/api/v1/namespaces", body)
            if status not in (201, 409):
                raise RuntimeError(f"{side.cluster.name}: creating namespace {NAMESPACE}: {answer}")
            side.cluster.wait_for(f"{side.cluster.name}: ServiceAccount", partial(_has_account, side.cluster))

    def _give_quota(self) -> None:
        body = {"metadata": {"name": "quota"}, "spec": {"hard": QUOTA}}
        path = f"/api/v1/namespaces/{NAMESPACE}/resourcequotas"
        status, answer = self.tenant.cluster.call("POST", path, body)
        if status not in (201, 409):
            raise RuntimeError(f"{TENANT}: creating the ResourceQuota: {answer}")

    async def _wait_until_placed(self) -> None:
        """Run and delete one Pod, so that objects that exist once per namespace and node are not counted."""
        async with load.client_of(self.tenant.cluster.kubeconfig, TENANT) as client:
            async with load.watching(client, NAMESPACE) as watch:
                await load.create(client, NAMESPACE, "probe")
                await watch.until(
                    lambda seen: "probe" in seen.running,
                    what="the tenant's first Pod",
                    seconds=PLACEMENT_SECONDS,
                )
            await load.clear(client, NAMESPACE)
        await self.settle()


@contextlib.contextmanager
def stage(directory: Path, profiles: Sequence[str] = (), pods: int = 0) -> Iterator[Stage]:
    """Start a test bed and install vcsync; both end with the context.

    Args:
        directory: for data, logs and profiles.
        profiles: roles whose CPU time is to be sampled, into `<directory>/<role>.profile`.
        pods: number of Pods that the nodes must have room for.
    """
    nodes = max(FEWEST_NODES, -(-pods // PODS_OF_A_NODE) + 1)
    with TestBed(supers=1, nodes=nodes, tenants=(TENANT,), directory=directory / "bed", progress=say) as bed:
        files = {role: directory / f"{role}.profile" for role in profiles}
        system = ProfiledSystem(bed, directory / "system", files, nodes)
        try:
            system.install()
            made = Stage(bed, system)
            made.create_namespaces()
            yield made
        finally:
            system.stop()


def _has_account(cluster: Cluster) -> bool:
    return cluster.call("GET", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default")[0] == 200


def say(text: str) -> None:
    """Print progress."""
    print(text, file=sys.stderr, flush=True)
