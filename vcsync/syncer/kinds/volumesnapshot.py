"""VolumeSnapshots: copied to the super cluster that has the volume of their claim; their status is shown in the tenant.

The label with the super cluster's id says where a snapshot is, as it does for claims, and is written before the copy is
created. A snapshot that was taken is never taken again, since it would have other data. Nothing of VolumeSnapshotContents is
read below. Tenants can bring a CustomResourceDefinition of their own, so their objects may have any shape.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from vcsync.api import names
from vcsync.kube.resources import (
    PERSISTENT_VOLUME_CLAIMS,
    RESOURCE_QUOTAS,
    VOLUME_SNAPSHOT_CLASSES,
    VOLUME_SNAPSHOTS,
)
from vcsync.objects.envelope import Envelope, decode, untyped
from vcsync.syncer.kinds import claim_return, metadata
from vcsync.syncer.kinds.plan import (
    EMPTY,
    Action,
    Create,
    Delete,
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

SNAPSHOT_LOST: Final = "SnapshotLost"
"""Event reason: the super cluster does not have the snapshot any more."""
WAITING_FOR_VOLUME: Final = "WaitingForVolume"
"""Event reason: the claim of the snapshot has no volume yet."""
CLASS_NOT_PUBLISHED: Final = "ClassNotPublished"
"""Event reason: the super cluster that has the volume does not publish the snapshot's class."""

COUNT: Final = f"count/{VOLUME_SNAPSHOTS.plural}.{VOLUME_SNAPSHOTS.group}"
"""Name of the number of snapshots in slices and ResourceQuotas."""
_LOOK_SECONDS: Final = 5.0
"""Seconds until the quota is looked at again: changes of its usage alone are not reported."""

_FAILED: Final = "the cluster that has the volume could not take this snapshot, or use it; its operator can read the details"
_LOST: Final = "the cluster that had this snapshot does not have it any more: its data is lost there; delete the VolumeSnapshot"
_CONTENT: Final = (
    "spec.source.volumeSnapshotContentName is not allowed here: the clusters that have your volumes have no "
    "VolumeSnapshotContents of yours; set spec.source.persistentVolumeClaimName"
)
_NO_SOURCE: Final = "spec.source.persistentVolumeClaimName is required: name a claim of this namespace"
_NO_CLASS: Final = (
    "spec.volumeSnapshotClassName is required: name a published VolumeSnapshotClass, "
    "as shown by kubectl get volumesnapshotclasses"
)


class _QuotaStatus(Struct, gc=False):
    hard: dict[str, str] | None = None
    used: dict[str, str] | None = None


def plan(v: Envelope | None, p: Envelope | None, context: TenantContext, view: View) -> Plan:
    """Return the next actions for a snapshot, in both directions."""
    if v is None:
        return EMPTY if p is None else metadata.orphan(VOLUME_SNAPSHOTS, p, p.name, context, view)
    if p is None:
        return _without_copy(v, context, view)
    if (unsettled := metadata.settle_identity(VOLUME_SNAPSHOTS, v, p, context)) is not None:
        return unsettled
    return _both(v, p, context, view)


def refusals(spec: object) -> list[str]:
    """Return the refusals of a snapshot's spec: the path of the field, the reason and the remedy."""
    source = _part(spec, "source")
    found = [_CONTENT] if source.get("volumeSnapshotContentName") else []
    if not found and not _text(source, "persistentVolumeClaimName"):
        found.append(_NO_SOURCE)
    if not _text(spec, "volumeSnapshotClassName"):
        found.append(_NO_CLASS)
    return found


def status_up(shown: object, below: object) -> dict[str, Any]:
    """Return the changes of the tenant's status, as a merge patch; empty if it shows the state below.

    Args:
        shown: status of the tenant's snapshot.
        below: status of the copy.
    """
    wanted: dict[str, Any] = {}
    ready = _fields(below).get("readyToUse")
    if isinstance(ready, bool):
        wanted["readyToUse"] = ready
    for field in ("creationTime", "restoreSize"):
        value = _fields(below).get(field)
        if isinstance(value, str | int) and not isinstance(value, bool):
            wanted[field] = str(value)
    now = _fields(shown)
    patch = {field: value for field, value in wanted.items() if now.get(field) != value}
    error, shown_error = _part(below, "error"), _part(shown, "error")
    if error:
        time = error.get("time")
        wanted_error = {"message": _FAILED, "time": time if isinstance(time, str) else None}
        if any(shown_error.get(field) != value for field, value in wanted_error.items()):
            patch["error"] = wanted_error
    elif shown_error:
        patch["error"] = None
    return patch


# --- Without a copy --------------------------------------------------------------------------------------


def _without_copy(v: Envelope, context: TenantContext, view: View) -> Plan:
    label = v.labels.get(names.SUPER_CLUSTER, "")
    if v.deleting or label not in ("", context.super_id):
        return EMPTY
    status = untyped(v.status)
    if _was_taken(status):
        return _lost(v, status) if label else Plan(wait=Wait("waits for the super cluster that has it"))
    blocked = _refusal(v) or _source_wait(v, context, view) or _class_wait(v, context, view)
    if blocked is not None:
        return blocked
    if (wait := metadata.super_namespace_wait(v, context, view)) is not None:
        return Plan(wait=wait)
    if (wait := _count_wait(v, context, view)) is not None:
        return Plan(wait=wait)
    return Plan((*_label(v, context), _creation(v, context, view)))


def _refusal(v: Envelope) -> Plan | None:
    reasons = refusals(untyped(v.spec))
    if not reasons:
        return None
    message = "; ".join(reasons)
    return Plan((Notify("Warning", metadata.POLICY_REFUSED, message),), Wait(message))


def _lost(v: Envelope, status: object) -> Plan:
    """Report a snapshot that was taken, but has no copy. It is not taken again: it would have other data."""
    patch: dict[str, Any] = {}
    if _fields(status).get("readyToUse") is not False:
        patch["readyToUse"] = False
    if _part(status, "error").get("message") != _LOST:
        patch["error"] = {"message": _LOST, "time": None}
    notice = Notify("Warning", SNAPSHOT_LOST, _LOST)
    return Plan((notice, *_status(v, patch)), Wait(_LOST))


def _source(v: Envelope) -> str:
    return _text(_part(untyped(v.spec), "source"), "persistentVolumeClaimName")


def _class(v: Envelope) -> str:
    return _text(untyped(v.spec), "volumeSnapshotClassName")


def _source_copy(v: Envelope, context: TenantContext, view: View) -> Envelope | None:
    """Return the copy of the source claim with a volume; None if this super cluster does not have it.

    A claim of that name which is not the copy of exactly the tenant's claim does not count.
    """
    above, below = _claims(v, context)
    claim = view.tenant(above.resource, above.namespace, above.name)
    copy = view.super(below.resource, below.namespace, below.name)
    if claim is None or copy is None or copy.deleting or claim_return.is_unbound(copy):
        return None
    return copy if metadata.identify(claim, copy, context) is metadata.Identity.OURS else None


def _claims(v: Envelope, context: TenantContext) -> tuple[Dependency, Dependency]:
    name, place = _source(v), names.super_namespace(context.key, v.namespace)
    return (
        Dependency("tenant", PERSISTENT_VOLUME_CLAIMS, v.namespace, name),
        Dependency("super", PERSISTENT_VOLUME_CLAIMS, place, name),
    )


def _source_wait(v: Envelope, context: TenantContext, view: View) -> Plan | None:
    if _source_copy(v, context, view) is not None:
        return None
    above, below = _claims(v, context)
    claim = view.tenant(above.resource, above.namespace, above.name)
    wait = Wait(f"waits for the volume of PersistentVolumeClaim {above.name}", (above, below))
    if claim is not None and claim.labels.get(names.SUPER_CLUSTER, "") not in ("", context.super_id):
        return Plan(
            wait=wait
        )  # the super cluster that the claim is assigned to takes the snapshot, or says this
    missing = "has no volume yet; it gets one with the first Pod that uses it"
    if claim is None or claim.deleting:
        missing = "does not exist" if claim is None else "is being deleted"
    message = f"the snapshot waits: PersistentVolumeClaim {above.name} {missing}"
    return Plan((Notify("Normal", WAITING_FOR_VOLUME, message),), wait)


def _class_wait(v: Envelope, context: TenantContext, view: View) -> Plan | None:
    name = _class(v)
    if view.super(VOLUME_SNAPSHOT_CLASSES, "", name) is not None:
        return None
    message = (
        f"super cluster {context.super_id}, which has the volume of PersistentVolumeClaim {_source(v)}, does not publish "
        f"VolumeSnapshotClass {name}; use a class whose annotation {names.PUBLISHED_BY} names {context.super_id}"
    )
    on = (Dependency("super", VOLUME_SNAPSHOT_CLASSES, "", name),)
    return Plan((Notify("Warning", CLASS_NOT_PUBLISHED, message),), Wait(message, on))


def _count_wait(v: Envelope, context: TenantContext, view: View) -> Wait | None:
    """Return a Wait until the API server of the super cluster limits the snapshots of the namespace; None if it does.

    Admission counts by the status of the quota, which the super cluster's controller writes. It does not limit what the status
    does not state, and the controller counts a custom resource only once it has found its kind.
    """
    placement = view.placement(v.namespace)
    if placement is None or COUNT not in placement.hard:
        return None
    place = names.super_namespace(context.key, v.namespace)
    quota = view.super(RESOURCE_QUOTAS, place, names.SUPER_QUOTA_NAME)
    status = decode(quota.status, _QuotaStatus) if quota is not None and quota.status else _QuotaStatus()
    if COUNT in (status.hard or {}) and COUNT in (status.used or {}):
        return None
    reason = f"waits until super cluster {context.super_id} counts the snapshots of the namespace"
    return Wait(reason, (Dependency("super", RESOURCE_QUOTAS, place, names.SUPER_QUOTA_NAME),), _LOOK_SECONDS)


def _creation(v: Envelope, context: TenantContext, view: View) -> Create:
    """Return the creation of the copy.

    Labels and annotations of the tenant are not copied, as those of claims are not: drivers may take commands from them.
    """
    place = names.super_namespace(context.key, v.namespace)
    source = _source_copy(v, context, view)
    body = {
        "apiVersion": VOLUME_SNAPSHOTS.api_version,
        "kind": VOLUME_SNAPSHOTS.kind,
        "metadata": {
            "name": v.name,
            "namespace": place,
            "labels": dict(metadata.own_labels(context)),
            "annotations": {
                **metadata.own_annotations(v, context),
                names.SOURCE_UID: source.uid if source is not None else "",
            },
        },
        "spec": {
            "source": {"persistentVolumeClaimName": _source(v)},
            "volumeSnapshotClassName": _class(v),
        },
    }
    return Create("super", VOLUME_SNAPSHOTS, place, body)


# --- With a copy -----------------------------------------------------------------------------------------


def _both(v: Envelope, p: Envelope, context: TenantContext, view: View) -> Plan:
    label = v.labels.get(names.SUPER_CLUSTER, "")
    if label not in ("", context.super_id):
        # The tenant has changed the label. Two super clusters that each restored it would never come to rest.
        return Plan(
            wait=Wait(f"its label names super cluster {label}, but {context.super_id} has it; remove it")
        )
    below = untyped(p.status)
    pending = not _was_taken(below) and not _fields(below).get("boundVolumeSnapshotContentName")
    source = _part(untyped(p.spec), "source").get("persistentVolumeClaimName")
    on = Dependency("super", PERSISTENT_VOLUME_CLAIMS, p.namespace, str(source))
    if pending and _is_swapped(p, view.super(on.resource, on.namespace, on.name)):
        return Plan(
            (
                Delete(
                    "super", VOLUME_SNAPSHOTS, p.namespace, p.name, p.uid, resource_version=p.resource_version
                ),
            )
        )
    wait = Wait(f"snapshot in super cluster {context.super_id} is not taken yet", (on,)) if pending else None
    actions = [*_marks(v, p, context)]
    if not v.deleting:
        actions += _label(v, context)
        actions += _status(v, status_up(untyped(v.status), below))
    return Plan(tuple(actions), wait)


def _is_swapped(p: Envelope, claim: Envelope | None) -> bool:
    """Return whether the claim below is not the one any more that the copy was made for.

    The snapshotter resolves the claim by name. Once the claim is gone, one of the operator may have that name at any time, and
    the caches do not show it. A claim that is being deleted keeps the name.
    """
    return claim is None or claim.uid != p.annotations.get(names.SOURCE_UID)


def _marks(v: Envelope, p: Envelope, context: TenantContext) -> tuple[Action, ...]:
    """Repair the marks of ownership. Other keys belong to the super cluster: its snapshot controller writes them."""
    changes: dict[str, Any] = {}
    for field, wanted, actual in (
        ("labels", metadata.own_labels(context), p.labels),
        ("annotations", metadata.own_annotations(v, context), p.annotations),
    ):
        if wrong := {key: value for key, value in wanted.items() if actual.get(key) != value}:
            changes[field] = wrong
    return metadata.super_patch(VOLUME_SNAPSHOTS, p, changes, {})


def _label(v: Envelope, context: TenantContext) -> tuple[Action, ...]:
    """Return the patch that says that the snapshot is here. It fails if the snapshot has changed meanwhile."""
    if v.labels.get(names.SUPER_CLUSTER) == context.super_id:
        return ()
    body = {
        "metadata": {
            "uid": v.uid,
            "resourceVersion": v.resource_version,
            "labels": {names.SUPER_CLUSTER: context.super_id},
        }
    }
    return (Patch("tenant", VOLUME_SNAPSHOTS, v.namespace, v.name, v.uid, body),)


def _status(v: Envelope, patch: dict[str, Any]) -> tuple[Action, ...]:
    if not patch:
        return ()
    body = {"metadata": {"uid": v.uid}, "status": patch}
    return (Patch("tenant", VOLUME_SNAPSHOTS, v.namespace, v.name, v.uid, body, subresource="status"),)


# --- Values of any shape ---------------------------------------------------------------------------------


def _was_taken(status: object) -> bool:
    """Return whether a status says that the snapshot has been taken."""
    fields = _fields(status)
    return bool(
        fields.get("creationTime")
        or fields.get("readyToUse") is True
        or _part(status, "error").get("message") == _LOST
    )


def _fields(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _part(value: object, field: str) -> dict[str, Any]:
    return _fields(_fields(value).get(field))


def _text(value: object, field: str) -> str:
    found = _fields(value).get(field)
    return found if isinstance(found, str) else ""


VOLUME_SNAPSHOT = Kind(
    name="volumesnapshots",
    resource=VOLUME_SNAPSHOTS,
    plan=plan,
    optional=True,
    reads=(VOLUME_SNAPSHOT_CLASSES, PERSISTENT_VOLUME_CLAIMS),
    upward=True,
    related=(Related("tenant", PERSISTENT_VOLUME_CLAIMS),),
)
"""VolumeSnapshots."""
