"""Connections to containers through the door: kubectl logs, exec, cp, attach and port-forward.

External and embedded tenants answer alike, by WebSocket and by SPDY.
"""

import os
import socket
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml
from cryptography import x509
from gateway_kit import DEADLINE, Door, User, namespace_in
from kubelet_kit import NODE, POD, kubelet, node, node_status, pod, pod_status

from hack.embedded import ControlPlane
from hack.testbed import TestBed
from tests.real.waiting import eventually
from vcsync.apiserver.tenants import pki
from vcsync.apiserver.tenants.records import Authority

SWITCHES = ("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "KUBECTL_PORT_FORWARD_WEBSOCKETS")
PROTOCOLS = [
    pytest.param(dict.fromkeys(SWITCHES, "true"), id="websocket"),
    pytest.param(dict.fromkeys(SWITCHES, "false"), id="spdy"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder in which the commands of containers run."""
    return tmp_path_factory.mktemp("containers")


@pytest.fixture(scope="module")
def door(testbed: TestBed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """The tenants external, a kube-apiserver, and embedded, which is a cluster with nodes of its own."""
    allowed = ("--kubelet-allow-network", "embedded=127.0.0.1/32")
    with ControlPlane(tmp_path_factory.mktemp("door"), arguments=allowed) as plane:
        found = Door(plane)
        found.connect("external", testbed.tenants["acme"].kubeconfig)
        plane.create("embedded", "--nodes", "own")
        yield found
        assert "Traceback" not in plane.log.read_text()


@pytest.fixture(scope="module")
def administrators(
    door: Door, testbed: TestBed, tmp_path_factory: pytest.TempPathFactory, folder: Path
) -> Iterator[dict[str, User]]:
    """The administrators of both tenants, in namespaces with a running Pod. The kubelet of both Pods is the same."""
    external = testbed.tenants["acme"]
    keys = tmp_path_factory.mktemp("keys")
    door.plane.vcsync("tenant", "export", "embedded", "--dir", str(keys))
    with (
        namespace_in(external) as name,
        kubelet(folder, *_kubelet_keys(keys, external.ca_pem)) as port,
    ):
        found = {"external": door.user("external", name), "embedded": door.user("embedded", "default")}
        found["embedded"].kubectl("create", "serviceaccount", "default")
        for user in found.values():
            _place(user, port)
        yield found
        external.kubectl("delete", "node", NODE)


def _kubelet_keys(keys: Path, other: str) -> tuple[tuple[str, str], list[str]]:
    """Return a kubelet's certificate and key, and the authorities of the API servers that may call it."""
    own = (keys / "ca.crt").read_text()
    found = x509.load_pem_x509_certificate(own.encode())
    identifier = found.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest.hex()
    authority = Authority(own, (keys / "ca.key").read_text(), identifier)
    pair = pki.issue_serving(authority, ["127.0.0.1"], time.time())
    return (pair.certificate, pair.key), [own, other]


def _place(user: User, port: int) -> None:
    for body, status in ((node(), node_status(port)), (pod(user.namespace), pod_status())):
        named = f"{body['kind'].lower()}/{body['metadata']['name']}"
        user.kubectl("create", "-f", "-", stdin=yaml.safe_dump(body))
        patch = msgspec.json.encode({"status": status}).decode()
        user.kubectl("patch", named, "--subresource=status", "--type=merge", "-p", patch)


@pytest.fixture(params=["external", "embedded"])
def web(request: pytest.FixtureRequest, administrators: dict[str, User]) -> User:
    """Return the administrator of each tenant."""
    return administrators[request.param]


def test_logs(web: User) -> None:
    eventually(lambda: "web c: line" in web.kubectl("logs", POD))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_exec_passes_input_output_and_the_exit_code(web: User, protocol: dict[str, str]) -> None:
    assert web.kubectl("exec", POD, "--", "echo", "hello", **protocol) == "hello\n"
    long = "x" * 200_000
    assert web.kubectl("exec", "-i", POD, "--", "cat", stdin=long, **protocol) == long
    failed = web.run("exec", POD, "--", "sh", "-c", "echo why >&2; exit 7", **protocol)
    assert (failed.returncode, failed.stderr.splitlines()[0]) == (7, "why")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_files_are_copied_in_both_directions(
    web: User, folder: Path, tmp_path: Path, protocol: dict[str, str]
) -> None:
    sent, back = tmp_path / "sent", tmp_path / "back"
    sent.write_bytes(os.urandom(300_000))
    there = f"there-{uuid.uuid4().hex[:8]}"
    web.kubectl("cp", str(sent), f"{POD}:{there}", **protocol)
    assert (folder / there).read_bytes() == sent.read_bytes()
    web.kubectl("cp", f"{POD}:{there}", str(back), **protocol)
    assert back.read_bytes() == sent.read_bytes()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_attach_shows_the_output_of_a_container(web: User, protocol: dict[str, str]) -> None:
    with web.running("attach", POD, **protocol) as session:
        assert session.stdout is not None
        assert "web c: line" in session.stdout.readline()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_ports_are_forwarded(web: User, protocol: dict[str, str]) -> None:
    with web.running("port-forward", POD, ":80", **protocol) as session:
        assert session.stdout is not None
        port = int(session.stdout.readline().partition("127.0.0.1:")[2].split()[0])
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE) as connection:
                connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                assert connection.makefile("rb").read().endswith(f"{web.namespace}/web port 80\n".encode())


def test_every_connection_needs_the_right_to_it(
    door: Door, administrators: dict[str, User], tmp_path: Path
) -> None:
    for tenant, web in administrators.items():
        nobody = door.user(tenant, web.namespace, "nobody")
        for asked in (
            ("exec", POD, "--", "true"),
            ("attach", POD),
            ("port-forward", POD, ":80"),
            ("cp", f"{POD}:x", str(tmp_path / "x")),
        ):
            assert 'User "nobody" cannot' in nobody.refused(*asked)


def test_a_revoked_certificate_ends_every_connection(door: Door, administrators: dict[str, User]) -> None:
    web = administrators["external"]
    guest = door.user("external", web.namespace, "guest")
    web.kubectl("create", "rolebinding", "guest", "--clusterrole=admin", "--user=guest")
    eventually(lambda: guest.run("exec", POD, "--", "true").returncode == 0)
    with (
        guest.running("exec", POD, "--", "sh", "-c", "echo begun; exec sleep 300") as executing,
        guest.running("attach", POD) as attached,
    ):
        for each in (executing, attached):
            assert each.stdout is not None
            assert each.stdout.readline()
        door.plane.vcsync("tenant", "revoke", "external", "--user", "guest")
        assert executing.wait(DEADLINE) != 0
        attached.wait(DEADLINE)
