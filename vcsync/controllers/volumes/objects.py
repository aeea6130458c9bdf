"""PersistentVolumes, claims and storage classes as controllers read them, and the best volume for a claim. Pure.

Behaviour: `pv_helpers.go` of Kubernetes' `component-helpers/storage/volume`, `index.go` of
`pkg/controller/volume/persistentvolume`.
"""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from vcsync.controllers.framework.mirror import namespace_of
from vcsync.controllers.framework.plan import View
from vcsync.kube.resources import PERSISTENT_VOLUMES, STORAGE_CLASSES
from vcsync.objects.envelope import Envelope, decode
from vcsync.objects.quantity import milli
from vcsync.objects.selectors import LabelSelector, compile_selector

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
MIGRATED_TO = "pv.kubernetes.io/migrated-to"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
PROVISIONER = "volume.kubernetes.io/storage-provisioner"
BETA_PROVISIONER = "volume.beta.kubernetes.io/storage-provisioner"
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
PRE_RESIZE_CAPACITY = "volume.alpha.kubernetes.io/pre-resize-capacity"
DEFAULT_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
STORAGE = "storage"


class Resources(Struct, frozen=True):
    """The requested resources of a claim."""

    requests: dict[str, str] | None = None


class ClaimSpec(Struct, rename="camel"):
    """The parts of a claim's spec."""

    access_modes: tuple[str, ...] | None = None
    selector: LabelSelector | None = None
    resources: Resources = Resources()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class ClaimStatus(Struct, rename="camel"):
    """The parts of a claim's status."""

    phase: str = ""
    access_modes: tuple[str, ...] | None = None
    capacity: dict[str, str] | None = None
    current_volume_attributes_class_name: str | None = None


class ClaimRef(Struct):
    """The claim of a volume. `uid` is empty if the volume is only reserved for the claim."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeSpec(Struct, rename="camel"):
    """The parts of a volume's spec."""

    capacity: dict[str, str] | None = None
    access_modes: tuple[str, ...] | None = None
    claim_ref: ClaimRef | None = None
    persistent_volume_reclaim_policy: str = "Retain"
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    csi: Any = None


class VolumeStatus(Struct):
    """The parts of a volume's status."""

    phase: str = ""


class StorageClass(Struct, rename="camel"):
    """The parts of a StorageClass."""

    provisioner: str = ""
    volume_binding_mode: str = "Immediate"


class Claim(Struct, frozen=True):
    """A claim, read."""

    envelope: Envelope
    spec: ClaimSpec
    status: ClaimStatus

    @property
    def class_name(self) -> str:
        """Return the requested class; empty: none."""
        return self.envelope.annotations.get(BETA_CLASS, self.spec.storage_class_name or "")

    @property
    def has_class(self) -> bool:
        """Return whether the class is set, even to none."""
        return BETA_CLASS in self.envelope.annotations or self.spec.storage_class_name is not None


class Volume(Struct, frozen=True):
    """A volume, read."""

    envelope: Envelope
    spec: VolumeSpec
    status: VolumeStatus

    @property
    def class_name(self) -> str:
        """Return its class; empty: none."""
        return self.envelope.annotations.get(BETA_CLASS, self.spec.storage_class_name)

    def is_of(self, claim: Claim) -> bool:
        """Return whether it is bound to a claim, or reserved for it."""
        reference = self.spec.claim_ref
        there = claim.envelope
        return (
            reference is not None
            and (reference.namespace, reference.name) == (namespace_of(there), there.name)
            and reference.uid in ("", there.uid)
        )


def claim_of(envelope: Envelope) -> Claim:
    """Read a claim."""
    return Claim(envelope, decode(envelope.spec, ClaimSpec), decode(envelope.status, ClaimStatus))


def volume_of(envelope: Envelope) -> Volume:
    """Read a volume."""
    return Volume(envelope, decode(envelope.spec, VolumeSpec), decode(envelope.status, VolumeStatus))


def storage_class(view: View, tenant: str, name: str) -> StorageClass | None:
    """Return a class of a tenant; None: it does not exist."""
    found = view.of[STORAGE_CLASSES].get(tenant, "", name)
    return None if found is None else decode(found.rest, StorageClass)


def default_class(view: View, tenant: str) -> str | None:
    """Return the name of a tenant's default class, the newest of several; None: no class is the default."""
    found = [
        each
        for each in view.of[STORAGE_CLASSES].within(tenant)
        if any(each.annotations.get(name) == "true" for name in DEFAULT_CLASS)
    ]
    found.sort(key=lambda each: each.name)
    return max(found, key=lambda each: each.creation_timestamp).name if found else None


def best(view: View, claim: Claim, *, delayed: bool) -> Volume | None:
    """Return the volume for a claim: a reserved one, or the smallest that fits, with the fewest access modes.

    Args:
        view: the mirrors.
        claim: a claim that names no volume.
        delayed: whether the Pod scheduler chooses the volume, so that only reserved volumes count.
    """
    groups: dict[tuple[str, ...], list[Volume]] = {}
    for each in map(volume_of, view.of[PERSISTENT_VOLUMES].within(claim.envelope.tenant)):
        groups.setdefault(tuple(sorted({*(each.spec.access_modes or ())})), []).append(each)
    wanted = {*(claim.spec.access_modes or ())}
    for modes in sorted((each for each in groups if wanted <= {*each}), key=len):
        found = _smallest(claim, groups[modes], delayed=delayed)
        if found is not None:
            return found
    return None


def _smallest(claim: Claim, volumes: Iterable[Volume], *, delayed: bool) -> Volume | None:
    fitting: list[Volume] = []
    selector = None if claim.spec.selector is None else compile_selector(claim.spec.selector)
    for each in volumes:
        taken = each.spec.claim_ref is not None and not each.is_of(claim)
        unlike = modes_differ(each, claim) or attributes_differ(each, claim) or size(each) < requested(claim)
        if taken or unlike or each.envelope.deleting:
            continue
        if each.is_of(claim):
            return each
        if delayed or each.status.phase != "Available" or each.class_name != claim.class_name:
            continue
        if selector is None or selector.matches(each.envelope.labels):
            fitting.append(each)
    return min(fitting, key=size, default=None)


def attributes_differ(volume: Volume, claim: Claim) -> bool:
    """Return whether they have different VolumeAttributesClasses."""
    wanted = claim.spec.volume_attributes_class_name or ""
    return (volume.spec.volume_attributes_class_name or "") != wanted


def modes_differ(volume: Volume, claim: Claim) -> bool:
    """Return whether one is a block device and the other a file system."""
    usual = "Filesystem"
    return (volume.spec.volume_mode or usual) != (claim.spec.volume_mode or usual)


def size(volume: Volume) -> int:
    """Return a volume's capacity, in thousandths of a byte."""
    return milli((volume.spec.capacity or {}).get(STORAGE, "0"))


def requested(claim: Claim) -> int:
    """Return a claim's requested size, in thousandths of a byte."""
    return milli((claim.spec.resources.requests or {}).get(STORAGE, "0"))


def unfit(volume: Volume, claim: Claim) -> str:
    """Return the reason why a claim cannot use the volume that it names; empty: it can."""
    access = {*(claim.spec.access_modes or ())} <= {*(volume.spec.access_modes or ())}
    reasons = {
        f'the volume is marked for deletion "{volume.envelope.name}"': volume.envelope.deleting,
        "requested PV is too small": size(volume) < requested(claim),
        "storageClassName does not match": volume.class_name != claim.class_name,
        "volumeAttributesClassName does not match": attributes_differ(volume, claim),
        "incompatible volumeMode": modes_differ(volume, claim),
        "incompatible accessMode": not access,
    }
    return next((reason for reason, so in reasons.items() if so), "")
