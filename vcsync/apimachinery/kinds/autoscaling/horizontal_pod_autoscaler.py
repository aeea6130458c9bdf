"""The kind HorizontalPodAutoscaler in version v2: defaults, validation, status and columns. Pure.

Source: Kubernetes' `pkg/apis/autoscaling/v2/defaults.go`, `pkg/apis/autoscaling/validation`,
`pkg/registry/autoscaling/horizontalpodautoscaler`.
"""

from datetime import datetime
from typing import Any

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.autoscaling import v1_conversion
from vcsync.apimachinery.kinds.autoscaling.metrics_column import metrics
from vcsync.apimachinery.kinds.autoscaling.v1_conversion import cpu_metric
from vcsync.apimachinery.kinds.common.defaults import fill
from vcsync.apimachinery.kinds.common.kind import Kind, View
from vcsync.apimachinery.kinds.core.resources import container_resource_name, milli, nonnegative_quantity
from vcsync.apimachinery.patch.resets import SPEC, STATUS
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import (
    Findings,
    Object,
    indexed,
    items,
    nonnegative,
    number,
    one_of,
    part,
    say,
    text,
)
from vcsync.apimachinery.wire import cells

_UP = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_DOWN = {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}
_SOURCES = {
    "Object": "object",
    "External": "external",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}
_TYPES = ("ContainerResource", "External", "Object", "Pods", "Resource")
_EITHER = "must set either a target raw value or a target utilization"
_ONE_ONLY = "must populate the given metric source only"
_MISSING = "must populate information for the given metric source"


def _default(found: Object) -> None:
    spec = found.get("spec")
    if not isinstance(spec, dict):
        return
    fill(spec, {"minReplicas": 1})
    if not items(spec, "metrics"):
        spec["metrics"] = [cpu_metric(80)]
    behaviour = spec.get("behavior")
    if isinstance(behaviour, dict):
        for key, rules in (("scaleUp", _UP), ("scaleDown", _DOWN)):
            given = {name: value for name, value in part(behaviour, key).items() if value is not None}
            behaviour[key] = {**_fresh(rules), **given}


def _fresh(rules: dict[str, Any]) -> Object:
    return {**rules, "policies": [dict(each) for each in rules["policies"]]}


def _autoscaler(found: Object, old: Object | None = None) -> Findings:
    """Check an autoscaler. References that `old`, the stored object, already had are accepted as they are."""
    spec, former = part(found, "spec"), part(old or {}, "spec")
    low, high = spec.get("minReplicas"), number(spec, "maxReplicas")
    least = 0 if former.get("minReplicas") == 0 else 1
    if low is not None and low < least:
        yield errors.wrong("spec.minReplicas", low, f"must be greater than or equal to {least}")
    if high == 0:
        yield errors.required("spec.maxReplicas", "must be set and greater than 0")
    elif high < 0:
        yield errors.wrong("spec.maxReplicas", high, "must be greater than or equal to 1")
    if low is not None and high < low:
        yield errors.wrong("spec.maxReplicas", high, "must be greater than or equal to `minReplicas`")
    target = part(spec, "scaleTargetRef")
    yield from _reference("spec.scaleTargetRef", target)
    if old is None or not _same_version_and_kind(target, part(former, "scaleTargetRef")):
        # ReplicationController is the only kind of the core group that can be scaled.
        yield from _version(
            "spec.scaleTargetRef", target, grouped=text(target, "kind") != "ReplicationController"
        )
    lax = any(_names_no_version(each) for each, _ in indexed(former, "metrics", ""))
    kinds = set()
    for each, here in indexed(spec, "metrics", "spec.metrics"):
        yield from _metric(here, each, lax=lax)
        kinds.add(text(each, "type"))
    if low == 0 and not kinds & {"Object", "External"}:
        message = "must specify at least one Object or External metric to support scaling to zero replicas"
        yield errors.not_allowed("spec.metrics", message)
    for key in ("scaleUp", "scaleDown"):
        rules = part(spec, "behavior").get(key)
        if rules is not None:
            yield from _rules(f"spec.behavior.{key}", rules)


def _reference(path: str, found: Object) -> Findings:
    for key in ("kind", "name"):
        value = text(found, key)
        if not value:
            yield errors.required(f"{path}.{key}")
        else:
            yield from say(f"{path}.{key}", value, names.path_segment(value))


def _version(path: str, found: Object, *, grouped: bool) -> Findings:
    version = text(found, "apiVersion")
    if version.count("/") > 1:
        yield errors.wrong(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}")
    elif grouped and not version.rpartition("/")[0]:
        yield errors.wrong(f"{path}.apiVersion", version, "apiVersion must specify API group")


def _same_version_and_kind(one: Object, other: Object) -> bool:
    return all(text(one, key) == text(other, key) for key in ("apiVersion", "kind"))


def _names_no_version(metric: Object) -> bool:
    """Return whether the `apiVersion` of the object that a metric describes is not a valid one."""
    described = part(part(metric, "object"), "describedObject")
    return text(metric, "type") == "Object" and text(described, "apiVersion").count("/") > 1


def _rules(path: str, rules: Object) -> Findings:
    window = rules.get("stabilizationWindowSeconds")
    if window is not None and window < 0:
        yield errors.wrong(
            f"{path}.stabilizationWindowSeconds", window, "must be greater than or equal to zero"
        )
    if window is not None and window > 3600:
        yield errors.wrong(f"{path}.stabilizationWindowSeconds", window, "must be less than or equal to 3600")
    if rules.get("selectPolicy") is not None:
        yield from one_of(f"{path}.selectPolicy", rules["selectPolicy"], ("Disabled", "Max", "Min"))
    if not items(rules, "policies"):
        yield errors.required(f"{path}.policies", "must specify at least one Policy")
    for each, here in indexed(rules, "policies", f"{path}.policies"):
        yield from one_of(f"{here}.type", text(each, "type"), ("Percent", "Pods"))
        for key in ("value", "periodSeconds"):
            if number(each, key) <= 0:
                yield errors.wrong(f"{here}.{key}", number(each, key), "must be greater than zero")
        if number(each, "periodSeconds") > 1800:
            yield errors.wrong(
                f"{here}.periodSeconds", number(each, "periodSeconds"), "must be less than or equal to 1800"
            )
    if "tolerance" in rules:
        yield from nonnegative_quantity(f"{path}.tolerance", rules["tolerance"])


def _metric(path: str, found: Object, *, lax: bool) -> Findings:
    kind = text(found, "type")
    if not kind:
        yield errors.required(f"{path}.type", "must specify a metric source type")
    yield from one_of(f"{path}.type", kind, _TYPES)
    given = [key for key in _SOURCES.values() if isinstance(found.get(key), dict)]
    if given[:1] == ["object"]:
        yield from _object(f"{path}.object", found["object"], lax=lax)
    elif given:
        yield from _CHECKS[given[0]](f"{path}.{given[0]}", found[given[0]])
    expected = _SOURCES.get(kind)
    if expected is None:
        yield errors.not_supported(f"{path}.type", kind, _TYPES)
    elif expected not in given:
        yield errors.required(f"{path}.{expected}", _MISSING)
    if len(given) != 1:
        for key in given:
            if key != expected:
                yield errors.not_allowed(f"{path}.{key}", _ONE_ONLY)


def _target(path: str, found: Object) -> Findings:
    kind = text(found, "type")
    if not kind:
        yield errors.required(f"{path}.type", "must specify a metric target type")
    if kind not in ("Utilization", "Value", "AverageValue"):
        yield errors.wrong(f"{path}.type", kind, "must be either Utilization, Value, or AverageValue")
    for key in ("value", "averageValue"):
        if key in found and milli(found[key]) <= 0:
            yield errors.wrong(f"{path}.{key}", found[key], "must be positive")
    share = found.get("averageUtilization")
    if share is not None and share < 1:
        yield errors.wrong(f"{path}.averageUtilization", share, "must be greater than 0")


def _identifier(path: str, found: Object) -> Findings:
    name = text(found, "name")
    if not name:
        yield errors.required(f"{path}.name", "must specify a metric name")
    else:
        yield from say(f"{path}.name", name, names.path_segment(name))


def _object(path: str, found: Object, *, lax: bool) -> Findings:
    described = part(found, "describedObject")
    yield from _reference(f"{path}.describedObject", described)
    if not lax:
        yield from _version(f"{path}.describedObject", described, grouped=False)
    yield from _identifier(f"{path}.metric", part(found, "metric"))
    target = part(found, "target")
    yield from _target(f"{path}.target", target)
    if "value" not in target and "averageValue" not in target:
        yield errors.required(f"{path}.target.averageValue", "must set either a target value or averageValue")


def _external(path: str, found: Object) -> Findings:
    yield from _identifier(f"{path}.metric", part(found, "metric"))
    target = part(found, "target")
    yield from _target(f"{path}.target", target)
    if "value" not in target and "averageValue" not in target:
        message = "must set either a target value for metric or a per-pod target"
        yield errors.required(f"{path}.target.averageValue", message)
    if "value" in target and "averageValue" in target:
        message = "may not set both a target value for metric and a per-pod target"
        yield errors.not_allowed(f"{path}.target.value", message)


def _pods(path: str, found: Object) -> Findings:
    yield from _identifier(f"{path}.metric", part(found, "metric"))
    yield from _target(f"{path}.target", part(found, "target"))
    if "averageValue" not in part(found, "target"):
        yield errors.required(f"{path}.target.averageValue", "must specify a positive target averageValue")


def _resource(path: str, found: Object) -> Findings:
    if not text(found, "name"):
        yield errors.required(f"{path}.name", "must specify a resource name")
    yield from _share(path, part(found, "target"))


def _share(path: str, target: Object) -> Findings:
    yield from _target(f"{path}.target", target)
    if "averageUtilization" not in target and "averageValue" not in target:
        yield errors.required(f"{path}.target.averageUtilization", _EITHER)
    if "averageUtilization" in target and "averageValue" in target:
        message = "may not set both a target raw value and a target utilization"
        yield errors.not_allowed(f"{path}.target.averageValue", message)


def _container(path: str, found: Object) -> Findings:
    name, container = text(found, "name"), text(found, "container")
    if not name:
        yield errors.required(f"{path}.name", "must specify a resource name")
    else:
        yield from container_resource_name(f"{path}.name", name)
    if not container:
        yield errors.required(f"{path}.container", "must specify a container")
    else:
        yield from say(f"{path}.container", container, names.dns_label(container))
    yield from _share(path, part(found, "target"))


_CHECKS = {
    "external": _external,
    "pods": _pods,
    "resource": _resource,
    "containerResource": _container,
}


def _status(new: Object, _: Object) -> list[FieldError]:
    return list(nonnegative(part(new, "status"), "status", "currentReplicas", "desiredReplicas"))


def reference(obj: cells.Object, _: datetime) -> str:
    """Return the kind and name of the object that an autoscaler scales."""
    return (
        f"{cells.look(obj, 'spec.scaleTargetRef.kind', '')}/{cells.look(obj, 'spec.scaleTargetRef.name', '')}"
    )


def minimum(obj: cells.Object, _: datetime) -> str:
    """Return an autoscaler's minimum of replicas."""
    return str(cells.look(obj, "spec.minReplicas", cells.UNSET))


KIND = Kind(
    group="autoscaling",
    kind="HorizontalPodAutoscaler",
    plural="horizontalpodautoscalers",
    status=True,
    default=_default,
    validate=lambda found: list(_autoscaler(found)),
    validate_update=lambda new, old: list(_autoscaler(new, old)),
    status_validate=_status,
    columns={
        "Name": cells.name,
        "Reference": reference,
        "Targets": metrics,
        "MinPods": minimum,
        "MaxPods": cells.field("spec.maxReplicas", 0),
        "Replicas": cells.field("status.currentReplicas", 0),
        "Age": cells.age,
    },
    resets={"": STATUS, "status": SPEC},
    views={"v1": View(v1_conversion.to_storage, v1_conversion.from_storage)},
)
