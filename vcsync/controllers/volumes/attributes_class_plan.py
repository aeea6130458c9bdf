"""Protects VolumeAttributesClasses while volumes or claims name them. Pure.

Behaviour: Kubernetes' `pkg/controller/volume/vacprotection`.
"""

from collections.abc import Iterable

from msgspec import Struct

from vcsync.controllers.framework.event_handlers import own
from vcsync.controllers.framework.mirror import Key
from vcsync.controllers.framework.plan import NOTHING, Controller, Patch, Plan, View, Watch
from vcsync.controllers.volumes.protection_plan import finalizer_change
from vcsync.kube.cache import Change
from vcsync.kube.resources import (
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    VOLUME_ATTRIBUTES_CLASSES,
)
from vcsync.objects.envelope import Envelope, decode

FINALIZER = "kubernetes.io/vac-protection"


class _Spec(Struct, rename="camel"):
    volume_attributes_class_name: str | None = None


class _Modification(Struct, rename="camel"):
    target_volume_attributes_class_name: str = ""


class _Status(Struct, rename="camel"):
    current_volume_attributes_class_name: str | None = None
    modify_volume_status: _Modification | None = None


def plan(view: View, key: Key) -> Plan:
    """Add the finalizer to a new class, and remove it when the class is being deleted and unused."""
    there = view.of[VOLUME_ATTRIBUTES_CLASSES].get(*key)
    if there is None:
        return NOTHING
    used = there.deleting and any(key.name in _named(each) for each in _users(view, key.tenant))
    change = finalizer_change(there, FINALIZER, used=used)
    if change is None:
        return NOTHING
    patch, kind = change
    return Plan([[Patch(VOLUME_ATTRIBUTES_CLASSES, "", key.name, patch, kind)]])


def _users(view: View, tenant: str) -> Iterable[Envelope]:
    yield from view.of[PERSISTENT_VOLUMES].within(tenant)
    for namespace in view.of[NAMESPACES].within(tenant):
        yield from view.of[PERSISTENT_VOLUME_CLAIMS].within(tenant, namespace.name)


def _named(user: Envelope) -> set[str]:
    """Return the current, former and requested classes of a volume or claim."""
    status = decode(user.status, _Status)
    modification = status.modify_volume_status or _Modification()
    found = (
        decode(user.spec, _Spec).volume_attributes_class_name,
        status.current_volume_attributes_class_name,
        modification.target_volume_attributes_class_name,
    )
    return {name for name in found if name}


def _of_user(change: Change, view: View) -> Iterable[Key]:
    """Return the classes being deleted that a volume or claim no longer names."""
    if change.old is None:
        return ()
    left = _named(change.old) - (_named(change.new) if change.new is not None else set())
    keys = [Key(change.old.tenant, "", name) for name in left]
    classes = view.of[VOLUME_ATTRIBUTES_CLASSES]
    return [key for key in keys if (there := classes.get(*key)) is not None and there.deleting]


ATTRIBUTES_CLASS_PROTECTION = Controller(
    "volumeattributesclass-protection-controller",
    (
        Watch(VOLUME_ATTRIBUTES_CLASSES, own),
        Watch(PERSISTENT_VOLUMES, _of_user),
        Watch(PERSISTENT_VOLUME_CLAIMS, _of_user),
    ),
    plan,
    reads=(NAMESPACES,),
)
