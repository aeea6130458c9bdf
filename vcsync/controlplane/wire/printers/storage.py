"""The cells of volumes, claims, storage classes and drivers. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from vcsync.controlplane.wire.printers.cells import (
    NONE,
    UNSET,
    Object,
    Printer,
    age,
    count,
    field,
    joined,
    look,
    name,
)

Kind = tuple[str, str]
MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
"""Access modes, in the order in which they are told."""
CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
DEFAULT_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def access_modes(obj: Object, path: str) -> str:
    """Shorten access modes."""
    found = look(obj, path, ())
    return ",".join(text for mode, text in MODES.items() if mode in found)


def volume_modes(obj: Object, _: datetime) -> str:
    """Tell how a volume can be mounted."""
    return access_modes(obj, "spec.accessModes")


def claim_modes(obj: Object, _: datetime) -> str:
    """Tell how a bound claim's volume is mounted."""
    return access_modes(obj, "status.accessModes") if look(obj, "spec.volumeName") else ""


def claim_capacity(obj: Object, _: datetime) -> str:
    """Tell the size of a bound claim's volume."""
    return str(look(obj, "status.capacity.storage", "0")) if look(obj, "spec.volumeName") else ""


def phase(obj: Object, _: datetime) -> Any:
    """Tell a volume's or claim's phase."""
    deleted = look(obj, "metadata.deletionTimestamp") is not None
    return "Terminating" if deleted else look(obj, "status.phase", "")


def claim(obj: Object, _: datetime) -> str:
    """Name the claim that a volume is bound to."""
    found = look(obj, "spec.claimRef")
    return "" if found is None else f"{found.get('namespace', '')}/{found.get('name', '')}"


def storage_class(obj: Object, _: datetime) -> Any:
    """Name the storage class of a volume or claim, given by its old annotation or its field."""
    annotated = look(obj, "metadata.annotations", {}).get(CLASS_ANNOTATION)
    return look(obj, "spec.storageClassName", "") if annotated is None else annotated


def class_name(obj: Object, _: datetime) -> str:
    """Name a StorageClass; tell if it is the default."""
    annotations = look(obj, "metadata.annotations", {})
    default = any(annotations.get(each) == "true" for each in DEFAULT_CLASS)
    return f"{look(obj, 'metadata.name', '')}{' (default)' if default else ''}"


def token_requests(obj: Object, _: datetime) -> str:
    """Tell the audiences of a driver's tokens."""
    found = look(obj, "spec.tokenRequests")
    return UNSET if found is None else ",".join(each.get("audience", "") for each in found)


_CLASSES: Printer = {
    "StorageClass": storage_class,
    "VolumeAttributesClass": field("spec.volumeAttributesClassName", UNSET),
    "Age": age,
    "VolumeMode": field("spec.volumeMode", UNSET),
}

PRINTERS: Mapping[Kind, Printer] = {
    ("", "PersistentVolume"): {
        **_CLASSES,
        "Name": name,
        "Capacity": field("spec.capacity.storage", "0"),
        "Access Modes": volume_modes,
        "Reclaim Policy": field("spec.persistentVolumeReclaimPolicy"),
        "Status": phase,
        "Claim": claim,
        "Reason": field("status.reason"),
    },
    ("", "PersistentVolumeClaim"): {
        **_CLASSES,
        "Name": name,
        "Status": phase,
        "Volume": field("spec.volumeName"),
        "Capacity": claim_capacity,
        "Access Modes": claim_modes,
    },
    ("storage.k8s.io", "StorageClass"): {
        "Name": class_name,
        "Provisioner": field("provisioner"),
        "ReclaimPolicy": field("reclaimPolicy", "Delete"),
        "VolumeBindingMode": field("volumeBindingMode", "Immediate"),
        "AllowVolumeExpansion": field("allowVolumeExpansion", False),
        "Age": age,
    },
    ("storage.k8s.io", "VolumeAttributesClass"): {
        "Name": name,
        "DriverName": field("driverName"),
        "Age": age,
    },
    ("storage.k8s.io", "VolumeAttachment"): {
        "Name": name,
        "Attacher": field("spec.attacher"),
        "PV": field("spec.source.persistentVolumeName"),
        "Node": field("spec.nodeName"),
        "Attached": field("status.attached", False),
        "Age": age,
    },
    ("storage.k8s.io", "CSINode"): {"Name": name, "Drivers": count("spec.drivers"), "Age": age},
    ("storage.k8s.io", "CSIDriver"): {
        "Name": name,
        "AttachRequired": field("spec.attachRequired", True),
        "PodInfoOnMount": field("spec.podInfoOnMount", False),
        "StorageCapacity": field("spec.storageCapacity", False),
        "TokenRequests": token_requests,
        "RequiresRepublish": field("spec.requiresRepublish", False),
        "Modes": joined("spec.volumeLifecycleModes", NONE),
        "Age": age,
    },
}
