"""PodMetrics and NodeMetrics. Pure.

Source: `k8s.io/metrics/pkg/apis/metrics/v1beta1/types.go`, and metrics-server for what it fills in.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from vcsync.objects.quantity import InvalidQuantity, nano
from vcsync.resourcemetrics.version import GROUP, VERSION

API_VERSION = f"{GROUP}/{VERSION}"
RESOURCES = ("cpu", "memory")
"""The resources that metrics-server measures. Nothing else of an answer is passed on."""
_MILLI, _UNIT, _KIB = 10**6, 10**9, 1024


class ContainerUsage(Struct, frozen=True):
    """Usage of one container: resource -> quantity."""

    name: str
    usage: dict[str, str]


class Usage(Struct, frozen=True):
    """Usage of one Pod.

    Attributes:
        timestamp: End of the measured interval, RFC 3339.
        window: Length of the interval, as a Go duration.
        containers: Usage of its containers.
    """

    timestamp: str
    window: str
    containers: tuple[ContainerUsage, ...]

    @property
    def total(self) -> dict[str, int]:
        """Usage of all containers in billionths, by resource."""
        return {
            resource: sum(nano(each.usage[resource]) for each in self.containers if resource in each.usage)
            for resource in RESOURCES
        }


class _Metadata(Struct):
    name: str = ""
    namespace: str = ""


class _PodMetrics(Struct):
    metadata: _Metadata
    timestamp: str
    window: str
    containers: tuple[ContainerUsage, ...] | None = None


class _PodMetricsList(Struct):
    items: tuple[_PodMetrics, ...] | None = None


class Described(Struct):
    """Name and labels of a Pod or Node of the tenant."""

    name: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None


_decode = msgspec.json.Decoder(_PodMetricsList).decode


def usages(document: bytes) -> dict[str, Usage]:
    """Return the usage of the Pods of a PodMetricsList by name. Quantities that are none are left out.

    Raises:
        msgspec.MsgspecError: The document is no PodMetricsList.
    """
    return {
        each.metadata.name: cleaned(Usage(each.timestamp, each.window, each.containers or ()))
        for each in _decode(document).items or ()
    }


def usages_by_namespace(document: bytes) -> dict[str, dict[str, Usage]]:
    """Return the usage of the Pods of a PodMetricsList by namespace and name; see `usages`.

    Raises:
        msgspec.MsgspecError: The document is no PodMetricsList.
    """
    found: dict[str, dict[str, Usage]] = {}
    for each in _decode(document).items or ():
        usage = cleaned(Usage(each.timestamp, each.window, each.containers or ()))
        found.setdefault(each.metadata.namespace, {})[each.metadata.name] = usage
    return found


def cleaned(usage: Usage) -> Usage:
    """Return usage without other resources and without quantities that are none."""
    containers = tuple(
        ContainerUsage(
            each.name, {key: each.usage[key] for key in RESOURCES if _is_quantity(each.usage.get(key))}
        )
        for each in usage.containers
    )
    return Usage(usage.timestamp, usage.window, containers)


def _is_quantity(text: str | None) -> bool:
    if text is None:
        return False
    try:
        return nano(text) >= 0
    except InvalidQuantity:
        return False


def pod_metrics(pod: Described, usage: Usage, now: str) -> dict[str, Any]:
    """Return the PodMetrics of a Pod, without kind. `now`: RFC 3339."""
    return {
        "metadata": _metadata(pod, now),
        "timestamp": usage.timestamp,
        "window": usage.window,
        "containers": usage.containers,
    }


def node_metrics(node: Described, pods: Iterable[Usage], now: str) -> dict[str, Any]:
    """Return the NodeMetrics of a node, without kind: the usage of the tenant's own Pods on it.

    The interval is that of the Pod which was measured first.
    """
    measured = sorted(pods, key=lambda usage: usage.timestamp)
    totals = [usage.total for usage in measured]
    billionths = {resource: sum(each[resource] for each in totals) for resource in RESOURCES}
    first = measured[0] if measured else Usage(now, "0s", ())
    return {
        "metadata": _metadata(node, now),
        "timestamp": first.timestamp,
        "window": first.window,
        "usage": {"cpu": _cpu(billionths["cpu"]), "memory": _memory(billionths["memory"])},
    }


def _metadata(described: Described, now: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": described.name}
    if described.namespace:
        metadata["namespace"] = described.namespace
    metadata["creationTimestamp"] = now
    if described.labels:
        metadata["labels"] = described.labels
    return metadata


def _cpu(billionths: int) -> str:
    if billionths % _UNIT == 0:
        return str(billionths // _UNIT)
    return f"{billionths // _MILLI}m" if billionths % _MILLI == 0 else f"{billionths}n"


def _memory(billionths: int) -> str:
    size = -(-billionths // _UNIT)
    return f"{size // _KIB}Ki" if size and size % _KIB == 0 else str(size)


def one(kind: str, metrics: Mapping[str, Any]) -> bytes:
    """Encode one object."""
    return msgspec.json.encode({"kind": kind, "apiVersion": API_VERSION, **metrics}) + b"\n"


def many(kind: str, items: Sequence[Mapping[str, Any]]) -> bytes:
    """Encode a list of objects of a kind."""
    head = {"kind": f"{kind}List", "apiVersion": API_VERSION, "metadata": {}}
    return msgspec.json.encode({**head, "items": items}) + b"\n"
