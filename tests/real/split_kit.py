"""Runs the roles in separate processes with one vcsync.yaml: the commands of config/compose, without containers."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from hack.generate import CONFIG
from hack.testbed import ensure
from hack.testbed.processes import Process, Spawner, free_ports, stop, wait_gone

COMPOSE = CONFIG / "compose"
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((COMPOSE / "compose.yaml").read_text())["services"]


class Split:
    """The services of compose.yaml as processes of this machine, with local paths and addresses."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data = folder, folder / "data"
        port = free_ports(1)[0]
        self._here = {
            "/etc/vcsync/vcsync.yaml": str(folder / "vcsync.yaml"),
            "/var/lib/vcsync": str(self.data),
            "0.0.0.0:6443": f"127.0.0.1:{port}",
            "controlplane:6443": f"127.0.0.1:{port}",
            "0.0.0.0:10550": "127.0.0.1:0",
        }
        (folder / "vcsync.yaml").write_text(self.here((COMPOSE / "vcsync.yaml").read_text()))
        self._spawner = Spawner(die_with_us=True)
        self._processes: dict[str, Process] = {}

    def here(self, text: str) -> str:
        for there, here in self._here.items():
            text = text.replace(there, here)
        return text

    def command(self, service: str) -> list[str]:
        return [sys.executable, "-m", "vcsync", *map(self.here, SERVICES[service]["command"])]

    def start(self, service: str) -> None:
        log = self.folder / f"{service}.log"
        self._processes[service] = self._spawner.start(self.command(service), log, self.folder)

    def end(self, *services: str) -> set[int | None]:
        """Stop services; return their exit codes."""
        processes = [self._processes[service] for service in services]
        for process in processes:
            process.send(signal.SIGTERM)
        wait_gone(processes, 60, self._spawner.reap)
        return {self._spawner.reap(process) for process in processes}

    def close(self) -> None:
        stop(self._processes.values(), self._spawner.reap)
        self._spawner.close()

    def run(self, service: str) -> str:
        done = subprocess.run(self.command(service), capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def kubectl(self, tenant: str, *arguments: str, sent: str = "") -> str:
        command = [
            str(ensure(["kubectl"])["kubectl"]),
            "--kubeconfig",
            str(self.data / f"{tenant}.kubeconfig"),
        ]
        done = subprocess.run(
            [*command, *arguments], input=sent, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout
