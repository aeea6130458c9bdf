"""PersistentVolumes: their phase, and their reclaim policy after the claim is gone. Pure.

Behaviour: `syncVolume` of Kubernetes' `pkg/controller/volume/persistentvolume`. Data of a volume is never
deleted or recycled here: that is the task of its provisioner.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from vcsync.controllers.framework.event_handlers import own, standing
from vcsync.controllers.framework.mirror import Key
from vcsync.controllers.framework.plan import (
    NOTHING,
    Absent,
    Action,
    Controller,
    Emit,
    Patch,
    Plan,
    View,
    Watch,
)
from vcsync.controllers.framework.selector_index import uid_label
from vcsync.controllers.volumes.claim_plan import REPORTER, Steps, about_claim, volume_phase
from vcsync.controllers.volumes.objects import (
    BOUND_BY_CONTROLLER,
    MIGRATED_TO,
    PROVISIONED_BY,
    Claim,
    ClaimRef,
    Volume,
    claim_of,
    modes_differ,
    volume_of,
)
from vcsync.kube.cache import Change
from vcsync.kube.events import ObjectRef
from vcsync.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES

ENDED = ("Released", "Failed")


def plan(view: View, key: Key) -> Plan:
    """Reconcile a volume."""
    found = view.of[PERSISTENT_VOLUMES].get(*key)
    if found is None:
        return NOTHING
    volume = volume_of(found)
    reference = volume.spec.claim_ref
    if reference is None or not reference.uid:
        return _steps(volume_phase(volume, "Available"))
    there = view.of[PERSISTENT_VOLUME_CLAIMS].get(key.tenant, reference.namespace, reference.name)
    if there is None or there.uid != reference.uid:
        return Plan(_left(volume, reference))
    return _steps(*_claimed(volume, claim_of(there)))


def _claimed(volume: Volume, claim: Claim) -> Steps:
    """Reconcile a volume whose claim exists: the volume is bound, about to be bound, or no longer bound to it."""
    if not claim.spec.volume_name:
        return [_mismatch(volume, claim)]
    if claim.spec.volume_name == volume.envelope.name:
        return [volume_phase(volume, "Bound")]
    policy = volume.spec.persistent_volume_reclaim_policy
    if PROVISIONED_BY in volume.envelope.annotations and policy == "Delete":
        released = [] if volume.status.phase in ENDED else volume_phase(volume, "Released")
        return [released, *_reclaim(volume)]
    return _unbind(volume)


def _steps(*steps: Sequence[Action]) -> Plan:
    return Plan([each for each in steps if each])


def _left(volume: Volume, reference: ClaimRef) -> Steps:
    """Reconcile a volume whose claim is gone. The absence is confirmed before any step that is hard to undo."""
    if volume.status.phase in ENDED:
        return _reclaim(volume)
    sure = Absent(PERSISTENT_VOLUME_CLAIMS, reference.namespace, reference.name, reference.uid)
    return [[sure], volume_phase(volume, "Released"), *_reclaim(volume)]


def _reclaim(volume: Volume) -> Steps:
    annotations = volume.envelope.annotations
    policy = volume.spec.persistent_volume_reclaim_policy
    if annotations.get(MIGRATED_TO) or policy == "Retain":
        return []
    if policy == "Recycle":
        return _failed(volume, "VolumeFailedRecycle", "No recycler plugin found for the volume!")
    if policy != "Delete":
        text = "Volume has unrecognized PersistentVolumeReclaimPolicy"
        return _failed(volume, "VolumeUnknownReclaimPolicy", text)
    by = annotations.get(PROVISIONED_BY, "")
    if by.startswith("kubernetes.io/"):
        return _failed(volume, "VolumeFailedDelete", f"no volume plugin matched name: {by}")
    if by or MIGRATED_TO in annotations or volume.spec.csi is not None:
        return []
    text = f'error getting deleter volume plugin for volume "{volume.envelope.name}": no deletable volume plugin matched'
    return _failed(volume, "VolumeFailedDelete", text)


def _failed(volume: Volume, reason: str, text: str) -> Steps:
    if volume.status.phase == "Failed":
        return []
    return [volume_phase(volume, "Failed", text), [Emit(_about(volume), "Warning", reason, text)]]


def _mismatch(volume: Volume, claim: Claim) -> Sequence[Action]:
    """Report a volume reserved for a claim that cannot use it; the claim completes any other binding."""
    if not modes_differ(volume, claim):
        return []
    name, why = volume.envelope.name, "due to incompatible volumeMode."
    of_volume = (
        f'Cannot bind PersistentVolume to requested PersistentVolumeClaim "{claim.envelope.name}" {why}'
    )
    of_claim = f'Cannot bind PersistentVolume "{name}" to requested PersistentVolumeClaim {why}'
    return [
        Emit(_about(volume), "Warning", "VolumeMismatch", of_volume),
        Emit(about_claim(claim.envelope), "Warning", "VolumeMismatch", of_claim),
    ]


def _unbind(volume: Volume) -> Steps:
    """Release a volume from a claim that has another one; a volume that its user reserved stays reserved."""
    there = volume.envelope
    metadata: dict[str, Any] = {"uid": there.uid, "resourceVersion": there.resource_version}
    if BOUND_BY_CONTROLLER in there.annotations:
        metadata["annotations"] = {BOUND_BY_CONTROLLER: None}
        patch = {"metadata": metadata, "spec": {"claimRef": None}}
    else:
        patch = {"metadata": metadata, "spec": {"claimRef": {"uid": None}}}
    return [[Patch(PERSISTENT_VOLUMES, "", there.name, patch)], volume_phase(volume, "Available")]


def _about(volume: Volume) -> ObjectRef:
    resource, there = PERSISTENT_VOLUMES, volume.envelope
    return ObjectRef(resource.api_version, resource.kind, there.name, uid=there.uid)


def _of_claim(change: Change, view: View) -> Iterable[Key]:
    """Return the volumes that a claim names, and those that name it."""
    claim = standing(change)
    names = {claim_of(each).spec.volume_name for each in (change.old, change.new) if each is not None}
    names |= {
        each.name for each in view.of[PERSISTENT_VOLUMES].selecting(claim.tenant, "", uid_label(claim.uid))
    }
    return [Key(claim.tenant, "", name) for name in sorted(names) if name]


VOLUME = Controller(
    REPORTER, (Watch(PERSISTENT_VOLUMES, own), Watch(PERSISTENT_VOLUME_CLAIMS, _of_claim)), plan
)
