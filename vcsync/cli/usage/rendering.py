"""Usage as a table, CSV, JSON, or in OpenCost's shape. Pure."""

import csv
import io
from collections.abc import Mapping, Sequence
from decimal import Decimal

from vcsync.cli.command.output import document, table
from vcsync.cli.usage.amounts import Interval, costs
from vcsync.cli.usage.opencost import allocations, pod_allocations
from vcsync.cli.usage.pods import PodInterval, pod_costs
from vcsync.objects.times import time_text

MICRO = Decimal("0.000001")
Row = Mapping[str, str | int]

_COLUMNS: Mapping[str, str] = {
    "tenant": "TENANT",
    "uid": "",
    "begin": "FROM",
    "end": "TO",
    "reads": "READS",
    "writes": "WRITES",
    "bytesIn": "BYTES IN",
    "bytesOut": "BYTES OUT",
    "watchSeconds": "WATCH SECONDS",
    "objects": "OBJECTS",
    "storageBytes": "STORAGE BYTES",
}
"""Names of values, and their columns in tables. Empty: it is not in tables."""

_POD_COLUMNS: Mapping[str, str] = {
    "tenant": "TENANT",
    "key": "",
    "superCluster": "SUPER CLUSTER",
    "class": "CLASS",
    "begin": "FROM",
    "end": "TO",
    "podSeconds": "POD SECONDS",
    "cpuCoreSeconds": "CPU CORE SECONDS",
    "memoryByteSeconds": "MEMORY BYTE SECONDS",
}
_COST: Mapping[str, str] = {"cost": "COST"}


def rendered(used: Sequence[Interval], form: str, prices: Mapping[str, Decimal] | None) -> str:
    """Return usage of the API server in an output format.

    Args:
        used: What was used.
        form: `table`, `csv`, `json` or `opencost`.
        prices: Prices by name, or None to show no costs.
    """
    if form == "opencost":
        return document(allocations(used, prices or {}), "json")
    columns = _COLUMNS if prices is None else {**_COLUMNS, **_COST}
    return _in_form([_plain(each, prices) for each in used], columns, form)


def rendered_pods(used: Sequence[PodInterval], form: str, prices: Mapping[str, Mapping[str, Decimal]]) -> str:
    """Return the running time of Pods in an output format.

    Args:
        used: What Pods took.
        form: `table`, `csv`, `json` or `opencost`.
        prices: Prices by id of the super cluster and name of the resource. Costs are shown if there is any.
    """
    if form == "opencost":
        return document(pod_allocations(used, prices), "json")
    priced = any(prices.values())
    columns = {**_POD_COLUMNS, **_COST} if priced else _POD_COLUMNS
    return _in_form([_plain_pods(each, prices if priced else None) for each in used], columns, form)


def _in_form(rows: Sequence[Row], columns: Mapping[str, str], form: str) -> str:
    if form == "json":
        return document({"items": rows}, "json")
    if form == "csv":
        text = io.StringIO()
        writer = csv.DictWriter(text, list(columns), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue()
    shown = {name: column for name, column in columns.items() if column}
    return table(list(shown.values()), [[str(row[name]) for name in shown] for row in rows])


def _plain(used: Interval, prices: Mapping[str, Decimal] | None) -> Row:
    """Return an interval as plain values. Fractions are texts, so that no reader rounds them."""
    row: dict[str, str | int] = {
        "tenant": used.tenant,
        "uid": used.uid,
        "begin": time_text(used.begin),
        "end": time_text(used.end),
        "reads": used.reads,
        "writes": used.writes,
        "bytesIn": used.bytes_in,
        "bytesOut": used.bytes_out,
        "watchSeconds": f"{used.watch_seconds:.3f}",
        "objects": used.objects,
        "storageBytes": used.storage_bytes,
    }
    if prices is not None:
        row["cost"] = _sum(costs(used, prices))
    return row


def _plain_pods(used: PodInterval, prices: Mapping[str, Mapping[str, Decimal]] | None) -> Row:
    row: dict[str, str | int] = {
        "tenant": used.tenant,
        "key": used.key,
        "superCluster": used.super_cluster,
        "class": used.pod_class,
        "begin": time_text(used.begin),
        "end": time_text(used.end),
        "podSeconds": f"{used.pod_seconds:.3f}",
        "cpuCoreSeconds": f"{used.cpu_core_seconds:.6f}",
        "memoryByteSeconds": f"{used.memory_byte_seconds:.3f}",
    }
    if prices is not None:
        row["cost"] = _sum(pod_costs(used, prices.get(used.super_cluster, {})))
    return row


def _sum(found: Mapping[str, Decimal]) -> str:
    return str(sum(found.values(), Decimal()).quantize(MICRO))
