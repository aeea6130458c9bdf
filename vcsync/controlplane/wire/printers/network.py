"""The cells of Services, Ingresses, endpoints and addresses. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from vcsync.controlplane.wire.printers.cells import (
    NONE,
    UNKNOWN,
    UNSET,
    Object,
    Printer,
    age,
    field,
    joined,
    labels_at,
    look,
    more,
    name,
    selector_at,
)

Kind = tuple[str, str]
SHOWN = 3
"""Addresses, ports or hosts that are told; the rest is counted."""
DEFAULT_INGRESS_CLASS = "ingressclass.kubernetes.io/is-default-class"


def cluster_ip(obj: Object, _: datetime) -> Any:
    """Return a Service's first internal address."""
    return next(iter(look(obj, "spec.clusterIPs", ())), NONE)


def external_ip(obj: Object, now: datetime) -> str:
    """Return a Service's addresses from outside."""
    kind, own = look(obj, "spec.type", ""), list(look(obj, "spec.externalIPs", ()))
    if kind in ("ClusterIP", "NodePort"):
        return ",".join(own) or NONE
    if kind == "LoadBalancer":
        given = balancer(obj, now)
        return ",".join([*([given] if given else []), *own]) or "<pending>"
    return str(look(obj, "spec.externalName", "")) if kind == "ExternalName" else UNKNOWN


def balancer(obj: Object, _: datetime) -> str:
    """Return the addresses that a load balancer was given."""
    ingress = look(obj, "status.loadBalancer.ingress", ())
    return ",".join(sorted({text for each in ingress if (text := each.get("ip") or each.get("hostname"))}))


def service_ports(obj: Object, _: datetime) -> str:
    """Tell a Service's ports, with those on the nodes."""
    texts = []
    for port in look(obj, "spec.ports", ()):
        on_node = f":{port['nodePort']}" if port.get("nodePort") else ""
        texts.append(f"{port.get('port', 0)}{on_node}/{port.get('protocol', '')}")
    return ",".join(texts) or NONE


def hosts(obj: Object, _: datetime) -> str:
    """Tell the hosts of an Ingress."""
    rules = look(obj, "spec.rules", ())
    shown: list[str] = []
    cut = False
    for rule in rules:
        cut = cut or len(shown) == SHOWN
        if not cut and rule.get("host"):
            shown.append(rule["host"])
    if not shown:
        return "*"
    return ",".join(shown) + (f" + {len(rules) - SHOWN} more..." if cut else "")


def ingress_ports(obj: Object, _: datetime) -> str:
    """Tell the ports of an Ingress."""
    return "80, 443" if look(obj, "spec.tls", ()) else "80"


def class_name(obj: Object, _: datetime) -> str:
    """Name an IngressClass; tell if it is the default."""
    default = look(obj, "metadata.annotations", {}).get(DEFAULT_INGRESS_CLASS) == "true"
    return f"{look(obj, 'metadata.name', '')}{' (default)' if default else ''}"


def parameters(obj: Object, _: datetime) -> str:
    """Name what an IngressClass is configured by."""
    found = look(obj, "spec.parameters")
    if found is None:
        return NONE
    group = f".{found['apiGroup']}" if found.get("apiGroup") is not None else ""
    return f"{found.get('kind', '')}{group}/{found.get('name', '')}"


def endpoints(obj: Object, _: datetime) -> str:
    """Tell the addresses of Endpoints."""
    subsets = look(obj, "subsets", ())
    if not subsets:
        return NONE
    texts: list[str] = []
    for subset in subsets:
        addresses = [each.get("ip", "") for each in subset.get("addresses") or ()]
        ports = subset.get("ports") or ()
        texts += (
            [_host_port(ip, port.get("port", 0)) for port in ports for ip in addresses]
            if ports
            else addresses
        )
    return more(texts, len(texts), SHOWN)


def slice_ports(obj: Object, _: datetime) -> str:
    """Tell the ports of an EndpointSlice."""
    texts = [str(look(each, "port", look(each, "name", "*"))) for each in look(obj, "ports", ())]
    return more(texts, len(texts), SHOWN) or UNSET


def slice_endpoints(obj: Object, _: datetime) -> str:
    """Tell the addresses of an EndpointSlice."""
    texts = [text for each in look(obj, "endpoints", ()) for text in each.get("addresses") or ()]
    return more(texts, len(texts), SHOWN) or UNSET


def parent(obj: Object, _: datetime) -> str:
    """Name what an IPAddress belongs to."""
    found = look(obj, "spec.parentRef")
    if found is None:
        return NONE
    group = f".{found['group']}" if found.get("group") else ""
    place = f"/{found['namespace']}" if found.get("namespace") else ""
    return f"{found.get('resource', '')}{group}".lower() + f"{place}/{found.get('name', '')}"


def _host_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


PRINTERS: Mapping[Kind, Printer] = {
    ("", "Service"): {
        "Name": name,
        "Type": field("spec.type"),
        "Cluster-IP": cluster_ip,
        "External-IP": external_ip,
        "Port(s)": service_ports,
        "Age": age,
        "Selector": labels_at("spec.selector"),
    },
    ("", "Endpoints"): {"Name": name, "Endpoints": endpoints, "Age": age},
    ("discovery.k8s.io", "EndpointSlice"): {
        "Name": name,
        "AddressType": field("addressType"),
        "Ports": slice_ports,
        "Endpoints": slice_endpoints,
        "Age": age,
    },
    ("networking.k8s.io", "Ingress"): {
        "Name": name,
        "Class": field("spec.ingressClassName", NONE),
        "Hosts": hosts,
        "Address": balancer,
        "Ports": ingress_ports,
        "Age": age,
    },
    ("networking.k8s.io", "IngressClass"): {
        "Name": class_name,
        "Controller": field("spec.controller"),
        "Parameters": parameters,
        "Age": age,
    },
    ("networking.k8s.io", "NetworkPolicy"): {
        "Name": name,
        "Pod-Selector": selector_at("spec.podSelector"),
        "Age": age,
    },
    ("networking.k8s.io", "IPAddress"): {"Name": name, "ParentRef": parent, "Age": age},
    ("networking.k8s.io", "ServiceCIDR"): {"Name": name, "CIDRs": joined("spec.cidrs"), "Age": age},
}
