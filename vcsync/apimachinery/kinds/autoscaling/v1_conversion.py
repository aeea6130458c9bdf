"""Conversion of HorizontalPodAutoscalers between v1 and v2. Pure.

v1 keeps the fields that it does not have in annotations.

Source: Kubernetes' `pkg/apis/autoscaling/v1/conversion.go`.
"""

import json
from typing import Any

from vcsync.apimachinery.validation.fields import Object, items, part, text

_PREFIX = "autoscaling.alpha.kubernetes.io/"
_METRICS, _CURRENT = f"{_PREFIX}metrics", f"{_PREFIX}current-metrics"
_CONDITIONS, _BEHAVIOUR = f"{_PREFIX}conditions", f"{_PREFIX}behavior"
_ANNOTATIONS = (_METRICS, _CURRENT, _CONDITIONS, _BEHAVIOUR)
_SHARED_SPEC = ("scaleTargetRef", "minReplicas", "maxReplicas")
_SHARED_STATUS = ("observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas")
_SOURCES = ("object", "pods", "resource", "containerResource", "external")
_LARGEST = 256 * 1024


def _is_cpu(metric: Object) -> bool:
    resource = part(metric, "resource")
    return (
        text(metric, "type") == "Resource"
        and text(resource, "name") == "cpu"
        and "averageUtilization" in (part(resource, "target") or part(resource, "current"))
    )


def _some(**members: Any) -> Object:
    return {key: value for key, value in members.items() if value is not None}


def _old_metric(metric: Object, what: str) -> Object:
    """Convert a metric (`what` is `target`) or its state (`current`) from v2 to the form of v1."""
    old: Object = {"type": text(metric, "type")}
    for key in _SOURCES:
        source = metric.get(key)
        if not isinstance(source, dict):
            continue
        amount, name = part(source, what), part(source, "metric")
        value, average = amount.get("value"), amount.get("averageValue")
        share = amount.get("averageUtilization")
        if key in ("resource", "containerResource"):
            if what == "current" and average is None:
                average = "0"
            old[key] = _some(name=text(source, "name")) | _some(
                **{f"{what}AverageUtilization": share, f"{what}AverageValue": average}
            )
            if key == "containerResource":
                old[key]["container"] = text(source, "container")
        elif key == "object":
            old[key] = _some(
                target=part(source, "describedObject"),
                metricName=text(name, "name"),
                selector=name.get("selector"),
                averageValue=average,
            )
            old[key][f"{what}Value"] = "0" if value is None else value
        elif key == "pods":
            old[key] = {"metricName": text(name, "name"), f"{what}AverageValue": average}
            old[key] |= _some(selector=name.get("selector"))
        else:
            old[key] = _some(metricName=text(name, "name"), metricSelector=name.get("selector")) | _some(
                **{f"{what}Value": value, f"{what}AverageValue": average}
            )
    return old


def _new_metric(old: Object, what: str) -> Object:
    """Convert a metric (`what` is `target`) or its state (`current`) from the form of v1 to v2."""
    metric: Object = {"type": text(old, "type")}
    for key in _SOURCES:
        source = old.get(key)
        if not isinstance(source, dict):
            continue
        value, average = source.get(f"{what}Value"), source.get(f"{what}AverageValue")
        share = source.get(f"{what}AverageUtilization")
        new: Object = {}
        if key in ("resource", "containerResource"):
            new["name"] = text(source, "name")
            if key == "containerResource":
                new["container"] = text(source, "container")
            if what == "current" and share is not None and average == "0":
                # v1 writes zero for a value that was not given.
                average = None
            kind = "AverageValue" if share is None else "Utilization"
        else:
            selector = source.get("metricSelector" if key == "external" else "selector")
            new["metric"] = _some(name=text(source, "metricName"), selector=selector)
            if key == "object":
                new["describedObject"] = part(source, "target")
                average = source.get("averageValue")
                value = None if average is not None and value == "0" else value
            kind = "Value" if average is None else "AverageValue"
        new[what] = _some(value=value, averageValue=average, averageUtilization=share)
        if what == "target":
            new[what]["type"] = kind
        metric[key] = new
    return metric


def _capitals(found: Any) -> Any:
    if isinstance(found, dict):
        return {f"{key[0].upper()}{key[1:]}": _capitals(value) for key, value in found.items()}
    return [_capitals(each) for each in found] if isinstance(found, list) else found


def _small(found: Any, depth: int = 0) -> Any:
    if depth > 8:
        return None
    if isinstance(found, dict):
        return {
            f"{key[:1].lower()}{key[1:]}": _small(value, depth + 1)
            for key, value in found.items()
            if value is not None
        }
    return [_small(each, depth + 1) for each in found] if isinstance(found, list) else found


_RULES = ("StabilizationWindowSeconds", "SelectPolicy", "Policies", "Tolerance")


def _written_behaviour(behaviour: Object) -> Object:
    written = {}
    for key in ("scaleUp", "scaleDown"):
        rules = behaviour.get(key)
        shown = _capitals(rules)
        written[f"S{key[1:]}"] = shown and {name: shown.get(name) for name in _RULES}
    return written


def _parsed(annotations: Object, key: str, kind: type) -> Any:
    found = annotations.get(key)
    if not isinstance(found, str) or len(found) > _LARGEST:
        return None
    try:
        parsed = json.loads(found)
    except (ValueError, RecursionError):
        return None
    if kind is list and isinstance(parsed, list):
        return parsed if all(isinstance(each, dict) for each in parsed) else None
    return parsed if isinstance(parsed, kind) else None


def to_storage(found: Object) -> Object:
    """Return the v2 form of a v1 autoscaler."""
    spec, status = part(found, "spec"), part(found, "status")
    metadata = dict(part(found, "metadata"))
    annotations = part(metadata, "annotations")
    new_spec = {key: spec[key] for key in _SHARED_SPEC if key in spec}
    others = _parsed(annotations, _METRICS, list) or []
    metrics = [_new_metric(each, "target") for each in others]
    if spec.get("targetCPUUtilizationPercentage") is not None:
        metrics.append(cpu_metric(spec["targetCPUUtilizationPercentage"]))
    new_spec["metrics"] = metrics or [cpu_metric(80)]
    behaviour = _parsed(annotations, _BEHAVIOUR, dict)
    if behaviour:
        new_spec["behavior"] = _small(behaviour)
    new = {**found, "metadata": metadata, "spec": new_spec}
    if status:
        new["status"] = _new_status(status, annotations)
    kept = {key: value for key, value in annotations.items() if key not in _ANNOTATIONS}
    metadata.pop("annotations", None)
    if kept:
        metadata["annotations"] = kept
    return new


def _new_status(status: Object, annotations: Object) -> Object:
    new = {key: status[key] for key in _SHARED_STATUS if key in status}
    current = _parsed(annotations, _CURRENT, list)
    if current:
        new["currentMetrics"] = [_new_metric(each, "current") for each in current]
    elif status.get("currentCPUUtilizationPercentage") is not None:
        share = {"averageUtilization": status["currentCPUUtilizationPercentage"]}
        new["currentMetrics"] = [{"type": "Resource", "resource": {"name": "cpu", "current": share}}]
    conditions = _parsed(annotations, _CONDITIONS, list)
    if conditions:
        new["conditions"] = conditions
    return new


def from_storage(found: Object) -> Object:
    """Return the v1 form of a v2 autoscaler."""
    spec, status = part(found, "spec"), part(found, "status")
    metadata = dict(part(found, "metadata"))
    old_spec = {key: spec[key] for key in _SHARED_SPEC if key in spec}
    shares = [
        each["resource"]["target"]["averageUtilization"] for each in items(spec, "metrics") if _is_cpu(each)
    ]
    if shares:
        old_spec["targetCPUUtilizationPercentage"] = shares[0]
    old_status = {key: status[key] for key in _SHARED_STATUS if key in status}
    for key in ("currentReplicas", "desiredReplicas"):
        old_status.setdefault(key, 0)
    for each in items(status, "currentMetrics"):
        if _is_cpu(each):
            old_status["currentCPUUtilizationPercentage"] = each["resource"]["current"]["averageUtilization"]
    kept = {key: value for key, value in part(metadata, "annotations").items() if key not in _ANNOTATIONS}
    kept.update(_annotations(spec, status))
    metadata.pop("annotations", None)
    if kept:
        metadata["annotations"] = kept
    return {**found, "metadata": metadata, "spec": old_spec, "status": old_status}


def _annotations(spec: Object, status: Object) -> Object:
    found: Object = {}
    others = [_old_metric(each, "target") for each in items(spec, "metrics") if not _is_cpu(each)]
    current = [_old_metric(each, "current") for each in items(status, "currentMetrics")]
    if others:
        found[_METRICS] = _text(others)
    if current:
        found[_CURRENT] = _text(current)
    if spec.get("behavior") is not None:
        found[_BEHAVIOUR] = _text(_written_behaviour(part(spec, "behavior")))
    if items(status, "conditions"):
        found[_CONDITIONS] = _text(items(status, "conditions"))
    return found


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def cpu_metric(utilization: int) -> Object:
    """Return the metric of a target utilization of CPU."""
    target = {"type": "Utilization", "averageUtilization": utilization}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}
