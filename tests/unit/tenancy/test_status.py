"""Objects that a role could not read or process are named in its status and counted by its metrics."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import NAMESPACES, PODS
from vcsync.objects.envelope import Envelope
from vcsync.tenancy.status import shared_skipped, skipped_metric


def reflector(resource: Any, *poison: str) -> Reflector:
    def handler(_: object) -> None:
        raise KeyError("data")

    client: Any = SimpleNamespace(name="acme")
    made = Reflector(client, resource, sink=handler)
    for name in poison:
        made.observe(Envelope(name, "shop", f"u-{name}", "5"))
    return made


def test_skipped_objects_are_counted_by_resource() -> None:
    followed = [reflector(PODS, "a", "b"), reflector(PODS, "c"), reflector(NAMESPACES)]
    samples = skipped_metric(followed).samples
    assert {each.labels["resource"]: each.value for each in samples} == {"pods": 3.0}


def test_skipped_objects_of_shared_reflectors_are_named() -> None:
    assert shared_skipped([reflector(PODS)]) == {}
    assert shared_skipped([reflector(PODS, "a"), reflector(NAMESPACES)]) == {
        "skipped": {"pods": {"skipped": {"shop/a": "not processed: KeyError: 'data'"}, "skippedTotal": 1}}
    }
