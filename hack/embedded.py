"""The embedded control plane as a separate process, for tools and tests: start, tenants, end."""

import os
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from hack.testbed.processes import free_ports

READY_SECONDS = 120.0
"""Time limit of the start, for a busy machine."""
POLL_SECONDS = 0.05
ANY_RATE = ("--max-connection-rate", "0")
"""Turns the limit per client address off, because all clients of a test have one address."""


class ControlPlaneError(Exception):
    """The control plane did not start, or one of its commands failed; the text contains the output."""


class ControlPlane:
    """`vcsync run controlplane` on a free port of this machine.

    `with ControlPlane(folder) as plane: kubeconfig = plane.create("acme")`. All calls block.

    Args:
        directory: for its data and log.
        etcd: URL of an etcd to keep the data in; None: a file of its own.
        arguments: further ones of `vcsync run controlplane`.
    """

    def __init__(self, directory: Path, *, etcd: str | None = None, arguments: Sequence[str] = ()) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.log = directory / "controlplane.log"
        self._etcd = etcd
        self._arguments = tuple(arguments)
        self.port = free_ports(1)[0]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Return its URL; a tenant's is `/tenants/<name>` below it."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Return its process id.

        Raises:
            ControlPlaneError: it does not run.
        """
        if self._process is None:
            raise ControlPlaneError("the control plane does not run")
        return self._process.pid

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop(signal.SIGKILL)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start it, with existing data if any, and wait until it is ready.

        Raises:
            ControlPlaneError: it did not become ready, or it ended.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        command = [
            *_vcsync(),
            "run",
            "controlplane",
            "--data",
            str(self.data),
            "--listen",
            f"127.0.0.1:{self.port}",
            *ANY_RATE,
        ]
        if self._etcd:
            command += ["--etcd", self._etcd]
        command += self._arguments
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=_environment())
        deadline = time.monotonic() + READY_SECONDS
        while not self._ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise ControlPlaneError(f"the control plane is not ready: {self.log.read_text()[-2000:]}")
            time.sleep(POLL_SECONDS)

    def stop(self, signal_number: int = signal.SIGTERM) -> int:
        """End it and return its exit code; negative: the signal that ended it."""
        if self._process is None:
            return 0
        self._process.send_signal(signal_number)
        try:
            code = self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._process = None
        return code

    def vcsync(self, *arguments: str) -> str:
        """Run one of its vcsync commands and return the output.

        Raises:
            ControlPlaneError: it failed.
        """
        run = subprocess.run(
            [*_vcsync(), *arguments, "--data", str(self.data)],
            capture_output=True, text=True, check=False, timeout=60, env=_environment(),
        )  # fmt: skip
        if run.returncode != 0:
            raise ControlPlaneError(f"vcsync {' '.join(arguments)}: {run.stderr.strip()}")
        return run.stdout

    def create(self, tenant: str, *options: str) -> Path:
        """Create a tenant and return its administrator's kubeconfig; `options`: further ones of `vcsync tenant create`."""
        self.vcsync("tenant", "create", tenant, *options)
        return self.kubeconfig(tenant)

    def kubeconfig(self, tenant: str, *, user: str = "") -> Path:
        """Write a tenant's kubeconfig, for its administrator or a component (`system:kube-controller-manager`)."""
        path = self.directory / f"{tenant}{'-' + user.replace(':', '-') if user else ''}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(self.vcsync("tenant", "kubeconfig", tenant, *(("--user", user) if user else ())))
        return path

    def _ready(self) -> bool:
        context = ssl._create_unverified_context()  # noqa: S323 - only checks its readiness
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=2, context=context) as answer:  # noqa: S310
                return bool(answer.status == 200)
        except OSError:
            return False


def _vcsync() -> list[str]:
    return [sys.executable, "-m", "vcsync"]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parent.parent)}
