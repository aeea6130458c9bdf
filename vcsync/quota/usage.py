"""Computes the usage of objects for ResourceQuotas. Pure.

Source: Kubernetes' `pkg/quota/v1/evaluator/core` and https://kubernetes.io/docs/concepts/policy/resource-quotas/.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from vcsync.objects.quantity import canonical, milli

Object = dict[str, Any]
"""One object, as JSON."""


@dataclass(frozen=True, slots=True)
class Amount:
    """A quantity.

    Attributes:
        milli: Value in thousandths.
        like: Quantity whose format the text of the amount has.
    """

    milli: int
    like: str = ""

    def __add__(self, more: "Amount") -> "Amount":
        """Return the sum, in the format of this amount unless it is zero."""
        return Amount(self.milli + more.milli, self.like if self.milli else more.like)

    def __str__(self) -> str:
        return canonical(self.milli, self.like)


def amount(text: Any) -> Amount:
    """Parse a quantity."""
    return Amount(milli(str(text)), str(text))


Usage = dict[str, Amount]
"""Amounts by resource name of a quota."""

NONE, ONE = Amount(0), Amount(1000)
IGNORED = {("", "bindings"), ("", "componentstatuses"), ("", "events"), ("events.k8s.io", "events")}
"""Resources that no quota tracks."""
ENDED = ("Failed", "Succeeded")
"""Phases of Pods without usage."""
_RESOURCE_CLAIMS = ("resource.k8s.io", "resourceclaims")
_COUNTED_BY_NAME = {"configmaps", "secrets", "replicationcontrollers", "resourcequotas"}
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_POD_RESOURCES = {
    "pods",
    *_COMPUTE,
    *(f"{kind}.{name}" for kind in ("requests", "limits") for name in _COMPUTE),
}
_MUST_BE_SET = {"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"}
_POD_LEVEL = ("cpu", "memory", "hugepages-")
_CLASS = ".storageclass.storage.k8s.io/"
_DEVICES = ".deviceclass.resource.k8s.io/devices"
_MOST_DEVICES = 32
"""Devices that a claim for all devices of a class counts: the maximum that can be allocated to it."""


def usage(group: str, plural: str, obj: Object) -> Usage:
    """Return the usage of an object."""
    found = {count_name(group, plural): ONE}
    if not group:
        count = _BY_KIND.get(plural)
        if count is not None:
            found |= count(obj)
        elif plural in _COUNTED_BY_NAME:
            found[plural] = ONE
    elif (group, plural) == _RESOURCE_CLAIMS:
        found |= _devices(obj)
    return found


def count_name(group: str, plural: str) -> str:
    """Return the resource name with which a quota limits the number of objects."""
    return f"count/{plural}.{group}" if group else f"count/{plural}"


def counted(group: str, plural: str, names: Iterable[str]) -> list[str]:
    """Return the resource names of a quota that objects of a kind can use, sorted."""
    own = count_name(group, plural)
    if (group, plural) == _RESOURCE_CLAIMS:
        return sorted(name for name in names if name == own or name.endswith(_DEVICES))
    return sorted(name for name in names if name == own or (not group and _tracked(plural, name)))


def updates_count(group: str, plural: str) -> bool:
    """Return whether updates of objects can change their usage."""
    return (group, plural) == _RESOURCE_CLAIMS or (
        not group and plural in ("services", "persistentvolumeclaims")
    )


def missing_in_pod(required: Iterable[str], pod: Object) -> str:
    """Return the limited resources that a Pod does not specify, as the message names them, or an empty text."""
    spec = pod.get("spec") or {}
    if any(
        _supported(name) for amounts in (spec.get("resources") or {}).values() for name in _names(amounts)
    ):
        return ""
    wanted = _MUST_BE_SET.intersection(required)
    lacking: dict[str, set[str]] = {}
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = container.get("resources") or {}
        has = _compute(_amounts(resources.get("requests")), _amounts(resources.get("limits")))
        for name in wanted - has.keys():
            lacking.setdefault(name, set()).add(container.get("name") or "")
    return "; ".join(f"{name} for: {','.join(sorted(lacking[name]))}" for name in sorted(lacking))


def is_terminating(pod: Object) -> bool:
    """Return whether a Pod has a deadline and is in the quota scope Terminating."""
    deadline = (pod.get("spec") or {}).get("activeDeadlineSeconds")
    return deadline is not None and deadline >= 0


def pod_total(spec: Object, which: str) -> Usage:
    """Return the total `requests` or `limits` of a Pod with its overhead, as kube-scheduler does (KEP-753, KEP-2837).

    Args:
        spec: `spec` of the Pod.
        which: `requests` or `limits`.
    """
    running: Usage = {}
    for container in spec.get("containers") or ():
        _add(running, _of(container, which))
    sidecars: Usage = {}
    starting: Usage = {}
    for container in spec.get("initContainers") or ():
        own = _of(container, which)
        if container.get("restartPolicy") == "Always":
            _add(running, own)
            _add(sidecars, own)
            own = sidecars
        else:
            own = _sum(own, sidecars)
        starting = _most(own, starting)
    total = _most(running, starting)
    whole = _amounts((spec.get("resources") or {}).get(which))
    total |= {name: each for name, each in whole.items() if _supported(name)}
    for name, each in _amounts(spec.get("overhead")).items():
        if which == "requests" or name in total:
            total[name] = total.get(name, NONE) + each
    return total


def _pod(pod: Object) -> Usage:
    if (pod.get("status") or {}).get("phase") in ENDED:
        return {}
    spec = pod.get("spec") or {}
    return {"pods": ONE, **_compute(pod_total(spec, "requests"), pod_total(spec, "limits"))}


def _compute(requests: Usage, limits: Usage) -> Usage:
    found: Usage = {}
    for name in _COMPUTE:
        if name in requests:
            found[name] = found[f"requests.{name}"] = requests[name]
        if name in limits:
            found[f"limits.{name}"] = limits[name]
    for name, each in requests.items():
        if name.startswith("hugepages-"):
            found[name] = each
        if name not in _COMPUTE and (name.startswith("hugepages-") or "/" in name):
            found[f"requests.{name}"] = each
    return found


def _service(service: Object) -> Usage:
    spec = service.get("spec") or {}
    ports = spec.get("ports") or []
    kind = spec.get("type") or "ClusterIP"
    node_ports = 0
    if kind == "NodePort" or (
        kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not False
    ):
        node_ports = len(ports)
    elif kind == "LoadBalancer":
        node_ports = sum(1 for port in ports if port.get("nodePort"))
    return {
        "services": ONE,
        "services.nodeports": Amount(ONE.milli * node_ports),
        "services.loadbalancers": ONE if kind == "LoadBalancer" else NONE,
    }


def _claim(claim: Object) -> Usage:
    spec = claim.get("spec") or {}
    found = {"persistentvolumeclaims": ONE}
    asked = _amounts((spec.get("resources") or {}).get("requests")).get("storage")
    if asked is not None:
        allocated = _amounts((claim.get("status") or {}).get("allocatedResources")).get("storage", NONE)
        found["requests.storage"] = _whole(allocated if allocated.milli > asked.milli else asked)
    name = (claim["metadata"].get("annotations") or {}).get("volume.beta.kubernetes.io/storage-class")
    name = name or spec.get("storageClassName")
    if name:
        found |= {f"{name}{_CLASS}{resource}": each for resource, each in list(found.items())}
    return found


def _whole(asked: Amount) -> Amount:
    """Round up to whole bytes."""
    return asked if asked.milli % 1000 == 0 else Amount(-(-asked.milli // 1000) * 1000)


def attributes_classes(claim: Object) -> set[str]:
    """Return the desired, current and target VolumeAttributesClasses of a claim."""
    spec, status = claim.get("spec") or {}, claim.get("status") or {}
    target = (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName")
    named = (spec.get("volumeAttributesClassName"), status.get("currentVolumeAttributesClassName"), target)
    return {each for each in named if each}


def _devices(claim: Object) -> Usage:
    """Return the devices of a claim by class. Of alternatives, the maximum for each class counts."""
    found: Usage = {}
    for request in ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ():
        worst: Usage = {}
        for each in request.get("firstAvailable") or [request.get("exactly") or {}]:
            number = _asked_devices(each)
            if number is not None:
                name = f"{each.get('deviceClassName') or ''}{_DEVICES}"
                worst = _most(worst, {name: Amount(ONE.milli * number)})
        _add(found, worst)
    return found


def _asked_devices(request: Object) -> int | None:
    match request.get("allocationMode"):
        case "ExactCount":
            return request.get("count") or 0
        case "All":
            return _MOST_DEVICES
    return None


_BY_KIND: Mapping[str, Callable[[Object], Usage]] = {
    "pods": _pod,
    "services": _service,
    "persistentvolumeclaims": _claim,
}


def _tracked(plural: str, name: str) -> bool:
    if plural == "pods":
        return (
            name in _POD_RESOURCES
            or name.startswith(("hugepages-", "requests.hugepages-"))
            or (name.startswith("requests.") and "/" in name)
        )
    if plural == "services":
        return name in ("services", "services.nodeports", "services.loadbalancers")
    if plural == "persistentvolumeclaims":
        return name in ("persistentvolumeclaims", "requests.storage") or _CLASS in name
    return plural in _COUNTED_BY_NAME and name == plural


def _supported(name: str) -> bool:
    return name.startswith(_POD_LEVEL)


def _names(amounts: Any) -> Iterable[str]:
    return amounts if isinstance(amounts, dict) else ()


def _of(container: Object, which: str) -> Usage:
    return _amounts((container.get("resources") or {}).get(which))


def _amounts(given: Any) -> Usage:
    return {name: amount(each) for name, each in (given or {}).items()}


def _add(total: Usage, more: Usage) -> None:
    for name, each in more.items():
        total[name] = total.get(name, NONE) + each


def _sum(one: Usage, other: Usage) -> Usage:
    total = dict(one)
    _add(total, other)
    return total


def _most(one: Usage, other: Usage) -> Usage:
    return {
        name: max(one.get(name, NONE), other.get(name, NONE), key=lambda each: each.milli)
        for name in {**one, **other}
    }
