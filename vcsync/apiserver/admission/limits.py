"""LimitRanges: sets default resources of containers, and enforces bounds.

Source: Kubernetes' `plugin/pkg/admission/limitranger`.
"""

from collections.abc import Callable, Iterable, Mapping

from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.admission.framework.plugin import Lookup, refusal
from vcsync.apiserver.request.scope import Admission
from vcsync.objects.quantity import milli
from vcsync.quota.usage import pod_total

ANNOTATION = "kubernetes.io/limit-ranger"
Amounts = Mapping[str, str]


async def limit_defaults(admission: Admission, lookup: Lookup) -> None:
    """Set the default resources of a Pod's containers from the LimitRanges of the namespace."""
    if admission.new is not None and _kind(admission) == "pods" and not _ends(admission):
        for limits in await _ranges(admission, lookup):
            fill(admission.new, limits)


async def limit_bounds(admission: Admission, lookup: Lookup) -> None:
    """Enforce the LimitRanges of the namespace on a Pod or a PersistentVolumeClaim.

    Raises:
        StatusError: 403, a bound is exceeded.
    """
    new, kind = admission.new, _kind(admission)
    if not kind or new is None or _ends(admission):
        return
    for limits in await _ranges(admission, lookup):
        found = list(pod_findings(new, limits) if kind == "pods" else claim_findings(new, limits))
        if found:
            raise refusal(admission, found[0] if len(found) == 1 else f"[{', '.join(found)}]")


async def _ranges(admission: Admission, lookup: Lookup) -> list[list[Object]]:
    scope = admission.scope
    ranges = await lookup.all(scope.tenant, "", "limitranges", scope.namespace)
    return [(each.get("spec") or {}).get("limits") or [] for each in ranges]


def _ends(admission: Admission) -> bool:
    return bool(((admission.old or {}).get("metadata") or {}).get("deletionTimestamp"))


def _kind(admission: Admission) -> str:
    resource, subresource = admission.scope.kind.resource, admission.scope.subresource
    if resource.group or admission.operation not in ("CREATE", "UPDATE"):
        return ""
    if resource.plural == "pods":
        return (
            "pods" if subresource == "resize" or (admission.operation == "CREATE" and not subresource) else ""
        )
    return resource.plural if resource.plural == "persistentvolumeclaims" and not subresource else ""


def fill(pod: Object, limits: Iterable[Object]) -> None:
    """Set missing resources of containers, and record that in an annotation."""
    requests: dict[str, str] = {}
    caps: dict[str, str] = {}
    for limit in limits:
        if limit.get("type") == "Container":
            requests |= limit.get("defaultRequest") or {}
            caps |= limit.get("default") or {}
    changes: list[str] = []
    spec = pod.get("spec") or {}
    for what, field in (("container", "containers"), ("init container", "initContainers")):
        for container in spec.get(field) or ():
            changes += _filled(container, what, requests, caps)
    if changes:
        annotations = pod["metadata"].setdefault("annotations", {})
        annotations[ANNOTATION] = f"LimitRanger plugin set: {'; '.join(changes)}"


def _filled(container: Object, what: str, requests: Amounts, caps: Amounts) -> Iterable[str]:
    """Set missing resources of a container. Yields the changes as the annotation names them."""
    if not requests and not caps:
        return
    resources = container["resources"] = dict(container.get("resources") or {})
    # The annotation names requests first although limits are set first.
    for field, word, given in (("requests", "request", requests), ("limits", "limit", caps)):
        has = resources.get(field) or {}
        more = {name: amount for name, amount in given.items() if name not in has}
        if more:
            resources[field] = {**has, **more}
            yield f"{', '.join(sorted(more))} {word} for {what} {container.get('name')}"


def pod_findings(pod: Object, limits: Iterable[Object]) -> Iterable[str]:
    """Yield the violations of a Pod."""
    spec = pod.get("spec") or {}
    for limit in limits:
        if limit.get("type") == "Container":
            for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
                resources = container.get("resources") or {}
                yield from _findings(limit, resources.get("requests") or {}, resources.get("limits") or {})
        elif limit.get("type") == "Pod":
            yield from _findings(limit, _total(spec, "requests"), _total(spec, "limits"))


def claim_findings(claim: Object, limits: Iterable[Object]) -> Iterable[str]:
    """Yield the violations of a PersistentVolumeClaim. Only its requests are bounded."""
    requests = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
    for limit in limits:
        if limit.get("type") != "PersistentVolumeClaim":
            continue
        for name, bound in (limit.get("min") or {}).items():
            yield from _below("PersistentVolumeClaim", name, bound, requests, {})
        for name, bound in (limit.get("max") or {}).items():
            said = f"maximum {name} usage per PersistentVolumeClaim is {bound}"
            if name not in requests:
                yield f"{said}.  No request is specified"
            elif milli(requests[name]) > milli(bound):
                yield f"{said}, but request is {requests[name]}"


def _findings(limit: Object, requests: Amounts, limits: Amounts) -> Iterable[str]:
    for field, check in _CHECKS.items():
        for name, bound in (limit.get(field) or {}).items():
            yield from check(str(limit.get("type")), name, str(bound), requests, limits)


def _below(kind: str, name: str, bound: str, requests: Amounts, limits: Amounts) -> Iterable[str]:
    said = f"minimum {name} usage per {kind} is {bound}"
    if name not in requests:
        yield f"{said}.  No request is specified"
    elif milli(str(requests[name])) < milli(bound):
        yield f"{said}, but request is {requests[name]}"
    elif name in limits and milli(str(limits[name])) < milli(bound):
        yield f"{said}, but limit is {limits[name]}"


def _above(kind: str, name: str, bound: str, requests: Amounts, limits: Amounts) -> Iterable[str]:
    said = f"maximum {name} usage per {kind} is {bound}"
    if name not in limits:
        yield f"{said}.  No limit is specified"
    elif milli(str(limits[name])) > milli(bound):
        yield f"{said}, but limit is {limits[name]}"
    elif name in requests and milli(str(requests[name])) > milli(bound):
        yield f"{said}, but request is {requests[name]}"


def _ratio(kind: str, name: str, bound: str, requests: Amounts, limits: Amounts) -> Iterable[str]:
    said = f"{name} max limit to request ratio per {kind} is {bound}"
    request, limit = milli(str(requests.get(name, "0"))), milli(str(limits.get(name, "0")))
    if not request:
        yield f"{said}, but no request is specified or request is 0"
    elif not limit:
        yield f"{said}, but no limit is specified or limit is 0"
    elif limit * 1000 > milli(bound) * request:
        yield f"{said}, but provided ratio is {limit / request:f}"


_CHECKS: Mapping[str, Callable[[str, str, str, Amounts, Amounts], Iterable[str]]] = {
    "min": _below,
    "max": _above,
    "maxLimitRequestRatio": _ratio,
}


def _total(spec: Object, which: str) -> dict[str, str]:
    return {name: str(each) for name, each in pod_total(spec, which).items()}
