"""The peer: another syncer for VirtualClusters, whose program the user has, with a tenant of its own on the stage."""

from __future__ import annotations

import asyncio
import base64
import signal
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from hack.bench.comparison import PEER
from hack.bench.load import NotInTime
from hack.bench.stage import (
    FIRST_POD_SECONDS,
    Side,
    Stage,
    create_namespace,
    give_quota,
    make,
    tenant_namespaces,
    wait_without_tenants,
)
from hack.system import SystemFailed
from hack.testbed.binaries import tail
from hack.testbed.cluster import Cluster
from hack.testbed.processes import Process, Spawner, free_ports, wait_gone
from hack.testbed.processes import stop as kill_processes
from vcsync.api import names
from vcsync.kube.errors import KubeError
from vcsync.process import loop

T = TypeVar("T")

STOP_SECONDS = 30.0
POLL_SECONDS = 0.1
LOG_LINES = 15
WITHOUT_CONTROLLERS = ("node-lifecycle-controller",)
"""Controllers that do not run in the peer's tenant, as in VirtualCluster's sample: its virtual nodes have no heartbeats."""


class PeerFailed(SystemFailed):
    """The peer did not start or did not run a Pod; the text says what to look at, and contains the end of its log."""


class Made(NamedTuple):
    """An object that the peer expects in its super cluster, and the collection in which it is created."""

    path: str
    body: dict[str, Any]


def definition() -> Made:
    """Return the definition of VirtualClusters, which have no subresource for their status."""
    version = {
        "name": names.VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    spec = {
        "group": names.GROUP,
        "scope": "Namespaced",
        "names": {
            "plural": "virtualclusters",
            "singular": "virtualcluster",
            "kind": "VirtualCluster",
            "listKind": "VirtualClusterList",
            "shortNames": ["vc"],
        },
        "versions": [version],
    }
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"virtualclusters.{names.GROUP}"},
        "spec": spec,
    }
    return Made("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)


def registration(kubeconfig: bytes) -> tuple[Made, ...]:
    """Return what registers a running tenant: its root namespace, the Secret with its kubeconfig, its VirtualCluster.

    The key of the tenant, and with it the prefix of its namespaces in the super cluster, is `PEER`.
    """
    secret = {
        "metadata": {"name": names.ADMIN_KUBECONFIG_SECRET},
        "data": {names.ADMIN_KUBECONFIG_SECRET: base64.b64encode(kubeconfig).decode()},
    }
    virtual_cluster = {
        "apiVersion": names.API_VERSION,
        "kind": "VirtualCluster",
        "metadata": {"name": PEER},
        "spec": {"clusterVersionName": "bench"},
        "status": {"phase": "Running", "clusterNamespace": PEER},
    }
    return (
        Made("/api/v1/namespaces", {"metadata": {"name": PEER}}),
        Made(f"/api/v1/namespaces/{PEER}/secrets", secret),
        Made(virtual_clusters(PEER), virtual_cluster),
    )


def virtual_clusters(namespace: str) -> str:
    """Return the path of the VirtualClusters of a namespace."""
    return f"/apis/{names.API_VERSION}/namespaces/{namespace}/virtualclusters"


def arguments(kubeconfig: Path, port: int) -> tuple[str, ...]:
    """Return the peer's flags: VirtualCluster's syncer with one super cluster that is its meta cluster, too.

    Its default lock is a ConfigMap, which current client libraries refuse; a single process needs none.

    Args:
        kubeconfig: of an administrator of the super cluster.
        port: for its metrics.
    """
    return (
        f"--super-master-kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--address=127.0.0.1",
        f"--port={port}",
        "--feature-gates=RootCACertConfigMapSupport=true",
    )


class Peer:
    """The other syncer on a stage. Everything of vcsync may stand by, but its roles must not run meanwhile.

    Both syncers mark what they make in the super cluster with the same annotations, and the peer deletes namespaces of
    tenants that it does not know: what one made is removed before the other starts.

    Args:
        stage: whose super cluster it uses.
        program: its file.
        further: flags after those of `arguments`.
        directory: for its log.
    """

    def __init__(self, stage: Stage, program: Path, further: Sequence[str], directory: Path) -> None:
        self._stage = stage
        self.program = program.absolute()
        self._further = tuple(further)
        self._directory = directory
        self._log = directory / f"{PEER}.log"
        self._super = stage.direct.cluster
        self._spawner = Spawner(die_with_us=True)
        self._process: Process | None = None
        self.side = Side(PEER, self._prepare(), {})

    def start(self, seconds: float = FIRST_POD_SECONDS) -> None:
        """Start the program and wait until a Pod of its tenant runs.

        Raises:
            PeerFailed: it cannot be started, has ended, or runs no Pod within `seconds`.
        """
        command = (str(self.program), *arguments(self._super.kubeconfig, free_ports(1)[0]), *self._further)
        try:
            process = self._spawner.start(command, self._log, self._directory)
        except OSError as error:
            raise PeerFailed(f"{self.program} cannot be started: {error.strerror}") from error
        self._process = process
        self._stage.guests[PEER] = process.pid
        try:
            self.run(self._stage.first_pod(self.side, seconds))
        except BaseException:
            self.kill()
            raise

    def withdraw(self) -> None:
        """End the program, and remove from the super cluster what it made there for its tenant."""
        process = self._running()
        process.send(signal.SIGTERM)
        try:
            wait_gone([process], STOP_SECONDS, self._spawner.reap)
        except TimeoutError:
            kill_processes([process], self._spawner.reap)
        self._forget()
        for name in tenant_namespaces(self._super):
            self._super.call("DELETE", f"/api/v1/namespaces/{name}")
        wait_without_tenants(self._super)

    def run(self, load: Coroutine[Any, Any, T]) -> T:
        """Put a load on the peer's tenant, for as long as the program runs, and return the load's result.

        Raises:
            PeerFailed: the program has ended, or the load has failed.
        """
        return loop.run(self._run(load))

    def kill(self) -> None:
        """End the program at once, if it runs."""
        if self._process is not None:
            kill_processes([self._process], self._spawner.reap)
        self._forget()

    def close(self) -> None:
        """End the program at once, if it runs, and what watches it."""
        self.kill()
        self._spawner.close()

    def _prepare(self) -> Cluster:
        tenant = self._stage.bed.add_tenant(PEER, without_controllers=WITHOUT_CONTROLLERS)
        create_namespace(tenant)
        give_quota(tenant)
        make(self._super, *definition())
        self._super.wait_for(
            "VirtualClusters", lambda: self._super.call("GET", virtual_clusters(PEER))[0] == 200
        )
        for each in registration(tenant.kubeconfig.read_bytes()):
            make(self._super, *each)
        return tenant

    def _running(self) -> Process:
        if self._process is None:
            raise RuntimeError("the peer does not run")
        return self._process

    def _forget(self) -> None:
        self._process = None
        self._stage.guests.pop(PEER, None)

    async def _run(self, load: Coroutine[Any, Any, T]) -> T:
        process = self._running()
        work, end = asyncio.create_task(load), asyncio.create_task(self._end(process))
        try:
            await asyncio.wait((work, end), return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise PeerFailed(self._described(process))
            return await work
        except (KubeError, NotInTime, OSError, ExceptionGroup) as error:
            raise PeerFailed(self._described(process, error)) from error
        finally:
            work.cancel()
            end.cancel()
            await asyncio.wait((work, end))

    async def _end(self, process: Process) -> None:
        while process.alive:
            self._spawner.reap(process)
            await asyncio.sleep(POLL_SECONDS)

    def _described(self, process: Process, error: Exception | None = None) -> str:
        code = self._spawner.reap(process)
        what = f"runs, but without success: {error}" if process.alive else f"has ended (exit code {code})"
        output = tail(self._log, LOG_LINES) or "nothing"
        return f"{self.program} {what}. Flags can be added by --peer-arg. The end of its output:\n{output}"
