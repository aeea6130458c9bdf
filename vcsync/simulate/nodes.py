"""Hollow nodes: their objects, and the reports of their kubelets. Pure.

The annotation `hollow.tenancy.x-k8s.io/state` sets the simulated state of a node: `down` (its kubelet stops reporting),
`memory-pressure` or `disk-pressure`; without it the node is healthy.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from vcsync.objects.conditions import Condition
from vcsync.objects.envelope import Envelope, untyped
from vcsync.objects.times import time_text

HOST_NAME = "kubernetes.io/hostname"
KUBELET = "v1.36.3"
DOWN, MEMORY, DISK = "down", "memory-pressure", "disk-pressure"
STATES = (DOWN, MEMORY, DISK)
FEATURES = ("ExtendWebSocketsToKubelet",)
"""Declared features of kubelets that API servers check: WebSockets."""


class Shape(Struct, frozen=True):
    """The capacity of every node, as Kubernetes quantities."""

    cpu: str = "32"
    memory: str = "128Gi"
    pods: str = "500"
    storage: str = "1Ti"


def node_name(index: int) -> str:
    """Return the name of the n-th node, from 0."""
    return f"node-{index}"


def index_of(name: str, count: int) -> int | None:
    """Return the index of a hollow node by its name; None: no node of this number of nodes has the name."""
    digits = name.removeprefix("node-")
    known = digits.isascii() and digits.isdigit() and int(digits) < count and name == node_name(int(digits))
    return int(digits) if known else None


def is_beyond(node: Envelope, count: int) -> bool:
    """Return whether a node is a hollow one beyond this number of nodes."""
    digits = node.name.removeprefix("node-")
    numbered = digits.isascii() and digits.isdigit() and node.name == node_name(int(digits))
    status = untyped(node.status)
    return numbered and int(digits) >= count and (status.get("nodeInfo") or {}).get("osImage") == "hollow"


def address(index: int) -> str:
    """Return a node's address."""
    return f"172.{16 + index // 65536 % 16}.{index // 256 % 256}.{index % 256}"


def node(index: int) -> dict[str, Any]:
    """Return a node as its kubelet registers it."""
    name = node_name(index)
    return {
        "metadata": {
            "name": name,
            "labels": {
                HOST_NAME: name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "beta.kubernetes.io/os": "linux",
                "beta.kubernetes.io/arch": "amd64",
            },
        },
        "spec": {},
    }


def node_status(index: int, shape: Shape, endpoint: tuple[str, int] | None) -> dict[str, Any]:
    """Return a node's status without its conditions.

    Args:
        index: number of the node.
        shape: its capacity.
        endpoint: address of the kubelet's server; None: none.
    """
    amounts = {
        "cpu": shape.cpu,
        "memory": shape.memory,
        "pods": shape.pods,
        "ephemeral-storage": shape.storage,
    }
    addresses = [
        {"type": "InternalIP", "address": address(index)},
        {"type": "Hostname", "address": node_name(index)},
    ]
    status: dict[str, Any] = {
        "capacity": amounts,
        "allocatable": amounts,
        "addresses": addresses,
        "nodeInfo": {
            "machineID": "",
            "systemUUID": "",
            "bootID": "",
            "kernelVersion": "hollow",
            "osImage": "hollow",
            "containerRuntimeVersion": "hollow://1",
            "kubeletVersion": KUBELET,
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": "amd64",
        },
    }
    if endpoint is not None:
        host, port = endpoint
        addresses.append({"type": "ExternalIP", "address": host})
        status["daemonEndpoints"] = {"kubeletEndpoint": {"Port": port}}
        status["declaredFeatures"] = list(FEATURES)
    return status


def conditions(state: str, now: datetime, before: Sequence[Condition] = ()) -> list[dict[str, str]]:
    """Return a node's conditions. A node that is down has unknown ones, as its cluster's node controller would set them.

    Args:
        state: one of `STATES`; empty: healthy.
        now: the current time.
        before: the former conditions.
    """
    time = time_text(now)
    since = {(each.type, each.status): each.last_transition_time for each in before}
    reported = []
    for type_, row in _CONDITIONS.items():
        status, reason, message = row.get(state) or row[""]
        if state == DOWN:
            status, reason, message = "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status."
        reported.append(
            {
                "type": type_,
                "status": status,
                "reason": reason,
                "message": message,
                "lastHeartbeatTime": time,
                "lastTransitionTime": since.get((type_, status)) or time,
            }
        )
    return reported


_CONDITIONS: Mapping[str, Mapping[str, tuple[str, str, str]]] = {
    "Ready": {"": ("True", "KubeletReady", "kubelet is posting ready status")},
    "MemoryPressure": {
        "": ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        MEMORY: ("True", "KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
    },
    "DiskPressure": {
        "": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        DISK: ("True", "KubeletHasDiskPressure", "kubelet has disk pressure"),
    },
    "PIDPressure": {"": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available")},
}
