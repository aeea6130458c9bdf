"""Resource names and quantities of containers and Pods. Pure.

Source: Kubernetes' `pkg/apis/core/helper` and the resource parts of `pkg/apis/core/validation`.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from vcsync.apimachinery import errors
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import Findings, Object, indexed, items, part, say, text
from vcsync.objects import quantity

HUGE = "hugepages-"
_CONTAINER = frozenset({"cpu", "memory", "ephemeral-storage"})
_POD_LEVEL = frozenset({"cpu", "memory"})
_COUNTED = frozenset(
    {
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    }
)
_COMPUTE = frozenset(
    {
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.storage",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
    }
)
_QUOTA = _COUNTED | _COMPUTE
_STANDARD = _QUOTA | {"storage"}
_NAMESPACE = "kubernetes.io/"
_SIGN = 2**63
_SHORTEST_BEYOND = len(str(_SIGN))
NameCheck = Callable[[str, str], Findings]


def milli(value: Any) -> int:
    """Return a quantity in thousandths. An invalid one counts as zero."""
    try:
        return quantity.milli(str(value))
    except quantity.InvalidQuantity:
        return 0


def is_huge(name: str) -> bool:
    """Return whether a resource is huge pages of one size."""
    return name.startswith(HUGE)


def is_quota_huge(name: str) -> bool:
    """Return whether a quota's resource is huge pages of one size."""
    return name.startswith((HUGE, f"requests.{HUGE}"))


def is_native(name: str) -> bool:
    """Return whether Kubernetes itself defines a resource."""
    return "/" not in name or _NAMESPACE in name


def overcommits(name: str) -> bool:
    """Return whether a container's request for a resource may differ from its limit."""
    return is_native(name) and not is_huge(name)


def is_extended(name: str) -> bool:
    """Return whether a resource is an extended resource, which nodes advertise."""
    if is_native(name) or name.startswith("requests."):
        return False
    return not names.qualified_name(f"requests.{name}")


def resource_name(path: str, name: str) -> Findings:
    """Check the name of a resource: standard or fully qualified."""
    found = names.qualified_name(name)
    yield from say(path, name, found)
    if not found and "/" not in name and name not in _STANDARD and not is_quota_huge(name):
        yield errors.wrong(path, name, "must be a standard resource type or fully qualified")


def container_resource_name(path: str, name: str) -> Findings:
    """Check the name of a resource that containers request."""
    yield from resource_name(path, name)
    if "/" not in name:
        if name not in _CONTAINER and not is_huge(name):
            yield errors.wrong(path, name, "must be a standard resource for containers")
    elif not is_native(name) and not is_extended(name):
        yield errors.wrong(path, name, "doesn't follow extended resource name standard")


def pod_resource_name(path: str, name: str) -> Findings:
    """Check the name of a resource that a Pod as a whole requests."""
    found = list(resource_name(path, name))
    yield from found
    if not found and name not in _POD_LEVEL and not is_huge(name):
        yield errors.not_supported(path, name, ("cpu", HUGE, "memory"))


def quota_resource_name(path: str, name: str) -> Findings:
    """Check the name of a resource that a quota limits."""
    yield from resource_name(path, name)
    if "/" not in name and name not in _QUOTA and not is_quota_huge(name):
        yield errors.wrong(path, name, "must be a standard resource for quota")


def nonnegative_quantity(path: str, value: Any) -> Findings:
    """Check that a quantity is not negative."""
    if milli(value) < 0:
        yield errors.wrong(path, str(value), "must be greater than or equal to 0")


def positive_quantity(path: str, value: Any) -> Findings:
    """Check that a quantity is greater than zero."""
    if milli(value) <= 0:
        yield errors.wrong(path, str(value), "must be greater than zero")


def basic_quantity(path: str, value: Any) -> Findings:
    """Check that a quantity, rounded away from zero to a whole number, is not negative (`validateBasicResource`).

    A number of 64 bits or more counts by its lowest 64 bits, as Go's `big.Int.Int64` returns them.
    """
    beyond = _beyond_int64(value)
    whole = (beyond + _SIGN) % (2 * _SIGN) - _SIGN if beyond else milli(value) // 1000
    if whole < 0:
        yield errors.wrong(path, whole, "must be a valid resource quantity")


def _beyond_int64(value: Any) -> int:
    """Return a quantity that is an integer without suffix and no int64, or zero. Thousandths of it overflow in Go."""
    digits = str(value)
    return (
        int(digits) if len(digits) >= _SHORTEST_BEYOND and digits.isdecimal() and int(digits) >= _SIGN else 0
    )


def is_integer(name: str) -> bool:
    """Return whether a resource has whole units only."""
    return name in _COUNTED or is_extended(name)


def resource_value(path: str, name: str, value: Any) -> Findings:
    """Check a quantity: not negative, and whole if the resource has whole units only."""
    yield from nonnegative_quantity(path, value)
    if is_integer(name) and (milli(value) % 1000 or _beyond_int64(value)):
        yield errors.wrong(path, str(value), "must be an integer")


def requirements(
    path: str,
    found: Mapping[str, Any],
    claims: Collection[str],
    name_check: NameCheck = container_resource_name,
) -> Findings:
    """Check the limits, requests and claims of a container or Pod."""
    limits, requests = part(found, "limits"), part(found, "requests")
    for name, value in limits.items():
        here = f"{path}.limits[{name}]"
        yield from name_check(here, name)
        yield from resource_value(here, name, value)
        yield from _whole_pages(here, name, value)
    for name, value in requests.items():
        here = f"{path}.requests[{name}]"
        yield from name_check(here, name)
        yield from resource_value(here, name, value)
        yield from _within_limit(path, name, value, limits)
        yield from _whole_pages(here, name, value)
    used = [*limits, *requests]
    if any(map(is_huge, used)) and not any(name in _POD_LEVEL for name in used):
        yield errors.not_allowed(path, "HugePages require cpu or memory")
    yield from _claims(f"{path}.claims", found, claims)


def _whole_pages(path: str, name: str, value: Any) -> Findings:
    if is_huge(name):
        size = milli(name[len(HUGE) :])
        if size <= 0 or milli(value) <= 0 or milli(value) % size:
            yield errors.wrong(path, str(value), f"{value} is not positive integer multiple of {name}")


def _within_limit(path: str, name: str, value: Any, limits: Mapping[str, Any]) -> Findings:
    limit = limits.get(name)
    if limit is None:
        if not overcommits(name):
            yield errors.required(f"{path}.limits", "Limit must be set for non overcommitable resources")
    elif milli(value) != milli(limit) and not overcommits(name):
        yield errors.wrong(f"{path}.requests", str(value), f"must be equal to {name} limit of {limit}")
    elif milli(value) > milli(limit):
        yield errors.wrong(
            f"{path}.requests", str(value), f"must be less than or equal to {name} limit of {limit}"
        )


def _claims(path: str, found: Mapping[str, Any], known: Collection[str]) -> Findings:
    seen: set[str] = set()
    asked: set[str] = set()
    for each, here in indexed(found, "claims", path):
        name, request = text(each, "name"), text(each, "request")
        if not name:
            yield errors.required(here)
        elif name in seen:
            yield errors.duplicate(here, name)
        else:
            key = name
            if request:
                yield from say(f"{here}.request", request, names.dns_label(request))
                key = f"{name}/{request}"
            if key in seen:
                yield errors.duplicate(here, key)
            elif not request and name in asked:
                yield errors.duplicate(here, name)
            seen.add(key)
            asked.add(name)
        if name and name not in known:
            yield (
                errors.absent(here, name, "must be one of the names in pod.spec.resourceClaims", known)
                if known
                else errors.absent(
                    here, name, "must be one of the names in pod.spec.resourceClaims which is empty"
                )
            )


def total(spec: Object, which: str) -> dict[str, int]:
    """Return the sum of a Pod's `requests` or `limits` (`which`) over its containers, in thousandths."""
    running: dict[str, int] = {}
    for container in items(spec, "containers"):
        _add(running, part(container, "resources", which))
    sidecars: dict[str, int] = {}
    largest: dict[str, int] = {}
    for container in items(spec, "initContainers"):
        asked = {name: milli(value) for name, value in part(container, "resources", which).items()}
        if container.get("restartPolicy") == "Always":
            for name, value in asked.items():
                running[name] = running.get(name, 0) + value
                sidecars[name] = sidecars.get(name, 0) + value
            asked = dict(sidecars)
        else:
            asked = {name: asked.get(name, 0) + sidecars.get(name, 0) for name in {*asked, *sidecars}}
        for name, value in asked.items():
            largest[name] = max(largest.get(name, value), value)
    for name, value in largest.items():
        running[name] = max(running.get(name, value), value)
    return running


def _add(into: dict[str, int], found: Mapping[str, Any]) -> None:
    for name, value in found.items():
        into[name] = into.get(name, 0) + milli(value)


def default_pod_resources(spec: Object) -> None:
    """Set the default limits and requests of a Pod as a whole, if it has any."""
    whole = spec.get("resources")
    if not isinstance(whole, dict):
        return
    if part(whole, "limits") or part(whole, "requests"):
        limits = dict(part(whole, "limits"))
        for name, value in total(spec, "limits").items():
            if is_huge(name) and name not in part(whole, "requests"):
                limits.setdefault(name, quantity.canonical(value, "1Gi"))
        if limits:
            whole["limits"] = limits
    limits = part(whole, "limits")
    if not limits:
        return
    requests = dict(part(whole, "requests"))
    for name, value in total(spec, "requests").items():
        if name in _POD_LEVEL:
            requests.setdefault(name, quantity.canonical(value, "1Gi" if name == "memory" else ""))
    for name, value in limits.items():
        if name in _POD_LEVEL or is_huge(name):
            requests.setdefault(name, value)
    if requests:
        whole["requests"] = requests
