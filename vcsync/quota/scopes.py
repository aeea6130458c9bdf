"""Scopes of ResourceQuotas, which select the objects that a quota tracks. Pure.

Source: Kubernetes' `pkg/quota/v1/evaluator/core` and https://kubernetes.io/docs/concepts/policy/resource-quotas/#quota-scopes.
"""

from collections.abc import Callable, Mapping
from typing import Any

from vcsync.objects.quantity import milli
from vcsync.quota.usage import Object, attributes_classes, is_terminating

_POD_AFFINITIES = ("podAffinity", "podAntiAffinity")
_REQUIRED, _PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


def selectors(quota: Object) -> list[Mapping[str, Any]]:
    """Return the scopes and the scope selector of a quota, all as requirements of a scope selector."""
    spec = quota.get("spec") or {}
    found: list[Mapping[str, Any]] = [
        {"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ()
    ]
    return [*found, *((spec.get("scopeSelector") or {}).get("matchExpressions") or ())]


def in_scope(group: str, plural: str, selector: Mapping[str, Any], obj: Object) -> bool:
    """Return whether an object matches a scope of a quota.

    Args:
        group: API group of the object.
        plural: Resource of the object.
        selector: One requirement of `selectors`.
        obj: The object.
    """
    if (group, plural) == ("", "persistentvolumeclaims"):
        if selector["scopeName"] != "VolumeAttributesClass":
            return False
        return any(_selected(selector, name) for name in attributes_classes(obj) or {""})
    if (group, plural) != ("", "pods"):
        return False
    if selector["scopeName"] == "PriorityClass":
        return _selected(selector, (obj.get("spec") or {}).get("priorityClassName") or "")
    check = _POD_SCOPES.get(selector["scopeName"])
    return check is not None and check(obj)


def _selected(selector: Mapping[str, Any], name: str) -> bool:
    operator, values = selector.get("operator"), selector.get("values") or ()
    if operator == "Exists":
        return bool(name)
    if operator == "DoesNotExist":
        return not name
    return (name in values) == (operator == "In") if name else operator == "NotIn"


def _is_best_effort(pod: Object) -> bool:
    spec = pod.get("spec") or {}
    places = [spec, *(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    return not any(
        milli(str(given)) > 0
        for place in places
        for amounts in (place.get("resources") or {}).values()
        if isinstance(amounts, dict)
        for name, given in amounts.items()
        if name in ("cpu", "memory")
    )


def _crosses_namespaces(pod: Object) -> bool:
    affinity = (pod.get("spec") or {}).get("affinity") or {}
    terms: list[Mapping[str, Any]] = []
    for name in _POD_AFFINITIES:
        given = affinity.get(name) or {}
        terms += given.get(_REQUIRED) or ()
        terms += [each.get("podAffinityTerm") or {} for each in given.get(_PREFERRED) or ()]
    return any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms)


_POD_SCOPES: Mapping[str, Callable[[Object], bool]] = {
    "Terminating": is_terminating,
    "NotTerminating": lambda pod: not is_terminating(pod),
    "BestEffort": _is_best_effort,
    "NotBestEffort": lambda pod: not _is_best_effort(pod),
    "CrossNamespacePodAffinity": _crosses_namespaces,
}
