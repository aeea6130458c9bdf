"""A tenant's control plane is restored from yesterday's backup: Pods unknown to it run until an operator releases them."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hack.embedded import ControlPlane
from hack.testbed import embedded
from hack.testbed.processes import Process, Spawner, stop
from tests.real.up_kit import Up
from tests.real.waiting import eventually
from vcsync.api import names

PODS = 21
"""Pods of today: more than a brake lets pass at once."""
REQUESTS = {"cpu": "10m", "memory": "16Mi"}
QUOTA = {"requests.cpu": "8", "requests.memory": "16Gi"}

Json = dict[str, Any]


class Restorable:
    """`vcsync up` with one super cluster, and the tenant acme on a separate control plane."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.up = Up(folder / "up")
        self.r1 = folder / "r1.kubeconfig"
        self.plane = ControlPlane(folder / "plane")
        self._spawner = Spawner(die_with_us=True)
        self._controllers: Process | None = None

    def start(self) -> None:
        self.up.start("--hollow", "r1", "--tenants", "")
        self.up.type(f"vcsync tenant kubeconfig r1 --data {self.up.data} > {self.r1}")
        self.start_plane()
        self.acme = self.plane.create("acme")
        admin = self.up.data / "admin.kubeconfig"
        self.up.type(f"vcsync tenant add acme --kubeconfig {self.acme} --meta {admin}")

    def start_plane(self) -> None:
        self.plane.start()
        log = self.folder / "controllers.log"
        self._controllers = self._spawner.start(embedded.controllers(self.plane.data), log, self.folder)

    def stop_plane(self) -> None:
        if self._controllers is not None:
            stop([self._controllers], self._spawner.reap)
        self.plane.stop(signal.SIGKILL)

    def stop(self) -> None:
        self.stop_plane()
        self._spawner.close()
        if self.up.begun and self.up.alive:
            self.up.end(signal.SIGKILL)

    def tenant(self, arguments: str) -> str:
        """Run kubectl as the tenant."""
        return self.up.type(f"kubectl {arguments}", KUBECONFIG=str(self.acme))

    def create(self, *objects: Json) -> None:
        """Create objects as the tenant."""
        path = self.folder / "objects.json"
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        self.tenant(f"create -f {path}")

    def running(self, arguments: str, kubeconfig: Path) -> set[str]:
        """Return the UIDs of running Pods."""
        found = self.up.type(f"kubectl get pods {arguments} -o json", KUBECONFIG=str(kubeconfig))
        pods = json.loads(found)["items"]
        return {pod["metadata"]["uid"] for pod in pods if pod["status"].get("phase") == "Running"}

    def below(self) -> set[str]:
        """Return the UIDs of the tenant's Pods that run in the super cluster."""
        return self.running(f"-A -l {names.CONTROLLED}={names.TRUE}", self.r1)

    def brake(self, arguments: str) -> str:
        """Run `vcsync brake` as the operator."""
        return self.up.type(f"vcsync brake {arguments} --meta {self.up.data / 'admin.kubeconfig'}")


def pod(name: str) -> Json:
    container = {"name": "main", "image": "nginx", "resources": {"requests": REQUESTS}}
    spec = {"containers": [container], "automountServiceAccountToken": False}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": spec,
    }


@pytest.fixture
def system(tmp_path: Path) -> Iterator[Restorable]:
    made = Restorable(tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.mark.timeout(390)
def test_pods_unknown_to_yesterdays_backup_run_until_they_are_released(system: Restorable) -> None:
    metadata = {"name": "all", "namespace": "shop"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": QUOTA}}
    system.tenant("create namespace shop")
    system.create(quota)
    eventually(lambda: "default" in system.tenant("get serviceaccounts -n shop -o name"))
    system.create(pod("yesterday"))
    eventually(lambda: len(system.below()) == 1)
    backup = system.folder / "yesterday.db"
    system.plane.vcsync("backup", str(backup))

    system.create(*(pod(f"today-{number}") for number in range(PODS)))
    eventually(lambda: len(system.below()) == PODS + 1)
    before = system.below()
    system.stop_plane()
    for left in system.plane.data.glob("store.db*"):
        left.unlink()
    system.plane.vcsync("restore", str(backup))
    system.start_plane()

    wanted = f"{PODS} of {PODS + 1} pods in super cluster r1"
    eventually(lambda: any(wanted in each["message"] for each in json.loads(system.brake("status -o json"))))
    # Changes after the restore are processed, and the held Pods still exist afterwards.
    system.create(pod("after"))
    eventually(lambda: len(system.running("-n shop", system.acme)) == 2)
    assert before < system.below()

    system.brake("release acme")
    eventually(lambda: len(system.below()) == 2)
    eventually(lambda: json.loads(system.brake("status -o json")) == [])
