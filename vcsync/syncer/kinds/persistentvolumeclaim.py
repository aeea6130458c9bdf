"""PersistentVolumeClaims: copied to the super cluster that the Pod scheduler chose; their volumes are described upward.

The tenant's own binder binds the volume to the claim, as it does for every external provisioner. Only fields that cannot
name anything of others are copied down. Nothing of the super cluster's volume is read: what a tenant may know of it is in
the copy of the claim.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from vcsync.api import names
from vcsync.api.provisioning import REQUESTED, RETURNING, Provisioning
from vcsync.kube.resources import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
)
from vcsync.objects.envelope import Envelope, decode, untyped
from vcsync.objects.quantity import milli
from vcsync.syncer.kinds import claim_resize, claim_return, claim_source, metadata, persistentvolume
from vcsync.syncer.kinds.persistentvolume import STORAGE
from vcsync.syncer.kinds.plan import (
    EMPTY,
    Action,
    Create,
    Dependency,
    Kind,
    Notify,
    Patch,
    Plan,
    Related,
    TenantContext,
    View,
    Wait,
)

VOLUME_LOST: Final = "VolumeLost"
"""Event reason: the super cluster no longer has the claim, and with it the data."""

_REFUSED: Final = {
    "selector": "it selects volumes of the cluster, which are not yours",
    "volumeAttributesClassName": "classes of volume attributes are not published",
}
"""Fields of a claim's spec that refer to objects by names of the tenant's control plane, and why they are refused."""


class _Requests(Struct, frozen=True, gc=False):
    requests: dict[str, str] = {}


class _Spec(Struct, frozen=True, gc=False, rename="camel"):
    resources: _Requests = _Requests()
    storage_class_name: str = ""
    volume_name: str = ""


class _Status(Struct, frozen=True, gc=False):
    phase: str = ""


def plan(v: Envelope | None, p: Envelope | None, context: TenantContext, view: View) -> Plan:
    """Return the next actions for a claim and its volume, in both directions."""
    if v is None:
        return _without_claim(p, context, view)
    if p is None:
        return _without_copy(v, context, view)
    if (unsettled := metadata.settle_identity(PERSISTENT_VOLUME_CLAIMS, v, p, context)) is not None:
        foreign = metadata.identify(v, p, context) is metadata.Identity.FOREIGN
        return (claim_return.release_taken_name(v, context) if foreign else None) or unsettled
    return _both(v, p, context, view)


def _without_claim(p: Envelope | None, context: TenantContext, view: View) -> Plan:
    """Delete the copy of a claim that is gone in the tenant. Its volume follows by itself; see `persistentvolume`."""
    return EMPTY if p is None else metadata.orphan(PERSISTENT_VOLUME_CLAIMS, p, p.name, context, view)


# --- Without a copy --------------------------------------------------------------------------------------


def _without_copy(v: Envelope, context: TenantContext, view: View) -> Plan:
    if v.deleting:
        return EMPTY
    if v.labels.get(names.SUPER_CLUSTER, "") != context.super_id:
        return _assigned_elsewhere(v, context)
    spec, said = decode(v.spec, _Spec), claim_return.said_here(v, context)
    if spec.volume_name:
        return _bound_without_copy(v, spec.volume_name, context)
    if reasons := refusals(untyped(v.spec)):
        message = "; ".join(reasons)
        return Plan((Notify("Warning", metadata.POLICY_REFUSED, message),), Wait(message))
    wait = _class_wait(spec.storage_class_name, context, view)
    follows = claim_source.is_elsewhere(v, context, view)
    if said.state == RETURNING or follows or (said.may_have_copy and wait is not None):
        return Plan(claim_return.release(v, context))
    wait = (
        wait
        or metadata.super_namespace_wait(v, context, view)
        or claim_return.may_be_elsewhere(v, context)
        or claim_source.source_wait(v, context, view)
    )
    return Plan(wait=wait) if wait is not None else Plan(_creation(v, said, context, view))


def _assigned_elsewhere(v: Envelope, context: TenantContext) -> Plan:
    if claim_return.said_here(v, context).may_have_copy and not decode(v.spec, _Spec).volume_name:
        return Plan(claim_return.release(v, context))
    if v.labels.get(names.SUPER_CLUSTER, ""):
        return EMPTY
    return Plan(wait=Wait("the claim waits for the first Pod that uses it"))


def _class_wait(name: str, context: TenantContext, view: View) -> Wait | None:
    if name and view.super(STORAGE_CLASSES, "", name) is not None:
        return None
    return Wait(
        f"super cluster {context.super_id} does not publish StorageClass {name or '(none)'}",
        (Dependency("super", STORAGE_CLASSES, "", name),),
    )


def _creation(v: Envelope, said: Provisioning, context: TenantContext, view: View) -> tuple[Action, ...]:
    body = _body(v, context)
    source = claim_source.source_copy(v, context, view) if claim_source.source_name(v) else None
    if source is not None:
        body["metadata"]["annotations"][names.SOURCE_UID] = source.uid
    # The annotation comes first. Without it the Pod scheduler and other syncers may rely on there being no copy.
    requested = claim_return.say(v, replace(said, state=REQUESTED), context)
    return (*requested, Create("super", PERSISTENT_VOLUME_CLAIMS, body["metadata"]["namespace"], body))


def _bound_without_copy(v: Envelope, volume: str, context: TenantContext) -> Plan:
    """Report a claim that is bound, but has no copy. It is not created again: its Pods would find an empty volume."""
    if volume != names.volume_name(v.uid):
        message = (
            f"spec.volumeName {volume}: the clusters that your Pods run on do not have volumes of yours; create the claim "
            "without volumeName and with a published StorageClass"
        )
        return Plan((Notify("Warning", metadata.POLICY_REFUSED, message),), Wait(message))
    message = (
        f"super cluster {context.super_id} does not have the volume of this claim any more: its data is lost there; "
        "delete the claim to get a new volume"
    )
    return Plan((Notify("Warning", VOLUME_LOST, message),), Wait(message))


def refusals(spec: dict[str, Any]) -> list[str]:
    """Return the refusals of a claim's spec: the path of the field, the reason and the remedy."""
    found = [
        f"spec.{field} is not allowed here: {why}; remove it"
        for field, why in _REFUSED.items()
        if spec.get(field) is not None
    ]
    for field in claim_source.FIELDS:
        source = spec.get(field)
        if source is not None and (why := claim_source.refusal(source)):
            found.append(f"spec.{field} is not allowed here: {why}")
    return found


def _body(v: Envelope, context: TenantContext) -> dict[str, Any]:
    """Return the copy of a claim.

    Labels and annotations of the tenant are not copied: provisioners of vendors take commands from them, such as to import
    a volume or to use a path.
    """
    spec = untyped(v.spec)
    wanted = {
        "accessModes": spec.get("accessModes") or [],
        "resources": {"requests": {STORAGE: _requested(v)}},
        "storageClassName": spec["storageClassName"],
        "volumeMode": spec.get("volumeMode") or persistentvolume.FILESYSTEM,
        **claim_source.data_source(v),
    }
    return {
        "apiVersion": PERSISTENT_VOLUME_CLAIMS.api_version,
        "kind": PERSISTENT_VOLUME_CLAIMS.kind,
        "metadata": {
            "name": v.name,
            "namespace": names.super_namespace(context.key, v.namespace),
            "labels": dict(metadata.own_labels(context)),
            "annotations": metadata.own_annotations(v, context),
        },
        "spec": wanted,
    }


def _requested(claim: Envelope) -> str:
    return decode(claim.spec, _Spec).resources.requests.get(STORAGE, "0")


# --- With a copy -----------------------------------------------------------------------------------------


def _both(v: Envelope, p: Envelope, context: TenantContext, view: View) -> Plan:
    status = decode(p.status, _Status) if p.status else _Status()
    bound = status.phase == persistentvolume.BOUND
    assigned = v.labels.get(names.SUPER_CLUSTER, "")
    actions = [*_down(v, p, context)]
    wait = None
    if claim_return.is_unbound(p) and not decode(v.spec, _Spec).volume_name and not v.deleting:
        unbound = claim_return.without_volume(v, p, context, view)
        if unbound.actions:
            return unbound
        wait = unbound.wait
    if bound:
        described = persistentvolume.describe(v, p, context, view)
        actions += described.actions
        wait = described.wait
        if not described.actions and wait is None:
            actions += _up(v, p, context)
    elif not assigned and not v.deleting:
        actions += _restore_label(v, context)
    return Plan(tuple(actions), wait)


def _down(v: Envelope, p: Envelope, context: TenantContext) -> tuple[Action, ...]:
    """Repair the marks of ownership, and grow the copy as the tenant's claim has grown."""
    changes: dict[str, Any] = {}
    for field, wanted, actual in (
        ("labels", metadata.own_labels(context), p.labels),
        ("annotations", metadata.own_annotations(v, context), p.annotations),
    ):
        # Other keys belong to the super cluster: its provisioner writes them.
        if wrong := {key: value for key, value in wanted.items() if actual.get(key) != value}:
            changes[field] = wrong
    wanted_size, size = _requested(v), _requested(p)
    same = wanted_size == size or milli(wanted_size) == milli(size)
    fields = {} if same else {"spec": {"resources": {"requests": {STORAGE: wanted_size}}}}
    return metadata.super_patch(PERSISTENT_VOLUME_CLAIMS, p, changes, fields)


def _up(v: Envelope, p: Envelope, context: TenantContext) -> tuple[Action, ...]:
    """Restore the label of a bound claim, and report the progress and the capacity of an expansion."""
    actions: list[Action] = []
    if v.labels.get(names.SUPER_CLUSTER) != context.super_id and not v.deleting:
        actions += _restore_label(v, context)
    shown = decode(v.status, _Status) if v.status else _Status()
    if shown.phase == persistentvolume.BOUND and (status := claim_resize.status_patch(v, p)):
        precondition = {"uid": v.uid}
        if "conditions" in status and not actions:
            precondition["resourceVersion"] = v.resource_version  # the list also has conditions of others
        body = {"metadata": precondition, "status": status}
        actions.append(
            Patch("tenant", PERSISTENT_VOLUME_CLAIMS, v.namespace, v.name, v.uid, body, subresource="status")
        )
    return tuple(actions)


def _restore_label(v: Envelope, context: TenantContext) -> tuple[Action, ...]:
    """Return the patch that names this super cluster again. It fails if the claim has changed meanwhile."""
    body = {
        "metadata": {
            "uid": v.uid,
            "resourceVersion": v.resource_version,
            "labels": {names.SUPER_CLUSTER: context.super_id},
        }
    }
    return (Patch("tenant", PERSISTENT_VOLUME_CLAIMS, v.namespace, v.name, v.uid, body),)


PERSISTENT_VOLUME_CLAIM = Kind(
    name="persistentvolumeclaims",
    resource=PERSISTENT_VOLUME_CLAIMS,
    plan=plan,
    optional=True,
    reads=(STORAGE_CLASSES,),
    upward=True,
    related=(Related("tenant", PERSISTENT_VOLUMES, persistentvolume.claim_of),),
)
"""PersistentVolumeClaims."""
