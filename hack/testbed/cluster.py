"""One cluster of a running test bed: its addresses, credentials, requests to it, faults of its processes."""

import http.client
import json
import signal
import ssl
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn, Protocol

from hack.testbed.binaries import locate
from hack.testbed.faultproxy import FaultProxy
from hack.testbed.plan import COMPONENTS, Plan, Role
from hack.testbed.processes import Process
from hack.testbed.servers import kubeconfig
from hack.testbed.state import State

READY_SECONDS = 180.0
POLL_SECONDS = 0.05


class KubectlError(Exception):
    """kubectl ended with an error; the message is its output."""


class Servers(Protocol):
    """The part of `TestBed` that a cluster uses for its processes."""

    directory: Path
    state: State

    def shared(self, plan: Plan) -> dict[str, Process]: ...

    def wait_gone(self, process: Process) -> None: ...

    def start_component(self, plan: Plan, component: str) -> None: ...

    def check_alive(self, cluster: str) -> None: ...

    def give_up(self, reason: str, culprits: Iterable[Process]) -> NoReturn: ...


class Cluster:
    """A meta, super or tenant cluster. Made by `TestBed`."""

    def __init__(self, bed: Servers, plan: Plan) -> None:
        self._bed = bed
        self.plan = plan
        self.kubeconfig = bed.directory / f"{plan.name}.kubeconfig"
        """The admin's kubeconfig, with an embedded token."""
        self.certificate_kubeconfig = plan.folder / "admin.kubeconfig"
        """The admin's kubeconfig with a client certificate, whose files it names by relative paths."""

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
        """Component (`kube-apiserver`, ...) -> process: its own servers, and shared ones that do their work."""
        found = self._bed.shared(self.plan) | self._bed.state.processes.get(self.name, {})
        played = {each: self.plan.program(each) for each in COMPONENTS[self.role]}
        return found | {each: found[program] for each, program in played.items() if program in found}

    @property
    def pids(self) -> dict[str, int]:
        """Component -> process id, of running servers."""
        return {component: process.pid for component, process in self.processes.items() if process.alive}

    def log(self, component: str) -> Path:
        """Return the log file of a component."""
        return self.plan.folder / f"{component}.log"

    def kubectl(self, *arguments: str, input: str | None = None, timeout: float = 60) -> str:  # noqa: A002
        """Run kubectl as the cluster's admin and return its standard output.

        Raises:
            KubectlError: it failed; the message contains its error output.
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
        """Send one request as the admin; returns the status code and the decoded JSON of the answer.

        Raises:
            OSError: the server cannot be reached.
        """
        with Session(self, timeout) as session:
            return session.call(method, path, body)

    def session(self, timeout: float = 10) -> "Session":
        """Return a connection for several consecutive requests."""
        return Session(self, timeout)

    def proxy(self, folder: Path, *, tcp: bool = False) -> FaultProxy:
        """Return a proxy in front of the API server, not started yet, with a `kubeconfig` of the admin.

        Args:
            folder: in which to write the kubeconfig, with a unique name.
            tcp: whether to forward TLS as bytes, instead of terminating it and parsing requests.
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
        """Kill a server, as in a crash; it stays down until `start`."""
        process = self.processes[component]
        process.send(signal_number)
        self._bed.wait_gone(process)

    def pause(self, component: str) -> None:
        """Freeze a server: the kernel still accepts its connections, but it does not answer."""
        self.processes[component].send(signal.SIGSTOP)

    def resume(self, component: str) -> None:
        """Continue a paused server."""
        self.processes[component].send(signal.SIGCONT)

    def start(self, component: str) -> None:
        """Restart a stopped server at the same address with the same data."""
        if self.plan.program(component) == "kwok" and self.processes.get("kwok"):
            # The previous kwok holds the nodes' Leases with its own identity. The new one would wait until they expire.
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
            TestBedError: it does not answer 200 within `timeout` seconds, or the server has ended.
        """
        self.wait_for(f"{self.name}: /readyz", self._ready, timeout)

    def wait_for(self, what: str, check: Callable[[], bool], timeout: float = READY_SECONDS) -> None:
        """Wait until `check` returns True; a connection error in it counts as False.

        Args:
            what: description of the expected state, for the error.
            check: the condition.
            timeout: in seconds.

        Raises:
            TestBedError: it is False for `timeout` seconds, or a server of the cluster has ended.
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
    """A persistent connection to a cluster's API server, as its admin; after a failure, the next call reopens it."""

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
