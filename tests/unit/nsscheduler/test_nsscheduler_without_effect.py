"""A tenant gets one Event about each object that has no effect where its Pods run."""

from types import SimpleNamespace
from typing import Any

import pytest

from vcsync.api import names
from vcsync.api.without_effect import WITHOUT_EFFECT
from vcsync.kube.cache import Change
from vcsync.kube.events import ObjectRef
from vcsync.kube.resources import PRIORITY_CLASSES, Resource
from vcsync.nsscheduler.without_effect import MAX_EVENTS, RESOURCES, WithoutEffect
from vcsync.objects.envelope import Envelope

NOW = 1_800_000_000.0
JUST_NOW, LONG_AGO = "2027-01-15T07:59:00Z", "2026-01-01T00:00:00Z"


class Recorder:
    """Takes Events."""

    def __init__(self) -> None:
        self.events: list[tuple[ObjectRef, str, bool]] = []

    def emit(self, about: ObjectRef, kind: str, reason: str, message: str, *, now: float, once: bool) -> None:
        assert (kind, reason, now >= NOW) == ("Warning", "WithoutEffect", True)
        self.events.append((about, message, once))


class World:
    def __init__(self, tenant_made: str = LONG_AGO, mapped: dict[str, str] | None = None) -> None:
        self.recorder, self.now = Recorder(), NOW
        spec = SimpleNamespace(priority_classes=mapped or {})
        handle: Any = SimpleNamespace(
            virtual_cluster=SimpleNamespace(creation_timestamp=tenant_made, spec=spec)
        )
        self.watch = WithoutEffect(handle, self.recorder, lambda: self.now)  # type: ignore[arg-type]

    def see(
        self, name: str, made: str = JUST_NOW, resource: Resource = PRIORITY_CLASSES, **fields: Any
    ) -> None:
        found = Envelope(name, "shop", f"uid of {name}", "1", creation_timestamp=made, **fields)
        self.watch.take(resource, Change(None, found))

    @property
    def names(self) -> list[str]:
        return [about.name for about, *_ in self.recorder.events]


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda each: each.plural)
def test_a_new_object_gets_one_event(resource: Resource) -> None:
    world = World()
    for _ in range(3):  # made, changed, listed anew
        world.see("one", resource=resource)
    about = ObjectRef(resource.api_version, resource.kind, "one", "shop", "uid of one")
    assert world.recorder.events == [(about, WITHOUT_EFFECT[resource.group, resource.plural], True)]


def test_events_cover_the_resources_of_the_embedded_warnings() -> None:
    assert {(each.group, each.plural) for each in RESOURCES} == set(WITHOUT_EFFECT)


def test_an_old_object_gets_an_event_only_in_a_new_tenant() -> None:
    settled, new = World(), World(tenant_made=JUST_NOW)
    for world in (settled, new):
        world.see("old", LONG_AGO)
        world.see("odd", "yesterday")
    assert settled.names == []
    assert new.names == ["old", "odd"]


def test_an_object_being_deleted_gets_no_event() -> None:
    world = World()
    world.see("going", deletion_timestamp=JUST_NOW)
    assert world.names == []


def test_priority_classes_with_an_effect_get_no_event() -> None:
    world = World(tenant_made=JUST_NOW, mapped={"urgent": "gold"})
    for name in ("system-node-critical", "urgent", "high"):
        world.see(name)
    labels, annotations = {names.SUPER_PUBLIC: "true"}, {names.PUBLISHED_BY: "r1"}
    world.see("published", labels=labels, annotations=annotations)
    assert world.names == ["high"]


def test_the_number_of_events_and_remembered_objects_is_limited() -> None:
    world = World()
    for number in range(3 * MAX_EVENTS):
        world.see(f"i-{number}")
    assert len(world.names) == len(world.watch._reported[PRIORITY_CLASSES]) == MAX_EVENTS
    world.now += 3601
    world.see("later", "2027-01-15T09:00:00Z")
    assert world.names[-1] == "later"
    assert len(world.watch._reported[PRIORITY_CLASSES]) == 1
