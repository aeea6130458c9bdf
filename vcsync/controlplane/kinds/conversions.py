"""Built-in kinds that are served in versions of different shape: views of one object. Pure.

Source: Kubernetes' `pkg/apis/{autoscaling/v1,events/v1}/conversion.go`. What an older version has no place for stands in
annotations there.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from vcsync.controlplane.behaviour import Object

_EVENT_FIELDS = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_NEWER_FIELDS = {newer: older for older, newer in _EVENT_FIELDS.items()}
_PREFIX = "autoscaling.alpha.kubernetes.io/"
_METRICS, _CURRENT = f"{_PREFIX}metrics", f"{_PREFIX}current-metrics"
_CONDITIONS, _BEHAVIOR = f"{_PREFIX}conditions", f"{_PREFIX}behavior"
_SCALER_STATUS = ("observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas")

_TARGETS = {
    "resource": {"averageUtilization": "targetAverageUtilization", "averageValue": "targetAverageValue"},
    "containerResource": {
        "averageUtilization": "targetAverageUtilization",
        "averageValue": "targetAverageValue",
    },
    "pods": {"averageValue": "targetAverageValue"},
    "object": {"value": "targetValue", "averageValue": "averageValue"},
    "external": {"value": "targetValue", "averageValue": "targetAverageValue"},
}
"""Where autoscaling/v1 has what stands in a metric's target in v2."""
_TYPES = {"averageUtilization": "Utilization", "averageValue": "AverageValue", "value": "Value"}


def event(obj: Object, api_version: str) -> Object:
    """Turn an Event into the other API's form."""
    names = _NEWER_FIELDS if api_version == "v1" else _EVENT_FIELDS
    return {**{names.get(key, key): value for key, value in obj.items()}, "apiVersion": api_version}


def autoscaler(obj: Object, api_version: str) -> Object:
    """Turn a HorizontalPodAutoscaler into the other version."""
    return _older(obj) if api_version == "autoscaling/v1" else _newer(obj)


def _older(obj: Object) -> Object:
    spec, status = dict(obj.get("spec") or {}), dict(obj.get("status") or {})
    metadata = {**obj["metadata"]}
    annotations = dict(metadata.get("annotations") or {})
    others = []
    for metric in spec.pop("metrics", None) or ():
        percent = _cpu(metric, "target")
        if percent is not None and "targetCPUUtilizationPercentage" not in spec:
            spec["targetCPUUtilizationPercentage"] = percent
        else:
            others.append(_older_metric(metric))
    kept = {key: status[key] for key in _SCALER_STATUS if key in status}
    current = []
    for metric in status.get("currentMetrics") or ():
        percent = _cpu(metric, "current")
        if percent is not None:
            kept["currentCPUUtilizationPercentage"] = percent
        current.append(metric)
    told = {
        _METRICS: others,
        _CURRENT: current,
        _CONDITIONS: status.get("conditions"),
        _BEHAVIOR: spec.pop("behavior", None),
    }
    for key, value in told.items():
        if value:
            annotations[key] = json.dumps(value, separators=(",", ":"))
    if annotations:
        metadata["annotations"] = annotations
    return {**obj, "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": kept}


def _newer(obj: Object) -> Object:
    spec, status = dict(obj.get("spec") or {}), dict(obj.get("status") or {})
    metadata = {**obj["metadata"]}
    annotations = dict(metadata.get("annotations") or {})
    metrics = [_newer_metric(each) for each in _told(annotations, _METRICS)]
    percent = spec.pop("targetCPUUtilizationPercentage", None)
    if percent is not None:
        target = {"type": "Utilization", "averageUtilization": percent}
        metrics.insert(0, {"type": "Resource", "resource": {"name": "cpu", "target": target}})
    behavior = _told(annotations, _BEHAVIOR)
    current, conditions = _told(annotations, _CURRENT), _told(annotations, _CONDITIONS)
    status.pop("currentCPUUtilizationPercentage", None)
    for owner, key, value in (
        (spec, "metrics", metrics),
        (spec, "behavior", behavior),
        (status, "currentMetrics", current),
        (status, "conditions", conditions),
    ):
        if value:
            owner[key] = value
    metadata.pop("annotations", None)
    if annotations:
        metadata["annotations"] = annotations
    return {**obj, "apiVersion": "autoscaling/v2", "metadata": metadata, "spec": spec, "status": status}


def _cpu(metric: Object, where: str) -> Any:
    resource = metric.get("resource") or {}
    if metric.get("type") != "Resource" or resource.get("name") != "cpu":
        return None
    return (resource.get(where) or {}).get("averageUtilization")


def _told(annotations: dict[str, Any], key: str) -> Any:
    text = annotations.pop(key, None)
    try:
        found = json.loads(text) if text else []
    except (ValueError, RecursionError):
        return []
    return found if isinstance(found, list | dict) else []


def _member(metric: Object) -> str:
    kind = str(metric.get("type") or "")
    return kind[:1].lower() + kind[1:]


def _older_metric(metric: Object) -> Object:
    member = _member(metric)
    source = dict(metric.get(member) or {})
    target, about = source.pop("target", None) or {}, source.pop("metric", None)
    if "describedObject" in source:
        source["target"] = source.pop("describedObject")
    if about:
        source["metricName"] = about.get("name", "")
        if about.get("selector"):
            source["metricSelector" if member == "external" else "selector"] = about["selector"]
    for key, older in _TARGETS.get(member, {}).items():
        if key in target:
            source[older] = target[key]
    return {"type": metric.get("type"), member: source}


def _newer_metric(metric: Any) -> Object:
    metric = metric if isinstance(metric, dict) else {}
    member = _member(metric)
    found = metric.get(member)
    source = dict(found) if isinstance(found, dict) else {}
    if member == "object" and "target" in source:
        source["describedObject"] = source.pop("target")
    target: Object = {}
    for key, older in _TARGETS.get(member, {}).items():
        if older in source:
            target = {"type": _TYPES[key], key: source.pop(older)}
    if "metricName" in source:
        about: Object = {"name": source.pop("metricName")}
        for key in ("selector", "metricSelector"):
            if key in source:
                about["selector"] = source.pop(key)
        source["metric"] = about
    return {"type": metric.get("type"), member: {**source, "target": target}}


CONVERSIONS: Mapping[tuple[str, str], Callable[[Object, str], Object]] = {
    ("", "Event"): event,
    ("autoscaling", "HorizontalPodAutoscaler"): autoscaler,
}
"""(storage group, kind) -> (object, wanted apiVersion) -> the object in that version."""
