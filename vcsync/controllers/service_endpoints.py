"""What of Services and Pods makes endpoints: which Pods, at which addresses and ports. Pure.

Behaviour: Kubernetes' `pkg/controller/endpoint` and its library `endpointslice`.
"""

import ipaddress
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct, field

from vcsync.controllers import pods
from vcsync.controllers.mirror import Key, key_of, namespace_of
from vcsync.controllers.plan import Look
from vcsync.controllers.waking import gathering, standing
from vcsync.kube.cache import Change
from vcsync.kube.envelope import Envelope, decode
from vcsync.kube.resources import PODS, SERVICES
from vcsync.kube.selectors import LabelSelector, compile_selector

Family = Literal["IPv4", "IPv6"]

HEADLESS_LABEL = "service.kubernetes.io/headless"
TRIGGER_TIME = "endpoints.kubernetes.io/last-change-trigger-time"
LEADER = "control-plane.alpha.kubernetes.io/leader"
"""Of Endpoints that old leader elections are held with."""
NO_ADDRESS = "None"
EXTERNAL_NAME = "ExternalName"
GATHERED = gathering(pace=1000.0, most=2.0)
"""For how long changes of Pods and of what is written are gathered."""


class ServicePort(Struct, rename="camel"):
    """One port of a Service."""

    port: int
    name: str = ""
    protocol: str = "TCP"
    target_port: int | str | None = None
    app_protocol: str | None = None


class ServiceSpec(Struct, rename="camel"):
    """The parts of a Service's spec."""

    type: str = "ClusterIP"
    selector: dict[str, str] | None = None
    ports: tuple[ServicePort, ...] | None = None
    cluster_ip: str = field(default="", name="clusterIP")
    ip_families: tuple[Family, ...] | None = None
    publish_not_ready_addresses: bool = False
    traffic_distribution: str | None = None

    @property
    def selects(self) -> bool:
        """Whether its endpoints are Pods; otherwise somebody else says what they are."""
        return self.type != EXTERNAL_NAME and bool(self.selector)


class _PodIP(Struct):
    ip: str = ""


class _PodStatus(Struct, rename="camel"):
    phase: str = ""
    pod_ip: str = field(default="", name="podIP")
    pod_ips: tuple[_PodIP, ...] | None = field(default=None, name="podIPs")
    conditions: tuple[pods.Condition, ...] | None = None


class _ContainerPort(Struct, rename="camel"):
    container_port: int
    name: str = ""
    protocol: str = "TCP"


class _Container(Struct, rename="camel"):
    ports: tuple[_ContainerPort, ...] | None = None
    restart_policy: str = ""


class _PodSpec(Struct, rename="camel"):
    node_name: str = ""
    hostname: str = ""
    subdomain: str = ""


class _Containers(Struct, rename="camel"):
    containers: tuple[_Container, ...] | None = None
    init_containers: tuple[_Container, ...] | None = None


class Backend(Struct, frozen=True):
    """A Pod behind a Service. `addresses`: in canonical form, by family."""

    pod: Envelope
    node: str
    hostname: str
    ready: bool
    addresses: Mapping[Family, list[str]]

    @property
    def target(self) -> dict[str, str]:
        """The reference to its Pod."""
        pod = self.pod
        return {"kind": "Pod", "namespace": namespace_of(pod), "name": pod.name, "uid": pod.uid}


def read_service(service: Envelope) -> ServiceSpec:
    """Read a Service."""
    return decode(service.spec, ServiceSpec)


def backends(look: Look, service: Envelope, spec: ServiceSpec, *, terminating: bool) -> list[Backend]:
    """Return the Pods behind a Service: those that match, have an address and are not finished.

    Args:
        look: what there is.
        service: the Service.
        spec: its spec, with a selector.
        terminating: whether Pods that are going away count.
    """
    selector = compile_selector(LabelSelector(spec.selector))
    found = (
        _backend(pod, service.name)
        for pod in look.of[PODS].within(service.tenant, namespace_of(service))
        if selector.matches(pod.labels) and (terminating or not pod.deleting)
    )
    return sorted((each for each in found if each is not None), key=lambda each: each.pod.name)


def _backend(pod: Envelope, service: str) -> Backend | None:
    status = decode(pod.status, _PodStatus)
    told = [each.ip for each in status.pod_ips or ()] or [status.pod_ip]
    if status.phase in pods.FINISHED or not any(told):
        return None
    spec = decode(pod.spec, _PodSpec)
    ready = pods.condition(status.conditions, "Ready")
    return Backend(
        pod,
        spec.node_name,
        spec.hostname if spec.subdomain == service else "",
        ready is not None and ready.status == "True",
        _by_family(told),
    )


def _by_family(addresses: Iterable[str]) -> dict[Family, list[str]]:
    found: dict[Family, list[str]] = {"IPv4": [], "IPv6": []}
    for text in addresses:
        if (known := family_of(text)) is not None:
            found[known[0]].append(known[1])
    return found


def family_of(text: str) -> tuple[Family, str] | None:
    """Return an address's family and its canonical form; None: it is no address."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return ("IPv4" if address.version == 4 else "IPv6"), str(address)


def families(spec: ServiceSpec) -> tuple[Family, ...]:
    """Return the address families of a Service, the preferred one first."""
    if spec.ip_families:
        return spec.ip_families
    known = family_of(spec.cluster_ip)
    return ("IPv4", "IPv6") if known is None else (known[0],)


def ports(spec: ServiceSpec, pod: Envelope) -> list[dict[str, Any]]:
    """Return the ports of a Service at a Pod, which may give names to other numbers than its neighbour."""
    found = []
    for each in spec.ports or ():
        number = _number(each, pod)
        if number is not None:
            port: dict[str, Any] = {"name": each.name, "port": number, "protocol": each.protocol}
            found.append(port | ({"appProtocol": each.app_protocol} if each.app_protocol else {}))
    return found


def _number(port: ServicePort, pod: Envelope) -> int | None:
    target = port.target_port or port.port
    if isinstance(target, int):
        return target
    spec = decode(pod.spec, _Containers)
    sidecars = (each for each in spec.init_containers or () if each.restart_policy == "Always")
    named = (each for container in (*(spec.containers or ()), *sidecars) for each in container.ports or ())
    return next(
        (each.container_port for each in named if (each.name, each.protocol) == (target, port.protocol)),
        None,
    )


def is_headless(spec: ServiceSpec) -> bool:
    """Whether a Service has no address of its own."""
    return spec.cluster_ip in ("", NO_ADDRESS)


def trigger_time(service: Envelope, behind: Iterable[Backend], last: str | None) -> str | None:
    """Return when happened what is written now: the earliest of what is younger than the last that was noted.

    Kubernetes' controllers remember what they saw of every Pod; what they wrote last tells nearly as much and outlives
    a restart.

    Args:
        service: the Service.
        behind: its Pods.
        last: the annotation as it stands, maybe empty; None: nothing was written yet.
    """
    if last is None:
        return service.creation_timestamp or None
    before = _moment(last)
    times = [service.creation_timestamp, *(_ready_changed(each.pod) for each in behind)]
    moments = [pods.moment(each) for each in times if each]
    # With nothing noted the youngest is the likeliest.
    choose = min if last else max
    found = choose((each for each in moments if each > before), default=None)
    return None if found is None else pods.told(found)


def _ready_changed(pod: Envelope) -> str:
    ready = pods.condition(pods.status(pod).conditions, "Ready")
    return "" if ready is None else ready.last_transition_time or ""


def _moment(text: str) -> datetime:
    """Anybody may write into annotations; what is no time is very long ago."""
    try:
        found = pods.moment(text)
    except ValueError:
        return pods.moment(None)
    return found if found.tzinfo else pods.moment(None)


def change_of(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str | None]:
    """Return the merge patch that makes one map of strings the other; empty: they are the same."""
    gone: dict[str, str | None] = dict.fromkeys(before.keys() - after.keys())
    return gone | {name: text for name, text in after.items() if before.get(name) != text}


def of_pod(change: Change, look: Look) -> Iterable[Key]:
    """The Services that a Pod is behind, or was, if anything changed that endpoints tell."""
    pod = standing(change)
    labels = [each.labels for each in (change.old, change.new) if each is not None]
    found = []
    for service in look.of[SERVICES].within(pod.tenant, namespace_of(pod)):
        spec = read_service(service)
        if spec.selects:
            selector = compile_selector(LabelSelector(spec.selector))
            if any(selector.matches(each) for each in labels):
                found.append(key_of(service))
    # Told last: most Pods are behind no Service, and then nothing of them need be read.
    if found and change.old is not None and change.new is not None and _told(change.old) == _told(change.new):
        return ()
    return found


def _told(pod: Envelope) -> tuple[object, ...]:
    """What endpoints depend on."""
    status = decode(pod.status, _PodStatus)
    ready = pods.condition(status.conditions, "Ready")
    addresses = tuple(each.ip for each in status.pod_ips or ())
    its = decode(pod.spec, _PodSpec)
    return (
        pod.uid,
        pod.labels,
        pod.deleting,
        status.phase in pods.FINISHED,
        status.pod_ip,
        addresses,
        ready is not None and ready.status == "True",
        its.node_name,
        its.hostname,
        its.subdomain,
    )
