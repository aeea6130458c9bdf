"""`vcsync up`: from nothing to Pods on two super clusters, in one process; killed and started again, nothing is lost."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hack.testbed import ensure
from hack.testbed.processes import Process, Spawner, free_ports, wait_gone

SECONDS = 90.0


class Up:
    """One process of `vcsync up`, and kubectl as its tenant's administrator."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data, self.log = folder, folder / "data", folder / "up.log"
        self._kubectl = ensure(["kubectl"])["kubectl"]
        self._spawner = Spawner(die_with_us=True)
        self._process: Process | None = None
        port, status = free_ports(2)
        self._options = ("--listen", f"127.0.0.1:{port}", "--status", f"127.0.0.1:{status}")
        self.status = f"127.0.0.1:{status}"

    def start(self, *options: str) -> None:
        self.log.unlink(missing_ok=True)
        command = [sys.executable, "-m", "vcsync", "up", "--data", str(self.data), *self._options, *options]
        self._process = self._spawner.start(command, self.log, self.folder)
        eventually(lambda: "ready after" in self.log.read_text() or not self.alive)
        assert self.alive, self.log.read_text()[-3000:]

    @property
    def begun(self) -> bool:
        return self._process is not None

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

    def kubectl(self, *arguments: str, tenant: str = "acme") -> str:
        done = subprocess.run(
            [str(self._kubectl), *arguments],
            env={**os.environ, "KUBECONFIG": str(self.data / f"{tenant}.kubeconfig")},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def pods(self, tenant: str = "acme") -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = json.loads(self.kubectl("get", "pods", "-o", "json", tenant=tenant))[
            "items"
        ]
        return items

    def running(self, count: int, tenant: str = "acme") -> set[str]:
        """Wait until so many Pods run; return their names."""

        def as_many() -> bool:
            found = self.pods(tenant)
            return len(found) == count and all(each["status"]["phase"] == "Running" for each in found)

        eventually(as_many)
        return {each["metadata"]["name"] for each in self.pods(tenant)}


def eventually(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it does not come about"
        time.sleep(0.1)


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    made = Up(tmp_path)
    yield made
    if made.begun and made.alive:
        made.end(signal.SIGKILL)


@pytest.mark.timeout(300)
def test_a_newcomer_gets_pods_on_two_super_clusters_and_keeps_them_over_a_crash(up: Up) -> None:
    up.start("--tenants", "acme,umbrella")
    up.kubectl("create", "quota", "all", "--hard=cpu=8,memory=16Gi")
    up.kubectl("create", "deployment", "web", "--image=nginx", "--replicas=6")
    up.kubectl("set", "resources", "deployment", "web", "--requests=cpu=500m,memory=128Mi")
    up.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    names = up.running(6)
    places = {pod["spec"]["nodeName"].rpartition(".")[2] for pod in up.pods()}
    assert places == {"r1", "r2"}
    assert up.pods("umbrella") == []

    up.end(signal.SIGKILL)
    up.start("--tenants", "acme,umbrella")
    assert up.running(6) == names

    up.kubectl("scale", "deployment/web", "--replicas=2")
    assert up.running(2) < names
    with urllib.request.urlopen(f"http://{up.status}/readyz", timeout=10) as answer:
        assert answer.status == 200
    assert up.end(signal.SIGTERM) == 0


def test_names_that_would_not_do_are_refused_at_once(up: Up) -> None:
    command = [sys.executable, "-m", "vcsync", "up", "--data", str(up.data), "--tenants", "r1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "'r1' cannot be used" in done.stderr
