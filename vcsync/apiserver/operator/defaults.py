"""The default objects of a control plane, as templates that are filled in for each tenant. Pure.

The objects are those of a fresh kube-apiserver 1.36, without the traces of its own process.
"""

import os
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import msgspec

from vcsync.api.networks import DEFAULT_NETWORK, NETWORKS, NetworkSpec
from vcsync.apimachinery.resources import custom_group, object_key
from vcsync.apiserver.authorization import bootstrap, policy
from vcsync.apiserver.storage.interface import Put
from vcsync.apiserver.tenants import api_service_priorities
from vcsync.apiserver.tenants import flow_defaults as flowcontrol

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
SERVICE_CIDR = "10.0.0.0/16"
SERVICE_ADDRESS = "10.0.0.1"
"""The cluster IP of `kubernetes.default`."""

NOW, TODAY, UID, ADDRESS, AUTHORITY = "@now@", "@today@", "@uid@", "@address@", "@authority@"
PORT = 99999
"""Placeholder of the port in templates."""

AUTHENTICATION_CONFIG = ("kube-system", "extension-apiserver-authentication")

_SYSTEM_PRIORITIES = (
    (
        "system-cluster-critical",
        2000000000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
    (
        "system-node-critical",
        2000001000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
)
_UID = UID.encode()
_MARKS = re.compile(rb"(@now@|@today@|@uid@|@address@|@authority@|99999)")


def default_puts(tenant: str, *, now: str, address: str, port: int, authority: str) -> list[Put]:
    """Return the writes of a tenant's default objects.

    Args:
        tenant: whose.
        now: RFC 3339 time in whole seconds.
        address: IP address at which Pods reach the API.
        port: port there.
        authority: PEM certificate of the tenant's authority.
    """
    values: Mapping[bytes, bytes] = {
        NOW.encode(): now.encode(),
        TODAY.encode(): now[:10].encode(),
        ADDRESS.encode(): address.encode(),
        str(PORT).encode(): str(port).encode(),
        AUTHORITY.encode(): msgspec.json.encode(authority)[1:-1],
    }
    filled = values.get
    templates = _templates()
    uids = _uids(len(templates))
    return [
        Put(
            f"{tenant}/{suffix}",
            b"".join([next(uids) if part == _UID else filled(part, part) for part in parts]),
        )
        for suffix, parts in templates
    ]


def network_put(tenant: str, network: NetworkSpec, *, now: str) -> Put:
    """Return the write of a tenant's network `default`.

    Args:
        tenant: whose.
        network: its spec.
        now: RFC 3339 time in whole seconds.
    """
    metadata = {
        "name": DEFAULT_NETWORK,
        "uid": next(_uids(1)).decode(),
        "generation": 1,
        "creationTimestamp": now,
    }
    spec = {"type": network.type} | ({} if network.vpc_id is None else {"vpcID": network.vpc_id})
    key = object_key(tenant, custom_group(NETWORKS.group), NETWORKS.plural, "", DEFAULT_NETWORK)
    return Put(key, msgspec.json.encode({"metadata": metadata, "spec": spec}))


def _uids(count: int) -> Iterator[bytes]:
    """Yield random UUIDs (RFC 9562, version 4). They are generated together: one by one they take half the time of a tenant."""
    digits = os.urandom(16 * count).hex()
    for start in range(0, 32 * count, 32):
        one = digits[start : start + 32]
        variant = "89ab"[int(one[16], 16) & 3]
        yield f"{one[:8]}-{one[8:12]}-4{one[13:16]}-{variant}{one[17:20]}-{one[20:]}".encode()


@cache
def _templates() -> tuple[tuple[str, tuple[bytes, ...]], ...]:
    """Return, for every object, its key without the tenant and its bytes, split where values are filled in."""
    found = []
    for group, plural, body in _objects():
        metadata = dict(body["metadata"])
        key = object_key("", group, plural, metadata.get("namespace", ""), metadata["name"]).removeprefix("/")
        whole = {"metadata": {**metadata, "uid": UID, "creationTimestamp": NOW}}
        whole |= {field: value for field, value in body.items() if field != "metadata"}
        found.append((key, tuple(_MARKS.split(msgspec.json.encode(whole)))))
    return tuple(found)


def _objects() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield (group, plural, object) for every object, in its stored form without uid and creation time."""
    for name in NAMESPACES:
        yield (
            "",
            "namespaces",
            {
                "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
                "spec": {"finalizers": ["kubernetes"]},
                "status": {"phase": "Active"},
            },
        )
    for plural, body in bootstrap.default_objects():
        yield policy.GROUP, plural, body
    for plural, body in flowcontrol.objects(NOW):
        yield flowcontrol.GROUP, plural, body
    for name, value, description in _SYSTEM_PRIORITIES:
        yield (
            "scheduling.k8s.io",
            "priorityclasses",
            {
                "metadata": {"name": name, "generation": 1},
                "value": value,
                "description": description,
                "preemptionPolicy": "PreemptLowerPriority",
            },
        )
    yield from _api_services()
    yield from _network()
    yield from _config_maps()


def _api_services() -> Iterator[tuple[str, str, dict[str, Any]]]:
    condition = {
        "type": "Available",
        "status": "True",
        "lastTransitionTime": NOW,
        "reason": "Local",
        "message": "Local APIServices are always available",
    }
    for version, group, group_priority, version_priority in api_service_priorities.BUILTIN:
        spec: dict[str, Any] = {
            "version": version,
            "groupPriorityMinimum": group_priority,
            "versionPriority": version_priority,
        }
        if group:
            spec["group"] = group
        labels = {"kube-aggregator.kubernetes.io/automanaged": "onstart"}
        yield (
            "apiregistration.k8s.io",
            "apiservices",
            {
                "metadata": {"name": f"{version}.{group}", "labels": labels},
                "spec": spec,
                "status": {"conditions": [condition]},
            },
        )


def _network() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the Service, Endpoints and EndpointSlice by which Pods find the API."""
    port = {"name": "https", "protocol": "TCP", "port": PORT}
    named = {"name": "kubernetes", "namespace": "default"}
    yield (
        "",
        "services",
        {
            "metadata": {**named, "labels": {"component": "apiserver", "provider": "kubernetes"}},
            "spec": {
                "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": PORT}],
                "clusterIP": SERVICE_ADDRESS,
                "clusterIPs": [SERVICE_ADDRESS],
                "type": "ClusterIP",
                "sessionAffinity": "None",
                "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack",
                "internalTrafficPolicy": "Cluster",
            },
            "status": {"loadBalancer": {}},
        },
    )
    yield (
        "",
        "endpoints",
        {
            "metadata": {**named, "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
            "subsets": [{"addresses": [{"ip": ADDRESS}], "ports": [port]}],
        },
    )
    yield (
        "discovery.k8s.io",
        "endpointslices",
        {
            "metadata": {**named, "generation": 1, "labels": {"kubernetes.io/service-name": "kubernetes"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [ADDRESS], "conditions": {"ready": True}}],
            "ports": [port],
        },
    )
    condition = {
        "type": "Ready",
        "status": "True",
        "lastTransitionTime": NOW,
        "reason": "",
        "message": "Kubernetes default Service CIDR is ready",
    }
    yield (
        "networking.k8s.io",
        "servicecidrs",
        {
            "metadata": {"name": "kubernetes"},
            "spec": {"cidrs": [SERVICE_CIDR]},
            "status": {"conditions": [condition]},
        },
    )
    labels = {
        "ipaddress.kubernetes.io/ip-family": "IPv4",
        "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
    }
    yield (
        "networking.k8s.io",
        "ipaddresses",
        {
            "metadata": {"name": SERVICE_ADDRESS, "labels": labels},
            "spec": {"parentRef": {"resource": "services", **named}},
        },
    )


def _config_maps() -> Iterator[tuple[str, str, dict[str, Any]]]:
    namespace, name = AUTHENTICATION_CONFIG
    yield (
        "",
        "configmaps",
        {
            "metadata": {"name": name, "namespace": namespace},
            "data": {"client-ca-file": AUTHORITY},
        },
    )
    tracking = "kube-apiserver-legacy-service-account-token-tracking"
    yield (
        "",
        "configmaps",
        {
            "metadata": {"name": tracking, "namespace": namespace},
            "data": {"since": TODAY},
        },
    )
