"""StorageClasses that operators publish. Parameters are not read: they may name servers and Secrets. Pure."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from vcsync.api import names
from vcsync.api.specs import PublishedStorageClass
from vcsync.kube.resources import STORAGE_CLASSES
from vcsync.objects.envelope import Envelope, decode
from vcsync.published.kind import Body, PublishedKind, content_of

DEFAULT: Final = "storageclass.kubernetes.io/is-default-class"
DEFAULT_PROVISIONING_SECONDS: Final = 300.0
_RETAIN: Final = "Retain"


class _StorageClass(Struct, gc=False, rename="camel"):
    reclaim_policy: str = "Delete"
    allow_volume_expansion: bool | None = None


def describe(found: Envelope) -> PublishedStorageClass:
    """Return what tenants may know of a StorageClass."""
    read = decode(found.rest, _StorageClass) if found.rest else _StorageClass()
    return PublishedStorageClass(
        name=found.name,
        reclaim_policy="Retain" if read.reclaim_policy == _RETAIN else "Delete",
        allow_volume_expansion=bool(read.allow_volume_expansion),
        default=found.annotations.get(DEFAULT) == names.TRUE,
    )


def provisioning_seconds(found: Envelope) -> float:
    """Return for how long failures to provision a claim of a StorageClass are waited out, as its operator set it."""
    try:
        return max(0.0, float(int(found.annotations[names.PROVISIONING_SECONDS])))
    except (KeyError, ValueError, OverflowError):
        return DEFAULT_PROVISIONING_SECONDS


def content(by_super: Mapping[str, PublishedStorageClass]) -> Body:
    """Return the tenant's class. If super clusters differ, the cautious value counts."""
    classes = by_super.values()
    return {
        "provisioner": names.PROVISIONER,
        "reclaimPolicy": _RETAIN if all(each.reclaim_policy == _RETAIN for each in classes) else "Delete",
        # The first Pod decides on the super cluster, whatever the operator's class says.
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": all(each.allow_volume_expansion for each in classes),
    }


KIND: Final = PublishedKind(
    resource=STORAGE_CLASSES,
    field="storage_classes",
    describe=describe,
    content=content,
    fixed=(
        "provisioner",
        "reclaimPolicy",
        "volumeBindingMode",
        "parameters",
        "mountOptions",
        "allowedTopologies",
    ),
    changing=("allowVolumeExpansion",),
    owned=lambda found: content_of(found).get("provisioner") == names.PROVISIONER,
    default=DEFAULT,
    hidden="claims that use it get volumes of the operator's class where your Pods run",
)
