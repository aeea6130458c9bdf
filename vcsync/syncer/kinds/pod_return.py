"""Tells that this super cluster refuses a Pod, and gives a Pod back that the Pod scheduler wants elsewhere.

A Pod must not run twice. Therefore its copy is deleted only in a version in which it is not bound, so that it has not run and
cannot run any more. A live read confirms that the copy is gone before this super cluster says so, and it makes no copy again
until the Pod scheduler assigns the Pod to it.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from vcsync.api import names
from vcsync.api.refusals import REFUSED, RETURNED, UNSCHEDULABLE, WITHDRAWN, Said, refusal_annotation, said_by
from vcsync.kube.resources import PODS
from vcsync.objects.conditions import Condition
from vcsync.objects.envelope import Envelope, decode
from vcsync.syncer.kinds import pod_status
from vcsync.syncer.kinds.metadata import Identity, identify
from vcsync.syncer.kinds.plan import (
    Action,
    ConfirmAbsent,
    Delete,
    Dependency,
    Patch,
    Plan,
    TenantContext,
    View,
    Wait,
)


class _Spec(Struct, frozen=True, gc=False, rename="camel"):
    node_name: str = ""


class _Status(Struct, frozen=True, gc=False, rename="camel"):
    conditions: tuple[Condition, ...] | None = None
    nominated_node_name: str = ""


def is_bound(pod: Envelope) -> bool:
    """Return whether a Pod has a node."""
    return b'"nodeName"' in pod.spec and bool(decode(pod.spec, _Spec).node_name)


def say(v: Envelope, said: Said, context: TenantContext) -> tuple[Action, ...]:
    """Return the patch of the annotation; empty if it says that already. It fails if the Pod has changed meanwhile."""
    if said == said_by(v.annotations, context.super_id):
        return ()
    metadata = {
        "uid": v.uid,
        "resourceVersion": v.resource_version,
        "annotations": refusal_annotation(context.super_id, said),
    }
    body = {"metadata": metadata}
    return (Patch("tenant", PODS, v.namespace, v.name, v.uid, body, subresource="status"),)


def refuse(v: Envelope, reason: str, context: TenantContext) -> tuple[Action, ...]:
    """Return the patch that says that this super cluster refuses a Pod, unless something was said about it already."""
    said = said_by(v.annotations, context.super_id)
    return () if said.state else say(v, replace(said, state=REFUSED, reason=reason), context)


def give_back(v: Envelope, p: Envelope | None, context: TenantContext) -> Plan | None:
    """Return the plan for a Pod that the Pod scheduler wants elsewhere; None if it does not, or the copy is bound.

    Args:
        v: the tenant's Pod; not being deleted.
        p: the object of its name in the super cluster.
        context: the tenant's settings.
    """
    said = said_by(v.annotations, context.super_id)
    if said.state not in (WITHDRAWN, RETURNED) or is_bound(v):
        return None
    if p is None or identify(v, p, context) is Identity.FOREIGN:
        if said.state == RETURNED:
            return Plan(wait=Wait("the Pod was given back, and the Pod scheduler decides again"))
        place = names.super_namespace(context.key, v.namespace)
        gone = (ConfirmAbsent("super", PODS, place, v.name),) if p is None else ()
        returned = replace(said, state=RETURNED, returns=said.returns + said.refuses)
        return Plan((*gone, *say(v, returned, context)))
    if identify(v, p, context) is not Identity.OURS or is_bound(p):
        return None
    if p.deleting:
        here = (Dependency("super", PODS, p.namespace, p.name),)
        return Plan(wait=Wait("the Pod's copy is being removed, so that it can be placed elsewhere", here))
    return Plan(
        (Delete("super", PODS, p.namespace, p.name, p.uid, resource_version=p.resource_version),),
    )


def refusal(v: Envelope, p: Envelope, context: TenantContext, view: View) -> Plan:
    """Return what is to be said about a Pod with a copy, and when to look again while the copy waits for a node.

    Args:
        v: the tenant's Pod.
        p: its copy; neither is being deleted.
        context: the tenant's settings.
        view: the caches.
    """
    said = said_by(v.annotations, context.super_id)
    if is_bound(v):
        return Plan()  # the Pod stays here, whatever was said before
    if is_bound(p) and said.state == WITHDRAWN:
        return (
            Plan()
        )  # the binding is the answer; if this were taken back first, the Pod would be withdrawn again
    if is_bound(p) or not _is_unschedulable(p):
        return Plan(say(v, replace(said, state=""), context) if said.state else ())
    elapsed = view.unschedulable_for(p.uid)
    if elapsed < context.unschedulable_seconds:
        after = context.unschedulable_seconds - elapsed
        return Plan(
            wait=Wait(f"super cluster {context.super_id} has found no node for the Pod yet", after=after)
        )
    return Plan(refuse(v, UNSCHEDULABLE, context))


def _is_unschedulable(p: Envelope) -> bool:
    if b'"Unschedulable"' not in p.status:
        return False
    status = decode(p.status, _Status)
    return not status.nominated_node_name and any(
        (each.type, each.status, each.reason) == (pod_status.POD_SCHEDULED, "False", "Unschedulable")
        for each in status.conditions or ()
    )
