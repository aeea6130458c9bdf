"""Classes and a definition that an operator publishes to tenants, and the devices of a driver that does not exist. Pure."""

from __future__ import annotations

from typing import Any

from vcsync.api import names

Json = dict[str, Any]

PUBLIC: Json = {"labels": {names.SUPER_PUBLIC: names.TRUE}}
INGRESS = "public"
PRIORITY = "urgent"
RUNTIME = "sandbox"
DRIVER = "gpus.example.com"
"""The operator's driver, which tenants must not learn of."""
DEVICE = "gpu-in-rack-seven"
"""Prefix of the names of its devices."""
_DEVICES = "resource.k8s.io/v1"

CLASSES: tuple[Json, ...] = (
    {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "IngressClass",
        "metadata": {"name": INGRESS, **PUBLIC},
        "spec": {"controller": "example.com/controller"},
    },
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": PRIORITY, **PUBLIC},
        "value": 1000,
        "preemptionPolicy": "Never",
    },
    {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": RUNTIME, **PUBLIC},
        "handler": "sandbox",
    },
)
"""Published classes without state."""

GAUGES: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gauges.published.example.com", **PUBLIC},
    "spec": {
        "group": "published.example.com",
        "names": {"kind": "Gauge", "plural": "gauges"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}
"""A definition that a super cluster publishes."""


def device_class(name: str) -> Json:
    """Return a published DeviceClass with all devices of the driver."""
    expression = f'device.driver == "{DRIVER}"'
    return {
        "apiVersion": _DEVICES,
        "kind": "DeviceClass",
        "metadata": {"name": name, **PUBLIC},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }


def resource_slice(node: str, devices: int) -> Json:
    """Return the devices of a node, as the driver reports them.

    Args:
        node: name of the node.
        devices: number of its devices.
    """
    found = [
        {"name": f"{DEVICE}-{number}", "attributes": {"model": {"string": "large" if number else "small"}}}
        for number in range(devices)
    ]
    return {
        "apiVersion": _DEVICES,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-gpus"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": found,
        },
    }
