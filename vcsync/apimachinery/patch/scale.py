"""Converts the ownership of replicas between the `scale` subresource and the object itself. Pure.

This is apimachinery's `managedfields.ScaleHandler`: both are the same field under two paths.
"""

from collections.abc import Mapping, Sequence

from vcsync.apimachinery.patch import fields, owners
from vcsync.apimachinery.patch.owners import Entry, Owned, Owners

SCALE_VERSION = "autoscaling/v1"
_REPLICAS = ("f:spec", "f:replicas")

Paths = Mapping[str, tuple[str, ...] | None]
"""apiVersion of the object -> path of its replicas, or None if this version has none."""


def path(dotted: str) -> tuple[str, ...]:
    """Return the path of a JSON path as in CustomResourceDefinitions (`.spec.replicas`)."""
    return tuple(fields.field(part) for part in dotted.strip(".").split("."))


def to_scale(entries: Sequence[Entry] | None, paths: Paths) -> list[Entry]:
    """Return the managedFields of the Scale of an object.

    Args:
        entries: managedFields of the object.
        paths: Path of the replicas in each version of the object.
    """
    shown: Owners = {}
    for who, owned in owners.read(entries or ()).items():
        where = paths.get(owned.api_version)
        if where and fields.has(owned.fields, where):
            shown[who] = Owned(fields.single(_REPLICAS), SCALE_VERSION, owned.time)
    return owners.written(shown)


def to_parent(
    entries: Sequence[Entry] | None, scale_entries: Sequence[Entry] | None, api_version: str, paths: Paths
) -> list[Entry]:
    """Return the managedFields of an object after a write to its scale.

    Args:
        entries: managedFields of the object before the write.
        scale_entries: managedFields of the Scale after the write.
        api_version: `apiVersion` of the object, for new owners of its replicas.
        paths: Path of the replicas in each version of the object.
    """
    scaled = owners.read(scale_entries or ())
    before = owners.read(entries or ())
    parent: Owners = {}
    for who, owned in before.items():
        if owned.api_version not in paths:
            continue
        where = paths[owned.api_version]
        if where is None or not fields.has(owned.fields, where):
            parent[who] = owned
        elif who in scaled:
            parent[who] = owned
            del scaled[who]
        else:
            left = fields.difference(owned.fields, fields.single(where))
            if left:
                parent[who] = owned._replace(fields=left)
    target = paths.get(api_version)
    for who, owned in scaled.items():
        if target and fields.has(owned.fields, _REPLICAS):
            # kube-apiserver takes the time from the managers of the object, so a new manager has none.
            time = before[who].time if who in before else ""
            parent[who] = Owned(fields.single(target), api_version, time)
    return owners.written(parent)
