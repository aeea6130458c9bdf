"""Where a Pod's kubelet is and what it is asked: container, address, path and query. Pure.

Behaviour: Kubernetes' `pkg/registry/core/pod/strategy.go` (LogLocation, streamLocation, PortForwardLocation) and
`pkg/kubelet/client/kubelet_client.go`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import quote, urlencode

from msgspec import Struct

from vcsync.controlplane import errors
from vcsync.controlplane.egress.networks import Address
from vcsync.controlplane.rest.connecting import asked_ports
from vcsync.controlplane.rest.requestinfo import Query, truth

DEFAULT_PORT = 10250
PREFERRED = ("Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP")
"""Kinds of a node's addresses in the order in which they are tried: kube-apiserver's."""
ONCE = {"exec": ("stdin", "stdout", "stderr", "tty"), "attach": ("stdin", "stdout", "stderr", "tty")}
AS_KUBELET = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}
"""What kubelets call the streams."""


class _Container(Struct, frozen=True):
    name: str = ""


class _PodSpec(Struct, frozen=True, rename="camel"):
    node_name: str = ""
    containers: tuple[_Container, ...] | None = None
    init_containers: tuple[_Container, ...] | None = None
    ephemeral_containers: tuple[_Container, ...] | None = None


class PodPlace(Struct):
    """A Pod, as far as it matters where it is."""

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
    """A node, as far as it matters where its kubelet is."""

    status: _NodeStatus = _NodeStatus()


@dataclass(frozen=True, slots=True)
class Question:
    """What a kubelet is asked.

    Attributes:
        node: whose kubelet; empty: the Pod has none yet.
        path: percent-encoded.
        query: percent-encoded.
    """

    node: str
    path: str
    query: str


def streamed(pod: PodPlace, namespace: str, name: str, action: str, query: Query) -> Question:
    """Return what is asked for exec, attach or port-forward.

    Raises:
        StatusError: 400, there is no such container, or the Pod is on no node.
    """
    if action == "portforward":
        ports = [str(each) for each in asked_ports(query)]
        asked, path = ([("port", ",".join(ports))] if ports else []), ("portForward", namespace, name)
    else:
        container = container_of(pod, name, (query.get("container") or ("",))[0])
        asked = [(AS_KUBELET[each], "1") for each in ONCE[action] if truth(query.get(each, ()))]
        if action == "exec":
            asked += [("command", each) for each in query.get("command", ())]
        path = (action, namespace, name, container)  # type: ignore[assignment]  # longer
    if not pod.spec.node_name:
        raise errors.bad_request(f"pod {name} does not have a host assigned")
    return Question(pod.spec.node_name, _path(path), urlencode(asked))


def logs(
    pod: PodPlace, namespace: str, name: str, container: str, options: Sequence[tuple[str, str]]
) -> Question:
    """Return what is asked for a container's log.

    Raises:
        StatusError: 400, there is no such container.
    """
    chosen = container_of(pod, name, container)
    path = _path(("containerLogs", namespace, name, chosen))
    return Question(pod.spec.node_name, path, urlencode(options))


def container_of(pod: PodPlace, name: str, wanted: str) -> str:
    """Return the container that is meant: the named one, or the only one.

    Raises:
        StatusError: 400, there is none, or one has to be chosen.
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
    """Return address and port of a node's kubelet: the first address that is one and may be called; None: none may.

    Names are never looked up.
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
