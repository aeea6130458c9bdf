"""VolumeAttributesClasses are protected while a volume or claim names them."""

from typing import Any

import pytest
from controllers_world import World

from vcsync.controllers.volumes.attributes_class_plan import ATTRIBUTES_CLASS_PROTECTION, FINALIZER
from vcsync.kube.cache import Change
from vcsync.kube.resources import (
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    VOLUME_ATTRIBUTES_CLASSES,
    Resource,
)

SPEC = {"spec": {"volumeAttributesClassName": "gold"}}
USERS = [
    (PERSISTENT_VOLUMES, SPEC),
    (PERSISTENT_VOLUME_CLAIMS, SPEC),
    (PERSISTENT_VOLUME_CLAIMS, {"status": {"currentVolumeAttributesClassName": "gold"}}),
    (
        PERSISTENT_VOLUME_CLAIMS,
        {"status": {"modifyVolumeStatus": {"targetVolumeAttributesClassName": "gold"}}},
    ),
]


def world() -> World:
    made = World([ATTRIBUTES_CLASS_PROTECTION])
    made.put(NAMESPACES, {"metadata": {"name": "default"}})
    made.put(VOLUME_ATTRIBUTES_CLASSES, {"metadata": {"name": "gold"}, "driverName": "example.com"})
    made.settle()
    return made


def delete(made: World) -> None:
    made.change(VOLUME_ATTRIBUTES_CLASSES, "gold", {"metadata": {"deletionTimestamp": made.time()}})


def test_a_class_is_protected_and_deleted_once_unused() -> None:
    made = world()
    assert made.body(VOLUME_ATTRIBUTES_CLASSES, "gold")["metadata"]["finalizers"] == [FINALIZER]
    other = {"metadata": {"name": "c"}, "spec": {"volumeAttributesClassName": "silver"}}
    made.put(PERSISTENT_VOLUME_CLAIMS, other)
    delete(made)
    made.settle()
    assert made.bodies(VOLUME_ATTRIBUTES_CLASSES) == []


@pytest.mark.parametrize(("resource", "naming"), USERS)
def test_a_class_stays_while_it_is_named(resource: Resource, naming: dict[str, Any]) -> None:
    made = world()
    made.put(resource, {"metadata": {"name": "user"}, **naming})
    delete(made)
    made.settle()
    assert made.bodies(VOLUME_ATTRIBUTES_CLASSES)

    old = next(iter(made.shelves[resource].everything()))
    _, of_volume, of_claim = ATTRIBUTES_CLASS_PROTECTION.watches
    watch = of_volume if resource == PERSISTENT_VOLUMES else of_claim
    assert list(watch.keys(Change(None, old), made.view())) == []
    assert list(watch.keys(Change(old, old), made.view())) == []
    assert list(watch.keys(Change(old, None), made.view())) == [made.key("", "gold")]
    made.remove(resource, "user")
    made.settle()
    assert made.bodies(VOLUME_ATTRIBUTES_CLASSES) == []


def test_only_classes_being_deleted_are_queued() -> None:
    made = world()
    made.put(PERSISTENT_VOLUMES, {"metadata": {"name": "user"}, **SPEC})
    old = next(iter(made.shelves[PERSISTENT_VOLUMES].everything()))
    assert list(ATTRIBUTES_CLASS_PROTECTION.watches[1].keys(Change(old, None), made.view())) == []
