"""Pods: created, updated and deleted downward; bound, updated in their status and deleted upward."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from vcsync.api import names, without_effect
from vcsync.kube.resources import PODS, SECRETS
from vcsync.objects.conditions import Condition
from vcsync.objects.envelope import Envelope, decode, untyped
from vcsync.syncer.kinds import (
    metadata,
    pod_claims,
    pod_convert,
    pod_depends,
    pod_ephemeral,
    pod_limits,
    pod_name,
    pod_policy,
    pod_return,
    pod_status,
    pod_update,
    token,
)
from vcsync.syncer.kinds.grace import limited_grace
from vcsync.syncer.kinds.metadata import Identity
from vcsync.syncer.kinds.plan import (
    EMPTY,
    Action,
    Bind,
    ConfirmAbsent,
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
from vcsync.syncer.kinds.pod_end import ended_by_deletion
from vcsync.syncer.kinds.pod_update import PodSpec, pod_spec
from vcsync.syncer.kinds.token import TERMINAL_PHASES

NODE_MISMATCH: Final = "NodeMismatch"
"""Event reason: the tenant's Pod is not bound to the node on which it runs."""
ENDED_UNSEEN: Final = "the Pod was deleted and runs no more; how its containers ended is not known"
"""Message of the status of a deleted Pod whose containers' exit codes are unknown."""
_MAX_REASONS = 10
_NO_GATES: Final[frozenset[str]] = frozenset()


class _Status(Struct):
    phase: str = ""
    conditions: list[Condition] = []


def plan(v: Envelope | None, p: Envelope | None, context: TenantContext, view: View) -> Plan:
    """Return the next actions for a Pod, in both directions."""
    if v is None:
        return EMPTY if p is None else _orphan(p, context, view)
    if not v.deleting and (given_back := pod_return.give_back(v, p, context)) is not None:
        return given_back
    if p is None:
        return _without_super_pod(v, context, view)
    identity = metadata.identify(v, p, context)
    if identity is not Identity.OURS:
        return _not_a_copy(v, p, identity, context)
    if v.deleting or p.deleting:
        return _deleting(v, p, context)
    return _both(v, p, context, view)


def _not_a_copy(v: Envelope, p: Envelope, identity: Identity, context: TenantContext) -> Plan:
    """Return the plan for a Pod whose name another object has in the super cluster."""
    if identity is Identity.FOREIGN and v.deleting and pod_name.keeps_name(v):
        return Plan((pod_name.free_name(v),))
    return metadata.settle_identity(PODS, v, p, context) or EMPTY


# --- Without the tenant's Pod ----------------------------------------------------------------------------


def _orphan(p: Envelope, context: TenantContext, view: View) -> Plan:
    """Delete the copy of a Pod that is gone in the tenant, and its tokens, which the tenant's API server has revoked."""
    removal = metadata.orphan(PODS, p, p.name, context, view)
    if not removal.actions:
        return removal
    removal = replace(
        removal,
        actions=tuple(
            replace(action, grace_seconds=limited_grace(p)) if isinstance(action, Delete) else action
            for action in removal.actions
        ),
    )
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


def _without_super_pod(  # noqa: PLR0911 - each return is a case of its own
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
    wait = (
        metadata.super_namespace_wait(v, context, view)
        or pod_depends.dependencies_wait(v.namespace, v.labels, spec, context, view)
        or pod_claims.claims_wait(v, spec, context, view)
    )
    if wait is not None:
        return Plan(wait=wait)
    account = spec.get("serviceAccountName") or "default"
    scheduler = spec.get("schedulerName") or without_effect.DEFAULT_SCHEDULER
    try:
        body, tokens = pod_convert.convert(v, spec, context, view, node=node or "")
    except pod_convert.Refused as refused:
        return _refuse(v, status, [str(refused)], refused.on)
    create = Create("super", PODS, body["metadata"]["namespace"], body)
    before: tuple[Action, ...] = (EnsureNode(node),) if node else ()
    own = scheduler != without_effect.DEFAULT_SCHEDULER
    after = (Notify("Warning", without_effect.REASON, without_effect.SCHEDULER_NAME),) if own else ()
    return Plan((*before, *token.request_for(v, account, tokens, context, view), create, *after))


def _finish_deletion(v: Envelope, context: TenantContext, view: View) -> Plan:
    """Remove a tenant's Pod that no longer runs, unless only finalizers keep it."""
    virtual_node: str = untyped(v.spec).get("nodeName", "")
    if virtual_node and names.split_virtual_node(virtual_node, context.super_id) is None:
        return _bound_elsewhere(virtual_node, context)
    namespace = names.super_namespace(context.key, v.namespace)
    secret = view.super(SECRETS, namespace, token.secret_name(v.uid))
    actions: list[Action] = []
    if secret is not None and not secret.deleting:
        actions.append(Delete("super", SECRETS, namespace, secret.name, secret.uid))
    if pod_name.keeps_name(v):
        actions += (ConfirmAbsent("super", PODS, namespace, v.name), pod_name.free_name(v))
    if _waited_for(v) and virtual_node and not _has_ended(v):
        # The owner of a finalizer may wait for a terminal phase, as the Job controller does. The kubelet's last report may
        # have been lost with the super cluster's Pod.
        failed = {"metadata": {"uid": v.uid}, "status": {"phase": "Failed", "message": ENDED_UNSEEN}}
        actions.append(Patch("tenant", PODS, v.namespace, v.name, v.uid, failed, "strategic", "status"))
    # kube-apiserver writes grace period 0 first and removes the object then. If the client's connection ends in between,
    # the object remains until it is deleted again.
    if v.deletion_grace_seconds != 0 or not v.finalizers:
        actions.append(Delete("tenant", PODS, v.namespace, v.name, v.uid, grace_seconds=0))
    return Plan(tuple(actions))


def _waited_for(v: Envelope) -> bool:
    """Return whether finalizers of others keep a Pod."""
    return any(each != names.COPY_FINALIZER for each in v.finalizers)


def _is_scheduled(status: _Status) -> bool:
    """Return whether a Binding set nodeName, which also sets the condition, and not the creator of the Pod."""
    return any(
        condition.type == pod_status.POD_SCHEDULED and condition.status == "True"
        for condition in status.conditions
    )


def _lost(v: Envelope, virtual_node: str, node: str | None, context: TenantContext) -> Plan:
    """Delete a bound Pod whose copy is gone. It is never created again; its controller creates another one."""
    if node is None:
        return _bound_elsewhere(virtual_node, context)
    return Plan((Delete("tenant", PODS, v.namespace, v.name, v.uid, grace_seconds=0, confirm=True),))


def _bound_elsewhere(virtual_node: str, context: TenantContext) -> Plan:
    """Wait, since the Pod's label is wrong (tenants can write it) and another syncer is responsible for the Pod."""
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
    """Report once to the tenant why a Pod does not run.

    Args:
        v: the tenant's Pod.
        status: its status.
        reasons: the reasons.
        on: objects whose changes may remove the reasons.
    """
    message = "; ".join(reasons[:_MAX_REASONS])
    if len(reasons) > _MAX_REASONS:
        message += f"; and {len(reasons) - _MAX_REASONS} more"
    wait = Wait(message, on)
    for condition in status.conditions:
        if condition.type == pod_status.POD_SCHEDULED and (
            (condition.status, condition.reason, condition.message)
            == ("False", metadata.POLICY_REFUSED, message)
        ):
            return Plan(wait=wait)
    refused = {
        "type": pod_status.POD_SCHEDULED,
        "status": "False",
        "reason": metadata.POLICY_REFUSED,
        "message": message,
    }
    body = {"metadata": {"uid": v.uid}, "status": {"conditions": [refused]}}
    return Plan(
        (
            Patch("tenant", PODS, v.namespace, v.name, v.uid, body, "strategic", "status"),
            Notify("Warning", metadata.POLICY_REFUSED, message),
        ),
        wait,
    )


# --- With both Pods, one being deleted -------------------------------------------------------------------


def _deleting(v: Envelope, p: Envelope, context: TenantContext) -> Plan:
    """Delete the Pod on the other side too, with the same grace period."""
    want, have = pod_spec(v), pod_spec(p)
    if _is_elsewhere(want, context):
        return _not_ours(v, p, want.node_name, context)
    # A Pod that is deleted without a node never gets one. Garbage collectors mark it as failed, so its status is left alone.
    unbound = v.deleting and not want.node_name
    actions = () if unbound else _status(v, p, want, have, context, spec_settled=False)
    if v.deleting:
        actions += _delete_super(v, p)
    elif not _has_ended(v) and (not _has_ended(p) or ended_by_deletion(p)):
        # At least 1: with 0 the tenant's Pod would be gone before the containers of p have stopped.
        grace = max(1, p.deletion_grace_seconds or 0)
        doomed = Delete("tenant", PODS, v.namespace, v.name, v.uid, grace_seconds=grace, confirm=True)
        # A Pod that has ended in its tenant is not deleted any more, so its end is told last.
        actions = (doomed, *actions) if _has_ended(p) else (*actions, doomed)
    # A Pod that finished by itself and that the super cluster removes is kept in the tenant until the tenant removes it.
    return Plan(actions)


def _delete_super(v: Envelope, p: Envelope) -> tuple[Action, ...]:
    """Delete p with v's grace period, and again if the tenant has shortened it since.

    The grace period is at least 1: with 0, p would be gone before the kubelet has stopped its containers. A Pod without a node
    has 0 in its tenant, whatever its user wants, so p has its own then.
    """
    grace = v.deletion_grace_seconds
    if grace == 0 and not pod_return.is_bound(v):
        grace = limited_grace(p)
    elif grace is not None:
        grace = max(1, grace)
    if p.deleting:
        granted = p.deletion_grace_seconds
        if grace is None or granted is None or granted <= grace:
            return ()
    return (Delete("super", PODS, p.namespace, p.name, p.uid, grace_seconds=grace),)


def _has_ended(envelope: Envelope) -> bool:
    return decode(envelope.status, _Status).phase in TERMINAL_PHASES


# --- With both Pods --------------------------------------------------------------------------------------


def _both(v: Envelope, p: Envelope, context: TenantContext, view: View) -> Plan:
    want, have = pod_spec(v), pod_spec(p)
    if want.node_name and have.node_name:
        virtual_node = names.virtual_node_name(have.node_name, context.super_id)
        if _is_elsewhere(want, context):
            return _not_ours(v, p, want.node_name, context)
        if want.node_name != virtual_node:
            return _mismatch(v, want.node_name, virtual_node)
    gates = _gates(want)
    existing = frozenset(container.name for container in have.ephemeral_containers)
    wanted = [container.name for container in want.ephemeral_containers]
    ephemeral = pod_ephemeral.check(v, wanted, existing, context)
    most = pod_limits.bounds(context, view.placement(v.namespace))
    down, spec_settled = pod_update.update(v, p, want, have, context, ephemeral=ephemeral, most=most)
    if names.TOKENS in p.annotations:
        down += _missing_tokens(v, p, want, context, view)
    if gates and (conditions := pod_status.gates_down(v, p, gates)):
        body = {"metadata": {"uid": p.uid}, "status": {"conditions": conditions}}
        down += (Patch("super", PODS, p.namespace, p.name, p.uid, body, "strategic", "status"),)
    up = _status(v, p, want, have, context, spec_settled=spec_settled, refused=ephemeral.refused)
    here = pod_return.refusal(v, p, context, view)
    if here.actions and any(isinstance(action, Bind) for action in up):
        up = ()  # what is said changes the Pod's version, which a binding requires
    # The status changes the Pod's version, too, so what is said comes first.
    actions = here.actions + down + up
    return Plan(actions, here.wait) if actions or here.wait else EMPTY


def _gates(spec: PodSpec) -> frozenset[str]:
    if not spec.readiness_gates:
        return _NO_GATES
    return frozenset(gate.condition_type for gate in spec.readiness_gates)


def _is_elsewhere(want: PodSpec, context: TenantContext) -> bool:
    """Return whether a tenant's Pod is bound to a virtual node of another super cluster."""
    return names.super_cluster_of_node(want.node_name) not in ("", context.super_id)


def _not_ours(v: Envelope, p: Envelope, bound: str, context: TenantContext) -> Plan:
    """Remove the copy of a Pod that another super cluster runs, and leave the tenant's Pod to that one's syncer.

    A binding from there may have come after the Pod scheduler had assigned the Pod here. It does not change any more.
    """
    removal: tuple[Action, ...] = ()
    if v.deleting:
        removal = _delete_super(v, p)
    elif not p.deleting:
        grace = limited_grace(p)
        removal = (Delete("super", PODS, p.namespace, p.name, p.uid, grace_seconds=grace),)
    return Plan(removal, _bound_elsewhere(bound, context).wait)


def _mismatch(v: Envelope, bound: str, runs_on: str) -> Plan:
    """Delete a Pod that another client than the syncer has bound to another node, since no binding can be changed."""
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
    refused: tuple[dict[str, Any], ...] = (),
) -> tuple[Action, ...]:
    """Bind the tenant's Pod to p's virtual node, and copy differences of metadata and status up."""
    binding = bool(have.node_name) and not want.node_name and not v.deleting
    # Transparent metadata is written with the status: this needs one write, and no permission to patch a tenant's Pods.
    changes = metadata.upward_metadata(v, p, context)
    status, gates = None, _gates(want)
    if have.node_name or not want.node_name:  # otherwise the cached p is older than v's binding
        status = pod_status.status_up(
            v, p, gates, context, spec_settled=spec_settled, binding=binding, refused=refused
        )
    body: dict[str, Any] | None = None
    frees = pod_name.without(v) if pod_name.keeps_name(v) and (binding or want.node_name) else {}
    if changes or status or frees:
        body = {"metadata": {**changes, **frees, "uid": v.uid}}
        if status:
            body["status"] = status
        if status and gates and "conditions" in status:
            # A merge patch replaces the whole list, and with it what the tenant has just said about a gate.
            body["metadata"]["resourceVersion"] = v.resource_version
    if binding:
        virtual_node = names.virtual_node_name(have.node_name, context.super_id)
        return EnsureNode(have.node_name), Bind(
            v.namespace,
            v.name,
            v.uid,
            v.resource_version,
            virtual_node,
            body,
            early=not pod_status.is_reported(p),
        )
    if body is not None:
        return (Patch("tenant", PODS, v.namespace, v.name, v.uid, body, subresource="status"),)
    return ()


POD = Kind(
    name="pods",
    resource=PODS,
    plan=plan,
    upward=True,
    related=(Related("super", SECRETS, token.pod_of),),
)
"""Pods. A syncer receives those whose label `scheduler.virtualcluster.io/superCluster` names its super cluster."""
