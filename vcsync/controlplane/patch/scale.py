"""Who owns the number of replicas, as the `scale` subresource shows it and as the object itself does. Pure.

As apimachinery's `managedfields.ScaleHandler`: the two are one field under two paths.
"""

from collections.abc import Mapping, Sequence

from vcsync.controlplane.patch import fields, owners
from vcsync.controlplane.patch.owners import Entry, Owned, Owners

SCALE_VERSION = "autoscaling/v1"
_REPLICAS = ("f:spec", "f:replicas")

Paths = Mapping[str, tuple[str, ...] | None]
"""apiVersion of the object -> the path elements of its replicas; None: it has none in this version."""


def path(dotted: str) -> tuple[str, ...]:
    """Return the path elements of a JSON path as custom resources declare it (`.spec.replicas`)."""
    return tuple(fields.field(part) for part in dotted.strip(".").split("."))


def to_scale(entries: Sequence[Entry] | None, paths: Paths) -> list[Entry]:
    """Return the managedFields that a Scale object shows of the object's."""
    shown: Owners = {}
    for who, owned in owners.read(entries or ()).items():
        where = paths.get(owned.api_version)
        if where and fields.has(owned.fields, where):
            shown[who] = Owned(fields.single(_REPLICAS), SCALE_VERSION, owned.time)
    return owners.written(shown)


def to_parent(
    entries: Sequence[Entry] | None, scale_entries: Sequence[Entry] | None, api_version: str, paths: Paths
) -> list[Entry]:
    """Return the object's managedFields after a write to its scale.

    Args:
        entries: the object's before the write.
        scale_entries: the Scale object's after it.
        api_version: of the object, for those who own its replicas from now on.
        paths: where each version of the object has its replicas.

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
            # kube-apiserver looks for the time among the object's own managers, so a new one has none.
            time = before[who].time if who in before else ""
            parent[who] = Owned(fields.single(target), api_version, time)
    return owners.written(parent)
