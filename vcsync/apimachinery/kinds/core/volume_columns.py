"""Columns that PersistentVolumes and PersistentVolumeClaims share. Pure.

Source: Kubernetes' `pkg/printers/internalversion`.
"""

from datetime import datetime
from typing import Any

from vcsync.apimachinery.wire import cells

MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
"""Short names of access modes, in the order in which columns show them."""
CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"


def short_modes(obj: cells.Object, path: str) -> str:
    """Return the short names of access modes."""
    found = cells.look(obj, path, ())
    return ",".join(text for mode, text in MODES.items() if mode in found)


def phase(obj: cells.Object, _: datetime) -> Any:
    """Return the phase of a volume or claim. One that is being deleted is Terminating."""
    deleted = cells.look(obj, "metadata.deletionTimestamp") is not None
    return "Terminating" if deleted else cells.look(obj, "status.phase", "")


def storage_class(obj: cells.Object, _: datetime) -> Any:
    """Return the storage class of a volume or claim, from its deprecated annotation or its field."""
    annotated = cells.look(obj, "metadata.annotations", {}).get(CLASS_ANNOTATION)
    return cells.look(obj, "spec.storageClassName", "") if annotated is None else annotated


CLASS_COLUMNS: cells.Printer = {
    "StorageClass": storage_class,
    "VolumeAttributesClass": cells.field("spec.volumeAttributesClassName", cells.UNSET),
    "Age": cells.age,
    "VolumeMode": cells.field("spec.volumeMode", cells.UNSET),
}
