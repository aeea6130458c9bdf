"""The shape of OpenCost's `/allocation` API (https://opencost.io/docs/integrations/api). Pure.

OpenCost has fields for the resources of Pods and for network traffic. The cost of requests, watches and stored objects is
the external cost.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from vcsync.cli.usage.amounts import SECONDS_PER_HOUR, Interval, costs
from vcsync.cli.usage.pods import PodInterval, pod_costs
from vcsync.objects.times import time_text

OK = 200
NETWORK = ("bytesIn", "bytesOut")
"""Prices of network traffic. All others are external costs."""

_POD_FIELDS = (
    "cpuCores", "cpuCoreHours", "cpuCost", "gpuHours", "gpuCost", "ramBytes", "ramByteHours", "ramCost",
    "pvBytes", "pvByteHours", "pvCost", "loadBalancerCost", "sharedCost",
)  # fmt: skip


def allocations(used: Sequence[Interval], prices: Mapping[str, Decimal]) -> dict[str, Any]:
    """Return an answer of the API: one set of allocations for each window, with one allocation for each tenant."""
    windows: dict[tuple[str, str], dict[str, Any]] = {}
    for each in used:
        window = windows.setdefault((time_text(each.begin), time_text(each.end)), {})
        # A later tenant of the same name has an allocation of its own.
        name = each.tenant if each.tenant not in window else f"{each.tenant}/{each.uid}"
        window[name] = _allocation(name, each, prices)
    return {"code": OK, "status": "success", "data": list(windows.values())}


def pod_allocations(
    used: Sequence[PodInterval], prices: Mapping[str, Mapping[str, Decimal]]
) -> dict[str, Any]:
    """Return an answer of the API: one allocation for each tenant, super cluster and class of Pods in each window.

    Args:
        used: What Pods took.
        prices: Prices by id of the super cluster and name of the resource.
    """
    windows: dict[tuple[str, str], dict[str, Any]] = {}
    for each in used:
        window = windows.setdefault((time_text(each.begin), time_text(each.end)), {})
        name = f"{each.super_cluster}/{each.tenant}/{each.pod_class}"
        window[name] = _pod_allocation(name, each, prices.get(each.super_cluster, {}))
    return {"code": OK, "status": "success", "data": list(windows.values())}


def _pod_allocation(name: str, used: PodInterval, prices: Mapping[str, Decimal]) -> dict[str, Any]:
    found = pod_costs(used, prices)
    hours = Decimal((used.end - used.begin).total_seconds()) / SECONDS_PER_HOUR
    cores, ram = used.cpu_core_seconds / SECONDS_PER_HOUR, used.memory_byte_seconds / SECONDS_PER_HOUR
    window = {"start": time_text(used.begin), "end": time_text(used.end)}
    return {
        "name": name,
        "properties": {
            "cluster": used.super_cluster,
            "labels": {"tenant": used.tenant, "key": used.key, "class": used.pod_class},
        },
        "window": window,
        **window,
        "minutes": float(hours * 60),
        **dict.fromkeys(_POD_FIELDS, 0),
        "cpuCores": float(cores / hours),
        "cpuCoreHours": float(cores),
        "cpuCost": float(found.get("cpu", 0)),
        "ramBytes": float(ram / hours),
        "ramByteHours": float(ram),
        "ramCost": float(found.get("memory", 0)),
        "networkReceiveBytes": 0,
        "networkTransferBytes": 0,
        "networkCost": 0,
        "externalCost": 0,
        "totalCost": float(sum(found.values(), Decimal())),
    }


def _allocation(name: str, used: Interval, prices: Mapping[str, Decimal]) -> dict[str, Any]:
    found = costs(used, prices)
    network = sum((cost for price, cost in found.items() if price in NETWORK), Decimal())
    total = sum(found.values(), Decimal())
    window = {"start": time_text(used.begin), "end": time_text(used.end)}
    return {
        "name": name,
        "properties": {"cluster": used.tenant, "labels": {"tenant": used.tenant, "uid": used.uid}},
        "window": window,
        **window,
        "minutes": (used.end - used.begin).total_seconds() / 60,
        **dict.fromkeys(_POD_FIELDS, 0),
        "networkReceiveBytes": used.bytes_in,
        "networkTransferBytes": used.bytes_out,
        "networkCost": float(network),
        "externalCost": float(total - network),
        "totalCost": float(total),
    }
