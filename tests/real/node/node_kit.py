"""A namespace on a super cluster with a real node, and kubectl in it."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hack.node import cgroups
from hack.node.plan import CGROUPS
from hack.testbed import Cluster, KubectlError, ensure, realnode
from hack.testbed.plan import REAL_NODE
from hack.testbed.processes import start_time
from tests.real import waiting
from tests.real.waiting import eventually

Json = dict[str, Any]
BUSYBOX = "busybox:1.35"
SECONDS = 60


@dataclass(frozen=True)
class Namespace:
    """A namespace of a cluster, and the kubectl that is used there."""

    cluster: Cluster
    name: str
    program: str = "kubectl"

    def wait_for_account(self) -> None:
        """Wait until the controllers have made what Pods need."""
        path = f"/api/v1/namespaces/{self.name}"
        needed = (f"{path}/serviceaccounts/default", f"{path}/configmaps/kube-root-ca.crt")
        eventually(lambda: all(self.cluster.call("GET", each)[0] == 200 for each in needed))

    def command(self, *arguments: str) -> list[str]:
        """Return the command line of kubectl."""
        kubectl = str(ensure([self.program])[self.program])
        return [kubectl, f"--kubeconfig={self.cluster.kubeconfig}", f"--namespace={self.name}", *arguments]

    def run(self, *arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run kubectl to its end, whether it succeeds or not."""
        return subprocess.run(
            self.command(*arguments),
            input=text,
            stdin=subprocess.DEVNULL if text is None else None,
            capture_output=True,
            text=True,
            check=False,
            timeout=waiting.limit(SECONDS),
        )

    def kubectl(self, *arguments: str, text: str | None = None) -> str:
        """Run kubectl and return its output.

        Raises:
            KubectlError: it failed.
        """
        done = self.run(*arguments, text=text)
        if done.returncode != 0:
            raise KubectlError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def start(self, name: str, script: str, **spec: Any) -> None:
        """Create a Pod that runs a script in busybox, and wait until its container has started."""
        container = {"name": "main", "image": BUSYBOX, "command": ["sh", "-c", script]}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 1, **spec},
        }
        self.kubectl("create", "--filename=-", text=json.dumps(pod))
        eventually(lambda: self.pod(name)["status"]["phase"] != "Pending")

    def pod(self, name: str) -> Json:
        """Return a Pod."""
        found: Json = json.loads(self.kubectl("get", "pod", name, "--output=json"))
        return found

    def container(self, name: str) -> Json:
        """Return the status of the only container of a Pod."""
        [status] = self.pod(name)["status"]["containerStatuses"]
        found: Json = status
        return found

    @contextmanager
    def forwarded(self, name: str, port: int) -> Iterator[int]:
        """Forward a free port of this machine to a port of a Pod, with kubectl."""
        command = self.command("port-forward", f"pod/{name}", f":{port}", "--address=127.0.0.1")
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            try:
                line = process.stdout.readline() if process.stdout else ""
                assert line.startswith("Forwarding from 127.0.0.1:"), line
                yield int(line.split()[2].rpartition(":")[2])
            finally:
                process.terminate()

    def follow(self, name: str, until: str, command: tuple[str, ...] = ("logs", "--follow")) -> str:
        """Return what `kubectl logs --follow`, or another command, prints until a line contains `until`."""
        seen = ""
        deadline = time.monotonic() + waiting.limit(SECONDS)
        with subprocess.Popen(self.command(*command, name), stdout=subprocess.PIPE, text=True) as process:
            try:
                for line in process.stdout or ():
                    seen += line
                    if until in line:
                        return seen
                    assert time.monotonic() < deadline, seen
            finally:
                process.terminate()
        raise AssertionError(f"the log ended without {until!r}: {seen}")


class Remains:
    """State that a running node leaves on a machine, by which a test sees whether it is gone later."""

    def __init__(self, cluster: Cluster) -> None:
        self._plan = realnode.of(cluster.plan)
        self._pids = {*self.processes(), *(cluster.pids[each] for each in REAL_NODE)}

    def processes(self) -> set[int]:
        """Return the ids of the processes in the node's control groups."""
        folders = (each / self._plan.cgroup for each in cgroups.hierarchies())
        files = (file for folder in folders for file in folder.rglob("cgroup.procs"))
        return {int(pid) for file in files for pid in file.read_text().split()}

    def left(self) -> list[str]:
        """Return what still exists."""
        link = Path(f"/sys/class/net/{self._plan.link}").exists()
        group = self._plan.cgroup in cgroups.names(CGROUPS)
        processes = any(start_time(pid) is not None for pid in self._pids)
        found = {"link": link, "control group": group, "processes": processes}
        return [name for name, exists in found.items() if exists]


def fetch(port: int, path: str) -> str:
    """Return the body of an HTTP answer from a port of this machine."""
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as connection:
        connection.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        with connection.makefile("r") as answer:
            return answer.read().partition("\n\n")[2]
