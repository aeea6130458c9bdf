"""Quotas of whole tenants: which resources they name, and what objects of all namespaces count against them. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from vcsync.objects.quantity import InvalidQuantity, canonical, milli
from vcsync.patterns.linear import linear
from vcsync.quota.usage import IGNORED, NONE, ONE, Amount, Object, Usage, count_name, counted, usage

BYTES: Final = "bytes"
"""Bytes of the keys and values of all objects. The limit of the tenant's storage enforces it."""
MOST_NAMES: Final = 64
"""Most resources of one quota."""
_ADMISSION = "admissionregistration.k8s.io"
_OWN: Final[Mapping[tuple[str, str], str]] = {
    ("", "namespaces"): "namespaces",
    ("apiextensions.k8s.io", "customresourcedefinitions"): "customresourcedefinitions",
    (_ADMISSION, "mutatingwebhookconfigurations"): "webhookconfigurations",
    (_ADMISSION, "validatingwebhookconfigurations"): "webhookconfigurations",
}
"""Resource names of objects without a namespace, by group and plural."""
_COUNTS: Final = frozenset(
    {
        *_OWN.values(),
        BYTES,
        "configmaps",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
        "services.loadbalancers",
        "services.nodeports",
    }
)
_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
_AMOUNTS: Final = frozenset(
    {
        *_COMPUTE,
        *(f"{kind}.{name}" for kind in ("requests", "limits") for name in _COMPUTE),
        "requests.storage",
    }
)
_CLASS, _DEVICES = ".storageclass.storage.k8s.io/", ".deviceclass.resource.k8s.io/devices"
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_COUNT = linear(rf"count/{_LABEL}(\.{_LABEL})*")
_PREFIXED = linear(rf"(requests\.)?hugepages-[0-9A-Za-z]+|requests\.{_LABEL}(\.{_LABEL})*/[-._A-Za-z0-9]+")
_IN_CLASS = linear(
    rf"{_LABEL}(\.{_LABEL})*({re.escape(_CLASS)}(requests\.storage|persistentvolumeclaims)|{re.escape(_DEVICES)})"
)
_REMEDY: Final = (
    "use count/RESOURCE.GROUP, or one of the names of a ResourceQuota, or one of bytes, customresourcedefinitions, "
    "namespaces and webhookconfigurations"
)


def problems(hard: Mapping[str, str], path: str) -> Iterator[str]:
    """Yield what is wrong with the limits of a tenant's quota, each with the field and the remedy.

    Args:
        hard: The limits by resource name.
        path: Path of the field that has them.
    """
    if len(hard) > MOST_NAMES:
        yield f"{path}: there are {len(hard)} resources: name at most {MOST_NAMES}"
        return
    for name, value in sorted(hard.items()):
        here = f"{path}[{name[:100]}]"
        if why := _name_problem(name):
            yield f"{here}: {why}"
            continue
        try:
            found = milli(value, field=here)
        except InvalidQuantity as error:
            yield str(error)
            continue
        if found < 0:
            yield f"{here}: {value} is negative: use 0 to allow none"
        elif found % 1000 and name not in _AMOUNTS and "hugepages-" not in name and _CLASS not in name:
            yield f"{here}: {value} is not a whole number, but objects are counted: round it"


def _name_problem(name: str) -> str:
    if name in (count_name(*kind) for kind in IGNORED):
        return "no quota counts this resource: remove it"
    if name in _COUNTS or name in _AMOUNTS:
        return ""
    if any(form.fullmatch(name) for form in (_COUNT, _PREFIXED, _IN_CLASS)):
        return ""
    return f"there is no such resource: {_REMEDY}"


def charged(group: str, plural: str, names: Iterable[str]) -> list[str]:
    """Return the resource names of a tenant's quota that objects of a kind can use, sorted."""
    if (group, plural) in IGNORED:
        return []
    own = _OWN.get((group, plural))
    found = counted(group, plural, names := list(names))
    return sorted([*found, own]) if own in names else found


def amounts(group: str, plural: str, obj: Object) -> Usage:
    """Return what an object uses of a tenant's quota."""
    found = usage(group, plural, obj)
    own = _OWN.get((group, plural))
    return {**found, own: ONE} if own else found


def kinds(name: str) -> list[tuple[str, str]]:
    """Return group and plural of the objects that a resource name of a quota counts."""
    if name.startswith("count/"):
        plural, _, group = name.removeprefix("count/").partition(".")
        return [(group, plural)]
    own = [kind for kind, each in _OWN.items() if each == name]
    if own:
        return own
    if name.endswith(_DEVICES):
        return [("resource.k8s.io", "resourceclaims")]
    for plural in ("pods", "services", "persistentvolumeclaims", "configmaps", "secrets"):
        if counted("", plural, (name,)):
            return [("", plural)]
    return [("", name)] if name in ("replicationcontrollers", "resourcequotas") else []


def needs_objects(name: str) -> bool:
    """Return whether a resource is the sum of what its objects contain, instead of their number."""
    if name.startswith("count/"):
        return False
    return name not in _COUNTS or name in ("pods", "services.nodeports", "services.loadbalancers")


def moved(used: Mapping[str, str], after: Usage, before: Usage, names: Iterable[str]) -> dict[str, str]:
    """Return the new usage after a write changes an object's amounts, for the names that change. It is never negative."""
    found = {}
    for name in names:
        more, less = after.get(name, NONE), before.get(name, NONE)
        if more.milli != less.milli:
            total = max(0, milli(used.get(name, "0")) + more.milli - less.milli)
            found[name] = canonical(total, _like(used.get(name, "0"), more))
    return found


def _like(used: str, more: Amount) -> str:
    """Return the quantity whose notation a sum has: that of the usage, unless it is zero."""
    return more.like if milli(used) == 0 else used


def free(hard: Mapping[str, str], used: Mapping[str, str]) -> dict[str, str]:
    """Return the rest of each limit: 0 where more is used than is allowed."""
    return {
        name: canonical(max(0, milli(limit) - milli(used[name])), limit)
        for name, limit in hard.items()
        if name in used
    }


def total(found: Iterable[Usage], names: Iterable[str]) -> dict[str, Amount]:
    """Return the sums of amounts, by the names of a quota."""
    sums = dict.fromkeys(names, NONE)
    for each in found:
        for name in sums.keys() & each.keys():
            sums[name] += each[name]
    return sums
