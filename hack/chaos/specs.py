"""Parts of objects that simulated users write. Pure."""

from collections.abc import Sequence
from typing import Any

Json = dict[str, Any]


def namespace_selectors(namespace: str, team: str) -> tuple[Json, ...]:
    """Return selectors of namespaces: all, those of a team by label, one by its name, and some by an expression."""
    return (
        {},
        {"matchLabels": {"team": team}},
        {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        {"matchExpressions": [{"key": "team", "operator": "In", "values": ["t1", "t2"]}]},
    )


def rule(host: str, service: str) -> Json:
    """Return the rule of an Ingress that sends all requests for a host to a Service."""
    backend = {"service": {"name": service, "port": {"number": 80}}}
    return {"host": host, "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}


def volume_claim(storage_class: str, amount: str) -> Json:
    """Return the spec of a claim to a volume of a StorageClass."""
    return {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        **resources_of_claim(amount),
    }


def resources_of_claim(amount: str) -> Json:
    """Return the part of a claim that may grow."""
    return {"resources": {"requests": {"storage": amount}}}


def device_claim(device_class: str) -> Json:
    """Return the spec of a claim to one device of a DeviceClass."""
    return {"devices": {"requests": [{"name": "one", "exactly": {"deviceClassName": device_class}}]}}


def pod(marker: str, *, claims: Sequence[str] = (), devices: Json | None = None, mounts: str = "") -> Json:
    """Return the spec of a Pod that uses volumes or a device.

    Args:
        marker: text of the tenant's.
        claims: names of claims to volumes.
        devices: source of its claim to devices.
        mounts: volume that its StatefulSet adds.
    """
    container: Json = {
        "name": "main",
        "image": "registry.example/app:1",
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
        "env": [{"name": "MARKER", "value": marker}],
        "volumeMounts": [{"name": name, "mountPath": f"/{name}"} for name in (*claims, mounts) if name],
    }
    spec: Json = {
        "containers": [container],
        "terminationGracePeriodSeconds": 1,
        "volumes": [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims],
    }
    if devices is not None:
        spec["resourceClaims"] = [{"name": "device", **devices}]
        container["resources"]["claims"] = [{"name": "device"}]
    return spec
