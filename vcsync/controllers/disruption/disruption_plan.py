"""PodDisruptionBudgets: the number of Pods that may be evicted now. Pure.

Behaviour: Kubernetes' `pkg/controller/disruption`. Replicas are read from owners of Kubernetes' built-in kinds, and from the
scales of others that were asked for before.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from vcsync.controllers.deployment.objects import amount
from vcsync.controllers.disruption.scales import (
    OWNERS,
    Foreign,
    NotAsked,
    UnknownScale,
    expected,
    is_foreign,
)
from vcsync.controllers.framework import ownership, pods
from vcsync.controllers.framework.event_handlers import gathering, own, selecting, standing
from vcsync.controllers.framework.mirror import Key, key_of, namespace_of
from vcsync.controllers.framework.plan import (
    NOTHING,
    Action,
    Controller,
    Emit,
    Patch,
    Plan,
    View,
    Watch,
    status_patch,
)
from vcsync.controllers.framework.selector_index import few
from vcsync.kube.cache import Change
from vcsync.kube.events import EventType, ObjectRef
from vcsync.kube.resources import POD_DISRUPTION_BUDGETS, PODS
from vcsync.objects.conditions import Condition, find_condition
from vcsync.objects.envelope import Envelope, OwnerReference, decode
from vcsync.objects.selectors import LabelSelector, compile_selector
from vcsync.objects.times import time_text

NAME = "disruption-controller"
DELETION_SECONDS = 120
"""Seconds after an eviction after which a Pod that still exists counts as not evicted."""
RETRY_SECONDS = 5.0
"""Seconds until an owner that has not been seen yet is looked up again."""
ALLOWED = "DisruptionAllowed"
TARGET = "DisruptionTarget"
_BY_KUBELET = "TerminationByKubelet"


class BudgetSpec(Struct, frozen=True, rename="camel"):
    """The parts of a PodDisruptionBudget's spec."""

    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: LabelSelector | None = None


class BudgetStatus(Struct, frozen=True, rename="camel"):
    """A PodDisruptionBudget's status."""

    observed_generation: int = 0
    disrupted_pods: dict[str, str] | None = None
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    conditions: list[dict[str, Any]] | None = None


def plan(view: View, key: Key, foreign: Foreign | None = None) -> Plan:
    """Count a budget's Pods and write the number that may be evicted; it is 0 while the count is unknown.

    Args:
        view: the mirrors.
        key: the budget.
        foreign: the scales of owners that no mirror has; None: they cannot be asked for.
    """
    budget = view.of[POD_DISRUPTION_BUDGETS].get(*key)
    if budget is None:
        return NOTHING
    spec, before = decode(budget.spec, BudgetSpec), decode(budget.status, BudgetStatus)
    mine = _pods(view, budget, spec)
    try:
        count, desired, unmanaged = _demand(view, spec, mine, foreign)
    except NotAsked:
        return Plan(again=0.0)
    except UnknownScale as error:
        return _failed(budget, before, str(error), view.now)
    disrupted, overdue = _disrupted(before, mine, view.now)
    healthy = sum(
        not pod.deleting and pod.name not in disrupted and pods.ready_since(pod) is not None for pod in mine
    )
    allowed = max(healthy - desired, 0) if count > 0 else 0
    status = BudgetStatus(budget.generation, disrupted or None, allowed, healthy, desired, count)
    reason = "SufficientPods" if allowed else "InsufficientPods"
    status = replace(status, conditions=_conditions(before, status, bool(allowed), (reason, ""), view.now))
    until = (_gone_by(each) - view.now for each in disrupted.values())
    again = min((each.total_seconds() for each in until), default=None)
    if status == replace(before, disrupted_pods=before.disrupted_pods or None):
        return Plan(again=again)
    events = _events(budget, spec, mine, unmanaged, overdue)
    return Plan([[_patch(budget, before, status)], events], again=again)


def _pods(view: View, budget: Envelope, spec: BudgetSpec) -> list[Envelope]:
    if spec.selector is None:
        return []
    selector = compile_selector(spec.selector)
    everyone = view.of[PODS].within(budget.tenant, namespace_of(budget))
    return [pod for pod in everyone if selector.matches(pod.labels)]


def foreign_owners(view: View, key: Key) -> list[OwnerReference]:
    """Return the owners of a budget's Pods whose scales count and that no mirror has, each once."""
    budget = view.of[POD_DISRUPTION_BUDGETS].get(*key)
    if budget is None:
        return []
    spec = decode(budget.spec, BudgetSpec)
    if spec.max_unavailable is None and not isinstance(spec.min_available, str):
        return []
    owners = map(ownership.controller_of, _pods(view, budget, spec))
    return list({each.uid: each for each in owners if each is not None and is_foreign(each)}.values())


def _demand(
    view: View, spec: BudgetSpec, mine: Sequence[Envelope], foreign: Foreign | None
) -> tuple[int, int, list[str]]:
    """Return the expected number of Pods, the required number of healthy ones, and the unmanaged Pods.

    Raises:
        UnknownScale: an owner's scale is unknown.
        NotAsked: an owner's scale was not asked for.
    """
    if spec.max_unavailable is not None:
        count, unmanaged = expected(view, mine, foreign)
        return count, max(count - amount(spec.max_unavailable, count, up=True), 0), unmanaged
    if isinstance(spec.min_available, str):
        count, unmanaged = expected(view, mine, foreign)
        return count, amount(spec.min_available, count, up=True), unmanaged
    return (0, 0, []) if spec.min_available is None else (len(mine), spec.min_available, [])


def _disrupted(
    before: BudgetStatus, mine: Iterable[Envelope], now: datetime
) -> tuple[dict[str, str], list[Envelope]]:
    """Return the Pods that were evicted and are about to end, and those that should have ended by now."""
    noted = before.disrupted_pods or {}
    standing_ = [pod for pod in mine if pod.name in noted and not pod.deleting]
    overdue = [pod for pod in standing_ if _gone_by(noted[pod.name]) <= now]
    late = {pod.name for pod in overdue}
    return {pod.name: noted[pod.name] for pod in standing_ if pod.name not in late}, overdue


def _gone_by(evicted: str) -> datetime:
    return datetime.fromtimestamp(
        pods.moment(evicted).timestamp() + DELETION_SECONDS, pods.moment(evicted).tzinfo
    )


def _conditions(
    before: BudgetStatus, after: BudgetStatus, allowed: bool, why: tuple[str, str], now: datetime
) -> list[dict[str, Any]]:
    known = next((each for each in before.conditions or () if each.get("type") == ALLOWED), None)
    same = known is not None and known.get("status") == str(allowed)
    condition = {
        "type": ALLOWED,
        "status": str(allowed),
        "reason": why[0],
        "message": why[1],
        "observedGeneration": after.observed_generation,
        "lastTransitionTime": known["lastTransitionTime"] if known and same else time_text(now),
    }
    kept = list(before.conditions or ())
    return [condition if each is known else each for each in kept] + ([] if known else [condition])


def _failed(budget: Envelope, before: BudgetStatus, message: str, now: datetime) -> Plan:
    conditions = _conditions(before, before, False, ("SyncFailed", message), now)
    status = replace(before, disruptions_allowed=0, conditions=conditions)
    if status == before:
        return Plan(again=RETRY_SECONDS)
    text = f"Failed to calculate the number of expected pods: {message}"
    event = _event(budget, "Warning", "CalculateExpectedPodCountFailed", text)
    return Plan([[_patch(budget, before, status)], [event]], again=RETRY_SECONDS)


def _patch(budget: Envelope, before: BudgetStatus, status: BudgetStatus) -> Patch:
    noted = status.disrupted_pods or {}
    gone: dict[str, str | None] = dict.fromkeys((before.disrupted_pods or {}).keys() - noted.keys())
    written = {
        "observedGeneration": status.observed_generation or None,
        "disruptedPods": {**gone, **noted} or None,
        "disruptionsAllowed": status.disruptions_allowed,
        "currentHealthy": status.current_healthy,
        "desiredHealthy": status.desired_healthy,
        "expectedPods": status.expected_pods,
        "conditions": status.conditions,
    }
    # The patch has a precondition, because an eviction in between relies on the status that it read.
    return status_patch(POD_DISRUPTION_BUDGETS, budget, written, unchanged=True)


# ---- Events --------------------------------------------------------------------------------


def _event(about: Envelope, type_: EventType, reason: str, message: str) -> Emit:
    place = namespace_of(about), about.uid
    return Emit(ObjectRef("policy/v1", "PodDisruptionBudget", about.name, *place), type_, reason, message)


def _events(
    budget: Envelope,
    spec: BudgetSpec,
    mine: Sequence[Envelope],
    unmanaged: Sequence[str],
    overdue: Iterable[Envelope],
) -> list[Action]:
    events: list[Action] = []
    if not mine:
        events.append(_event(budget, "Normal", "NoPods", "No matching pods found"))
    if unmanaged:
        message = (
            f"Pods selected by this PodDisruptionBudget (selector: {_go_selector(spec.selector)}) were found to be "
            "unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in undefined "
            'behavior. To account for these pods please set ".spec.minAvailable" field of the PDB to an integer value.'
        )
        events.append(_event(budget, "Warning", "UnmanagedPods", message))
    namespace = namespace_of(budget)
    for pod in overdue:
        about = ObjectRef("v1", "Pod", pod.name, namespace, pod.uid)
        message = f"Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't"
        events.append(Emit(about, "Warning", "NotDeleted", message))
    return events


def _go_selector(selector: LabelSelector | None) -> str:
    """Return a selector in Go's format, as it appears in Kubernetes' Events."""
    selector = selector or LabelSelector()
    labels = "".join(f"{name}: {text}," for name, text in sorted((selector.match_labels or {}).items()))
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{each.key},Operator:{each.operator},Values:[{' '.join(each.values)}],}},"
        for each in selector.match_expressions or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )


# ---- Pods that were evicted and still exist ------------------------------------------------


def plan_target(view: View, key: Key) -> Plan:
    """Remove the condition DisruptionTarget from a Pod that did not end."""
    pod = view.of[PODS].get(*key)
    condition = None if pod is None else _target(pod)
    if pod is None or condition is None:
        return NOTHING
    age = (view.now - pods.moment(condition.last_transition_time)).total_seconds()
    if age < DELETION_SECONDS:
        return Plan(again=DELETION_SECONDS - age)
    new = {"type": TARGET, "status": "False", "lastTransitionTime": time_text(view.now)}
    patch = {
        "metadata": {"uid": pod.uid},
        "status": {"conditions": [{**new, "reason": "", "message": ""}]},
    }
    return Plan([[Patch(PODS, key.namespace, key.name, patch, "strategic", "status")]])


def _target(pod: Envelope) -> Condition | None:
    its = pods.status(pod)
    found = find_condition(its.conditions, TARGET)
    if found is None or found.status != "True" or found.reason == _BY_KUBELET:
        return None
    return None if pod.deleting or its.phase in pods.FINISHED else found


def _targets(change: Change, _look: View) -> Iterable[Key]:
    pod = change.new
    return [] if pod is None or b'"DisruptionTarget"' not in pod.status else [key_of(pod)]


# ---- Triggers ------------------------------------------------------------------------------


def _budgets(change: Change, view: View) -> Iterable[Key]:
    """Return the budgets of a Pod, if a field changed that affects their counts."""
    found = [key_of(each) for each in selecting(POD_DISRUPTION_BUDGETS, change, view)]
    # This comes last, because most Pods have no budget and then need no decoding.
    if (
        found
        and change.old is not None
        and change.new is not None
        and _relevant(change.old) == _relevant(change.new)
    ):
        return ()
    return found


def _relevant(pod: Envelope) -> tuple[object, ...]:
    return pod.uid, pod.labels, pod.owners, pod.deleting, pods.ready_since(pod) is not None


def _owned_budgets(change: Change, view: View) -> Iterable[Key]:
    """Return the budgets that may depend on the replicas of an owner, if these changed."""
    if change.old is not None and change.new is not None and change.old.generation == change.new.generation:
        return ()
    owner = standing(change)
    budgets = view.of[POD_DISRUPTION_BUDGETS].within(owner.tenant, namespace_of(owner))
    return [key_of(each) for each in few(budgets)]


DISRUPTION = Controller(
    NAME,
    (
        Watch(POD_DISRUPTION_BUDGETS, own),
        Watch(PODS, _budgets, gathering(pace=4000.0, most=1.0)),
        *(Watch(each, _owned_budgets) for each in OWNERS),
    ),
    plan,
)
DISRUPTION_TARGET = Controller("disruption-target-controller", (Watch(PODS, _targets),), plan_target)
