"""Fixtures of the door's tests: users with kubectl, and a control plane that external ones are connected to."""

import contextlib
import os
import signal
import socket
import socketserver
import subprocess
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import yaml

from hack.embedded import ControlPlane
from hack.testbed import Cluster, ensure
from tests.real.waiting import eventually

DEADLINE = 60.0
"""Seconds in which a process ends, or a connection opens."""
DOMAIN = "tenants.example.com"
"""Domain of tenants' host names, which no DNS serves: kubectl reaches them through `proxy`."""


class User:
    """A user of a tenant: kubectl with a kubeconfig, in one namespace."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self.kubeconfig = kubeconfig
        self.namespace = namespace
        self._kubectl = str(ensure(["kubectl"])["kubectl"])
        self._environment = {**os.environ, "KUBECACHEDIR": str(kubeconfig.parent / "kubectl-cache")}

    def command(self, *arguments: str) -> list[str]:
        return [self._kubectl, f"--kubeconfig={self.kubeconfig}", f"--namespace={self.namespace}", *arguments]

    def run(
        self, *arguments: str, stdin: str | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments),
            input=stdin, capture_output=True, text=True, check=False, timeout=60,
            env=self._environment | environment,
        )  # fmt: skip

    def kubectl(self, *arguments: str, stdin: str | None = None, **environment: str) -> str:
        done = self.run(*arguments, stdin=stdin, **environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def refused(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.returncode != 0, done.stdout
        return done.stderr

    @contextlib.contextmanager
    def running(self, *arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
        with subprocess.Popen(
            self.command(*arguments),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self._environment | environment,
        ) as process:  # fmt: skip
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.send_signal(signal.SIGINT)


class Door:
    """A control plane, and the test bed's clusters that are connected to it.

    Args:
        plane: the control plane.
        proxy: URL of the proxy through which its users reach it; empty: they reach it directly.
    """

    def __init__(self, plane: ControlPlane, proxy: str = "") -> None:
        self.plane = plane
        self._proxy = proxy

    def connect(self, tenant: str, kubeconfig: Path, *options: str) -> str:
        return self.plane.vcsync("tenant", "connect", tenant, "--kubeconfig", str(kubeconfig), *options)

    def user(self, tenant: str, namespace: str, user: str = "admin", *groups: str) -> User:
        options = [each for group in groups for each in ("--group", group)]
        text = self.plane.vcsync("tenant", "kubeconfig", tenant, "--user", user, *options)
        path = self.plane.directory / f"{uuid.uuid4().hex[:8]}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(self._proxied(text))
        return User(path, namespace)

    def _proxied(self, kubeconfig: str) -> str:
        if not self._proxy:
            return kubeconfig
        document = yaml.safe_load(kubeconfig)
        document["clusters"][0]["cluster"]["proxy-url"] = self._proxy
        return yaml.safe_dump(document)


class _Connect(socketserver.StreamRequestHandler):
    """Connects a client of an HTTP proxy with a port of this machine, whatever host name it asks for."""

    def handle(self) -> None:
        port = self.rfile.readline().split()[1].rpartition(b":")[2]
        while self.rfile.readline() not in (b"\r\n", b""):
            pass
        with socket.create_connection(("127.0.0.1", int(port))) as server:
            self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            back = threading.Thread(target=_carry, args=(server, self.connection))
            back.start()
            _carry(self.connection, server)
            back.join()


def _carry(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(65536):
            sink.sendall(piece)
    for each in (source, sink):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


class _Proxy(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


@contextlib.contextmanager
def proxy() -> Iterator[str]:
    """Run an HTTP proxy that leads all host names to this machine, in the place of DNS; yield its URL."""
    with _Proxy(("127.0.0.1", 0), _Connect) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def namespace_in(cluster: Cluster) -> Iterator[str]:
    name = f"door-{uuid.uuid4().hex[:8]}"
    cluster.kubectl("create", "namespace", name)
    eventually(lambda: cluster.call("GET", f"/api/v1/namespaces/{name}/serviceaccounts/default")[0] == 200)
    yield name
    cluster.kubectl("delete", "namespace", name, "--wait=false")
