"""StorageClasses that the operator of a super cluster publishes to tenants, as the syncer reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from vcsync.api import names
from vcsync.api.specs import MAX_STORAGE_CLASSES, PublishedStorageClass
from vcsync.objects.envelope import Envelope, decode

DEFAULT_PROVISIONING_SECONDS: Final = 300.0
_DEFAULT: Final = "storageclass.kubernetes.io/is-default-class"
_RETAIN: Final = "Retain"


class _StorageClass(Struct, gc=False, rename="camel"):
    reclaim_policy: str = "Delete"
    allow_volume_expansion: bool | None = None


def describe(found: Envelope) -> PublishedStorageClass:
    """Return what tenants may know of a StorageClass. Parameters are not read: they may name servers and Secrets."""
    read = decode(found.rest, _StorageClass) if found.rest else _StorageClass()
    return PublishedStorageClass(
        name=found.name,
        reclaim_policy="Retain" if read.reclaim_policy == _RETAIN else "Delete",
        allow_volume_expansion=bool(read.allow_volume_expansion),
        default=is_default(found.annotations),
    )


def provisioning_seconds(found: Envelope) -> float:
    """Return for how long failures to provision a claim of a StorageClass are waited out, as its operator set it."""
    try:
        return max(0.0, float(int(found.annotations[names.PROVISIONING_SECONDS])))
    except (KeyError, ValueError, OverflowError):
        return DEFAULT_PROVISIONING_SECONDS


def is_default(annotations: Mapping[str, str]) -> bool:
    """Return whether a StorageClass is its cluster's default."""
    return annotations.get(_DEFAULT) == "true"


def published(classes: Iterable[Envelope]) -> tuple[PublishedStorageClass, ...]:
    """Return the published StorageClasses of a super cluster by their names, at most `MAX_STORAGE_CLASSES`."""
    found = (describe(each) for each in classes if not each.deleting)
    return tuple(sorted(found, key=lambda each: each.name)[:MAX_STORAGE_CLASSES])
