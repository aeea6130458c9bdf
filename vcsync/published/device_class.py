"""DeviceClasses that operators publish. Tenants get neither the selectors nor the configuration. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from vcsync.api import names
from vcsync.api.specs import PublishedDeviceClass
from vcsync.kube.resources import DEVICE_CLASSES
from vcsync.objects.envelope import Envelope
from vcsync.published.kind import Body, PublishedKind


def describe(found: Envelope) -> PublishedDeviceClass:
    """Return what tenants may know of a DeviceClass: its name. Selectors name the operator's drivers and their attributes."""
    return PublishedDeviceClass(name=found.name)


def content(by_super: Mapping[str, Any]) -> Body:
    """Return the tenant's class. It selects nothing: devices are allocated in the super cluster, by the class there."""
    del by_super
    return {"spec": {}}


def _is_owned(found: Envelope) -> bool:
    """Return whether vcsync has made a class: no field of a DeviceClass can hold a name of ours, as with PriorityClasses."""
    return names.PUBLISHED_BY in found.annotations


KIND: Final = PublishedKind(
    resource=DEVICE_CLASSES,
    field="device_classes",
    describe=describe,
    content=content,
    # What a tenant adds is removed with the class, since a merge patch cannot empty an object.
    fixed=("spec",),
    owned=_is_owned,
    hidden="ResourceClaims that name it get devices of the operator's class where your Pods run",
)
