"""Pods and ports that requests for the subresource `proxy` go to."""

import msgspec
import pytest

from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.kubelets.proxy_location import (
    PodAddress,
    PodAddresses,
    ProxyTarget,
    ServiceEndpoints,
    ServicePorts,
    port_number,
    proxy_target,
    service_addresses,
    service_port,
)

SERVICE = msgspec.convert({"spec": {"ports": [{"name": "http", "port": 80}, {"port": 443}]}}, ServicePorts)


def address(pod: str, ip: str, namespace: str = "shop") -> dict[str, object]:
    return {"ip": ip, "targetRef": {"kind": "Pod", "namespace": namespace, "name": pod}}


ENDPOINTS = msgspec.convert(
    {
        "subsets": [
            {
                "addresses": [address("a", "10.0.0.1"), {"ip": "10.0.0.9"}],
                "ports": [{"name": "http", "port": 8080}],
            },
            {
                "addresses": [
                    address("b", "10.0.0.2"),
                    address("c", "10.0.0.3"),
                    address("x", "10.0.0.4", "other"),
                ],
                "ports": [{"name": "http", "port": 8081}, {"name": "admin", "port": 9}],
            },
            {"ports": [{"name": "http", "port": 1}]},
        ]
    },
    ServiceEndpoints,
)


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("web", ProxyTarget("", "web", "")),
        ("web:80", ProxyTarget("", "web", "80")),
        ("web:", ProxyTarget("", "web", "")),
        ("https:web:443", ProxyTarget("https", "web", "443")),
        ("http:web:", ProxyTarget("http", "web", "")),
        (":web:http", ProxyTarget("", "web", "http")),
    ],
)
def test_a_name_may_have_a_scheme_and_a_port(name: str, target: ProxyTarget) -> None:
    assert proxy_target(name, "pod") == target
    assert proxy_target(target.text, "pod") == target


@pytest.mark.parametrize(
    "name", ["", ":80", "ftp:web:21", "a:b:c:d", "http::80", "web:80?x", "web:80/x", "web:1@b", "web:\u0663"]
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(StatusError) as refusal:
        proxy_target(name, "service")
    assert (refusal.value.code, refusal.value.message) == (400, f'invalid service request "{name}"')


@pytest.mark.parametrize(
    ("port", "name"), [("80", "http"), ("443", ""), ("http", "http"), ("", ""), ("x", "x")]
)
def test_a_port_of_a_service_has_a_name(port: str, name: str) -> None:
    assert service_port(SERVICE, ProxyTarget("", "web", port)) == name


def test_a_service_without_the_port_is_refused() -> None:
    with pytest.raises(StatusError) as refusal:
        service_port(SERVICE, ProxyTarget("", "web", "81"))
    assert (refusal.value.code, refusal.value.message) == (503, 'no service port 81 found for service "web"')


@pytest.mark.parametrize(
    ("port", "begin", "found"),
    [
        ("http", 0, [("a", 8080), ("b", 8081), ("c", 8081)]),
        ("http", 1, [("c", 8081), ("b", 8081), ("a", 8080)]),
        ("admin", 0, [("b", 9), ("c", 9)]),
        ("", 0, []),
    ],
)
def test_only_pods_of_the_namespace_serve_a_service(
    port: str, begin: int, found: list[tuple[str, int]]
) -> None:
    chosen = service_addresses(ENDPOINTS, "shop", port, lambda count: begin % count)
    assert [(each.pod, each.port) for each in chosen] == found


def test_an_address_must_be_one_of_the_pod() -> None:
    pod = msgspec.convert({"status": {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}}, PodAddresses)
    assert pod.has(PodAddress("a", "fd00::1", 80).ip)
    assert not pod.has("10.0.0.2")
    assert not PodAddresses().has("")


@pytest.mark.parametrize(
    ("text", "number"), [("80", 80), ("+80", 80), ("-1", -1), ("", None), ("8x", None), ("٣", None)]
)
def test_numbers_of_ports_are_those_of_go(text: str, number: int | None) -> None:
    assert port_number(text) == number
