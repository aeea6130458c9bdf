"""A running `vcsync up` whose super cluster r1 has a kubelet that runs real commands, and kubectl as a tenant's administrator."""

import base64
import json
import os
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from kubelet_kit import POD, kubelet

from hack.testbed import TestBed, ensure
from hack.testbed.processes import free_ports
from tests.real.up_kit import Up, operator
from tests.real.waiting import eventually, limit
from vcsync.api import names
from vcsync.apiserver.tenants import pki

DEADLINE = 60.0
SWITCHES = ("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "KUBECTL_PORT_FORWARD_WEBSOCKETS")
PROTOCOLS = [
    pytest.param(dict.fromkeys(SWITCHES, "true"), id="websocket"),
    pytest.param(dict.fromkeys(SWITCHES, "false"), id="spdy"),
]


class User:
    """kubectl as the administrator of a tenant."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self._program = str(ensure(["kubectl"])["kubectl"])

    def run(self, *arguments: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._program, "--kubeconfig", str(self.kubeconfig), *arguments],
            env={**os.environ, **environment},
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=limit(DEADLINE),
        )

    def kubectl(self, *arguments: str, stdin: str = "", **environment: str) -> str:
        done = self.run(*arguments, stdin=stdin, **environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def running(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self._program, "--kubeconfig", str(self.kubeconfig), *arguments],
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def refused(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.returncode != 0, done.stdout
        return done.stderr

    @property
    def server(self) -> str:
        """URL of the API server."""
        return str(self._config()[0]["server"])

    @property
    def headers(self) -> dict[str, str]:
        """The user's token as a header, if it has one instead of a certificate."""
        token = self._config()[1].get("token", "")
        return {"Authorization": f"Bearer {token}"} if token else {}

    @property
    def authority(self) -> str:
        """PEM of the authority of the API server."""
        return base64.b64decode(self._config()[0]["certificate-authority-data"]).decode()

    def tls(self) -> ssl.SSLContext:
        """Return a context with the authority of the API server, and with the user's certificate if it has one."""
        user = self._config()[1]
        context = ssl.create_default_context(cadata=self.authority)
        if "client-certificate-data" in user:
            pair = self.kubeconfig.with_suffix(".pem")
            parts = [user["client-certificate-data"], user["client-key-data"]]
            pair.write_bytes(b"".join(map(base64.b64decode, parts)))
            context.load_cert_chain(pair)
        return context

    def _config(self) -> tuple[dict[str, str], dict[str, str]]:
        config = yaml.safe_load(self.kubeconfig.read_text())
        return config["clusters"][0]["cluster"], config["users"][0]["user"]

    @contextmanager
    def connection(self) -> Iterator[socket.socket]:
        """Connect to the API server with the user's certificate."""
        server = urlsplit(self.server)
        address = (server.hostname or "", server.port or 443)
        with (
            socket.create_connection(address, timeout=limit(DEADLINE)) as raw,
            self.tls().wrap_socket(raw, server_hostname=address[0]) as connection,
        ):
            yield connection

    def ask(self, head: str) -> str:
        """Send the head of a request as it is; return the beginning of the answer."""
        with self.connection() as connection:
            connection.sendall(head.encode("latin-1"))
            return connection.recv(65536).decode("latin-1")


class Pool:
    """A running system with the tenants acme and umbrella, and outside, which has a kube-apiserver of its own."""

    def __init__(self, up: Up, bed: TestBed, containers: Path) -> None:
        self.up, self.bed, self.containers = up, bed, containers
        self.r1 = bed.supers["r1"]
        self.acme = User(up.data / "acme.kubeconfig")
        self.umbrella = User(up.data / "umbrella.kubeconfig")
        self.outside = User(bed.tenants["outside"].kubeconfig)

    def place(self, user: User, name: str = POD) -> dict[str, Any]:
        """Run a Pod on r1, and return it."""
        spec = {
            "nodeSelector": {names.SUPER_CLUSTER_ID: "r1"},
            "containers": [{"name": "c", "image": "example.org/web:1"}],
        }
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        user.kubectl("create", "-f", "-", stdin=json.dumps(body))

        def runs() -> dict[str, Any]:
            found: dict[str, Any] = json.loads(user.kubectl("get", "pod", name, "-o", "json"))
            assert found["status"].get("phase") == "Running", found["status"]
            return found

        return eventually(runs)


@contextmanager
def streams_pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    """Run the system, with the Pod `POD` of each tenant on r1."""
    directory, containers = tmp_path_factory.mktemp("bed"), tmp_path_factory.mktemp("containers")
    pair = pki.issue_serving(pki.new_authority("kubelet", time.time()), ["localhost"], time.time())
    with TestBed(supers=1, nodes=1, tenants=("outside",), directory=directory, embedded=("meta",)) as bed:
        r1 = bed.supers["r1"]
        with kubelet(containers, (pair.certificate, pair.key), [r1.ca_pem]) as port:
            endpoint = {"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}}
            r1.kubectl(
                "patch", "node", "node-0", "--subresource=status", "--type=merge", "-p", json.dumps(endpoint)
            )
            up = Up(tmp_path_factory.mktemp("up"))
            first = free_ports(1)[0]
            settings = {"all": {"kubelet-address": "127.0.0.1", "kubelet-ports": f"{first}-{first + 20}"}}
            (up.folder / "vcsync.yaml").write_text(yaml.safe_dump(settings))
            real = f"r1={r1.kubeconfig}"
            up.start(
                "--config",
                "vcsync.yaml",
                "--super-cluster",
                real,
                "--hollow",
                "r2",
                "--tenants",
                "acme,umbrella",
            )
            found = Pool(up, bed, containers)
            operator(
                up,
                f"vcsync tenant add outside --kubeconfig {found.outside.kubeconfig} --default-quota cpu=4,memory=4Gi",
            )
            for user in (found.acme, found.umbrella, found.outside):
                found.place(user)
            yield found
            assert "Traceback" not in up.log.read_text()
            up.end(signal.SIGTERM)
