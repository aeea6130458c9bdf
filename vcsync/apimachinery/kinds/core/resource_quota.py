"""The kind ResourceQuota: validation of scopes and amounts, allowed updates, status and columns. Pure.

Source: Kubernetes' `pkg/apis/core/validation`, `pkg/registry/core/resourcequota` and `pkg/printers/internalversion`.
"""

from datetime import datetime
from itertools import chain, islice
from typing import Any

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.core.resources import quota_resource_name, resource_value
from vcsync.apimachinery.patch.resets import SPEC, STATUS
from vcsync.apimachinery.validation.fields import IMMUTABLE, Findings, Object, items, part, text
from vcsync.apimachinery.wire import cells

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
_MOST_FINDINGS = 10_000
"""Most findings on scopes: there may be one for each scope and resource, and an answer has room for some thousands."""
_STORAGE = frozenset({"persistentvolumeclaims", "requests.storage"})
_CONFLICTS = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_EXISTS_ONLY = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating,"
    " ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


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
    return name in _COMPUTE


def _standard(name: str) -> bool:
    return not any(True for _ in quota_resource_name("", name)) and "/" not in name


def _inapplicable(spec: Object) -> dict[str, int]:
    """Return, for each known scope, to how many of the limited resources it does not apply."""
    hard = [name for name in part(spec, "hard") if _standard(name)]
    return {scope: sum(not _applies(scope, name) for name in hard) for scope in _SCOPES}


def _scopes(spec: Object) -> Findings:
    scopes, path = items(spec, "scopes"), "spec.scopes"
    inapplicable = _inapplicable(spec)
    for scope in scopes:
        if scope not in _SCOPES:
            yield errors.wrong(path, scopes, "unsupported scope")
        for _ in range(inapplicable.get(scope, 0)):
            yield errors.wrong(path, scopes, "unsupported scope applied to resource")
    for pair in _CONFLICTS:
        if pair <= set(scopes):
            yield errors.wrong(path, scopes, "conflicting scopes")


def _scope_selector(spec: Object) -> Findings:
    path, found = "spec.scopeSelector.matchExpressions", part(spec, "scopeSelector")
    shown = _shown(found)  # All findings share it.
    inapplicable = _inapplicable(spec)
    used = set()
    for each in items(found, "matchExpressions"):
        scope = text(each, "scopeName")
        if scope not in _SCOPES:
            yield errors.wrong(f"{path}.scopeName", scope, "unsupported scope")
        for _ in range(inapplicable.get(scope, 0)):
            yield errors.wrong(path, shown, "unsupported scope applied to resource")
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
            message = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            yield errors.required(f"{path}.values", message)
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            message = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            yield errors.wrong(f"{path}.values", values, message)
    else:
        yield errors.wrong(f"{path}.operator", operator, "not a valid selector operator")


def _quota(found: Object) -> list[FieldError]:
    spec = part(found, "spec")
    scopes = islice(chain(_scopes(spec), _scope_selector(spec)), _MOST_FINDINGS)
    return [*_counts("spec.hard", part(spec, "hard")), *scopes]


def _quota_update(new: Object, old: Object) -> list[FieldError]:
    found = _quota(new)
    scopes = items(part(new, "spec"), "scopes")
    if set(scopes) != set(items(part(old, "spec"), "scopes")):
        found.append(errors.wrong("spec.scopes", part(new, "spec").get("scopes"), IMMUTABLE))
    return found


def _quota_status(new: Object, _: Object) -> list[FieldError]:
    status = part(new, "status")
    return [*_counts("status.hard", part(status, "hard")), *_counts("status.used", part(status, "used"))]


def quota(limits: bool) -> cells.Cell:
    """Return the cell of a quota's limits, or of all its other resources."""

    def cell(obj: cells.Object, _: datetime) -> str:
        used = cells.look(obj, "status.used", {})
        hard = sorted(cells.look(obj, "status.hard", {}).items())
        return ", ".join(
            f"{key}: {used.get(key, '0')}/{value}"
            for key, value in hard
            if key.startswith("limits.") == limits
        )

    return cell


KIND = Kind(
    group="",
    kind="ResourceQuota",
    plural="resourcequotas",
    status=True,
    validate=_quota,
    validate_update=_quota_update,
    status_validate=_quota_status,
    columns=cells.aged(Request=quota(limits=False), Limit=quota(limits=True)),
    resets={"": STATUS, "status": SPEC},
    returned_on_deletion=True,
)
