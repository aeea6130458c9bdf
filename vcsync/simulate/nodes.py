"""Hollow nodes: what they are made of, and what their kubelets say of them. Pure."""

from datetime import datetime
from typing import Any

from msgspec import Struct

HOST_NAME = "kubernetes.io/hostname"
KUBELET = "v1.36.3"
NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"


class Shape(Struct, frozen=True):
    """What every node can hold, as Kubernetes quantities."""

    cpu: str = "32"
    memory: str = "128Gi"
    pods: str = "500"
    storage: str = "1Ti"


def node_name(index: int) -> str:
    """Return the name of the n-th node, from 0."""
    return f"node-{index}"


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


def node_status(index: int, shape: Shape, ready: bool, now: datetime) -> dict[str, Any]:
    """Return a node's status; one that is not ready has lost its kubelet."""
    amounts = {
        "cpu": shape.cpu,
        "memory": shape.memory,
        "pods": shape.pods,
        "ephemeral-storage": shape.storage,
    }
    return {
        "capacity": amounts,
        "allocatable": amounts,
        "addresses": [
            {"type": "InternalIP", "address": address(index)},
            {"type": "Hostname", "address": node_name(index)},
        ],
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
        "conditions": conditions(ready, now),
    }


def conditions(ready: bool, now: datetime) -> list[dict[str, str]]:
    """Return a node's conditions."""
    time = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    table = (
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    )
    return [
        {
            "type": type_,
            "status": status if ready else "Unknown",
            "reason": reason if ready else "NodeStatusUnknown",
            "message": message if ready else "Kubelet stopped posting node status.",
            "lastHeartbeatTime": time,
            "lastTransitionTime": time,
        }
        for type_, status, reason, message in table
    ]


def tainted(taints: list[dict[str, Any]], *, down: bool) -> list[dict[str, Any]]:
    """Return a node's taints as its cluster's node controller would have them."""
    kept = [each for each in taints if each.get("key") not in (NOT_READY, UNREACHABLE)]
    if not down:
        return kept
    return [*kept, *({"key": UNREACHABLE, "effect": effect} for effect in ("NoSchedule", "NoExecute"))]
