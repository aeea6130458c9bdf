"""PersistentVolumeClaims: bound to existing volumes; dynamic provisioning is left to the provisioner. Pure.

Behaviour: `syncClaim` of Kubernetes' `pkg/controller/volume/persistentvolume`.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from vcsync.controllers.framework import pods
from vcsync.controllers.framework.event_handlers import everywhere, own, standing
from vcsync.controllers.framework.mirror import Key, key_of, namespace_of
from vcsync.controllers.framework.plan import NOTHING, Action, Controller, Emit, Patch, Plan, View, Watch
from vcsync.controllers.volumes.objects import (
    BETA_PROVISIONER,
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    PRE_RESIZE_CAPACITY,
    PROVISIONER,
    SELECTED_NODE,
    STORAGE,
    Claim,
    Volume,
    best,
    claim_of,
    default_class,
    storage_class,
    unfit,
    volume_of,
)
from vcsync.controllers.volumes.users import claims_used
from vcsync.kube.cache import Change
from vcsync.kube.events import EventType, ObjectRef
from vcsync.kube.resources import (
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STORAGE_CLASSES,
)
from vcsync.objects.envelope import Envelope
from vcsync.objects.quantity import milli

NAME = "persistentvolume-binder-controller"
REPORTER = "persistentvolume-controller"
"""The source of Kubernetes' Events about claims and volumes."""
GATHER_SECONDS = 1.0
"""Seconds for which changes of volumes and classes are collected, so that waiting claims examine many together."""
LOST = "Data on the volume is lost!"


def plan(view: View, key: Key) -> Plan:
    """Reconcile a claim."""
    found = view.of[PERSISTENT_VOLUME_CLAIMS].get(*key)
    if found is None:
        return NOTHING
    claim = claim_of(found)
    return Plan(_bound(view, claim) if BIND_COMPLETED in found.annotations else _unbound(view, claim))


# ---- Claims without a volume ---------------------------------------------------------------

Steps = Sequence[Sequence[Action]]


def _unbound(view: View, claim: Claim) -> Steps:
    if claim.spec.volume_name:
        return _asking(view, claim)
    tenant = claim.envelope.tenant
    known = storage_class(view, tenant, claim.class_name) if claim.class_name else None
    delayed = known is not None and known.volume_binding_mode == "WaitForFirstConsumer"
    volume = best(view, claim, delayed=delayed)
    if volume is not None:
        return bind(volume, claim)
    usual = None if claim.has_class else default_class(view, tenant)
    if usual is not None:
        metadata = _unchanged(claim.envelope)
        return [[_patch(claim, {"metadata": metadata, "spec": {"storageClassName": usual}})]]
    if delayed and SELECTED_NODE not in claim.envelope.annotations:
        return [[_consumers(view, claim)], *_pending(claim)]
    if claim.class_name:
        return _provision(claim, None if known is None else known.provisioner)
    text = "no persistent volumes available for this claim and no storage class is set"
    return [[_emit(claim, "Normal", "FailedBinding", text)], *_pending(claim)]


def _asking(view: View, claim: Claim) -> Steps:
    """Reconcile a claim that names its volume."""
    found = view.of[PERSISTENT_VOLUMES].get(claim.envelope.tenant, "", claim.spec.volume_name)
    if found is None:
        return _pending(claim)
    volume = volume_of(found)
    if volume.spec.claim_ref is None:
        reason = unfit(volume, claim)
        if not reason:
            return bind(volume, claim)
        text = f'Cannot bind to requested volume "{found.name}": {reason}'
        return [[_emit(claim, "Warning", "VolumeMismatch", text)], *_pending(claim)]
    if volume.is_of(claim):
        return bind(volume, claim)
    text = f'volume "{found.name}" already bound to a different claim.'
    events: list[Action] = [_emit(claim, "Warning", "FailedBinding", text)]
    return [events] if BOUND_BY_CONTROLLER in claim.envelope.annotations else [events, *_pending(claim)]


def _consumers(view: View, claim: Claim) -> Action:
    """Report the Pods that a claim waits for, because their node decides about the volume."""
    envelope = claim.envelope
    names = [
        pod.name
        for pod in view.of[PODS].within(envelope.tenant, namespace_of(envelope))
        if envelope.name in claims_used(pod)
        and pods.status(pod).phase not in pods.FINISHED
        and not pods.spec(pod).node_name
    ]
    if not names:
        text = "waiting for first consumer to be created before binding"
        return _emit(claim, "Normal", "WaitForFirstConsumer", text)
    which = f"pods {','.join(names)}" if len(names) > 1 else f"pod {names[0]}"
    return _emit(claim, "Normal", "WaitForPodScheduled", f"waiting for {which} to be scheduled")


def _provision(claim: Claim, provisioner: str | None) -> Steps:
    """Request a volume from the provisioner. `provisioner`: None if the class does not exist."""
    if provisioner is None:
        text = f'storageclass.storage.k8s.io "{claim.class_name}" not found'
        return [[_emit(claim, "Warning", "ProvisioningFailed", text)]]
    if provisioner.startswith("kubernetes.io/"):
        text = f"no volume plugin matched name: {provisioner}"
        return [[_emit(claim, "Warning", "ProvisioningFailed", text)]]
    text = (
        f"Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the "
        "system administrator. If volume creation is delayed, please verify that the provisioner is running and "
        "correctly registered."
    )
    event = _emit(claim, "Normal", "ExternalProvisioning", text)
    if claim.envelope.annotations.get(PROVISIONER) == provisioner:
        return [[event]]
    annotations = {BETA_PROVISIONER: provisioner, PROVISIONER: provisioner}
    metadata = {**_unchanged(claim.envelope), "annotations": annotations}
    return [[_patch(claim, {"metadata": metadata})], [event]]


# ---- Bound claims --------------------------------------------------------------------------


def _bound(view: View, claim: Claim) -> Steps:
    name = claim.spec.volume_name
    if not name:
        return _lost(claim, "ClaimLost", f"Bound claim has lost reference to PersistentVolume. {LOST}")
    found = view.of[PERSISTENT_VOLUMES].get(claim.envelope.tenant, "", name)
    if found is None:
        return _lost(claim, "ClaimLost", f"Bound claim has lost its PersistentVolume. {LOST}")
    volume = volume_of(found)
    if volume.spec.claim_ref is None or volume.spec.claim_ref.uid == claim.envelope.uid:
        return bind(volume, claim)
    text = "Two claims are bound to the same volume, this one is bound incorrectly"
    return _lost(claim, "ClaimMisbound", text)


def _lost(claim: Claim, reason: str, text: str) -> Steps:
    if claim.status.phase == "Lost":
        return []
    return [*_phase(claim, "Lost"), [_emit(claim, "Warning", reason, text)]]


# ---- Writing -------------------------------------------------------------------------------


def bind(volume: Volume, claim: Claim) -> Steps:
    """Return the writes that bind a volume and a claim to each other, the volume first, without those already done."""
    steps = [
        _take(volume, claim),
        _take_volume_phase(volume),
        _name(volume, claim),
        *_phase(claim, "Bound", volume),
    ]
    return [each for each in steps if each]


def _take(volume: Volume, claim: Claim) -> Sequence[Action]:
    """Set a volume's claim, unless the volume changed meanwhile."""
    there, envelope = volume.envelope, claim.envelope
    reference = volume.spec.claim_ref
    mine = (namespace_of(envelope), envelope.name, envelope.uid)
    patch: dict[str, Any] = {"metadata": _unchanged(there)}
    if reference is None or (reference.namespace, reference.name, reference.uid) != mine:
        patch["spec"] = {
            "claimRef": {
                "apiVersion": PERSISTENT_VOLUME_CLAIMS.api_version,
                "kind": PERSISTENT_VOLUME_CLAIMS.kind,
                "namespace": mine[0],
                "name": mine[1],
                "uid": mine[2],
                "resourceVersion": envelope.resource_version,
            }
        }
    if not volume.is_of(claim) and BOUND_BY_CONTROLLER not in there.annotations:
        patch["metadata"]["annotations"] = {BOUND_BY_CONTROLLER: "yes"}
    changes = "spec" in patch or "annotations" in patch["metadata"]
    return [Patch(PERSISTENT_VOLUMES, "", there.name, patch)] if changes else []


def _take_volume_phase(volume: Volume) -> Sequence[Action]:
    return volume_phase(volume, "Bound")


def volume_phase(volume: Volume, phase: str, message: str | None = None) -> Sequence[Action]:
    """Return the write of a volume's phase, if it changes."""
    if volume.status.phase == phase:
        return []
    status = {"phase": phase, "message": message}
    patch = {"metadata": {"uid": volume.envelope.uid}, "status": status}
    return [Patch(PERSISTENT_VOLUMES, "", volume.envelope.name, patch, subresource="status")]


def _name(volume: Volume, claim: Claim) -> Sequence[Action]:
    """Set a claim's volume, unless the claim changed meanwhile."""
    annotations = {}
    patch: dict[str, Any] = {}
    if claim.spec.volume_name != volume.envelope.name:
        patch["spec"] = {"volumeName": volume.envelope.name}
        if BOUND_BY_CONTROLLER not in claim.envelope.annotations:
            annotations[BOUND_BY_CONTROLLER] = "yes"
    if BIND_COMPLETED not in claim.envelope.annotations:
        annotations[BIND_COMPLETED] = "yes"
    if not patch and not annotations:
        return []
    patch["metadata"] = {
        **_unchanged(claim.envelope),
        **({"annotations": annotations} if annotations else {}),
    }
    return [_patch(claim, patch)]


def _pending(claim: Claim) -> Steps:
    return _phase(claim, "Pending")


def _phase(claim: Claim, phase: str, volume: Volume | None = None) -> Steps:
    """Return the write of a claim's phase and its volume's properties, if they change."""
    status = claim.status
    change: dict[str, Any] = {} if status.phase == phase else {"phase": phase}
    if volume is None:
        before = {
            "accessModes": status.access_modes,
            "capacity": status.capacity,
            "currentVolumeAttributesClassName": status.current_volume_attributes_class_name,
        }
        change |= {name: None for name, value in before.items() if value is not None}
    else:
        if status.access_modes != volume.spec.access_modes:
            change["accessModes"] = list(volume.spec.access_modes or ())
        if status.phase != phase:
            change |= _capacity(status.capacity or {}, volume)
        attributes = volume.spec.volume_attributes_class_name
        if status.phase == "Pending" and status.current_volume_attributes_class_name != attributes:
            change["currentVolumeAttributesClassName"] = attributes
    if not change:
        return []
    patch = {"metadata": {"uid": claim.envelope.uid}, "status": change}
    return [[_patch(claim, patch, "status")]]


def _capacity(before: dict[str, str], volume: Volume) -> dict[str, Any]:
    offered = volume.spec.capacity or {}
    unresized = volume.envelope.annotations.get(PRE_RESIZE_CAPACITY)
    if unresized is not None:
        return {"capacity": {STORAGE: unresized}}
    if STORAGE in before and milli(before[STORAGE]) == milli(offered.get(STORAGE, "0")):
        return {}
    return {"capacity": {**dict.fromkeys(before), **offered}}


def _unchanged(envelope: Envelope) -> dict[str, Any]:
    """Return the preconditions of a write that fails if the object changed meanwhile."""
    return {"uid": envelope.uid, "resourceVersion": envelope.resource_version}


def _patch(claim: Claim, patch: dict[str, Any], subresource: str = "") -> Patch:
    envelope = claim.envelope
    return Patch(
        PERSISTENT_VOLUME_CLAIMS, namespace_of(envelope), envelope.name, patch, subresource=subresource
    )


def _emit(claim: Claim, type_: EventType, reason: str, message: str) -> Emit:
    return Emit(about_claim(claim.envelope), type_, reason, message)


def about_claim(envelope: Envelope) -> ObjectRef:
    """Return the reference for an Event about a claim."""
    resource = PERSISTENT_VOLUME_CLAIMS
    return ObjectRef(resource.api_version, resource.kind, envelope.name, namespace_of(envelope), envelope.uid)


# ---- Triggers ------------------------------------------------------------------------------


def _of_volume(change: Change, view: View) -> Iterable[Key]:
    """Return the current and former claims of a volume, and the waiting ones when it becomes available."""
    found: dict[Key, None] = {}
    for each in (change.old, change.new):
        reference = None if each is None else volume_of(each).spec.claim_ref
        if each is not None and reference is not None:
            found[Key(each.tenant, reference.namespace, reference.name)] = None
    if change.new is not None and _is_free(change.new) and not _same(change):
        found |= dict.fromkeys(_waiting(view, change.new.tenant))
    return found


def _is_free(volume: Envelope) -> bool:
    read = volume_of(volume)
    return read.spec.claim_ref is None and read.status.phase == "Available"


def _same(change: Change) -> bool:
    """Return whether all properties by which claims choose a volume are unchanged."""
    old, new = change.old, change.new
    if old is None or new is None:
        return False
    return (old.spec, old.labels, old.status) == (new.spec, new.labels, new.status)


def _waiting(view: View, tenant: str) -> Iterable[Key]:
    claims = everywhere(view, PERSISTENT_VOLUME_CLAIMS, tenant)
    return [key_of(each) for each in claims if BIND_COMPLETED not in each.annotations]


def _of_class(change: Change, view: View) -> Iterable[Key]:
    return _waiting(view, standing(change).tenant)


def _of_pod(change: Change, view: View) -> Iterable[Key]:
    """Return the unbound claims of a Pod that is new, or that now has a node."""
    pod = change.new
    if pod is None or (change.old is not None and pods.spec(change.old) == pods.spec(pod)):
        return []
    keys = (Key(pod.tenant, namespace_of(pod), name) for name in claims_used(pod))
    found = ((key, view.of[PERSISTENT_VOLUME_CLAIMS].get(*key)) for key in keys)
    return [key for key, claim in found if claim is not None and BIND_COMPLETED not in claim.annotations]


def _soon(_change: Change, _look: View, _key: Key) -> float:
    return GATHER_SECONDS


VOLUME_CLAIM = Controller(
    NAME,
    (
        Watch(PERSISTENT_VOLUME_CLAIMS, own),
        Watch(PERSISTENT_VOLUMES, _of_volume),
        Watch(STORAGE_CLASSES, _of_class, _soon),
        Watch(PODS, _of_pod, _soon),
    ),
    plan,
    (NAMESPACES,),
    REPORTER,
)
