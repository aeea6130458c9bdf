"""One cluster of a running test bed: addresses, credentials, calls to it, faults done to its processes."""

import http.client
import json
import signal
import ssl
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hack.testbed.binaries import locate
from hack.testbed.faultproxy import FaultProxy
from hack.testbed.processes import Process
from hack.testbed.servers import COMPONENTS, Plan, Role, kubeconfig

if TYPE_CHECKING:
    from hack.testbed.bed import TestBed

READY_SECONDS = 180.0
POLL_SECONDS = 0.05


class KubectlError(Exception):
    """kubectl ended with an error; the message is what it printed."""


class Cluster:
    """A meta, super or tenant cluster. Made by `TestBed`."""

    def __init__(self, bed: "TestBed", plan: Plan) -> None:
        self._bed = bed
        self.plan = plan
        self.kubeconfig = bed.directory / f"{plan.name}.kubeconfig"
        """The admin's, by token, everything inside the file."""
        self.certificate_kubeconfig = plan.folder / "admin.kubeconfig"
        """The admin's, by client certificate; names its files relative to itself."""

    @property
    def name(self) -> str:
        return self.plan.name

    @property
    def role(self) -> Role:
        return self.plan.role

    @property
    def url(self) -> str:
        return self.plan.url

    @property
    def admin_token(self) -> str:
        return self.plan.admin_token

    @property
    def ca_pem(self) -> str:
        return (self.plan.folder / "ca.crt").read_text()

    @property
    def processes(self) -> dict[str, Process]:
        """The cluster's own servers by component (`kube-apiserver`, ...), and those of others that do their work."""
        found = self._bed.shared(self.plan) | self._bed.state.processes.get(self.name, {})
        played = {each: self.plan.program(each) for each in COMPONENTS[self.role]}
        return found | {each: found[program] for each, program in played.items() if program in found}

    @property
    def pids(self) -> dict[str, int]:
        """Process ids by component, those that run."""
        return {component: process.pid for component, process in self.processes.items() if process.alive}

    def log(self, component: str) -> Path:
        """Where a component's output goes."""
        return self.plan.folder / f"{component}.log"

    def kubectl(self, *arguments: str, input: str | None = None, timeout: float = 60) -> str:  # noqa: A002
        """Run kubectl as the cluster's admin and return what it prints.

        Raises:
            KubectlError: it failed; the message holds its error output.
            subprocess.TimeoutExpired: it took more than `timeout` seconds.
        """
        command = [str(locate("kubectl")), f"--kubeconfig={self.kubeconfig}", *arguments]
        home = {"HOME": str(self._bed.directory), "KUBECACHEDIR": str(self._bed.directory / "kubectl-cache")}
        run = subprocess.run(
            command, input=input, timeout=timeout, env=home, capture_output=True, text=True, check=False
        )
        if run.returncode != 0:
            raise KubectlError(f"kubectl {' '.join(arguments)}: {run.stderr.strip()}")
        return run.stdout

    def call(self, method: str, path: str, body: object = None, timeout: float = 10) -> tuple[int, Any]:
        """Send one request as the admin; returns the status code and the answer, JSON decoded.

        Raises:
            OSError: the server cannot be reached.
        """
        with Session(self, timeout) as session:
            return session.call(method, path, body)

    def session(self, timeout: float = 10) -> "Session":
        """A connection for many calls in a row."""
        return Session(self, timeout)

    def proxy(self, folder: Path, *, tcp: bool = False) -> FaultProxy:
        """A proxy before the API server, not started yet; its `kubeconfig`, of the admin, lies in `folder`.

        Args:
            folder: where to write the kubeconfig, under a name of its own.
            tcp: pass TLS through and see bytes only, instead of ending it and seeing requests.
        """
        server = ("127.0.0.1", self.plan.port)
        proxy = FaultProxy.tcp(*server) if tcp else FaultProxy.http(*server, self.ca_pem)
        authority = self.ca_pem if tcp else proxy.ca_pem
        proxy.kubeconfig = folder / f"{self.name}-{proxy.port}.kubeconfig"
        url = f"https://127.0.0.1:{proxy.port}{self.plan.path}"
        text = kubeconfig(self.plan, authority, token=self.admin_token, url=url)
        proxy.kubeconfig.write_text(text)
        return proxy

    def kill(self, component: str, signal_number: int = signal.SIGKILL) -> None:
        """End a server at once, as a crash would; it stays down until `start`."""
        process = self.processes[component]
        process.send(signal_number)
        self._bed.wait_gone(process)

    def pause(self, component: str) -> None:
        """Freeze a server: it accepts connections (the kernel does) and answers nothing."""
        self.processes[component].send(signal.SIGSTOP)

    def resume(self, component: str) -> None:
        """Let a paused server run on."""
        self.processes[component].send(signal.SIGCONT)

    def start(self, component: str) -> None:
        """Start a server that is down, where and as it was before."""
        if self.plan.program(component) == "kwok" and self.processes.get("kwok"):
            # The kwok before holds the nodes' Leases by an identity of its own; the new one would wait for
            # their end.
            self.call("DELETE", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases")
        self._bed.start_component(self.plan, component)
        if component == "kube-apiserver":
            self.wait_ready()

    def restart_apiserver(self, *, graceful: bool = False) -> None:
        """Restart kube-apiserver on the same port with the same data, and wait until it is ready."""
        self.kill("kube-apiserver", signal.SIGTERM if graceful else signal.SIGKILL)
        self.start("kube-apiserver")

    def wait_ready(self, timeout: float = READY_SECONDS) -> None:
        """Wait until /readyz answers 200.

        Raises:
            TestBedError: it does not within `timeout` seconds, or the server has ended.
        """
        self.wait_for(f"{self.name}: /readyz", self._ready, timeout)

    def wait_for(self, what: str, check: Callable[[], bool], timeout: float = READY_SECONDS) -> None:
        """Wait until `check` is true; connection errors in it count as false.

        Raises:
            TestBedError: it stays false for `timeout` seconds, or a server of the cluster has ended.
        """
        deadline = time.monotonic() + timeout
        while not _reached(check):
            self._bed.check_alive(self.name)
            if time.monotonic() > deadline:
                self._bed.give_up(f"{what}: not within {timeout:.0f} s", self.processes.values())
            time.sleep(POLL_SECONDS)

    def _ready(self) -> bool:
        return self.call("GET", "/readyz", timeout=5)[0] == 200


class Session:
    """A kept-open connection to a cluster's API server, as its admin; after a failure, the next call opens another."""

    def __init__(self, cluster: Cluster, timeout: float) -> None:
        context = ssl.create_default_context(cadata=cluster.ca_pem)
        self._headers = {"Authorization": f"Bearer {cluster.admin_token}", "Content-Type": "application/json"}
        self._connection = http.client.HTTPSConnection(
            "127.0.0.1", cluster.plan.port, timeout=timeout, context=context
        )
        self._path = cluster.plan.path

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def call(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Send one request; returns the status code and the decoded JSON (or text) of the answer."""
        payload = None if body is None else json.dumps(body)
        headers = dict(self._headers)
        if method == "PATCH":
            headers["Content-Type"] = "application/merge-patch+json"
        try:
            self._connection.request(method, self._path + path, payload, headers)
            answer = self._connection.getresponse()
            text = answer.read().decode()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise
        is_json = answer.headers.get_content_type() == "application/json"
        return answer.status, json.loads(text) if is_json else text


def _reached(check: Callable[[], bool]) -> bool:
    try:
        return check()
    except (OSError, http.client.HTTPException):
        return False
