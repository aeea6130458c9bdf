"""The desired Service, Endpoints and EndpointSlice `kubernetes`, by which Pods find the API. Pure.

Behaviour: kubernetes `pkg/controlplane/controller/kubernetesservice` and `pkg/controlplane/reconcilers`.
"""

from collections.abc import Collection
from typing import Any

NAMESPACE, NAME = "default", "kubernetes"
SKIP_MIRROR = "endpointslice.kubernetes.io/skip-mirror"
SERVICE_PORT = 443
Object = dict[str, Any]
Server = tuple[str, int]
"""An IPv4 address and a port at which Pods reach the API."""


def service(address: str, port: int) -> Object:
    """Return the Service.

    Args:
        address: Its cluster IP.
        port: Port at which the API is served.
    """
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata({"component": "apiserver", "provider": "kubernetes"}),
        "spec": {
            "ports": [{"name": "https", "protocol": "TCP", "port": SERVICE_PORT, "targetPort": port}],
            "clusterIP": address,
            "ipFamilyPolicy": "SingleStack",
            "sessionAffinity": "None",
            "type": "ClusterIP",
        },
    }


def endpoints(found: Object | None, servers: Collection[Server]) -> Object:
    """Return the desired Endpoints; `found` itself if they are correct.

    Args:
        found: The current Endpoints, or None if there are none.
        servers: All processes that serve the API, at least one.
    """
    old = found or {"apiVersion": "v1", "kind": "Endpoints", "metadata": _metadata({})}
    metadata = old["metadata"]
    labels = metadata.get("labels") or {}
    addresses = sorted({address for address, _ in servers})
    if found is not None and labels.get(SKIP_MIRROR) == "true" and _names(found, addresses, servers):
        return found
    ports = [_port(min(servers)[1])]
    return {
        **old,
        "metadata": {**metadata, "labels": {**labels, SKIP_MIRROR: "true"}},
        "subsets": [{"addresses": [{"ip": each} for each in addresses], "ports": ports}],
    }


def endpoint_slice(found: Object | None, wanted: Object) -> Object:
    """Return the desired EndpointSlice; `found` itself if it is correct.

    Args:
        found: The current EndpointSlice, or None if there is none.
        wanted: The Endpoints that `endpoints` returned.
    """
    (subset,) = wanted["subsets"]
    addresses = {
        "endpoints": [
            {"addresses": [each["ip"]], "conditions": {"ready": True}} for each in subset["addresses"]
        ],
        "ports": subset["ports"],
    }
    labels = {"kubernetes.io/service-name": NAME}
    if found is not None:
        same = all(found.get(key) == value for key, value in addresses.items())
        if same and found["metadata"].get("labels") == labels:
            return found
    head = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4"}
    return {**head, "metadata": _metadata(labels), **addresses}


def _names(found: Object, addresses: list[str], servers: Collection[Server]) -> bool:
    """Tell whether Endpoints have exactly these addresses and the port of one of the servers."""
    subsets = found.get("subsets") or []
    if len(subsets) != 1:
        return False
    current = sorted(each.get("ip", "") for each in subsets[0].get("addresses") or [])
    return current == addresses and subsets[0].get("ports") in [[_port(port)] for _, port in servers]


def _port(number: int) -> Object:
    return {"name": "https", "port": number, "protocol": "TCP"}


def _metadata(labels: dict[str, str]) -> Object:
    return {"name": NAME, "namespace": NAMESPACE, "labels": labels}
