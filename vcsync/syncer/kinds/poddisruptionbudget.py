"""PodDisruptionBudgets: evictions in super clusters honour the budget of the tenant.

Copies of Pods have no controllers, so the disruption controller of a super cluster can count only with a number as
`minAvailable`. The copy of a budget has one that forbids every eviction, until an operator drains a node:
`disruption_floors.py` decides which number it has then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct, ValidationError, field

from vcsync.api import names
from vcsync.kube.resources import POD_DISRUPTION_BUDGETS, PODS
from vcsync.objects.envelope import Envelope, decode, untyped
from vcsync.objects.merge_patch import create_merge_patch
from vcsync.objects.selectors import InvalidSelector, LabelSelector, Selector, compile_selector
from vcsync.syncer.kinds import keys, metadata, stripped_selector
from vcsync.syncer.kinds.disruption_floors import (
    CLOSED,
    TURN_SECONDS,
    Budget,
    Claim,
    Copy,
    Leaving,
    Step,
    decide,
    encode,
    read,
)
from vcsync.syncer.kinds.plan import (
    EMPTY,
    Action,
    Create,
    Kind,
    Patch,
    Plan,
    TenantContext,
    View,
    Wait,
)
from vcsync.syncer.kinds.token import TERMINAL_PHASES

LOOK_AGAIN_SECONDS: Final = 5.0
"""Seconds until a budget of Pods on an unschedulable node is planned again, since Pods leave and turns pass."""

_ALWAYS: Final = "AlwaysAllow"


class _Status(Struct, rename="camel"):
    observed_generation: int = 0
    desired_healthy: int = 0
    current_healthy: int = 0
    disruptions_allowed: int = 0
    disrupted_pods: dict[str, Any] = {}


class _Condition(Struct):
    type: str
    status: str


class _PodStatus(Struct):
    phase: str = ""
    conditions: list[_Condition] = field(default_factory=list)


def plan(v: Envelope | None, p: Envelope | None, context: TenantContext, view: View) -> Plan:
    """Keep the copy's selector equal to the tenant's, and its `minAvailable` at what may be disrupted here."""
    if v is None:
        return EMPTY if p is None else metadata.orphan(POD_DISRUPTION_BUDGETS, p, p.name, context, view)
    spec: dict[str, Any] = untyped(v.spec)
    if (unknown := sorted(stripped_selector.keys(spec.get("selector"), context))) and not v.deleting:
        return _not_enforced(v, p, unknown[0], context)
    if selector := spec.get("selector"):
        spec["selector"] = keys.label_selector(selector, PODS, context)
    if p is None:
        return EMPTY if v.deleting else _create(v, spec, context, view)
    if (unsettled := metadata.settle_identity(POD_DISRUPTION_BUDGETS, v, p, context)) is not None:
        return unsettled
    return _compare(v, p, spec, context, view)


def _not_enforced(v: Envelope, p: Envelope | None, key: str, context: TenantContext) -> Plan:
    """Report the budget, and delete a copy that selects by an earlier selector: it would forbid evictions forever."""
    deletion = metadata.without_copy(POD_DISRUPTION_BUDGETS, v, p, context)
    return stripped_selector.not_enforced(POD_DISRUPTION_BUDGETS, v, key, *deletion)


def _create(v: Envelope, spec: Mapping[str, Any], context: TenantContext, view: View) -> Plan:
    if (wait := metadata.super_namespace_wait(v, context, view)) is not None:
        return Plan(wait=wait)
    body: dict[str, Any] = {
        "apiVersion": POD_DISRUPTION_BUDGETS.api_version,
        "kind": POD_DISRUPTION_BUDGETS.kind,
        "metadata": metadata.super_metadata(POD_DISRUPTION_BUDGETS, v, context),
        "spec": convert(spec, CLOSED, context),
    }
    return Plan((Create("super", POD_DISRUPTION_BUDGETS, body["metadata"]["namespace"], body),))


def convert(spec: Mapping[str, Any], minimum: int, context: TenantContext) -> dict[str, Any]:
    """Return the spec for the super cluster.

    A selector selects copies of this tenant's Pods only. Without one, a budget selects no Pods, as in the tenant.

    While the budget is open, the tenant has as many healthy Pods as it demands, so that `IfHealthyBudget` permits evictions of
    the others. The super cluster could not tell from the Pods that it has itself.

    Args:
        spec: the tenant's spec.
        minimum: `minAvailable`; any other than `CLOSED` opens the budget.
        context: the tenant's settings.
    """
    converted: dict[str, Any] = {"minAvailable": minimum}
    if (selector := spec.get("selector")) is not None:
        ours = {**(selector.get("matchLabels") or {}), names.CLUSTER: context.key}
        converted["selector"] = {**selector, "matchLabels": ours}
    policy = _ALWAYS if minimum != CLOSED else spec.get("unhealthyPodEvictionPolicy")
    if policy is not None:
        converted["unhealthyPodEvictionPolicy"] = policy
    return converted


def _compare(v: Envelope, p: Envelope, spec: Mapping[str, Any], context: TenantContext, view: View) -> Plan:
    actual: dict[str, Any] = untyped(p.spec)
    placement = view.placement(v.namespace)
    placed = sorted(placement.placements) if placement is not None else []
    claims = _claims(v, placed)
    leaving = _leaving(v, spec, view)
    copy = _copy(p, actual, counts=convert(spec, CLOSED, context).get("selector") == actual.get("selector"))
    step = (
        decide(
            _budget(v),
            copy,
            claims,
            super_id=context.super_id,
            leaving=leaving,
            turn=view.turn(TURN_SECONDS),
        )
        if copy is not None
        else Step(CLOSED, claims.get(context.super_id))
    )
    fields = create_merge_patch(actual, convert(spec, step.minimum, context))
    changes = metadata.metadata_patch(POD_DISRUPTION_BUDGETS, v, p, context)
    if fields:
        # A write that lowers `minAvailable` must not overtake another one, so it names the version that it was decided from.
        changes["resourceVersion"] = p.resource_version
    down = metadata.super_patch(POD_DISRUPTION_BUDGETS, p, changes, {"spec": fields} if fields else {})
    wait = None
    if leaving.total:
        why = f": {step.reason}" if step.reason else ""
        wait = Wait(
            f"PodDisruptionBudget {v.name}: Pods are on an unschedulable node{why}", after=LOOK_AGAIN_SECONDS
        )
    if fields:
        return Plan(down, wait)
    return Plan(down + _publish(v, step, claims, placed, context), wait)


def _budget(v: Envelope) -> Budget | None:
    """Return what the tenant has counted; None if it has not counted for its present spec."""
    try:
        status = decode(v.status, _Status)
    except ValidationError:
        return None
    if not v.status or status.observed_generation != v.generation:
        return None
    return Budget(
        v.generation,
        status.desired_healthy,
        status.current_healthy,
        status.disruptions_allowed,
        len(status.disrupted_pods),
    )


def _copy(p: Envelope, actual: Mapping[str, Any], *, counts: bool) -> Copy | None:
    """Return the copy's state; None if somebody has replaced its `minAvailable` by something else.

    Args:
        p: The copy.
        actual: Its spec.
        counts: Whether it counts the Pods of the tenant's present selector.
    """
    minimum = actual.get("minAvailable")
    if not isinstance(minimum, int):
        return None
    status = decode(p.status, _Status)
    known = counts and bool(p.status) and status.observed_generation == p.generation
    return Copy(minimum, status.current_healthy if known else None)


def _claims(v: Envelope, placed: list[str]) -> dict[str, Claim]:
    """Return the claims of super clusters with slices, for the present generation of the budget."""
    found: dict[str, Claim] = {}
    for super_id in placed:
        text = v.annotations.get(names.DISRUPTIONS_PREFIX + super_id)
        claim = read(text) if text is not None else None
        if claim is not None and claim.generation == v.generation:
            found[super_id] = claim
    return found


def _leaving(v: Envelope, spec: Mapping[str, Any], view: View) -> Leaving:
    """Count the Pods of the budget on unschedulable nodes here, without those that end or have ended."""
    total = healthy = 0
    selects = None
    for pod in view.on_cordoned_nodes(v.namespace):
        selects = selects or _selector(spec)
        if selects is None:
            break
        if pod.deleting or not selects.matches(pod.labels):
            continue
        status = decode(pod.status, _PodStatus)
        if status.phase in TERMINAL_PHASES:
            continue
        total += 1
        healthy += any(each.type == "Ready" and each.status == "True" for each in status.conditions)
    return Leaving(total, healthy)


def _selector(spec: Mapping[str, Any]) -> Selector | None:
    """Return the compiled selector; None if there is none, which selects nothing."""
    if spec.get("selector") is None:
        return None
    try:
        return compile_selector(msgspec.convert(spec["selector"], LabelSelector))
    except (ValidationError, InvalidSelector):
        return None


def _publish(
    v: Envelope, step: Step, claims: Mapping[str, Claim], placed: list[str], context: TenantContext
) -> tuple[Action, ...]:
    """Return the write of this super cluster's claim; the first super cluster in order also removes those of former ones.

    It goes to the status subresource, so that the syncer needs no right to change the spec.
    """
    if context.super_id not in placed:
        return ()
    own = names.DISRUPTIONS_PREFIX + context.super_id
    changes: dict[str, str | None] = {}
    if step.claim != claims.get(context.super_id):
        changes[own] = encode(step.claim) if step.claim is not None else None
    elif step.claim is None and own in v.annotations and not step.reason:
        changes[own] = None
    if placed[0] == context.super_id:
        for annotation in v.annotations:
            prefix, former = (
                annotation[: len(names.DISRUPTIONS_PREFIX)],
                annotation[len(names.DISRUPTIONS_PREFIX) :],
            )
            if prefix == names.DISRUPTIONS_PREFIX and former not in placed:
                changes[annotation] = None
    if not changes:
        return ()
    body = {"metadata": {"uid": v.uid, "resourceVersion": v.resource_version, "annotations": changes}}
    return (Patch("tenant", POD_DISRUPTION_BUDGETS, v.namespace, v.name, v.uid, body, subresource="status"),)


POD_DISRUPTION_BUDGET = Kind(
    name="poddisruptionbudgets",
    resource=POD_DISRUPTION_BUDGETS,
    plan=plan,
    optional=True,
    upward=True,
    follows_status=True,
)
"""PodDisruptionBudgets."""
