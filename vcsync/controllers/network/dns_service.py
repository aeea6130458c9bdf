"""The DNS Service of a network: an address of its own in front of the tenant's name server. Pure."""

from typing import Any

from msgspec import Struct

from vcsync.api import names
from vcsync.api.networks import NETWORKS, SERVICE_PREFIX
from vcsync.controllers.framework.plan import Action, Create, Patch
from vcsync.kube.resources import SERVICES
from vcsync.objects.envelope import Envelope, decode

Port = dict[str, Any]

SELECTOR = {"k8s-app": "kube-dns"}
"""Labels of the Pods of a name server while there is none, as every Kubernetes distribution labels them."""
PORTS: tuple[Port, ...] = (
    {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 53},
    {"name": "dns-tcp", "port": 53, "protocol": "TCP", "targetPort": 53},
)
"""Ports while there is no name server."""
_KEPT = ("name", "port", "protocol", "targetPort", "appProtocol")


class _Spec(Struct):
    selector: dict[str, str] | None = None
    ports: tuple[Port, ...] | None = None
    clusterIP: str = ""  # noqa: N815 - as JSON spells it


def service_name(network: str) -> str:
    """Return the name of a network's Service."""
    return f"{SERVICE_PREFIX}{network}"


def has_pods(name_server: Envelope | None) -> bool:
    """Return whether a tenant's Service `kube-dns` selects the Pods of a name server."""
    return name_server is not None and bool(decode(name_server.spec, _Spec).selector)


def is_of(service: Envelope, network: Envelope) -> bool:
    """Return whether a Service is this network's, and not that of another with its name or a user's."""
    return any(each.uid == network.uid for each in service.owners)


def address(service: Envelope | None) -> str:
    """Return the cluster IP of a Service, or an empty string if it has none."""
    found = "" if service is None else decode(service.spec, _Spec).clusterIP
    return "" if found == "None" else found


def write(network: Envelope, service: Envelope | None, name_server: Envelope | None) -> Action | None:
    """Return the write that creates or repairs the Service of a network; None: it is right, or not the network's.

    Args:
        network: the network.
        service: the Service with the name of the network's, if there is one.
        name_server: the tenant's Service `kube-dns`, if there is one.
    """
    selector, ports = _wanted(name_server)
    if service is None:
        owner = {
            "apiVersion": NETWORKS.api_version,
            "kind": NETWORKS.kind,
            "name": network.name,
            "uid": network.uid,
            "controller": True,
        }
        metadata = {
            "name": service_name(network.name),
            "labels": {names.NETWORK: network.name},
            "ownerReferences": [owner],
        }
        body = {"metadata": metadata, "spec": {"selector": selector, "ports": ports}}
        return Create(SERVICES, names.TENANT_DNS_NAMESPACE, body)
    spec = decode(service.spec, _Spec)
    same = spec.selector == selector and [_port(each) for each in spec.ports or ()] == ports
    if same or service.deleting or not is_of(service, network):
        return None
    patch = [
        {"op": "test", "path": "/metadata/uid", "value": service.uid},
        {"op": "add", "path": "/spec/selector", "value": selector},
        {"op": "add", "path": "/spec/ports", "value": ports},
    ]
    return Patch(SERVICES, names.TENANT_DNS_NAMESPACE, service.name, patch, "json")


def _wanted(name_server: Envelope | None) -> tuple[dict[str, str], list[Port]]:
    """Return selector and ports: those of the name server."""
    if name_server is None or not has_pods(name_server):
        return SELECTOR, list(PORTS)
    spec = decode(name_server.spec, _Spec)
    # A headless Service may have no ports; the network's Service needs some.
    return spec.selector or SELECTOR, [_port(each) for each in spec.ports or PORTS]


def _port(port: Port) -> Port:
    """Return a port without what the API server assigns, and with its defaults."""
    whole = {"protocol": "TCP", "targetPort": port.get("port"), **port}
    return {key: whole[key] for key in _KEPT if key in whole}
