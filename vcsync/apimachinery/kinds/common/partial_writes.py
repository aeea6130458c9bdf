"""Helpers that restore the fields which a write of a part of an object must not change. Pure.

Source: apiserver's `ResetObjectMetaForStatus` and the strategies of Kubernetes' registries.
"""

from vcsync.apimachinery.copies import copied
from vcsync.apimachinery.strategy import Object

KEPT = ("kind", "apiVersion", "metadata")
RESET = ("labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp")
"""The fields of metadata that some partial writes restore."""


def keep_all_but(new: Object, old: Object, *changing: str) -> None:
    """Restore every top-level field except metadata and the `changing` ones."""
    for key in new.keys() | old.keys():
        if key in KEPT or key in changing:
            continue
        if key in old:
            new[key] = copied(old[key])
        else:
            del new[key]


def keep_metadata(new: Object, old: Object) -> None:
    """Restore all of metadata except managedFields, as the status write of a custom resource does."""
    metadata = new["metadata"]
    managed = metadata.get("managedFields")
    metadata.clear()
    metadata.update(copied(old["metadata"]))
    metadata.pop("managedFields", None)
    if managed:
        metadata["managedFields"] = managed


def reset_metadata(new: Object, old: Object) -> None:
    """Restore the fields of metadata that clients may set."""
    metadata, before = new["metadata"], old["metadata"]
    for key in RESET:
        if key in before:
            metadata[key] = copied(before[key])
        else:
            metadata.pop(key, None)
