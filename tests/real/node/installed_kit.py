"""vcsync installed by Helm on a real node, by the commands of docs/installing.md."""

from __future__ import annotations

import json
import os
import platform
import shutil
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from hack.checkout import ROOT
from hack.documents.blocks import blocks, files
from hack.documents.plays import Play, typed
from hack.documents.shell import Shell
from hack.image import build
from hack.testbed import Cluster, TestBed, ensure, realnode
from tests.real import waiting
from tests.real.waiting import eventually

Json = dict[str, Any]
PAGE = "docs/installing.md"
NAMESPACE = "vcsync-system"
SERVICE_ADDRESS = "10.65.0.200"
"""Address of the control plane's Service, in the range of r1."""
RESTRICTED = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
}
"""The namespace of the release, in which Pods must meet the profile `restricted` of the Pod Security Standards."""
DATA_OWNER = 65532
COMMAND_SECONDS = 150
SERVED = 6443
BYTES = 1 << 16


class ServiceProxy:
    """A port of the machine that leads to the ready Pod of a Service, as kube-proxy's rules would.

    Nodes of the test bed serve the Service's address, and forward connections to this port.
    """

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.address: Callable[[], str] = lambda: ""
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            try:
                with socket.create_connection((self.address(), SERVED), timeout=10) as upstream:
                    upstream.settimeout(None)
                    back = threading.Thread(target=_copy, args=(upstream, client), daemon=True)
                    back.start()
                    _copy(client, upstream)
                    back.join()
            except OSError:
                return


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(BYTES):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return


class Installation:
    """The chart in cluster r1 of a test bed, which is the meta cluster of super clusters r2 and r3.

    A reader types the commands on the node of r1, from which all addresses are reached.
    """

    def __init__(self, bed: TestBed, directory: Path, service: ServiceProxy) -> None:
        self.meta: Cluster = bed.supers["r1"]
        self.super_clusters = {name: bed.supers[name] for name in ("r2", "r3")}
        self.folder = directory / "reader"
        self.folder.mkdir()
        self._directory = directory
        self._volume = directory / "volume"
        service.address = self._address

    def prepare(self) -> None:
        """Import the image of the checkout into the node, make a volume, and write the files that the reader has."""
        machine = platform.machine()
        architecture = build.ARCHITECTURES.get(machine, machine)
        one, same = (self._directory / name for name in ("image", "same"))
        built = build.build(one, epoch=0, architecture=architecture)
        assert build.build(same, epoch=0, architecture=architecture).digest == built.digest
        realnode.import_archive(self.meta.plan, built.archive)
        for each in (one, same):
            shutil.rmtree(each)
        self.meta.kubectl("create", "-f", "-", input=json.dumps(RESTRICTED))
        self._volume.mkdir()
        os.chown(self._volume, DATA_OWNER, DATA_OWNER)
        self.meta.kubectl("create", "-f", "-", input=json.dumps(self._persistent_volume()))
        (self.folder / "config").symlink_to(ROOT / "config")
        shutil.copy(self.meta.kubeconfig, self.folder / "meta.kubeconfig")
        for name, cluster in self.super_clusters.items():
            address = f"https://{cluster.plan.service_address}"
            text = cluster.kubeconfig.read_text().replace(cluster.plan.url, address)
            (self.folder / f"{name}.kubeconfig").write_text(text)
        for name, text in files((ROOT / PAGE).read_text()).items():
            (self.folder / name).write_text(text)
        values = self.folder / "values.yaml"
        values.write_text(yaml.safe_dump(self._fitting(yaml.safe_load(values.read_text()))))

    def type_page(self) -> None:
        """Type all commands of the page."""
        with self.shell() as shell:
            for block in blocks((ROOT / PAGE).read_text()):
                for command in block.commands():
                    # The shell's own commands are its standard input.
                    shell.run(f"{{ {typed(command, Play())}; }} < /dev/null", self._seconds())

    def type(self, command: str) -> str:
        """Type a command, and return its output."""
        output = self.folder / "output"
        with self.shell() as shell:
            shell.run(f"export KUBECONFIG=$PWD/meta.kubeconfig; {{ {command}; }} > {output}", self._seconds())
        return output.read_text()

    def shell(self) -> Shell:
        """Return a shell on the node, in the reader's folder."""
        programs = {name: str(path) for name, path in ensure(["helm", "kubectl"]).items()}
        folders = {str(Path(sys.executable).parent), *(str(Path(each).parent) for each in programs.values())}
        made = Shell(
            self.folder,
            self._directory / "commands.log",
            {
                "PATH": f"{':'.join(sorted(folders))}:{os.environ['PATH']}",
                "HOME": str(self._directory),
                "PYTHONPATH": str(ROOT),
            },
            realnode.entered(self.meta.plan, []),
        )
        made.run(f"cd {self.folder}", 10)
        return made

    def pods(self, component: str) -> list[Json]:
        """Return the Pods of a role that do not end."""
        query = f"labelSelector=app.kubernetes.io%2Fcomponent%3D{component}"
        status, found = self.meta.call("GET", f"/api/v1/namespaces/{NAMESPACE}/pods?{query}")
        return (
            [each for each in found["items"] if "deletionTimestamp" not in each["metadata"]]
            if status == 200
            else []
        )

    def ready(self, component: str, count: int = 1) -> list[Json]:
        """Wait until a role has as many Pods, and all are ready; return them."""

        def found() -> list[Json]:
            pods = self.pods(component)
            return pods if len(pods) == count and all(map(is_ready, pods)) else []

        return eventually(found, within=120)

    def _seconds(self) -> float:
        return waiting.limit(COMMAND_SECONDS)

    def _address(self) -> str:
        return next((each["status"].get("podIP", "") for each in self.pods("controlplane")), "")

    def _fitting(self, values: Json) -> Json:
        """Return the page's values with what the node needs: it has few processors, no name server and no balancer."""
        replicas = {"replicas": 1}
        values["controlPlane"] |= {
            "advertise": f"{SERVICE_ADDRESS}:443",
            "metaServer": f"https://{self.meta.plan.service_address}",
            "service": {"clusterIP": SERVICE_ADDRESS},
        }
        return values | dict.fromkeys(("nsscheduler", "podscheduler", "tenants", "syncer"), replicas)

    def _persistent_volume(self) -> Json:
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "controlplane"},
            "spec": {
                "capacity": {"storage": "20Gi"},
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": str(self._volume)},
            },
        }


def is_ready(pod: Json) -> bool:
    """Return whether a Pod has the condition Ready."""
    conditions = pod["status"].get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
