"""PersistentVolumes of a tenant: descriptions of the volumes that its claims have in a super cluster.

The syncer makes one for each bound claim, and deletes it after the claim. Phase and claimRef belong to the tenant's binder.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from vcsync.api import names
from vcsync.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES
from vcsync.objects.envelope import Envelope, decode
from vcsync.objects.quantity import milli
from vcsync.published import storage_class
from vcsync.syncer.kinds import metadata
from vcsync.syncer.kinds.plan import (
    EMPTY,
    Create,
    Delete,
    Dependency,
    Notify,
    Patch,
    Plan,
    TenantContext,
    View,
    Wait,
)

PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
"""Annotation that tells the binder which provisioner deletes a volume."""
STORAGE: Final = "storage"
BOUND: Final = "Bound"
FILESYSTEM: Final = "Filesystem"
_DELETE: Final = "Delete"
_ENDED: Final = ("Released", "Failed")


class _ClaimRef(Struct, frozen=True, gc=False):
    namespace: str = ""
    name: str = ""
    uid: str = ""


class _Expression(Struct, frozen=True, gc=False):
    key: str = ""
    values: tuple[str, ...] = ()


class _Term(Struct, frozen=True, gc=False, rename="camel"):
    match_expressions: tuple[_Expression, ...] = ()


class _Required(Struct, frozen=True, gc=False, rename="camel"):
    node_selector_terms: tuple[_Term, ...] = ()


class _Affinity(Struct, frozen=True, gc=False):
    required: _Required = _Required()


class _Spec(Struct, frozen=True, gc=False, rename="camel"):
    capacity: dict[str, str] = {}
    claim_ref: _ClaimRef | None = None
    persistent_volume_reclaim_policy: str = "Retain"
    node_affinity: _Affinity | None = None


class _Status(Struct, frozen=True, gc=False):
    phase: str = ""


class _ClaimSpec(Struct, frozen=True, gc=False, rename="camel"):
    storage_class_name: str = ""
    volume_mode: str = FILESYSTEM


class _ClaimStatus(Struct, frozen=True, gc=False, rename="camel"):
    access_modes: tuple[str, ...] = ()
    capacity: dict[str, str] = {}


def claim_of(volume: Envelope) -> tuple[str, str] | None:
    """Return (tenant namespace, name) of a volume's claim; None if it is not one of vcsync's."""
    reference = decode(volume.spec, _Spec).claim_ref
    if volume.annotations.get(PROVISIONED_BY) != names.PROVISIONER or reference is None:
        return None
    return (reference.namespace, reference.name) if reference.namespace else None


def describe(v: Envelope, p: Envelope, context: TenantContext, view: View) -> Plan:
    """Return the next actions for the volume of a claim that is bound in the super cluster.

    Args:
        v: the tenant's claim.
        p: its copy.
        context: the tenant's settings.
        view: the caches.
    """
    name = names.volume_name(v.uid)
    found = view.tenant(PERSISTENT_VOLUMES, "", name)
    capacity = decode(p.status, _ClaimStatus).capacity.get(STORAGE, "")
    if found is None:
        if v.deleting or not capacity:
            return EMPTY
        return Plan((Create("tenant", PERSISTENT_VOLUMES, "", _body(v, p, context, view)),))
    on = (Dependency("tenant", PERSISTENT_VOLUMES, "", name),)
    if found.deleting:
        return Plan(wait=Wait(f"PersistentVolume {name} is being deleted in the tenant", on))
    spec = decode(found.spec, _Spec)
    if claim_of(found) != (v.namespace, v.name) or _place(spec) != context.super_id:
        message = (
            f"the name {name} belongs to the volume of this claim on super cluster {context.super_id}; "
            "delete the PersistentVolume that has it"
        )
        return Plan((Notify("Warning", metadata.NAME_TAKEN, message),), Wait(message, on))
    patch: dict[str, Any] = {}
    if found.labels.get(names.SUPER_CLUSTER_ID) != context.super_id:
        patch["metadata"] = {"labels": {names.SUPER_CLUSTER_ID: context.super_id}}
    shown, policy = spec.capacity.get(STORAGE, "0"), _policy(p, view, spec.persistent_volume_reclaim_policy)
    if capacity and milli(shown) != milli(capacity):
        patch["spec"] = {"capacity": {STORAGE: capacity}}
    if spec.persistent_volume_reclaim_policy != policy:
        # The operator's policy decides about the data. The tenant's volume must not promise anything else.
        patch["spec"] = {**patch.get("spec", {}), "persistentVolumeReclaimPolicy": policy}
    if not patch:
        return EMPTY
    patch["metadata"] = {**patch.get("metadata", {}), "uid": found.uid}
    return Plan((Patch("tenant", PERSISTENT_VOLUMES, "", name, found.uid, patch),))


def plan(volume: Envelope | None, context: TenantContext, view: View) -> Plan:
    """Delete a volume whose claim is gone on both sides, unless its policy is Retain.

    The tenant's binder confirms that the claim is gone before it sets the phase. The volume only describes data, so its
    deletion destroys none.

    Args:
        volume: the tenant's volume.
        context: the tenant's settings.
        view: the caches.
    """
    claim = claim_of(volume) if volume is not None else None
    if volume is None or claim is None or volume.deleting:
        return EMPTY
    spec = decode(volume.spec, _Spec)
    phase = decode(volume.status, _Status).phase if volume.status else ""
    if phase not in _ENDED or spec.persistent_volume_reclaim_policy != _DELETE:
        return EMPTY
    if _place(spec) != context.super_id:
        return EMPTY
    namespace, name = claim
    place = names.super_namespace(context.key, namespace)
    p = view.super(PERSISTENT_VOLUME_CLAIMS, place, name)
    if p is not None and spec.claim_ref and p.annotations.get(names.UID) == spec.claim_ref.uid:
        reason = f"claim {namespace}/{name} is still in super cluster {context.super_id}"
        return Plan(wait=Wait(reason, (Dependency("super", PERSISTENT_VOLUME_CLAIMS, place, name),)))
    return Plan((Delete("tenant", PERSISTENT_VOLUMES, "", volume.name, volume.uid),))


def _place(spec: _Spec) -> str:
    """Return the super cluster that has a volume, by its node affinity, which cannot change; empty if it has none."""
    for term in spec.node_affinity.required.node_selector_terms if spec.node_affinity else ():
        for expression in term.match_expressions:
            if expression.key == names.SUPER_CLUSTER_ID and len(expression.values) == 1:
                return expression.values[0]
    return ""


def _policy(p: Envelope, view: View, otherwise: str) -> str:
    found = view.super(STORAGE_CLASSES, "", decode(p.spec, _ClaimSpec).storage_class_name)
    return storage_class.describe(found).reclaim_policy if found is not None else otherwise


def _body(v: Envelope, p: Envelope, context: TenantContext, view: View) -> dict[str, Any]:
    name, spec, status = (
        names.volume_name(v.uid),
        decode(p.spec, _ClaimSpec),
        decode(p.status, _ClaimStatus),
    )
    here = {"key": names.SUPER_CLUSTER_ID, "operator": "In", "values": [context.super_id]}
    return {
        "apiVersion": PERSISTENT_VOLUMES.api_version,
        "kind": PERSISTENT_VOLUMES.kind,
        "metadata": {
            "name": name,
            "labels": {names.SUPER_CLUSTER_ID: context.super_id},
            "annotations": {PROVISIONED_BY: names.PROVISIONER},
        },
        "spec": {
            "capacity": {STORAGE: status.capacity[STORAGE]},
            "accessModes": list(status.access_modes),
            "volumeMode": spec.volume_mode,
            "storageClassName": spec.storage_class_name,
            "persistentVolumeReclaimPolicy": _policy(p, view, _DELETE),
            "csi": {"driver": names.CSI_DRIVER, "volumeHandle": name},
            "claimRef": {
                "apiVersion": PERSISTENT_VOLUME_CLAIMS.api_version,
                "kind": PERSISTENT_VOLUME_CLAIMS.kind,
                "namespace": v.namespace,
                "name": v.name,
                "uid": v.uid,
            },
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        },
    }
