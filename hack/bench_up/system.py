"""`vcsync up` as a measured process: start, end, and clients of its tenants and super clusters."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Self

from hack.bench.meter import cpu_seconds, memory_bytes
from hack.testbed.processes import free_ports
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection

SUPERS = ("r1", "r2")
READY_SECONDS = 900.0
CONNECTIONS = 1
"""Connections to each tenant for calls: new connections of one address are limited, and a burst goes to many tenants."""


class UpFailedError(Exception):
    """The process did not become ready, or ended; the text contains its last output."""


class Up:
    """`vcsync up` with hollow super clusters.

    Args:
        folder: for its data and log.
        tenants: their names.
        nodes: of each super cluster.
        pods: of a slice.
        profile: file to write where its CPU time goes; None: not asked for.
        program: arguments of Python before those of `vcsync`.
        checkout: folder of the version to run; None: this one.
    """

    def __init__(
        self,
        folder: Path,
        tenants: Sequence[str],
        nodes: int,
        pods: int,
        profile: Path | None = None,
        *,
        program: Sequence[str] = ("-m", "vcsync"),
        checkout: Path | None = None,
    ) -> None:
        self._program = tuple(program)
        self._environment = None if checkout is None else {**os.environ, "PYTHONPATH": str(checkout)}
        self.tenants = tuple(tenants)
        self._data, self._log = folder / "data", folder / "up.log"
        self._nodes = nodes
        self._settings = folder / "vcsync.yaml"
        self._settings.write_text(f"nsscheduler: {{default-slice: {{cpu: 2, memory: 4Gi, pods: {pods}}}}}\n")
        self._profile = profile
        self._process: subprocess.Popen[bytes] | None = None
        self.started = 0.0
        """Seconds until everything was ready."""

    def __enter__(self) -> Self:
        port, status = free_ports(2)
        sampled = ("-m", "hack.bench.sampler", str(self._profile.absolute())) if self._profile else ()
        command = [
            sys.executable, *sampled, *self._program, "up",
            "--data", str(self._data), "--listen", f"127.0.0.1:{port}", "--status", f"127.0.0.1:{status}",
            "--hollow", ",".join(SUPERS), "--nodes", str(self._nodes), "--tenants", ",".join(self.tenants),
            "--config", str(self._settings), "--quota", "", "--default-quota", "",
        ]  # fmt: skip
        began = time.monotonic()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=self._environment)
        while "ready after" not in self._log.read_text():
            if self._process.poll() is not None or time.monotonic() > began + READY_SECONDS:
                output = self._log.read_text()[-3000:]
                self.__exit__()
                raise UpFailedError(f"it is not ready: {output}")
            time.sleep(0.1)
        self.started = time.monotonic() - began
        return self

    def __exit__(self, *_: object) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    @property
    def pids(self) -> list[int]:
        """Return the ids of the process and its children."""
        if self._process is None:
            raise UpFailedError("it does not run")
        found = [self._process.pid]
        for pid in found:
            for task in Path(f"/proc/{pid}/task").iterdir():
                found += [int(each) for each in (task / "children").read_text().split()]
        return found

    def cpu(self) -> float:
        """Return the CPU seconds of all threads and child processes so far, user and system."""
        return sum(map(cpu_seconds, self.pids))

    def memory(self) -> int:
        """Return the memory in use in bytes (Pss)."""
        return sum(map(memory_bytes, self.pids))

    @asynccontextmanager
    async def clients(self) -> AsyncIterator[Clients]:
        """Clients of everything."""
        async with AsyncExitStack() as stack:

            async def client(connection: Connection, name: str, most: int = CONNECTIONS) -> Client:
                return await stack.enter_async_context(Client(connection, name=name, max_connections=most))

            admin = await client(Connection.from_kubeconfig_file(self._data / "admin.kubeconfig"), "admin")
            tenants = {
                name: await client(
                    Connection.from_kubeconfig_file(self._data / f"{name}.kubeconfig", recheck=3600.0), name
                )
                for name in self.tenants
            }
            supers: dict[str, Client] = {}
            for name in SUPERS:
                kubeconfig: Any = await admin.request(
                    "GET", f"/vcsync/v1/tenants/{name}/kubeconfig?user=admin"
                )
                supers[name] = await client(Connection.from_kubeconfig_bytes(kubeconfig), name, 64)
            yield Clients(admin, tenants, supers)


class Clients:
    """Open clients as all administrators; `everybody` reads all spaces at once."""

    def __init__(self, admin: Client, tenants: dict[str, Client], supers: dict[str, Client]) -> None:
        self.everybody = admin.across_tenants()
        self.tenants = tenants
        self.supers = supers
