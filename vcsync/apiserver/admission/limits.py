"""LimitRanges: sets default resources of containers, and enforces bounds.

Source: Kubernetes' `plugin/pkg/admission/limitranger`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.admission.framework.plugin import Lookup, refusal
from vcsync.apiserver.request.scope import Admission
from vcsync.objects.budget import Budget, BudgetExceeded
from vcsync.objects.quantity import milli
from vcsync.process.loop_turns import rest
from vcsync.quota.usage import pod_total

MAX_COMPARISONS = 100_000
"""Most bounds and defaults of all LimitRanges, times the containers that they concern. kube-apiserver has no limit."""
COMPARISON_STEPS = 10
"""Steps of the budget that one of them takes."""
ANNOTATION = "kubernetes.io/limit-ranger"
Amounts = Mapping[str, str]


async def limit_defaults(admission: Admission, lookup: Lookup) -> None:
    """Set the default resources of a Pod's containers from the LimitRanges of the namespace."""
    if admission.new is not None and _kind(admission) == "pods" and not _ends(admission):
        budget = _budget(admission)
        with _refused(admission):
            for limits in await _ranges(admission, lookup):
                await fill(admission.new, limits, budget)


async def limit_bounds(admission: Admission, lookup: Lookup) -> None:
    """Enforce the LimitRanges of the namespace on a Pod or a PersistentVolumeClaim.

    Raises:
        StatusError: 403, a bound is exceeded.
    """
    new, kind = admission.new, _kind(admission)
    if not kind or new is None or _ends(admission):
        return
    budget = _budget(admission)
    for limits in await _ranges(admission, lookup):
        found: list[str] = []
        with _refused(admission):
            for finding in pod_findings(new, limits) if kind == "pods" else claim_findings(new, limits):
                found += [finding] if finding else ()
                budget.spend(COMPARISON_STEPS)
                await rest(budget)
        if found:
            raise refusal(admission, found[0] if len(found) == 1 else f"[{', '.join(found)}]")


def _budget(admission: Admission) -> Budget:
    name = f"the LimitRanges of namespace {admission.scope.namespace}"
    return Budget(name, MAX_COMPARISONS * COMPARISON_STEPS)


@contextmanager
def _refused(admission: Admission) -> Iterator[None]:
    """Refuse a write whose LimitRanges take too long."""
    try:
        yield
    except BudgetExceeded:
        raise refusal(
            admission,
            f"the LimitRanges of the namespace have more than {MAX_COMPARISONS} bounds and defaults for all containers of it"
            " together; use fewer LimitRanges or fewer containers",
        ) from None


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


async def fill(pod: Object, limits: Iterable[Object], budget: Budget) -> None:
    """Set missing resources of containers, and record that in an annotation. Each takes steps of the budget.

    Raises:
        BudgetExceeded: They are too many.
    """
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
            budget.spend((1 + len(requests) + len(caps)) * COMPARISON_STEPS)
            await rest(budget)
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
    """Yield the violations of a Pod: a text for each bound and container, which is empty if the bound holds."""
    spec = pod.get("spec") or {}
    totals: tuple[Amounts, Amounts] | None = None
    for limit in limits:
        if limit.get("type") == "Container":
            for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
                resources = container.get("resources") or {}
                yield from _findings(limit, resources.get("requests") or {}, resources.get("limits") or {})
        elif limit.get("type") == "Pod":
            totals = totals or (_total(spec, "requests"), _total(spec, "limits"))
            yield from _findings(limit, *totals)


def claim_findings(claim: Object, limits: Iterable[Object]) -> Iterable[str]:
    """Yield the violations of a PersistentVolumeClaim, like `pod_findings`. Only its requests are bounded."""
    requests = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
    for limit in limits:
        if limit.get("type") != "PersistentVolumeClaim":
            continue
        for name, bound in (limit.get("min") or {}).items():
            yield _below("PersistentVolumeClaim", name, bound, requests, {})
        for name, bound in (limit.get("max") or {}).items():
            said = f"maximum {name} usage per PersistentVolumeClaim is {bound}"
            if name not in requests:
                yield f"{said}.  No request is specified"
            elif milli(requests[name]) > milli(bound):
                yield f"{said}, but request is {requests[name]}"
            else:
                yield ""


def _findings(limit: Object, requests: Amounts, limits: Amounts) -> Iterable[str]:
    for field, check in _CHECKS.items():
        for name, bound in (limit.get(field) or {}).items():
            yield check(str(limit.get("type")), name, str(bound), requests, limits)


def _below(kind: str, name: str, bound: str, requests: Amounts, limits: Amounts) -> str:
    said = f"minimum {name} usage per {kind} is {bound}"
    if name not in requests:
        return f"{said}.  No request is specified"
    if milli(str(requests[name])) < milli(bound):
        return f"{said}, but request is {requests[name]}"
    if name in limits and milli(str(limits[name])) < milli(bound):
        return f"{said}, but limit is {limits[name]}"
    return ""


def _above(kind: str, name: str, bound: str, requests: Amounts, limits: Amounts) -> str:
    said = f"maximum {name} usage per {kind} is {bound}"
    if name not in limits:
        return f"{said}.  No limit is specified"
    if milli(str(limits[name])) > milli(bound):
        return f"{said}, but limit is {limits[name]}"
    if name in requests and milli(str(requests[name])) > milli(bound):
        return f"{said}, but request is {requests[name]}"
    return ""


def _ratio(kind: str, name: str, bound: str, requests: Amounts, limits: Amounts) -> str:
    said = f"{name} max limit to request ratio per {kind} is {bound}"
    request, limit = milli(str(requests.get(name, "0"))), milli(str(limits.get(name, "0")))
    if not request:
        return f"{said}, but no request is specified or request is 0"
    if not limit:
        return f"{said}, but no limit is specified or limit is 0"
    if limit * 1000 > milli(bound) * request:
        return f"{said}, but provided ratio is {limit / request:f}"
    return ""


_CHECKS: Mapping[str, Callable[[str, str, str, Amounts, Amounts], str]] = {
    "min": _below,
    "max": _above,
    "maxLimitRequestRatio": _ratio,
}


def _total(spec: Object, which: str) -> dict[str, str]:
    return {name: str(each) for name, each in pod_total(spec, which).items()}
