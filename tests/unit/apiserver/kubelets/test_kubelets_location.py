"""The address of a kubelet, and the path and query of requests to it."""

from ipaddress import ip_address
from typing import Any

import msgspec
import pytest

from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.kubelets.location import NodePlace, PodPlace, kubelet_of, logs, streamed

LOOPBACK = ip_address("127.0.0.1")


def pod(*containers: str, node: str = "n1", **further: Any) -> PodPlace:
    spec = {"nodeName": node, "containers": [{"name": each} for each in containers], **further}
    return msgspec.convert({"spec": spec}, PodPlace)


def node(*addresses: tuple[str, str], port: int | None = None) -> NodePlace:
    status: dict[str, Any] = {"addresses": [{"type": kind, "address": text} for kind, text in addresses]}
    if port:
        status["daemonEndpoints"] = {"kubeletEndpoint": {"Port": port}}
    return msgspec.convert({"status": status}, NodePlace)


def test_exec_uses_the_kubelets_parameters() -> None:
    query = {"stdin": ["true"], "stdout": ["1"], "tty": ["false"], "command": ["sh", "-c", "a b&c"]}
    asked = streamed(pod("web"), "ns", "p", "exec", query)
    assert (asked.node, asked.path) == ("n1", "/exec/ns/p/web")
    assert asked.query == "input=1&output=1&command=sh&command=-c&command=a+b%26c"


def test_attach_has_no_command() -> None:
    asked = streamed(
        pod("a", "b"), "ns", "p", "attach", {"container": ["b"], "stderr": ["1"], "command": ["x"]}
    )
    assert (asked.path, asked.query) == ("/attach/ns/p/b", "error=1")


def test_ports_of_port_forward_must_be_numbers() -> None:
    asked = streamed(pod("a", "b"), "ns", "p", "portforward", {"ports": ["80,443", "8080"]})
    assert (asked.path, asked.query) == ("/portForward/ns/p", "port=80%2C443%2C8080")
    for wrong in ("x", "", "80,", "-1", "65536", "\u00b2", "9" * 5000):
        with pytest.raises(StatusError, match="cannot convert to"):
            streamed(pod("a", "b"), "ns", "p", "portforward", {"ports": ["80", wrong]})


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({}, "a container name must be specified for pod p, choose one of: [i a b]"),
        ({"container": ["x"]}, "container x is not valid for pod p"),
    ],
)
def test_a_container_must_be_one_of_the_pods(query: Any, message: str) -> None:
    with pytest.raises(StatusError) as caught:
        streamed(pod("a", "b", initContainers=[{"name": "i"}]), "ns", "p", "exec", query)
    assert (caught.value.code, caught.value.message) == (400, message)


def test_only_logs_are_allowed_for_a_pod_without_a_node() -> None:
    waiting = pod("a", node="")
    with pytest.raises(StatusError) as caught:
        streamed(waiting, "ns", "p", "exec", {})
    assert caught.value.message == "pod p does not have a host assigned"
    assert logs(waiting, "ns", "p", "", []).node == ""


def test_a_log_request_has_its_options() -> None:
    asked = logs(pod("a"), "ns", "p", "a", [("follow", "true"), ("tailLines", "3")])
    assert (asked.path, asked.query) == ("/containerLogs/ns/p/a", "follow=true&tailLines=3")


def test_the_first_allowed_address_in_the_preferred_order_is_used() -> None:
    many = node(("ExternalIP", "10.0.0.3"), ("InternalIP", "10.0.0.2"), ("Hostname", "n1"), port=4444)
    assert kubelet_of(many, lambda _: True) == (ip_address("10.0.0.2"), 4444)
    assert kubelet_of(many, lambda each: each == ip_address("10.0.0.3")) == (ip_address("10.0.0.3"), 4444)
    assert kubelet_of(many, lambda _: False) is None


def test_host_names_are_not_resolved_and_the_port_has_a_default() -> None:
    assert kubelet_of(node(("Hostname", "localhost"), ("InternalDNS", "metadata")), lambda _: True) is None
    assert kubelet_of(node(("Hostname", "127.0.0.1")), lambda _: True) == (LOOPBACK, 10250)
    assert kubelet_of(node(("Other", "127.0.0.1")), lambda _: True) is None
