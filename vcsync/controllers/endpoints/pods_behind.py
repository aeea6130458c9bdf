"""Endpoints of Services as their Pods define them: Pods, addresses and ports. Pure.

Behaviour: Kubernetes' `pkg/controller/endpoint` and its library `endpointslice`.
"""

import ipaddress
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct, field

from vcsync.controllers.framework import pods
from vcsync.controllers.framework.event_handlers import gathering, selecting
from vcsync.controllers.framework.mirror import Key, key_of, namespace_of
from vcsync.controllers.framework.plan import View
from vcsync.kube.cache import Change
from vcsync.kube.resources import PODS, SERVICES
from vcsync.objects.conditions import Condition, find_condition, is_true
from vcsync.objects.envelope import Envelope, decode
from vcsync.objects.selectors import LabelSelector, compile_selector
from vcsync.objects.times import time_text

Family = Literal["IPv4", "IPv6"]

HEADLESS_LABEL = "service.kubernetes.io/headless"
TRIGGER_TIME = "endpoints.kubernetes.io/last-change-trigger-time"
LEADER = "control-plane.alpha.kubernetes.io/leader"
"""Annotation of Endpoints that serve as a lock of old leader elections."""
NO_ADDRESS = "None"
EXTERNAL_NAME = "ExternalName"
GATHERED = gathering(pace=1000.0, most=2.0)
"""Seconds for which changes of Pods and of written objects are collected."""


MOST_ENTRIES = 200_000
"""Most Pods of a Service, times its ports. Further Pods by name are no endpoints; upstream has no limit."""


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
        """Return whether its endpoints are Pods; otherwise a user writes them."""
        return self.type != EXTERNAL_NAME and bool(self.selector)


class _PodIP(Struct):
    ip: str = ""


class _PodStatus(Struct, rename="camel"):
    phase: str = ""
    pod_ip: str = field(default="", name="podIP")
    pod_ips: tuple[_PodIP, ...] | None = field(default=None, name="podIPs")
    conditions: tuple[Condition, ...] | None = None


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
    """A Pod of a Service. `addresses`: in canonical form, by family."""

    pod: Envelope
    node: str
    hostname: str
    ready: bool
    addresses: Mapping[Family, list[str]]

    @property
    def target(self) -> dict[str, str]:
        """Return the reference to the Pod."""
        pod = self.pod
        return {"kind": "Pod", "namespace": namespace_of(pod), "name": pod.name, "uid": pod.uid}


def read_service(service: Envelope) -> ServiceSpec:
    """Read a Service."""
    return decode(service.spec, ServiceSpec)


def backends(view: View, service: Envelope, spec: ServiceSpec, *, terminating: bool) -> list[Backend]:
    """Return the Pods of a Service: those that match, have an address and have not finished, at most `MOST_ENTRIES` by its ports.

    Args:
        view: the mirrors.
        service: the Service.
        spec: its spec, with a selector.
        terminating: whether Pods being deleted count.
    """
    selector = compile_selector(LabelSelector(spec.selector))
    found = (
        _backend(pod, service.name)
        for pod in view.of[PODS].within(service.tenant, namespace_of(service))
        if selector.matches(pod.labels) and (terminating or not pod.deleting)
    )
    most = max(MOST_ENTRIES // max(len(spec.ports or ()), 1), 1)
    return sorted((each for each in found if each is not None), key=lambda each: each.pod.name)[:most]


def _backend(pod: Envelope, service: str) -> Backend | None:
    status = decode(pod.status, _PodStatus)
    ips = [each.ip for each in status.pod_ips or ()] or [status.pod_ip]
    if status.phase in pods.FINISHED or not any(ips):
        return None
    spec = decode(pod.spec, _PodSpec)
    return Backend(
        pod,
        spec.node_name,
        spec.hostname if spec.subdomain == service else "",
        is_true(status.conditions, "Ready"),
        _by_family(ips),
    )


def _by_family(addresses: Iterable[str]) -> dict[Family, list[str]]:
    found: dict[Family, list[str]] = {"IPv4": [], "IPv6": []}
    for text in addresses:
        if (known := family_of(text)) is not None:
            found[known[0]].append(known[1])
    return found


def family_of(text: str) -> tuple[Family, str] | None:
    """Return an address's family and its canonical form; None: it is not an address."""
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
    """Return the ports of a Service at a Pod; named ports may have different numbers at different Pods."""
    found = []
    named: dict[tuple[str, str], int] | None = None
    for each in spec.ports or ():
        number: int | None
        if isinstance(target := each.target_port or each.port, int):
            number = target
        else:
            named = _named_ports(pod) if named is None else named
            number = named.get((target, each.protocol))
        if number is not None:
            port: dict[str, Any] = {"name": each.name, "port": number, "protocol": each.protocol}
            found.append(port | ({"appProtocol": each.app_protocol} if each.app_protocol else {}))
    return found


def _named_ports(pod: Envelope) -> dict[tuple[str, str], int]:
    """Return a Pod's ports by name and protocol; the first one of a name counts."""
    spec = decode(pod.spec, _Containers)
    sidecars = (each for each in spec.init_containers or () if each.restart_policy == "Always")
    found: dict[tuple[str, str], int] = {}
    for container in (*(spec.containers or ()), *sidecars):
        for each in container.ports or ():
            found.setdefault((each.name, each.protocol), each.container_port)
    return found


def is_headless(spec: ServiceSpec) -> bool:
    """Return whether a Service has no address of its own."""
    return spec.cluster_ip in ("", NO_ADDRESS)


def trigger_time(service: Envelope, behind: Iterable[Backend], last: str | None) -> str | None:
    """Return the trigger time of a write: the earliest change that is later than the last recorded one.

    Kubernetes' controllers remember the state of every Pod. The last recorded time is nearly as exact and survives
    a restart.

    Args:
        service: the Service.
        behind: its Pods.
        last: the current annotation, maybe empty; None: nothing was written yet.
    """
    if last is None:
        return service.creation_timestamp or None
    before = _moment(last)
    times = [service.creation_timestamp, *(_ready_changed(each.pod) for each in behind)]
    moments = [pods.moment(each) for each in times if each]
    # Without a recorded time, the latest change is the most likely trigger.
    choose = min if last else max
    found = choose((each for each in moments if each > before), default=None)
    return None if found is None else time_text(found)


def _ready_changed(pod: Envelope) -> str:
    ready = find_condition(pods.status(pod).conditions, "Ready")
    return "" if ready is None else ready.last_transition_time or ""


def _moment(text: str) -> datetime:
    """Parse a time from an annotation. Users may write it, so an invalid time counts as very long ago."""
    try:
        found = pods.moment(text)
    except ValueError:
        return pods.moment(None)
    return found if found.tzinfo else pods.moment(None)


def change_of(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str | None]:
    """Return the merge patch from one map of strings to another; empty: they are equal."""
    gone: dict[str, str | None] = dict.fromkeys(before.keys() - after.keys())
    return gone | {name: text for name, text in after.items() if before.get(name) != text}


def of_pod(change: Change, view: View) -> Iterable[Key]:
    """Return the Services that a Pod belongs or belonged to, if a field changed that endpoints contain."""
    found = [key_of(each) for each in selecting(SERVICES, change, view)]
    # This comes last, because most Pods have no Service and then need no decoding.
    if (
        found
        and change.old is not None
        and change.new is not None
        and _relevant(change.old) == _relevant(change.new)
    ):
        return ()
    return found


def _relevant(pod: Envelope) -> tuple[object, ...]:
    """Return the fields that endpoints depend on."""
    status = decode(pod.status, _PodStatus)
    addresses = tuple(each.ip for each in status.pod_ips or ())
    its = decode(pod.spec, _PodSpec)
    return (
        pod.uid,
        pod.labels,
        pod.deleting,
        status.phase in pods.FINISHED,
        status.pod_ip,
        addresses,
        is_true(status.conditions, "Ready"),
        its.node_name,
        its.hostname,
        its.subdomain,
    )
