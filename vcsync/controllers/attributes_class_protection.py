"""VolumeAttributesClasses that volumes or claims name stay until none does. Pure.

Behaviour: Kubernetes' `pkg/controller/volume/vacprotection`.
"""

from collections.abc import Iterable

from msgspec import Struct

from vcsync.controllers.mirror import Key
from vcsync.controllers.plan import NOTHING, Controller, Look, Patch, Plan, Watch
from vcsync.controllers.volume_protection import finalizer_change
from vcsync.controllers.waking import own
from vcsync.kube.cache import Change
from vcsync.kube.envelope import Envelope, decode
from vcsync.kube.resources import (
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    VOLUME_ATTRIBUTES_CLASSES,
)

FINALIZER = "kubernetes.io/vac-protection"


class _Spec(Struct, rename="camel"):
    volume_attributes_class_name: str | None = None


class _Modification(Struct, rename="camel"):
    target_volume_attributes_class_name: str = ""


class _Status(Struct, rename="camel"):
    current_volume_attributes_class_name: str | None = None
    modify_volume_status: _Modification | None = None


def plan(look: Look, key: Key) -> Plan:
    """Hold a class from its beginning, and let it go when it is to go and nothing names it."""
    there = look.of[VOLUME_ATTRIBUTES_CLASSES].get(*key)
    if there is None:
        return NOTHING
    used = there.deleting and any(key.name in _named(each) for each in _users(look, key.tenant))
    change = finalizer_change(there, FINALIZER, used=used)
    if change is None:
        return NOTHING
    patch, kind = change
    return Plan([[Patch(VOLUME_ATTRIBUTES_CLASSES, "", key.name, patch, kind)]])


def _users(look: Look, tenant: str) -> Iterable[Envelope]:
    yield from look.of[PERSISTENT_VOLUMES].within(tenant)
    for namespace in look.of[NAMESPACES].within(tenant):
        yield from look.of[PERSISTENT_VOLUME_CLAIMS].within(tenant, namespace.name)


def _named(user: Envelope) -> set[str]:
    """Return the classes that a volume or claim has, had, or is to have."""
    status = decode(user.status, _Status)
    modification = status.modify_volume_status or _Modification()
    found = (
        decode(user.spec, _Spec).volume_attributes_class_name,
        status.current_volume_attributes_class_name,
        modification.target_volume_attributes_class_name,
    )
    return {name for name in found if name}


def _of_user(change: Change, look: Look) -> Iterable[Key]:
    """The classes that go and that a volume or claim names no more."""
    if change.old is None:
        return ()
    left = _named(change.old) - (_named(change.new) if change.new is not None else set())
    keys = [Key(change.old.tenant, "", name) for name in left]
    classes = look.of[VOLUME_ATTRIBUTES_CLASSES]
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
