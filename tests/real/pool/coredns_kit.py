"""A real CoreDNS for a tenant, and questions to it."""

from __future__ import annotations

import json
import secrets
import socket
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hack.testbed import Cluster, ensure
from hack.testbed.processes import free_ports
from tests.real.waiting import eventually
from vcsync.registration import name_server

TYPES = {"A": 1, "CNAME": 5, "PTR": 12, "AAAA": 28, "SRV": 33}
_NAMES = {number: name for name, number in TYPES.items()}
NO_SUCH_NAME = 3
ANSWER_SECONDS = 5.0
_POINTER = 0xC0


class NoSuchName(Exception):
    """The answer is NXDOMAIN."""


class CoreDns:
    """A running CoreDNS that listens on a port of the loopback address."""

    def __init__(self, port: int) -> None:
        self._port = port

    def ask(self, name: str, kind: str = "A") -> list[str]:
        """Return the data of the records of a name, ordered, those of other types behind their type.

        Raises:
            NoSuchName: there is no such name.
            AssertionError: the answer is an error.
        """
        asked = secrets.randbelow(1 << 16)
        question = _encoded(name) + struct.pack("!HH", TYPES[kind], 1)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connection:
            connection.settimeout(ANSWER_SECONDS)
            connection.connect(("127.0.0.1", self._port))
            connection.send(struct.pack("!6H", asked, 0x0100, 1, 0, 0, 0) + question)
            answer = connection.recv(65535)
        number, flags, _, records = struct.unpack("!4H", answer[:8])
        assert number == asked
        code = flags & 0xF
        if code == NO_SUCH_NAME:
            raise NoSuchName(name)
        assert code == 0, f"{name} {kind}: RCODE {code}"
        return sorted(_records(answer, 12 + len(question), records, kind))


@contextmanager
def coredns(tenant: Cluster, folder: Path) -> Iterator[CoreDns]:
    """Run a CoreDNS that reads a tenant with the rights that a tenant's name server has, until the block ends."""
    folder.mkdir(parents=True, exist_ok=True)
    tenant.kubectl("apply", "-f", "-", input=_as_list(name_server.access()))
    port, ready, health, metrics = free_ports(4)
    text = name_server.corefile(name_server.DEFAULT_DOMAIN, port)
    for line, moved in (
        ("    ready\n", f"    ready 127.0.0.1:{ready}\n"),
        ("    health {", f"    health 127.0.0.1:{health} {{"),
        ("prometheus :9153", f"prometheus 127.0.0.1:{metrics}"),
        (
            "in-addr.arpa ip6.arpa {",
            f"in-addr.arpa ip6.arpa {{\n        kubeconfig {_kubeconfig(tenant, folder)}",
        ),
        ("    loop\n", ""),  # it would find the other name servers of this machine
    ):
        assert text.count(line) == 1
        text = text.replace(line, moved)
    (folder / "Corefile").write_text(text)
    command = [str(ensure(["coredns"])["coredns"]), "-conf", str(folder / "Corefile")]
    with (
        (folder / "coredns.log").open("w") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as process,
    ):
        try:
            eventually(lambda: process.poll() is not None or _answers(ready))
            assert process.poll() is None, (folder / "coredns.log").read_text()[-2000:]
            yield CoreDns(port)
        finally:
            process.terminate()


def _kubeconfig(tenant: Cluster, folder: Path) -> Path:
    """Write a kubeconfig with a token of the name server's ServiceAccount."""
    token = tenant.kubectl("create", "token", name_server.NAME, "-n", "kube-system").strip()
    found = json.loads(tenant.kubectl("config", "view", "--raw", "--minify", "-o", "json"))
    found["users"] = [{"name": found["contexts"][0]["context"]["user"], "user": {"token": token}}]
    path = folder / "kubeconfig"
    path.touch(0o600)
    path.write_text(json.dumps(found))
    return path


def _as_list(manifests: list[name_server.Manifest]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as connection:
            connection.sendall(b"GET /ready HTTP/1.0\r\n\r\n")
            return b" 200 " in connection.recv(100)
    except OSError:
        return False


def _encoded(name: str) -> bytes:
    labels = [each.encode() for each in name.rstrip(".").split(".")]
    return b"".join(bytes([len(each)]) + each for each in labels) + b"\0"


def _name(answer: bytes, place: int) -> tuple[str, int]:
    """Return the name at a place of a message (RFC 1035, section 4.1.4), and the place after it."""
    labels: list[str] = []
    after = 0
    while length := answer[place]:
        if length & _POINTER == _POINTER:
            after = after or place + 2
            place = struct.unpack("!H", answer[place : place + 2])[0] & 0x3FFF
        else:
            labels.append(answer[place + 1 : place + 1 + length].decode())
            place += 1 + length
    return ".".join(labels), after or place + 1


def _records(answer: bytes, place: int, count: int, kind: str) -> Iterator[str]:
    for _ in range(count):
        _, place = _name(answer, place)
        number, _, _, length = struct.unpack("!HHIH", answer[place : place + 10])
        place += 10
        data = _data(answer, place, number, answer[place : place + length])
        found = _NAMES.get(number, str(number))
        yield data if found == kind else f"{found} {data}"
        place += length


def _data(answer: bytes, place: int, number: int, raw: bytes) -> str:
    if number == TYPES["A"]:
        return socket.inet_ntop(socket.AF_INET, raw)
    if number == TYPES["AAAA"]:
        return socket.inet_ntop(socket.AF_INET6, raw)
    if number == TYPES["SRV"]:
        port = struct.unpack("!H", raw[4:6])[0]
        return f"{port} {_name(answer, place + 6)[0]}"
    return _name(answer, place)[0] if number in (TYPES["CNAME"], TYPES["PTR"]) else raw.hex()
