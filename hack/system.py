"""vcsync on a test bed: installed by the `vcsync` command, each role in its own process with only its own rights."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hack.testbed.bed import TestBed
from hack.testbed.processes import Process, Spawner, free_ports, wait_gone
from hack.testbed.processes import stop as kill_processes
from vcsync.apiserver.operator.folder import own_address

READY_SECONDS = 60.0
STOP_SECONDS = 15.0
COMMAND_SECONDS = 120.0
KUBELET_PORTS = 50
VCSYNC = (sys.executable, "-m", "vcsync")


class SystemFailed(Exception):
    """vcsync could not be started; the text says what failed and contains the end of its log."""


class System:
    """vcsync installed into a test bed, and its roles as processes.

    Roles are named `nsscheduler`, `podscheduler` and `syncer-<super cluster>`, with a syncer for each of the bed's super
    clusters. All calls block; from asyncio use `asyncio.to_thread`.

    Args:
        bed: a running test bed.
        directory: for role kubeconfigs and logs.
        kubeconfigs: cluster name -> kubeconfig to register instead of the bed's own, e.g. one that leads to a fault proxy.
        tenant_options: tenant name -> further options of `vcsync tenant add`.
        log_level: of the roles.
        kubelet_api: whether syncers serve the kubelet API of virtual nodes, for logs and exec of tenants.
    """

    def __init__(
        self,
        bed: TestBed,
        directory: Path,
        *,
        kubeconfigs: Mapping[str, Path] | None = None,
        tenant_options: Mapping[str, Sequence[str]] | None = None,
        log_level: str = "info",
        kubelet_api: bool = False,
    ) -> None:
        self._kubelet_api = kubelet_api
        self.bed = bed
        self.directory = directory
        self._kubeconfigs = dict(kubeconfigs or {})
        self._tenant_options = dict(tenant_options or {})
        self._log_level = log_level
        self._spawner = Spawner(die_with_us=True)
        self._processes: dict[str, Process] = {}
        self._ports: dict[str, int] = {}
        self.ahead: dict[str, float] = {}
        """Role -> seconds by which its wall clock is ahead from its next start."""
        self.options: dict[str, tuple[str, ...]] = {}
        """Role -> further options of its command from its next start."""
        self.role_names = ("nsscheduler", "podscheduler", *(f"syncer-{name}" for name in bed.supers))

    def __enter__(self) -> Self:
        try:
            self.install()
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- installing

    def install(self) -> None:
        """Install into the meta cluster, register every super cluster and tenant of the bed."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self.vcsync("install", "--kubeconfigs", str(self.role_directory))
        for name in self.bed.supers:
            self.vcsync("super", "add", name, "--kubeconfig", str(self._kubeconfig(name)))
        for name in self.bed.tenants:
            self.add_tenant(name)

    def add_tenant(self, name: str) -> None:
        """Register one of the bed's tenants."""
        options = self._tenant_options.get(name, ())
        self.vcsync("tenant", "add", name, "--kubeconfig", str(self._kubeconfig(name)), *options)

    def vcsync(self, *arguments: str, check: bool = True) -> str:
        """Run the `vcsync` command as administrator of the meta cluster and return its standard output.

        Raises:
            SystemFailed: it failed, and `check` is set.
        """
        environment = os.environ | {"VCSYNC_META": str(self._kubeconfig("meta"))}
        done = subprocess.run(
            [*VCSYNC, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        if check and done.returncode:
            raise SystemFailed(
                f"vcsync {' '.join(arguments)} ended with {done.returncode}: {done.stderr or done.stdout}"
            )
        return done.stdout

    @property
    def role_directory(self) -> Path:
        """Folder of the roles' kubeconfigs."""
        return self.directory / "roles"

    # --- roles

    def start(self, *roles: str) -> None:
        """Start roles (default: all) and wait until each is ready.

        Raises:
            SystemFailed: one did not become ready.
        """
        wanted = roles or self.role_names
        for role in wanted:
            self.spawn(role)
        for role in wanted:
            self.wait_ready(role)

    def spawn(self, role: str) -> None:
        """Start a role without waiting for it."""
        self._processes[role] = self._spawner.start(self.command(role), self.log(role), Path.cwd())

    def command(self, role: str) -> tuple[str, ...]:
        """Return the command that runs a role."""
        port = self._ports.setdefault(role, free_ports(1)[0])
        kind, _, super_id = role.partition("-")
        chosen: tuple[str, ...] = ("--super-cluster", super_id) if kind == "syncer" else ()
        if self._kubelet_api and kind == "syncer":
            # kube-apiserver forwards no requests for nodes/proxy to loopback addresses. Ports that are in use are left out.
            ports = f"{port}-{port + KUBELET_PORTS}"
            chosen += ("--kubelet-address", own_address(), "--kubelet-ports", ports)
        ahead = self.ahead.get(role)
        program = VCSYNC if not ahead else (sys.executable, "-m", "hack.skewed", str(ahead))
        return (
            *program,
            "run",
            kind,
            *chosen,
            "--meta",
            str(self.role_directory / f"{kind}.kubeconfig"),
            "--listen",
            f"127.0.0.1:{port}",
            "--identity",
            role,
            "--log-level",
            self._log_level,
            *self.options.get(role, ()),
        )

    def wait_ready(self, role: str, timeout: float = READY_SECONDS) -> None:
        """Wait until a role reports that it is ready.

        Raises:
            SystemFailed: it ended, or was not ready within `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            self._spawner.reap(self._processes[role])
            if not self._processes[role].alive:
                raise SystemFailed(f"{role} has ended:\n{self.log_tail(role)}")
            if self._answers(role, "/readyz"):
                return
            time.sleep(0.05)
        raise SystemFailed(f"{role} is not ready after {timeout:.0f} s:\n{self.log_tail(role)}")

    def kill(self, role: str) -> str:
        """End a role by SIGKILL, as if the machine had failed; return the end of its log if it had ended by itself."""
        process = self._processes.pop(role)
        code = self._spawner.reap(process)
        report = "" if process.alive else f"{role} had ended (exit code {code}):\n{self.log_tail(role)}"
        kill_processes([process], self._spawner.reap)
        return report

    def revive(self) -> list[str]:
        """Restart the roles that have ended by themselves, as a Deployment would; return the end of each one's log."""
        ended = []
        for role, process in self._processes.items():
            self._spawner.reap(process)
            if not process.alive:
                ended.append(f"{role} has ended:\n{self.log_tail(role)}")
                self.spawn(role)
        return ended

    def terminate(self, role: str) -> int | None:
        """End a role by SIGTERM and return its exit code."""
        process = self._processes.pop(role)
        process.send(signal.SIGTERM)
        wait_gone([process], STOP_SECONDS, self._spawner.reap)
        return self._spawner.reap(process)

    def pid(self, role: str) -> int:
        """Return the process id of a running role."""
        return self._processes[role].pid

    def status(self, role: str) -> dict[str, Any]:
        """Return a role's answer at /status."""
        with urllib.request.urlopen(self.endpoint(role) + "/status", timeout=10) as answer:  # noqa: S310
            return dict(json.load(answer))

    def endpoint(self, role: str) -> str:
        """Return the URL at which a role serves its status."""
        return f"http://127.0.0.1:{self._ports[role]}"

    def log(self, role: str) -> Path:
        """Return a role's log file."""
        return self.directory / f"{role}.log"

    def log_tail(self, role: str, lines: int = 20) -> str:
        """Return the last `lines` lines of a role's log."""
        text = self.log(role).read_text(errors="replace") if self.log(role).exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def stop(self) -> None:
        """Kill all running roles."""
        kill_processes(self._processes.values(), self._spawner.reap)
        self._processes.clear()
        self._spawner.close()

    def _kubeconfig(self, cluster: str) -> Path:
        return self._kubeconfigs.get(cluster, self.bed.clusters[cluster].kubeconfig)

    def _answers(self, role: str, path: str) -> bool:
        try:
            with urllib.request.urlopen(self.endpoint(role) + path, timeout=2) as answer:  # noqa: S310
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False
