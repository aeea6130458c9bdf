"""Pods: created, changed and deleted downward; bound, described and ended upward."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from vcsync.api import names
from vcsync.kube.envelope import Envelope, decode, untyped
from vcsync.kube.resources import PODS, SECRETS
from vcsync.syncer.kinds import (
    metadata,
    pod_convert,
    pod_depends,
    pod_policy,
    pod_status,
    pod_update,
    token,
)
from vcsync.syncer.kinds.metadata import Identity
from vcsync.syncer.kinds.plan import (
    EMPTY,
    Action,
    Bind,
    Create,
    Delete,
    Dependency,
    EnsureNode,
    Kind,
    Notify,
    Patch,
    Plan,
    Related,
    TenantContext,
    View,
    Wait,
)
from vcsync.syncer.kinds.pod_update import PodSpec, pod_spec
from vcsync.syncer.kinds.token import TERMINAL_PHASES

NODE_MISMATCH: Final = "NodeMismatch"
"""Event reason: the tenant's Pod is bound to a node other than the one it runs on."""
ENDED_UNSEEN: Final = "the Pod was deleted and runs no more; how its containers ended is not known"
_REASONS_TOLD = 10
_NO_GATES: Final[frozenset[str]] = frozenset()


class _Condition(Struct, gc=False):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class _Status(Struct):
    phase: str = ""
    conditions: list[_Condition] = []


def plan(v: Envelope | None, p: Envelope | None, context: TenantContext, view: View) -> Plan:
    """Decide what a Pod needs next, in both directions."""
    if v is None:
        return EMPTY if p is None else _orphan(p, context, view)
    if p is None:
        return _alone(v, context, view)
    identity = metadata.identify(v, p, context)
    if identity is not Identity.OURS:
        return metadata.settle_identity(PODS, v, p, context) or EMPTY
    if v.deleting or p.deleting:
        return _ending(v, p, context)
    return _standing(v, p, context, view)


# --- Without the tenant's Pod ----------------------------------------------------------------------------


def _orphan(p: Envelope, context: TenantContext, view: View) -> Plan:
    """The tenant's Pod is gone: so goes what stands for it, and its tokens (which its API server has revoked)."""
    removal = metadata.orphan(PODS, p, p.name, context, view)
    if not removal.actions:
        return removal
    secret = view.super(SECRETS, p.namespace, token.secret_name(p.annotations.get(names.UID, "")))
    if secret is None:
        return removal
    confirm = any(isinstance(action, Delete) and action.confirm for action in removal.actions)
    return Plan(
        (
            *removal.actions,
            Delete("super", SECRETS, secret.namespace, secret.name, secret.uid, confirm=confirm),
        )
    )


# --- Without the super cluster's Pod ---------------------------------------------------------------------


def _alone(  # noqa: PLR0911 - each return is a case of its own
    v: Envelope, context: TenantContext, view: View
) -> Plan:
    if v.deleting:
        return _finish_deletion(v, context, view)
    status = decode(v.status, _Status)
    if status.phase in TERMINAL_PHASES or v.labels.get(names.IGNORE_SYNC) == names.TRUE:
        return EMPTY
    spec: dict[str, Any] = untyped(v.spec)
    if spec.get("schedulingGates"):
        return Plan(wait=Wait("the Pod has scheduling gates left"))
    virtual_node: str = spec.get("nodeName", "")
    node = names.split_virtual_node(virtual_node, context.super_id) if virtual_node else None
    if virtual_node and _is_scheduled(status):
        return _lost(v, virtual_node, node, context)
    if reasons := _refusals(spec, virtual_node, node, context):
        return _refuse(v, status, reasons)
    wait = metadata.super_namespace_wait(v, context, view) or pod_depends.dependencies_wait(
        v.namespace, v.labels, spec, context, view
    )
    if wait is not None:
        return Plan(wait=wait)
    account = spec.get("serviceAccountName") or "default"
    try:
        body, tokens = pod_convert.convert(v, spec, context, view, node=node or "")
    except pod_convert.Refused as refused:
        return _refuse(v, status, [str(refused)], refused.on)
    create = Create("super", PODS, body["metadata"]["namespace"], body)
    before: tuple[Action, ...] = (EnsureNode(node),) if node else ()
    return Plan((*before, *token.request_for(v, account, tokens, context, view), create))


def _finish_deletion(v: Envelope, context: TenantContext, view: View) -> Plan:
    """Nothing runs any more: the tenant's Pod may go, unless it is only held by finalizers."""
    virtual_node: str = untyped(v.spec).get("nodeName", "")
    if virtual_node and names.split_virtual_node(virtual_node, context.super_id) is None:
        return _bound_elsewhere(virtual_node, context)
    namespace = names.super_namespace(context.key, v.namespace)
    secret = view.super(SECRETS, namespace, token.secret_name(v.uid))
    actions: list[Action] = []
    if secret is not None and not secret.deleting:
        actions.append(Delete("super", SECRETS, namespace, secret.name, secret.uid))
    if v.finalizers and virtual_node and not _has_ended(v):
        # Who holds it may wait for that, as Jobs do; the kubelet's word may have gone with the super cluster's Pod.
        told = {"metadata": {"uid": v.uid}, "status": {"phase": "Failed", "message": ENDED_UNSEEN}}
        actions.append(Patch("tenant", PODS, v.namespace, v.name, v.uid, told, "strategic", "status"))
    # A real API server writes grace period 0 first and removes the object then; cut off in between (by the end of the
    # client that asked), it leaves an object that nothing but another deletion removes.
    if v.deletion_grace_seconds != 0 or not v.finalizers:
        actions.append(Delete("tenant", PODS, v.namespace, v.name, v.uid, grace_seconds=0))
    return Plan(tuple(actions))


def _is_scheduled(status: _Status) -> bool:
    """Whether nodeName came by a Binding (which sets the condition), not with the Pod itself."""
    return any(
        condition.type == pod_status.POD_SCHEDULED and condition.status == "True"
        for condition in status.conditions
    )


def _lost(v: Envelope, virtual_node: str, node: str | None, context: TenantContext) -> Plan:
    """A bound Pod is never created again: what ran has gone, and its controller makes another."""
    if node is None:
        return _bound_elsewhere(virtual_node, context)
    return Plan((Delete("tenant", PODS, v.namespace, v.name, v.uid, grace_seconds=0, confirm=True),))


def _bound_elsewhere(virtual_node: str, context: TenantContext) -> Plan:
    """Its label is wrong (tenants can write it): it is another syncer's to make or to end."""
    return Plan(
        wait=Wait(f"the Pod is bound to {virtual_node}, which is not in super cluster {context.super_id}")
    )


def _refusals(spec: dict[str, Any], virtual_node: str, node: str | None, context: TenantContext) -> list[str]:
    reasons = list(pod_policy.refusals(spec, context.policy))
    if virtual_node and node is None and context.policy.node_name == "Allow":
        reasons.append(
            f"spec.nodeName {virtual_node} is no node of super cluster {context.super_id}; name one that ends in "
            f".{context.super_id}"
        )
    return reasons


def _refuse(v: Envelope, status: _Status, reasons: list[str], on: tuple[Dependency, ...] = ()) -> Plan:
    """Tell the tenant why a Pod does not run, once.

    Args:
        v: the tenant's Pod.
        status: its status.
        reasons: why.
        on: what may change that.
    """
    message = "; ".join(reasons[:_REASONS_TOLD])
    if len(reasons) > _REASONS_TOLD:
        message += f"; and {len(reasons) - _REASONS_TOLD} more"
    wait = Wait(message, on)
    for condition in status.conditions:
        if condition.type == pod_status.POD_SCHEDULED and (
            (condition.status, condition.reason, condition.message)
            == ("False", metadata.POLICY_REFUSED, message)
        ):
            return Plan(wait=wait)
    told = {
        "type": pod_status.POD_SCHEDULED,
        "status": "False",
        "reason": metadata.POLICY_REFUSED,
        "message": message,
    }
    body = {"metadata": {"uid": v.uid}, "status": {"conditions": [told]}}
    return Plan(
        (
            Patch("tenant", PODS, v.namespace, v.name, v.uid, body, "strategic", "status"),
            Notify("Warning", metadata.POLICY_REFUSED, message),
        ),
        wait,
    )


# --- Both, one being deleted -----------------------------------------------------------------------------


def _ending(v: Envelope, p: Envelope, context: TenantContext) -> Plan:
    """Follow the side that ends: each side's deletion reaches the other with its grace period."""
    want, have = pod_spec(v), pod_spec(p)
    actions = _status(v, p, want, have, context, spec_settled=False)
    if v.deleting:
        actions += _delete_super(v, p)
    elif not _has_ended(p) and not _has_ended(v):
        # At least 1: with 0 the tenant's would be gone before p has stopped.
        grace = max(1, p.deletion_grace_seconds or 0)
        actions += (Delete("tenant", PODS, v.namespace, v.name, v.uid, grace_seconds=grace, confirm=True),)
    # A finished Pod that the super cluster tidies away stays in the tenant, for the tenant to tidy.
    return Plan(actions)


def _delete_super(v: Envelope, p: Envelope) -> tuple[Action, ...]:
    """Delete p with v's grace period; again, if the tenant has shortened it since.

    Never with 0, by which p would vanish before the kubelet has stopped its containers: 1 is as fast and confirmed.
    """
    grace = v.deletion_grace_seconds
    if grace is not None:
        grace = max(1, grace)
    if p.deleting:
        granted = p.deletion_grace_seconds
        if grace is None or granted is None or granted <= grace:
            return ()
    return (Delete("super", PODS, p.namespace, p.name, p.uid, grace_seconds=grace),)


def _has_ended(envelope: Envelope) -> bool:
    return decode(envelope.status, _Status).phase in TERMINAL_PHASES


# --- Both standing ---------------------------------------------------------------------------------------


def _standing(v: Envelope, p: Envelope, context: TenantContext, view: View) -> Plan:
    want, have = pod_spec(v), pod_spec(p)
    if want.node_name and have.node_name:
        virtual_node = names.virtual_node_name(have.node_name, context.super_id)
        if want.node_name != virtual_node:
            return _mismatch(v, want.node_name, virtual_node)
    gates = _gates(want)
    down, spec_settled = pod_update.update(v, p, want, have, context)
    if names.TOKENS in p.annotations:
        down += _missing_tokens(v, p, want, context, view)
    if gates and (conditions := pod_status.gates_down(v, p, gates)):
        body = {"metadata": {"uid": p.uid}, "status": {"conditions": conditions}}
        down += (Patch("super", PODS, p.namespace, p.name, p.uid, body, "strategic", "status"),)
    up = _status(v, p, want, have, context, spec_settled=spec_settled)
    actions = down + up
    return Plan(actions) if actions else EMPTY


def _gates(spec: PodSpec) -> frozenset[str]:
    if not spec.readiness_gates:
        return _NO_GATES
    return frozenset(gate.condition_type for gate in spec.readiness_gates)


def _mismatch(v: Envelope, bound: str, runs_on: str) -> Plan:
    """Somebody but us bound the tenant's Pod. Neither binding can change: it must be made anew."""
    message = f"the Pod was bound to {bound} but runs on {runs_on}; it is deleted, do not bind Pods yourself"
    return Plan(
        (
            Notify("Warning", NODE_MISMATCH, message),
            Delete("tenant", PODS, v.namespace, v.name, v.uid),
        )
    )


def _missing_tokens(
    v: Envelope, p: Envelope, want: PodSpec, context: TenantContext, view: View
) -> tuple[Action, ...]:
    if view.super(SECRETS, p.namespace, token.secret_name(v.uid)) is not None or _has_ended(p):
        return ()
    tokens = pod_convert.token_sources(untyped(v.spec), v, context)
    return token.request_for(v, want.service_account_name, tokens, context, view)


def _status(
    v: Envelope,
    p: Envelope,
    want: PodSpec,
    have: PodSpec,
    context: TenantContext,
    *,
    spec_settled: bool,
) -> tuple[Action, ...]:
    """Bind the tenant's Pod where p is, and bring up what differs of metadata and status."""
    actions: tuple[Action, ...] = ()
    binding = bool(have.node_name) and not want.node_name and not v.deleting
    if binding:
        virtual_node = names.virtual_node_name(have.node_name, context.super_id)
        actions = (EnsureNode(have.node_name), Bind(v.namespace, v.name, v.uid, virtual_node))
    # Transparent metadata travels with the status: one write, and no right to patch a tenant's Pods needed.
    changes = metadata.upward_metadata(v, p, context)
    status = None
    if have.node_name or not want.node_name:  # else p, as cached, is older than v's binding
        status = pod_status.status_up(v, p, _gates(want), context, spec_settled=spec_settled, binding=binding)
    if changes or status:
        body: dict[str, Any] = {"metadata": {**changes, "uid": v.uid}}
        if status:
            body["status"] = status
        actions += (Patch("tenant", PODS, v.namespace, v.name, v.uid, body, subresource="status"),)
    return actions


POD = Kind(
    name="pods",
    resource=PODS,
    plan=plan,
    upward=True,
    related=(Related("super", SECRETS, token.pod_of),),
)
"""Pods. A syncer receives those whose label `scheduler.virtualcluster.io/superCluster` names its super cluster."""
