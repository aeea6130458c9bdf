"""ResourceQuotas and LimitRanges. Pure.

Source: `ValidateResourceQuota`, `ValidateLimitRange` in Kubernetes' `pkg/apis/core/validation`.
"""

from typing import Any

from vcsync.controlplane import errors
from vcsync.controlplane.errors import FieldError
from vcsync.controlplane.kinds import names
from vcsync.controlplane.kinds.parts import Part
from vcsync.controlplane.kinds.resources import (
    container_resource_name,
    milli,
    overcommits,
    quota_resource_name,
    resource_name,
    resource_value,
)
from vcsync.controlplane.kinds.rules import IMMUTABLE, Findings, Object, indexed, items, part, say, text

_COMPUTE = frozenset(
    {"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory", "pods"}
)
_SCOPES = (
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
)
_PLAIN_SCOPES = ("BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity")
_STORAGE = frozenset({"persistentvolumeclaims", "requests.storage"})
_CONFLICTS = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_EXISTS_ONLY = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating,"
    " ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)
_LIMIT_TYPES = ("Pod", "Container", "PersistentVolumeClaim")


def _counts(path: str, found: Object) -> Findings:
    for name, value in found.items():
        here = f"{path}[{name}]"
        yield from quota_resource_name(here, name)
        yield from resource_value(here, name, value)


def _applies(scope: str, name: str) -> bool:
    if scope == "BestEffort":
        return name == "pods"
    if scope == "VolumeAttributesClass":
        return name in _STORAGE
    return name in _COMPUTE or scope not in _SCOPES


def _standard(name: str) -> bool:
    return not any(True for _ in quota_resource_name("", name)) and "/" not in name


def _scopes(spec: Object) -> Findings:
    scopes, path = items(spec, "scopes"), "spec.scopes"
    hard = [name for name in sorted(part(spec, "hard")) if _standard(name)]
    for scope in scopes:
        if scope not in _SCOPES:
            yield errors.wrong(path, scopes, "unsupported scope")
        for name in hard:
            if not _applies(scope, name):
                yield errors.wrong(path, scopes, "unsupported scope applied to resource")
    for pair in _CONFLICTS:
        if pair <= set(scopes):
            yield errors.wrong(path, scopes, "conflicting scopes")


def _scope_selector(spec: Object) -> Findings:
    path, found = "spec.scopeSelector.matchExpressions", part(spec, "scopeSelector")
    hard = [name for name in sorted(part(spec, "hard")) if _standard(name)]
    used = set()
    for each in items(found, "matchExpressions"):
        scope = text(each, "scopeName")
        if scope not in _SCOPES:
            yield errors.wrong(f"{path}.scopeName", scope, "unsupported scope")
        for name in hard:
            if not _applies(scope, name):
                yield errors.wrong(path, _shown(found), "unsupported scope applied to resource")
        yield from _scope_operator(path, scope, text(each, "operator"), items(each, "values"))
        used.add(scope)
    for pair in _CONFLICTS:
        if pair <= used:
            yield errors.wrong(path, spec.get("scopes"), "conflicting scopes")


def _shown(found: Object) -> Object:
    return {
        "MatchExpressions": [
            {
                "ScopeName": text(each, "scopeName"),
                "Operator": text(each, "operator"),
                "Values": each.get("values"),
            }
            for each in items(found, "matchExpressions")
        ]
    }


def _scope_operator(path: str, scope: str, operator: str, values: list[Any]) -> Findings:
    if scope in _PLAIN_SCOPES and operator != "Exists":
        yield errors.wrong(f"{path}.operator", operator, _EXISTS_ONLY)
    if operator in ("In", "NotIn"):
        if not values:
            told = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            yield errors.required(f"{path}.values", told)
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            told = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            yield errors.wrong(f"{path}.values", values, told)
    else:
        yield errors.wrong(f"{path}.operator", operator, "not a valid selector operator")


def _quota(found: Object) -> list[FieldError]:
    spec = part(found, "spec")
    return [*_counts("spec.hard", part(spec, "hard")), *_scopes(spec), *_scope_selector(spec)]


def _quota_update(new: Object, old: Object) -> list[FieldError]:
    found = _quota(new)
    scopes = items(part(new, "spec"), "scopes")
    if set(scopes) != set(items(part(old, "spec"), "scopes")):
        found.append(errors.wrong("spec.scopes", part(new, "spec").get("scopes"), IMMUTABLE))
    return found


def _quota_status(new: Object, _: Object) -> list[FieldError]:
    status = part(new, "status")
    return [*_counts("status.hard", part(status, "hard")), *_counts("status.used", part(status, "used"))]


def _limit_default(found: Object) -> None:
    for each in items(part(found, "spec"), "limits"):
        if text(each, "type") != "Container":
            continue
        default = {**part(each, "max"), **part(each, "default")}
        request = {**part(each, "min"), **default, **part(each, "defaultRequest")}
        for key, value in (("default", default), ("defaultRequest", request)):
            if value:
                each[key] = {name: value[name] for name in sorted(value)}


def _limits(found: Object) -> Findings:
    seen: set[str] = set()
    for each, here in indexed(part(found, "spec"), "limits", "spec.limits"):
        kind = text(each, "type")
        yield from _limit_type(f"{here}.type", kind)
        if kind in seen:
            yield errors.duplicate(f"{here}.type", kind)
        seen.add(kind)
        yield from _limit_names(here, each, kind)
        keys = {name for key in _MAPS for name in part(each, key)}
        for name in sorted(keys):
            yield from _limit_values(here, each, name)


_MAPS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


def _limit_type(path: str, kind: str) -> Findings:
    wrong = names.qualified_name(kind)
    yield from say(path, kind, wrong)
    if not wrong and "/" not in kind and kind not in _LIMIT_TYPES:
        yield errors.wrong(path, kind, "must be a standard limit type or fully qualified")


def _limit_names(path: str, found: Object, kind: str) -> Findings:
    check = container_resource_name if kind in ("Pod", "Container") else resource_name
    for key in _MAPS:
        if key in ("default", "defaultRequest") and kind == "Pod":
            if part(found, key):
                yield errors.not_allowed(f"{path}.{key}", "may not be specified when `type` is 'Pod'")
            continue
        if key == "maxLimitRequestRatio" and kind == "PersistentVolumeClaim" and not _bounds_storage(found):
            told = "either minimum or maximum storage value is required, but neither was provided"
            yield errors.required(f"{path}.limits", told)
        for name in part(found, key):
            yield from check(f"{path}.{key}[{name}]", name)


def _bounds_storage(found: Object) -> bool:
    return "storage" in part(found, "min") or "storage" in part(found, "max")


def _limit_values(path: str, found: Object, name: str) -> Findings:
    low, high = part(found, "min").get(name), part(found, "max").get(name)
    default, request = part(found, "default").get(name), part(found, "defaultRequest").get(name)
    if text(found, "type") == "Pod":
        default = request = None

    def above(one: Any, other: Any) -> bool:
        return one is not None and other is not None and milli(one) > milli(other)

    here = f"{path}.defaultRequest[{name}]"
    if above(low, high):
        yield errors.wrong(f"{path}.min[{name}]", low, f"min value {low} is greater than max value {high}")
    if above(low, request):
        yield errors.wrong(here, request, f"min value {low} is greater than default request value {request}")
    if above(request, high):
        yield errors.wrong(here, request, f"default request value {request} is greater than max value {high}")
    if above(request, default):
        told = f"default request value {request} is greater than default limit value {default}"
        yield errors.wrong(here, request, told)
    here = f"{path}.default[{name}]"
    if above(low, default):
        yield errors.wrong(here, low, f"min value {low} is greater than default value {default}")
    if above(default, high):
        yield errors.wrong(here, high, f"default value {default} is greater than max value {high}")
    yield from _ratio(path, found, name)
    if (
        not overcommits(name)
        and default is not None
        and request is not None
        and milli(default) != milli(request)
    ):
        told = f"default value {default} must equal to defaultRequest value {request} in {name}"
        yield errors.wrong(f"{path}.defaultRequest[{name}]", request, told)


def _ratio(path: str, found: Object, name: str) -> Findings:
    ratio = part(found, "maxLimitRequestRatio").get(name)
    low, high = part(found, "min").get(name), part(found, "max").get(name)
    if ratio is None:
        return
    here = f"{path}.maxLimitRequestRatio[{name}]"
    if milli(ratio) < 1000:
        yield errors.wrong(here, ratio, f"ratio {ratio} is less than 1")
    if low is not None and high is not None and milli(low):
        limit = milli(high) / milli(low)
        if milli(ratio) / 1000 > limit:
            yield errors.wrong(here, ratio, f"ratio {ratio} is greater than max/min = {limit:.6f}")


QUOTAS = {
    ("", "LimitRange"): Part(default=_limit_default, validate=lambda found: list(_limits(found))),
    ("", "ResourceQuota"): Part(
        validate=_quota, validate_update=_quota_update, status_validate=_quota_status
    ),
}
