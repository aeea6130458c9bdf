"""Charges a write to the ResourceQuotas of its namespace, or says which of them refuses it. Pure.

Source: apiserver's `plugin/resourcequota/controller.go`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vcsync.controlplane.admission.usage import (
    NONE,
    Amount,
    Usage,
    amount,
    counted,
    is_terminating,
    missing_in_pod,
    usage,
)
from vcsync.controlplane.behaviour import Object
from vcsync.kube.quantity import milli

_POD_AFFINITIES = ("podAffinity", "podAntiAffinity")
_REQUIRED, _PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


class QuotaExceeded(Exception):
    """The write would exceed a quota, or cannot be counted; the text is what `forbidden:` is followed by."""


@dataclass(frozen=True, slots=True)
class Write:
    """A write of one object. `old` None: it is created."""

    group: str
    plural: str
    new: Object
    old: Object | None


def charge(write: Write, quotas: Sequence[Object]) -> list[tuple[int, dict[str, str]]]:
    """Return for each quota that the write counts against its position and its `status.used` afterwards.

    Raises:
        QuotaExceeded: it does not fit.
    """
    charged = []
    before = None if write.old is None else usage(write.group, write.plural, write.old)
    after = usage(write.group, write.plural, write.new)
    for position, quota in enumerate(quotas):
        if not matches(write, quota, write.new):
            continue
        status = quota.get("status") or {}
        hard, used = status.get("hard") or {}, status.get("used") or {}
        tracked = counted(write.group, write.plural, hard)
        _check_countable(write, quota, tracked, used)
        counts_less = before is not None and matches(write, quota, write.old or {})
        delta = _more(after, before or {}) if counts_less else after
        asked = {name: delta[name] for name in tracked if delta.get(name, NONE).milli}
        if asked:
            charged.append((position, _charged(quota, asked, hard, used)))
    return charged


def matches(write: Write, quota: Object, obj: Object) -> bool:
    """Whether an object counts against a quota: it limits something of its kind, and the scopes fit."""
    hard = (quota.get("status") or {}).get("hard") or {}
    if not counted(write.group, write.plural, hard):
        return False
    spec = quota.get("spec") or {}
    selectors: list[Mapping[str, Any]] = [
        {"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ()
    ]
    selectors += (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    return all(_in_scope(write, selector, obj) for selector in selectors)


def _check_countable(write: Write, quota: Object, tracked: Sequence[str], used: Mapping[str, str]) -> None:
    name = quota["metadata"]["name"]
    if (write.group, write.plural) == ("", "pods"):
        missing = missing_in_pod(tracked, write.new)
        if missing:
            raise QuotaExceeded(f"failed quota: {name}: must specify {missing}")
    if any(each not in used for each in tracked):
        raise QuotaExceeded(f"status unknown for quota: {name}, resources: {','.join(tracked)}")


def _charged(quota: Object, asked: Usage, hard: Mapping[str, str], used: Mapping[str, str]) -> dict[str, str]:
    then = {name: amount(used[name]) + more for name, more in asked.items()}
    over = [name for name, total in then.items() if total.milli > milli(hard[name])]
    if over:
        raise QuotaExceeded(
            f"exceeded quota: {quota['metadata']['name']}, "
            f"requested: {_told({name: str(asked[name]) for name in over})}, "
            f"used: {_told({name: used[name] for name in over})}, "
            f"limited: {_told({name: hard[name] for name in over})}"
        )
    return {**used, **{name: str(total) for name, total in then.items()}}


def _told(amounts: Mapping[str, str]) -> str:
    return ",".join(f"{name}={amounts[name]}" for name in sorted(amounts))


def _more(after: Usage, before: Usage) -> Usage:
    return {
        name: Amount(max(0, each.milli - before.get(name, NONE).milli), each.like)
        for name, each in after.items()
    }


def _in_scope(write: Write, selector: Mapping[str, Any], obj: Object) -> bool:
    if (write.group, write.plural) == ("", "persistentvolumeclaims"):
        name = (obj.get("spec") or {}).get("volumeAttributesClassName") or ""
        return selector["scopeName"] == "VolumeAttributesClass" and _selected(selector, name)
    if (write.group, write.plural) != ("", "pods"):
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
