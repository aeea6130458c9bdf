"""Runs `vcsync up` like a user: a process, its log, and a terminal with kubectl and vcsync."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from hack.testbed import ensure
from hack.testbed.processes import Process, Spawner, free_ports, wait_gone
from tests.real import waiting
from tests.real.waiting import eventually

USUAL_SECONDS = 4.0
"""Time to start on a quiet machine with two processors."""
VCSYNC = (sys.executable, "-m", "vcsync")


class Up:
    """One process of `vcsync up`, and kubectl as its tenant's administrator."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data, self.log = folder, folder / "data", folder / "up.log"
        self._bin = folder / "bin"
        self._bin.mkdir(parents=True)
        (self._bin / "kubectl").symlink_to(ensure(["kubectl"])["kubectl"])
        (self._bin / "vcsync").write_text(f'#!/bin/sh\nexec {sys.executable} -m vcsync "$@"\n')
        (self._bin / "vcsync").chmod(0o755)
        self._spawner = Spawner(die_with_us=True)
        self._process: Process | None = None
        port, status = free_ports(2)
        self.options = ("--listen", f"127.0.0.1:{port}", "--status", f"127.0.0.1:{status}")
        self.status = f"127.0.0.1:{status}"

    def start(self, *options: str, program: tuple[str, ...] = VCSYNC) -> None:
        self.log.unlink(missing_ok=True)
        data = () if "--ephemeral" in options else ("--data", str(self.data))
        command = [*program, "up", *data, *self.options, *options]
        began = time.monotonic()
        self._process = self._spawner.start(command, self.log, self.folder)
        eventually(lambda: "Ctrl-C ends it" in self.log.read_text() or not self.alive)
        assert self.alive, self.log.read_text()[-3000:]
        waiting.observe(time.monotonic() - began, USUAL_SECONDS)

    @property
    def begun(self) -> bool:
        return self._process is not None

    @property
    def pid(self) -> int:
        """Id of the process that does the work: a child of the one that waits for it."""
        assert self._process is not None
        first = self._process.pid
        children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        return int(children[0])

    @property
    def alive(self) -> bool:
        assert self._process is not None
        self._spawner.reap(self._process)
        return self._process.alive

    def end(self, number: signal.Signals) -> int | None:
        assert self._process is not None
        self._process.send(number)
        wait_gone([self._process], 30, self._spawner.reap)
        return self._spawner.reap(self._process)

    def type(self, script: str, **environment: str) -> str:
        """Run shell commands in a terminal with kubectl and vcsync on its PATH."""
        path = f"{self._bin}:{os.environ['PATH']}"
        done = subprocess.run(
            ["/bin/bash", "-e", "-c", script],
            env={**os.environ, "PATH": path, **environment},
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def kubectl(self, arguments: str, tenant: str = "acme") -> str:
        return self.type(f"kubectl {arguments}", KUBECONFIG=str(self.data / f"{tenant}.kubeconfig"))

    def pods(self, tenant: str = "acme") -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = json.loads(self.kubectl("get pods -o json", tenant))["items"]
        return items

    def running(self, count: int, tenant: str = "acme") -> set[str]:
        """Wait until `count` Pods run; return their names."""

        def as_many() -> bool:
            found = self.pods(tenant)
            return len(found) == count and all(each["status"]["phase"] == "Running" for each in found)

        eventually(as_many)
        return {each["metadata"]["name"] for each in self.pods(tenant)}

    def supers(self) -> set[str]:
        """Return the super clusters of the Pods' nodes."""
        return {pod["spec"]["nodeName"].rpartition(".")[2] for pod in self.pods()}

    def roles(self) -> dict[str, dict[str, Any]]:
        with urllib.request.urlopen(f"http://{self.status}/status", timeout=60) as answer:
            roles: dict[str, dict[str, Any]] = json.load(answer)["roles"]
        return roles

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.status}/readyz", timeout=60) as answer:
                return bool(answer.status == 200)
        except urllib.error.HTTPError:
            return False


def operator(up: Up, script: str) -> str:
    """Type commands as the operator, and return what they print."""
    admin = str(up.data / "admin.kubeconfig")
    return up.type(script, KUBECONFIG=admin, VCSYNC_META=admin)
