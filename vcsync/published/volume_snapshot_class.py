"""VolumeSnapshotClasses that operators publish. Parameters are not read: they may name Secrets. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from vcsync.api import names
from vcsync.api.specs import PublishedVolumeSnapshotClass
from vcsync.kube.resources import VOLUME_SNAPSHOT_CLASSES
from vcsync.objects.envelope import Envelope, decode
from vcsync.published.kind import Body, PublishedKind, content_of

_RETAIN: Final = "Retain"


class _SnapshotClass(Struct, gc=False, rename="camel"):
    deletion_policy: str = "Delete"


def describe(found: Envelope) -> PublishedVolumeSnapshotClass:
    """Return what tenants may know of a VolumeSnapshotClass."""
    read = decode(found.rest, _SnapshotClass)
    return PublishedVolumeSnapshotClass(
        name=found.name, deletion_policy="Retain" if read.deletion_policy == _RETAIN else "Delete"
    )


def content(by_super: Mapping[str, Any]) -> Body:
    """Return the tenant's class. Its driver is that of the tenant's volumes. If super clusters differ, it deletes."""
    keeps = all(each.deletion_policy == _RETAIN for each in by_super.values())
    return {"driver": names.CSI_DRIVER, "deletionPolicy": _RETAIN if keeps else "Delete"}


KIND: Final = PublishedKind(
    resource=VOLUME_SNAPSHOT_CLASSES,
    field="volume_snapshot_classes",
    describe=describe,
    content=content,
    fixed=("driver", "deletionPolicy", "parameters"),
    owned=lambda found: content_of(found).get("driver") == names.CSI_DRIVER,
    hidden="snapshots that name it use the operator's class where the volume is",
)
