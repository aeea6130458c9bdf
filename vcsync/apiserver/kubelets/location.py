"""Determines the address of a Pod's kubelet, and the path and query of the request to it. Pure.

Behaviour: Kubernetes' `pkg/registry/core/pod/strategy.go` (LogLocation, streamLocation, PortForwardLocation) and
`pkg/kubelet/client/kubelet_client.go`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import quote, urlencode

from msgspec import Struct

from vcsync.apimachinery import errors
from vcsync.apiserver.egress.networks import Address
from vcsync.apiserver.request.connect_options import asked_ports
from vcsync.apiserver.request.request_info import Query, truth

DEFAULT_PORT = 10250
PREFERRED = ("Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP")
"""Types of node addresses in the order in which they are tried, which is kube-apiserver's."""
STREAMS = {"exec": ("stdin", "stdout", "stderr", "tty"), "attach": ("stdin", "stdout", "stderr", "tty")}
"""Boolean parameters of the streaming subresources."""
KUBELET_STREAMS = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}
"""Parameter of the API -> parameter of kubelets."""


class _Container(Struct, frozen=True):
    name: str = ""


class _PodSpec(Struct, frozen=True, rename="camel"):
    node_name: str = ""
    containers: tuple[_Container, ...] | None = None
    init_containers: tuple[_Container, ...] | None = None
    ephemeral_containers: tuple[_Container, ...] | None = None


class _Metadata(Struct, frozen=True):
    uid: str = ""


class PodPlace(Struct):
    """The fields of a Pod that determine its kubelet and containers."""

    metadata: _Metadata = _Metadata()
    spec: _PodSpec = _PodSpec()


class _NodeAddress(Struct, frozen=True):
    type: str = ""
    address: str = ""


class _Endpoint(Struct, frozen=True, rename={"port": "Port"}):
    port: int = 0


class _Endpoints(Struct, frozen=True, rename="camel"):
    kubelet_endpoint: _Endpoint = _Endpoint()


class _NodeStatus(Struct, frozen=True, rename="camel"):
    addresses: tuple[_NodeAddress, ...] | None = None
    daemon_endpoints: _Endpoints = _Endpoints()


class NodePlace(Struct):
    """The fields of a node that determine the address of its kubelet."""

    status: _NodeStatus = _NodeStatus()


@dataclass(frozen=True, slots=True)
class KubeletRequest:
    """A request to a kubelet.

    Attributes:
        node: Name of the kubelet's node. Empty: the Pod has no node yet.
        path: Percent-encoded path.
        query: Percent-encoded query without the question mark.
    """

    node: str
    path: str
    query: str


def streamed(pod: PodPlace, namespace: str, name: str, action: str, query: Query) -> KubeletRequest:
    """Return the request for exec, attach or port-forward.

    Args:
        pod: The Pod.
        namespace: Namespace of the Pod.
        name: Name of the Pod.
        action: Subresource of the request.
        query: Query of the request.

    Raises:
        StatusError: 400 if the Pod has no such container or no node.
    """
    path: tuple[str, ...]
    if action == "portforward":
        ports = [str(each) for each in asked_ports(query)]
        parameters, path = ([("port", ",".join(ports))] if ports else []), ("portForward", namespace, name)
    else:
        container = container_of(pod, name, (query.get("container") or ("",))[0])
        parameters = [(KUBELET_STREAMS[each], "1") for each in STREAMS[action] if truth(query.get(each, ()))]
        if action == "exec":
            parameters += [("command", each) for each in query.get("command", ())]
        path = (action, namespace, name, container)
    if not pod.spec.node_name:
        raise errors.bad_request(f"pod {name} does not have a host assigned")
    return KubeletRequest(pod.spec.node_name, _path(path), urlencode(parameters))


def logs(
    pod: PodPlace, namespace: str, name: str, container: str, options: Sequence[tuple[str, str]]
) -> KubeletRequest:
    """Return the request for the log of a container.

    Args:
        pod: The Pod.
        namespace: Namespace of the Pod.
        name: Name of the Pod.
        container: Name of the container. Empty: the only one.
        options: Parameters from `log_options`.

    Raises:
        StatusError: 400 if the Pod has no such container.
    """
    chosen = container_of(pod, name, container)
    path = _path(("containerLogs", namespace, name, chosen))
    return KubeletRequest(pod.spec.node_name, path, urlencode(options))


def container_of(pod: PodPlace, name: str, wanted: str) -> str:
    """Return the name of the container that a request means: the named one, or the only one.

    Raises:
        StatusError: 400 if the Pod has no such container, or if the request must name one.
    """
    spec = pod.spec
    groups = (spec.init_containers, spec.containers, spec.ephemeral_containers)
    known = [each.name for group in groups for each in group or ()]
    if wanted:
        if wanted not in known:
            raise errors.bad_request(f"container {wanted} is not valid for pod {name}")
        return wanted
    if len(spec.containers or ()) == 1:
        return (spec.containers or ())[0].name
    choice = f", choose one of: [{' '.join(known)}]" if spec.containers else ""
    raise errors.bad_request(f"a container name must be specified for pod {name}{choice}")


def kubelet_of(node: NodePlace, allowed: Callable[[Address], bool]) -> tuple[Address, int] | None:
    """Return address and port of a node's kubelet, or None if no address is allowed.

    Host names are never resolved, so only IP addresses count.

    Args:
        node: The node.
        allowed: Returns whether the operator allows calls to an address.
    """
    by_type: Mapping[str, list[str]] = {each: [] for each in PREFERRED}
    for each in node.status.addresses or ():
        if each.type in by_type:
            by_type[each.type].append(each.address)
    for text in (text for type_ in PREFERRED for text in by_type[type_]):
        try:
            address = ip_address(text)
        except ValueError:
            continue
        if allowed(address):
            port = node.status.daemon_endpoints.kubelet_endpoint.port or DEFAULT_PORT
            return address, port
    return None


def _path(parts: Sequence[str]) -> str:
    return "".join(f"/{quote(part, safe='')}" for part in parts)
