"""Gives a claim back that this super cluster has no volume for, so that its Pods can be placed elsewhere.

Two super clusters must never have a volume for one claim. Therefore an annotation of the claim says, before the copy is
created, that this super cluster may have one. It says so until a live read has shown that the copy is gone. The copy is
deleted only in a version in which it is not bound: then no Pod has used a volume of it, and none can any more, because
kubelets and schedulers refuse claims that are being deleted.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from vcsync.api import names
from vcsync.api.provisioning import (
    MOST_RETURNS,
    REQUESTED,
    RETURNING,
    Provisioning,
    all_provisioning,
    provisioning,
    provisioning_annotation,
)
from vcsync.kube.resources import PERSISTENT_VOLUME_CLAIMS, STORAGE_CLASSES
from vcsync.objects.envelope import Envelope, decode
from vcsync.published.storage_class import provisioning_seconds
from vcsync.syncer.kinds import claim_source
from vcsync.syncer.kinds.plan import (
    Action,
    ConfirmAbsent,
    Delete,
    Dependency,
    Notify,
    Patch,
    Plan,
    TenantContext,
    View,
    Wait,
)

GIVEN_BACK: Final = "GivenBack"
"""Event reason: the super cluster could not provision the claim, and its Pods may be placed elsewhere."""
_FAILED: Final = "ProvisioningFailed"
_NOT_PUBLISHED: Final = "ClassNotPublished"
_PENDING: Final = ("", "Pending")
_ELSEWHERE_SECONDS: Final = 30.0


class _Spec(Struct, frozen=True, gc=False, rename="camel"):
    storage_class_name: str = ""
    volume_name: str = ""


class _Status(Struct, frozen=True, gc=False):
    phase: str = ""


def is_unbound(p: Envelope) -> bool:
    """Return whether a copy certainly has no volume in this version."""
    phase = decode(p.status, _Status).phase if p.status else ""
    return not decode(p.spec, _Spec).volume_name and phase in _PENDING


def said_here(v: Envelope, context: TenantContext) -> Provisioning:
    """Return what this super cluster says about a claim."""
    return provisioning(v.annotations, context.super_id)


def remove_copy(p: Envelope) -> Delete:
    """Return the deletion of a copy that has no volume. It fails if the copy has changed, since it may be bound then."""
    return Delete(
        "super",
        PERSISTENT_VOLUME_CLAIMS,
        p.namespace,
        p.name,
        p.uid,
        resource_version=p.resource_version,
    )


def say(
    v: Envelope, said: Provisioning, context: TenantContext, *, without_label: bool = False
) -> tuple[Action, ...]:
    """Return the patch of the annotation; empty if it says that already. It fails if the claim has changed meanwhile."""
    if said == said_here(v, context) and not without_label:
        return ()
    metadata: dict[str, Any] = {
        "uid": v.uid,
        "resourceVersion": v.resource_version,
        "annotations": provisioning_annotation(context.super_id, said),
    }
    if without_label:
        metadata["labels"] = {names.SUPER_CLUSTER: None}
    return (Patch("tenant", PERSISTENT_VOLUME_CLAIMS, v.namespace, v.name, v.uid, {"metadata": metadata}),)


def release(v: Envelope, context: TenantContext, *, confirm: bool = True) -> tuple[Action, ...]:
    """Return the actions that give up a claim whose copy is gone.

    If this super cluster could not provision the claim, its label is removed, and the Pod scheduler chooses again.

    Args:
        v: the tenant's claim.
        context: the tenant's settings.
        confirm: whether a live read has to confirm first that the copy is gone.
    """
    said = said_here(v, context)
    here = v.labels.get(names.SUPER_CLUSTER) == context.super_id
    counted = said.state == RETURNING and said.reason == _FAILED
    after = replace(said, state="", returns=said.returns + counted)
    if not after.returns:
        after = Provisioning()
    gone = ConfirmAbsent(
        "super", PERSISTENT_VOLUME_CLAIMS, names.super_namespace(context.key, v.namespace), v.name
    )
    return (*((gone,) if confirm else ()), *say(v, after, context, without_label=here))


def release_taken_name(v: Envelope, context: TenantContext) -> Plan | None:
    """Return the plan that gives up a claim whose name somebody else's claim has, so that there is no copy; None to keep it."""
    said = said_here(v, context)
    wanted = v.labels.get(names.SUPER_CLUSTER) == context.super_id and said.state != RETURNING
    if not said.may_have_copy or wanted or v.deleting or decode(v.spec, _Spec).volume_name:
        return None
    return Plan(release(v, context, confirm=False))


def may_be_elsewhere(v: Envelope, context: TenantContext) -> Wait | None:
    """Return a Wait if another super cluster may have a copy of a claim; None if none has."""
    for super_id, said in sorted(all_provisioning(v.annotations).items()):
        if super_id != context.super_id and said.may_have_copy:
            message = f"super cluster {super_id} may still have a volume of this claim; the claim waits until it is given back"
            return Wait(message, after=_ELSEWHERE_SECONDS)
    return None


def without_volume(v: Envelope, p: Envelope, context: TenantContext, view: View) -> Plan:
    """Return the plan for a copy that has no volume: it is removed, or waits for the volume.

    Args:
        v: the tenant's claim.
        p: its copy.
        context: the tenant's settings.
        view: the caches.
    """
    said = said_here(v, context)
    leaves = v.labels.get(names.SUPER_CLUSTER, "") not in ("", context.super_id) or said.state == RETURNING
    clone = bool(claim_source.source_name(p))
    if leaves or (clone and claim_source.is_swapped(v, p, context, view)):
        return Plan((remove_copy(p),))
    if said.state != REQUESTED:
        return Plan(say(v, replace(said, state=REQUESTED), context))
    if clone:
        # No other super cluster has the source, so the claim stays. A source that changes wakes it.
        reason = f"waits in super cluster {context.super_id} for its volume, a clone"
        return Plan(wait=Wait(reason, claim_source.dependencies(v, context)))
    spec = decode(p.spec, _Spec)
    found = view.super(STORAGE_CLASSES, "", spec.storage_class_name)
    if found is None:
        why = f"does not publish StorageClass {spec.storage_class_name} any more"
        return _give_back(v, _NOT_PUBLISHED, why, context)
    return _provisioning(v, view.provisioning_failed_for(p.uid), found, context)


def _provisioning(
    v: Envelope, failed_for: float | None, storage_class: Envelope, context: TenantContext
) -> Plan:
    here = f"super cluster {context.super_id}"
    on = (Dependency("super", STORAGE_CLASSES, "", storage_class.name),)
    if failed_for is None:
        return Plan(wait=Wait(f"{here} has not provisioned a volume yet", on))
    if said_here(v, context).returns >= MOST_RETURNS:
        return Plan(wait=Wait(f"{here} fails to provision a volume, and tries again", on))
    patience = provisioning_seconds(storage_class)
    if failed_for < patience:
        message = f"{here} fails to provision a volume; it gives the claim back after {patience:g} s"
        return Plan(wait=Wait(message, on, after=patience - failed_for))
    return _give_back(v, _FAILED, f"could not provision a volume within {patience:g} s", context)


def _give_back(v: Envelope, reason: str, why: str, context: TenantContext) -> Plan:
    said = replace(said_here(v, context), state=RETURNING, reason=reason)
    message = f"super cluster {context.super_id} {why}; the claim is given back, and its Pods may be placed elsewhere"
    return Plan((*say(v, said, context), Notify("Warning", GIVEN_BACK, message)))
