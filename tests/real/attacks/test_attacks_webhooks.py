"""Webhooks and conversion as a way into the operator's networks: no host leads to a connection.

The tests allow all hosts, so that only the addresses decide, and one network of Pods.
"""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from hack.attacks.client import Answer
from hack.attacks.judge import hint, problem
from hack.attacks.world import MARK, NOBODY, VICTIM, World
from hack.testbed.processes import free_ports

DEFAULT = "/api/v1/namespaces/default"
VALIDATING = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
MUTATING = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
HOSTS = {
    "loopback": "127.0.0.1",
    "another loopback": "127.8.8.8",
    "a name of loopback": "localhost",
    "a name of loopback with a dot": "localhost.",
    "a name of loopback in upper case": "LOCALHOST",
    "loopback as one number": "2130706433",
    "loopback in hexadecimal": "0x7f000001",
    "loopback in octal": "0177.0.0.1",
    "loopback in two parts": "127.1",
    "loopback in IPv6": "[::1]",
    "loopback in IPv6, at length": "[0:0:0:0:0:0:0:1]",
    "loopback mapped into IPv6": "[::ffff:127.0.0.1]",
    "loopback mapped into IPv6, in hexadecimal": "[::ffff:7f00:1]",
    "loopback by NAT64": "[64:ff9b::7f00:1]",
    "loopback by 6to4": "[2002:7f00:1::]",
    "loopback, the old way": "[::127.0.0.1]",
    "every address": "0.0.0.0",
    "every address in one figure": "0",
    "every address of IPv6": "[::]",
    "metadata": "169.254.169.254",
    "metadata as one number": "2852039166",
    "metadata of IPv6": "[fd00:ec2::254]",
    "metadata mapped into IPv6": "[::ffff:169.254.169.254]",
    "link-local": "169.254.1.1",
    "link-local of IPv6": "[fe80::1]",
    "private": "10.1.2.3",
    "private, of twelve bits": "172.16.0.1",
    "private, of sixteen bits": "192.168.0.1",
    "a carrier's": "100.64.0.1",
    "benchmarks": "198.18.0.1",
    "multicast": "224.0.0.1",
    "broadcast": "255.255.255.255",
    "multicast of IPv6": "[ff02::1]",
    "unique local": "[fc00::1]",
}  # fmt: skip
URLS = {
    "a user": "https://user@127.0.0.1:{}/",
    "a user that looks like a host": "https://hooks.example.com@127.0.0.1:{}/",
    "a backslash": "https://hooks.example.com\\@127.0.0.1:{}/",
    "a fragment": "https://127.0.0.1:{}#@hooks.example.com/",
    "plain HTTP": "http://127.0.0.1:{}/",
    "a file": "file:///etc/passwd?{}",
    "gopher": "gopher://127.0.0.1:{}/_GET",
    "no scheme": "//127.0.0.1:{}/",
    "a zone": "https://[fe80::1%25lo]:{}/",
    "a line feed": "https://127.0.0.1:{}/\r\nX: y",
    "a space": "https://127.0.0.1 .example.com:{}/",
    "an encoded host": "https://%31%32%37.0.0.1:{}/",
    "wide digits": "https://１２７.0.0.1:{}/",  # noqa: RUF001
    "an ideographic full stop": "https://127。0。0。1:{}/",
}  # fmt: skip
PODS = "10.9.0.0/16"
_ALLOWED = sorted({host.lower().removesuffix(".") for host in HOSTS.values()} | {"hooks.example.com"})
ARGUMENTS = (
    *(word for host in _ALLOWED for word in ("--webhook-allow-host", f"{host}:*")),
    "--webhook-allow-network",
    PODS,
)
ESTABLISHED_SECONDS = 60.0
NOT_CALLED = frozenset({0, 400, 403, 422, 500})


class Canary:
    """Listens on loopback; no connection may arrive."""

    def __init__(self) -> None:
        self.visits = 0
        self._sockets = [socket.create_server(("127.0.0.1", 0))]
        self.port = self._sockets[0].getsockname()[1]
        with contextlib.suppress(OSError):
            self._sockets.append(socket.create_server(("::1", self.port), family=socket.AF_INET6))
        for each in self._sockets:
            threading.Thread(target=self._count, args=(each,), daemon=True).start()

    def _count(self, listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                listening.accept()[0].close()
                self.visits += 1

    def close(self) -> None:
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


@pytest.fixture(scope="module")
def canary() -> Iterator[Canary]:
    found = Canary()
    yield found
    found.close()


def called(world: World, config: dict[str, Any], place: str = VALIDATING) -> Answer:
    """Register a webhook, send a request that calls it, and remove it; return the answer of the request."""
    hook = {
        "name": "ssrf.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": 2,
        "clientConfig": config,
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
    }  # fmt: skip
    made = world.attacker.ask("POST", place, {"metadata": {"name": "ssrf"}, "webhooks": [hook]})
    if made.status != 201:
        return made
    try:
        return world.attacker.ask("POST", f"{DEFAULT}/configmaps", {"metadata": {"generateName": "x-"}})
    finally:
        world.attacker.ask("DELETE", f"{place}/ssrf")


def masked(answer: Answer, port: int) -> bytes:
    return answer.body.replace(str(port).encode(), b"PORT")


@pytest.mark.parametrize("what", HOSTS)
def test_a_host_in_the_operators_network_is_not_called(world: World, canary: Canary, what: str) -> None:
    (closed,) = free_ports(1)
    for place in (VALIDATING, MUTATING):
        opened = called(world, {"url": f"https://{HOSTS[what]}:{canary.port}/"}, place)
        shut = called(world, {"url": f"https://{HOSTS[what]}:{closed}/"}, place)
        assert problem(opened, NOT_CALLED) == ""
        assert masked(opened, canary.port) == masked(shut, closed), (
            "the answers for addresses that listen and that do not differ"
        )
    assert canary.visits == 0


@pytest.mark.parametrize("what", URLS)
def test_an_ambiguous_url_is_not_called(world: World, canary: Canary, what: str) -> None:
    assert problem(called(world, {"url": URLS[what].format(canary.port)}), NOT_CALLED) == ""
    assert canary.visits == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_the_control_plane_does_not_call_itself(world: World, host: str) -> None:
    for path in ("/vcsync/v1/tenants", f"/tenants/{VICTIM}/api/v1/secrets"):
        assert problem(called(world, {"url": f"https://{host}:{world.plane.port}{path}"}), NOT_CALLED) == ""


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "169.254.169.254", "::1", "10.9.0.5", "10.10.0.1", "8.8.8.8"]
)
def test_a_service_resolves_only_to_addresses_of_the_tenants_own_pods(
    world: World, canary: Canary, address: str
) -> None:
    name = "led"
    service = {"metadata": {"name": name}, "spec": {"ports": [{"port": 443, "targetPort": canary.port}]}}
    world.attacker.ask("POST", f"{DEFAULT}/services", service)
    points = {
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv6" if ":" in address else "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [{"port": canary.port, "name": ""}],
    }
    world.attacker.ask("POST", SLICES, points)
    old = {
        "metadata": {"name": name},
        "subsets": [{"addresses": [{"ip": address}], "ports": [{"port": canary.port}]}],
    }
    world.attacker.ask("POST", f"{DEFAULT}/endpoints", old)
    answer = called(world, {"service": {"namespace": "default", "name": name}})
    for place in (f"{DEFAULT}/services", SLICES, f"{DEFAULT}/endpoints"):
        world.attacker.ask("DELETE", f"{place}/{name}")
    assert problem(answer, NOT_CALLED) == ""
    assert canary.visits == 0


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254"])
def test_an_address_that_a_pod_claims_is_not_called(world: World, canary: Canary, address: str) -> None:
    name = "claiming"
    pod = {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    world.attacker.ask("POST", f"{DEFAULT}/serviceaccounts", {"metadata": {"name": "default"}})
    world.attacker.ask("POST", f"{DEFAULT}/pods", pod)
    status = {"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}}
    merge = {"Content-Type": "application/merge-patch+json"}
    world.attacker.ask("PATCH", f"{DEFAULT}/pods/{name}/status", status, merge)
    service = {"metadata": {"name": name}, "spec": {"ports": [{"port": 443, "targetPort": canary.port}]}}
    world.attacker.ask("POST", f"{DEFAULT}/services", service)
    reference = {"kind": "Pod", "namespace": "default", "name": name}
    points = {
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}, "targetRef": reference}],
        "ports": [{"port": canary.port, "name": ""}],
    }
    world.attacker.ask("POST", SLICES, points)
    answer = called(world, {"service": {"namespace": "default", "name": name}})
    for place in (f"{DEFAULT}/services", SLICES):
        world.attacker.ask("DELETE", f"{place}/{name}")
    assert problem(answer, NOT_CALLED) == ""
    assert canary.visits == 0


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", f"kept-0.default.svc.{VICTIM}", "metadata.google.internal"]
)
def test_an_external_name_service_is_not_followed(world: World, canary: Canary, host: str) -> None:
    body = {
        "metadata": {"name": "external"},
        "spec": {"type": "ExternalName", "externalName": host, "ports": [{"port": canary.port}]},
    }
    world.attacker.ask("POST", f"{DEFAULT}/services", body)
    config = {"service": {"namespace": "default", "name": "external", "port": canary.port}}
    answer = called(world, config)
    world.attacker.ask("DELETE", f"{DEFAULT}/services/external")
    assert problem(answer, NOT_CALLED) == ""
    assert canary.visits == 0


def test_another_tenants_service_is_answered_like_a_missing_one(world: World) -> None:
    theirs = called(world, {"service": {"namespace": "default", "name": "kept-0", "port": 80}})
    nobodys = called(world, {"service": {"namespace": "default", "name": "nope-0", "port": 80}})
    assert theirs.body.replace(b"kept-0", b"X") == nobodys.body.replace(b"nope-0", b"X")
    for namespace in (f"../{VICTIM}/default", f"{VICTIM}/default", "..", "default/../.."):
        answer = called(world, {"service": {"namespace": namespace, "name": "kept-0", "port": 80}})
        assert problem(answer, NOT_CALLED) == ""


def test_a_tenants_name_in_a_webhook_reveals_nothing(world: World) -> None:
    def attack(tenant: str) -> Answer:
        return called(world, {"url": f"https://hooks.example.com/tenants/{tenant}/api/v1/secrets"})

    assert hint(attack, NOT_CALLED) == ""
    assert NOBODY != MARK


@pytest.mark.parametrize("what", list(HOSTS)[:20])
def test_conversion_webhooks_do_not_reach_the_operators_networks(
    world: World, canary: Canary, what: str
) -> None:
    plural = f"things{list(HOSTS).index(what)}"
    config = {"url": f"https://{HOSTS[what]}:{canary.port}/"}
    made = world.attacker.ask("POST", DEFINITIONS, converted(plural, config))
    assert problem(made, NOT_CALLED | {201}) == ""
    if made.status == 201:
        old, new = (f"/apis/convert.example.com/v{version}/{plural}" for version in (1, 2))
        until = time.monotonic() + ESTABLISHED_SECONDS
        while world.attacker.ask("GET", old).status == 404:
            assert time.monotonic() < until, "the definition is not established"
            time.sleep(0.05)
        body = {"kind": plural.title(), "metadata": {"name": "x"}}
        for version, place in (("v1", old), ("v2", new)):
            sent = {"apiVersion": f"convert.example.com/{version}", **body}
            assert problem(world.attacker.ask("POST", place, sent), NOT_CALLED | {201, 409}) == ""
            assert problem(world.attacker.ask("GET", place), NOT_CALLED | {200}) == ""
    assert canary.visits == 0


def converted(plural: str, config: dict[str, Any]) -> dict[str, Any]:
    """Return a definition whose versions a webhook converts."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [{"name": f"v{n}", "served": True, "storage": n == 1, "schema": schema} for n in (1, 2)]
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": config}
    names = {
        "plural": plural,
        "singular": plural,
        "kind": plural.title(),
        "listKind": f"{plural.title()}List",
    }
    spec = {"group": "convert.example.com", "names": names, "scope": "Cluster", "versions": versions}
    return {
        "metadata": {"name": f"{plural}.convert.example.com"},
        "spec": {**spec, "conversion": {"strategy": "Webhook", "webhook": webhook}},
    }
