"""The cell of an autoscaler's metrics: what they are and what they shall be. Pure."""

from collections.abc import Sequence
from datetime import datetime

from vcsync.controlplane.wire.printers.cells import NONE, UNKNOWN, Object, look

SHOWN = 2
"""Metrics that are told; the rest is counted."""

MEMBERS = {
    "External": "external",
    "Pods": "pods",
    "Object": "object",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}


def metrics(obj: Object, _: datetime) -> str:
    """Tell the metrics of an autoscaler: `cpu: 10%/50%, 5/10 (avg) + 1 more...`."""
    specs, current = look(obj, "spec.metrics", ()), look(obj, "status.currentMetrics", ())
    texts = [_metric(spec, current[at : at + 1]) for at, spec in enumerate(specs)]
    shown = ", ".join(texts[:SHOWN]) or NONE
    return f"{shown} + {len(texts) - SHOWN} more..." if len(texts) > SHOWN else shown


def _metric(spec: Object, statuses: Sequence[Object]) -> str:
    member = MEMBERS.get(spec.get("type", ""))
    if member is None:
        return "<unknown type>"
    target = look(spec, f"{member}.target", {})
    current = look(statuses[0], f"{member}.current", {}) if statuses else {}
    known = bool(statuses) and look(statuses[0], member) is not None
    if member in ("resource", "containerResource"):
        return f"{look(spec, f'{member}.name', '')}: {_resource(target, current, known)}"
    if member == "pods":
        return f"{_value(current, 'averageValue', known)}/{target.get('averageValue', '0')}"
    if "averageValue" in target:
        return f"{current.get('averageValue', UNKNOWN)}/{target['averageValue']} (avg)"
    return f"{_value(current, 'value', known)}/{target.get('value', '<nil>')}"


def _resource(target: Object, current: Object, known: bool) -> str:
    if "averageValue" in target:
        return f"{_value(current, 'averageValue', known)}/{target['averageValue']}"
    wanted = f"{target['averageUtilization']}%" if "averageUtilization" in target else "<auto>"
    found = f"{current['averageUtilization']}%" if "averageUtilization" in current else UNKNOWN
    return f"{found}/{wanted}"


def _value(current: Object, key: str, known: bool) -> str:
    return str(current.get(key, "<nil>")) if known else UNKNOWN
