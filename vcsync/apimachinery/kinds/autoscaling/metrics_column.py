"""The cell of an autoscaler's metrics: current and target values. Pure."""

from collections.abc import Sequence
from datetime import datetime

from vcsync.apimachinery.wire import cells

SHOWN = 2
"""Number of metrics that the cell shows. It only counts the others."""
MEMBERS = {
    "External": "external",
    "Pods": "pods",
    "Object": "object",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}


def metrics(obj: cells.Object, _: datetime) -> str:
    """Return the metrics of an autoscaler, such as `cpu: 10%/50%, 5/10 (avg) + 1 more...`."""
    specs, current = cells.look(obj, "spec.metrics", ()), cells.look(obj, "status.currentMetrics", ())
    texts = [_metric(spec, current[at : at + 1]) for at, spec in enumerate(specs)]
    shown = ", ".join(texts[:SHOWN]) or cells.NONE
    return f"{shown} + {len(texts) - SHOWN} more..." if len(texts) > SHOWN else shown


def _metric(spec: cells.Object, statuses: Sequence[cells.Object]) -> str:
    member = MEMBERS.get(spec.get("type", ""))
    if member is None:
        return "<unknown type>"
    target = cells.look(spec, f"{member}.target", {})
    current = cells.look(statuses[0], f"{member}.current", {}) if statuses else {}
    known = bool(statuses) and cells.look(statuses[0], member) is not None
    if member in ("resource", "containerResource"):
        return f"{cells.look(spec, f'{member}.name', '')}: {_resource(target, current, known)}"
    if member == "pods":
        return f"{_value(current, 'averageValue', known)}/{target.get('averageValue', '0')}"
    if "averageValue" in target:
        return f"{current.get('averageValue', cells.UNKNOWN)}/{target['averageValue']} (avg)"
    return f"{_value(current, 'value', known)}/{target.get('value', '<nil>')}"


def _resource(target: cells.Object, current: cells.Object, known: bool) -> str:
    if "averageValue" in target:
        return f"{_value(current, 'averageValue', known)}/{target['averageValue']}"
    wanted = f"{target['averageUtilization']}%" if "averageUtilization" in target else "<auto>"
    found = f"{current['averageUtilization']}%" if "averageUtilization" in current else cells.UNKNOWN
    return f"{found}/{wanted}"


def _value(current: cells.Object, key: str, known: bool) -> str:
    return str(current.get(key, "<nil>")) if known else cells.UNKNOWN
