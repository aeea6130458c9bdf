"""Published PriorityClasses: value and preemption come up, Kubernetes' own classes and defaults never do."""

import json
from typing import Any

import pytest

from vcsync.api import names
from vcsync.api.specs import PublishedPriorityClass
from vcsync.objects.envelope import Envelope, parse
from vcsync.published.kind import described, difference, is_ours, wanted
from vcsync.published.priority_class import KIND, describe, may_use
from vcsync.scheduling.snapshot import Health, SuperView

PUBLIC = {names.SUPER_PUBLIC: names.TRUE}


def priority_class(name: str = "high", *, public: bool = True, **fields: Any) -> Envelope:
    metadata = {"name": name, "labels": PUBLIC if public else {}, **fields.pop("metadata", {})}
    return parse(json.dumps({"metadata": metadata, "value": 1000, **fields}).encode())


def view(super_id: str, *classes: PublishedPriorityClass) -> SuperView:
    return SuperView(super_id, Health.READY, {}, priority_classes=classes)


def cls(value: int, **fields: Any) -> PublishedPriorityClass:
    return PublishedPriorityClass(name="high", value=value, **fields)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, cls(1000)),
        ({"value": -5, "preemptionPolicy": "Never"}, cls(-5, preemption_policy="Never")),
        ({"globalDefault": True, "description": "for the database of the operator"}, cls(1000)),
    ],
)
def test_value_and_preemption_are_read(fields: dict[str, Any], expected: PublishedPriorityClass) -> None:
    assert describe(priority_class(**fields)) == expected


def test_kubernetes_own_classes_are_never_published() -> None:
    system = [
        priority_class(name) for name in ("system-cluster-critical", "system-node-critical", "system-x")
    ]
    assert described(KIND, system) == ()
    assert not any(map(may_use, system))


def test_pods_may_use_published_classes_only() -> None:
    assert may_use(priority_class())
    assert not may_use(None)
    assert not may_use(priority_class(public=False))
    assert not may_use(priority_class(metadata={"deletionTimestamp": "2026-05-01T12:00:00Z"}))


@pytest.mark.parametrize(
    ("one", "other", "shown"),
    [
        (cls(5), cls(7), (5, "PreemptLowerPriority")),
        (cls(7), cls(7, preemption_policy="Never"), (7, "Never")),
        (cls(0), cls(0), (0, "PreemptLowerPriority")),
    ],
)
def test_the_cautious_value_counts_where_super_clusters_differ(
    one: PublishedPriorityClass, other: PublishedPriorityClass, shown: tuple[int, str]
) -> None:
    body = wanted(KIND, [view("r1", one), view("r2", other)])["high"]
    assert (body["value"], body["preemptionPolicy"]) == shown
    assert "globalDefault" not in body


def test_a_class_of_another_value_is_made_again_and_the_tenants_default_stays() -> None:
    body = wanted(KIND, [view("r1", cls(5))])["high"]
    here = parse(json.dumps({**body, "globalDefault": True, "description": "ours"}).encode())
    assert difference(KIND, here, body) == {}
    assert difference(KIND, here, wanted(KIND, [view("r1", cls(6))])["high"]) is None


def test_a_class_is_ours_by_label_and_annotation() -> None:
    body = wanted(KIND, [view("r1", cls(5))])["high"]
    assert is_ours(KIND, parse(json.dumps(body).encode()))
    assert not is_ours(KIND, priority_class())
