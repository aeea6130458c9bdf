"""Hollow nodes: what they are made of, and what their kubelets say of them. Pure.

How a node fares is written on it by the annotation `hollow.tenancy.x-k8s.io/state`: `down` (its kubelet falls silent),
`memory-pressure` or `disk-pressure`; without it all is well.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

HOST_NAME = "kubernetes.io/hostname"
KUBELET = "v1.36.3"
DOWN, MEMORY, DISK = "down", "memory-pressure", "disk-pressure"
STATES = (DOWN, MEMORY, DISK)
FEATURES = ("ExtendWebSocketsToKubelet",)
"""What API servers know to ask of kubelets: here, WebSockets."""


class Shape(Struct, frozen=True):
    """What every node can hold, as Kubernetes quantities."""

    cpu: str = "32"
    memory: str = "128Gi"
    pods: str = "500"
    storage: str = "1Ti"


class Condition(Struct, rename="camel"):
    """A condition of a node, as it was."""

    type: str = ""
    status: str = ""
    last_transition_time: str | None = None


def node_name(index: int) -> str:
    """Return the name of the n-th node, from 0."""
    return f"node-{index}"


def index_of(name: str, count: int) -> int | None:
    """Return which of so many hollow nodes bears a name; None: none does."""
    digits = name.removeprefix("node-")
    known = digits.isascii() and digits.isdigit() and int(digits) < count and name == node_name(int(digits))
    return int(digits) if known else None


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
    """Return a node's status but for its conditions.

    Args:
        index: which node it is.
        shape: what it holds.
        endpoint: where the kubelet serves logs and exec; None: nowhere.
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
    """Return a node's conditions; one whose kubelet is silent has unknown ones, as its cluster's controller says.

    Args:
        state: one of `STATES`; empty: all is well.
        now: the time.
        before: as they were.
    """
    time = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    since = {(each.type, each.status): each.last_transition_time for each in before}
    told = []
    for type_, row in _CONDITIONS.items():
        status, reason, message = row.get(state) or row[""]
        if state == DOWN:
            status, reason, message = "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status."
        told.append(
            {
                "type": type_,
                "status": status,
                "reason": reason,
                "message": message,
                "lastHeartbeatTime": time,
                "lastTransitionTime": since.get((type_, status)) or time,
            }
        )
    return told


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
