"""The stage: a test bed with vcsync, and the two sides on which a load can be put."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from hack.bench import load
from hack.bench.meter import Meter, Reading, Usage, between, cpu_seconds, memory_bytes, parse_reviews
from hack.system import System
from hack.testbed.bed import TestBed
from hack.testbed.cluster import Cluster
from hack.testbed.processes import free_ports
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
PODSCHEDULER = "podscheduler"

SETTLED_SECONDS = 1.0
SETTLED_CPU = 0.05
"""A load is over when the processes that handle it have used at most this many CPU seconds in `SETTLED_SECONDS`."""
SETTLE_LIMIT = 60.0
QUOTAS = f"/api/v1/namespaces/{NAMESPACE}/resourcequotas"
FIRST_POD_SECONDS = 60.0
LEAVING_SECONDS = 300.0


class Side(Struct, frozen=True):
    """The side of a load: the super cluster directly, or a tenant."""

    name: str
    """`direct`, or what the load's messages call the tenant."""
    cluster: Cluster
    labels: Mapping[str, str]
    """Labels that the load's Pods need on this side."""


class MeasuredSystem(System):
    """A system with the measured tenant, in which some roles may record where they spend CPU time.

    Args:
        bed, directory: as for `System`.
        profiles: role -> file for its profile.
        nodes: number of nodes of the super cluster.
        webhook: `HOST:PORT` at which the tenant's control plane asks the Pod scheduler about new Pods; empty: it does not
            ask.
    """

    def __init__(
        self, bed: TestBed, directory: Path, profiles: Mapping[str, Path], *, nodes: int, webhook: str
    ) -> None:
        size = SLICE.format(pods=nodes * PODS_OF_A_NODE // SLICES)
        asks = ("--placement-webhook", webhook) if webhook else ()
        super().__init__(bed, directory, tenant_options={TENANT: ("--slice-size", size, *asks)})
        if webhook:
            self.options[PODSCHEDULER] = ("--placement-webhook-listen", webhook)
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
        self.guests: dict[str, int] = {}
        """Running processes that are measured like roles: name -> process id."""
        self._meter = Meter(bed)
        self._running: set[str] = set()

    # --- vcsync

    def start_roles(self) -> None:
        """Start all roles, set the tenant's quota and wait until one of its Pods runs."""
        self.system.start()
        self._running = set(self.system.role_names)
        if PODSCHEDULER in self.system.options:
            self.bed.meta.wait_for("the placement webhook", self._is_asked, FIRST_POD_SECONDS)
        give_quota(self.tenant.cluster)
        loop.run(self.first_pod(self.tenant))

    def stop_roles(self) -> None:
        """End all roles gracefully."""
        for role in sorted(self._running):
            self.system.terminate(role)
        self._running.clear()

    def withdraw(self) -> None:
        """Take the tenant's quota, wait until vcsync has removed its namespaces from the super cluster, and end all roles."""
        self.tenant.cluster.call("DELETE", f"{QUOTAS}/quota")
        wait_without_tenants(self.direct.cluster)
        self.stop_roles()

    def roles(self) -> dict[str, int]:
        """Return the process ids of the running roles and guests by name."""
        return {role: self.system.pid(role) for role in sorted(self._running)} | self.guests

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

    def reviews(self) -> dict[str, int]:
        """Return how many calls of the placement webhook there were, by their outcome; empty if nobody serves it."""
        if PODSCHEDULER not in self.system.options or PODSCHEDULER not in self._running:
            return {}
        url = f"{self.system.endpoint(PODSCHEDULER)}/metrics"
        with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - its own process
            return parse_reviews(answer.read().decode())

    async def settle(self) -> None:
        """Wait until the roles, the super cluster's scheduler and its kubelet have no more work with Pods."""
        roles = self.roles()
        workers = [
            pid
            for name, pid in self._meter.processes(roles).items()
            if name in roles or name.endswith(("/kube-scheduler", "/kwok"))
        ]
        deadline = time.monotonic() + SETTLE_LIMIT
        used = SETTLED_CPU + 1
        before = sum(map(cpu_seconds, workers))
        while used > SETTLED_CPU and time.monotonic() < deadline:
            await asyncio.sleep(SETTLED_SECONDS)
            now = sum(map(cpu_seconds, workers))
            used, before = now - before, now

    async def first_pod(self, side: Side, seconds: float = FIRST_POD_SECONDS) -> None:
        """Run and delete one Pod, so that objects that exist once per namespace and node are not counted.

        Raises:
            NotInTime: it does not run within `seconds`.
        """
        async with load.client_of(side.cluster.kubeconfig, side.name) as client:
            async with load.watching(client, NAMESPACE) as watch:
                await load.create(client, NAMESPACE, "probe")
                await watch.until(
                    lambda seen: "probe" in seen.running, what="the tenant's first Pod", seconds=seconds
                )
            await load.clear(client, NAMESPACE)
        await self.settle()

    def _is_asked(self) -> bool:
        [state] = self.system.status(PODSCHEDULER)["roles"].values()
        return str(state["placementWebhook"]).startswith("served at")


@contextlib.contextmanager
def stage(
    directory: Path, profiles: Sequence[str] = (), pods: int = 0, *, webhook: bool = False
) -> Iterator[Stage]:
    """Start a test bed and install vcsync; both end with the context.

    Args:
        directory: for data, logs and profiles.
        profiles: roles whose CPU time is to be sampled, into `<directory>/<role>.profile`.
        pods: number of Pods that the nodes must have room for.
        webhook: whether the tenant's control plane asks the Pod scheduler about new Pods.
    """
    nodes = max(FEWEST_NODES, -(-pods // PODS_OF_A_NODE) + 1)
    with TestBed(supers=1, nodes=nodes, tenants=(TENANT,), directory=directory / "bed", progress=say) as bed:
        files = {role: directory / f"{role}.profile" for role in profiles}
        address = f"127.0.0.1:{free_ports(1)[0]}" if webhook else ""
        system = MeasuredSystem(bed, directory / "system", files, nodes=nodes, webhook=address)
        try:
            system.install()
            made = Stage(bed, system)
            for side in (made.direct, made.tenant):
                create_namespace(side.cluster)
            yield made
        finally:
            system.stop()


def create_namespace(cluster: Cluster) -> None:
    """Create the load's namespace, and wait until it can have Pods."""
    make(cluster, "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    cluster.wait_for(f"{cluster.name}: ServiceAccount", partial(_has_account, cluster))


def give_quota(cluster: Cluster) -> None:
    """Create the ResourceQuota that every measured tenant has."""
    make(cluster, QUOTAS, {"metadata": {"name": "quota"}, "spec": {"hard": QUOTA}})


def tenant_namespaces(cluster: Cluster) -> list[str]:
    """Return the names of the namespaces that a syncer made in a super cluster for a tenant."""
    status, answer = cluster.call("GET", "/api/v1/namespaces")
    if status != 200:
        raise RuntimeError(f"{cluster.name}: listing namespaces was answered with {status}: {answer}")
    found = (each["metadata"] for each in answer["items"])
    return [each["name"] for each in found if names.CLUSTER in each.get("annotations", {})]


def wait_without_tenants(cluster: Cluster) -> None:
    """Wait until a super cluster has no namespace of a tenant."""
    cluster.wait_for(
        f"{cluster.name}: the end of tenants' namespaces",
        lambda: not tenant_namespaces(cluster),
        LEAVING_SECONDS,
    )


def make(cluster: Cluster, path: str, body: dict[str, Any]) -> None:
    """Create an object, unless it exists.

    Args:
        cluster: in which.
        path: of the collection.
        body: the object.

    Raises:
        RuntimeError: the cluster refuses it.
    """
    status, answer = cluster.call("POST", path, body)
    if status not in (201, 409):
        raise RuntimeError(f"{cluster.name}: POST {path} was answered with {status}: {answer}")


def _has_account(cluster: Cluster) -> bool:
    return cluster.call("GET", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default")[0] == 200


def say(text: str) -> None:
    """Print progress."""
    print(text, file=sys.stderr, flush=True)
