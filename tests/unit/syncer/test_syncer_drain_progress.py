"""The progress of a drain: what is left, how fast it goes, and what blocks it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.api.objects import NamespacePlacement, to_wire
from vcsync.api.specs import (
    MAX_BLOCKED,
    DrainCount,
    DrainProgress,
    Explanation,
    NamespacePlacementSpec,
    NamespacePlacementStatus,
    VirtualClusterRef,
)
from vcsync.syncer.drain_progress import (
    RATE_SECONDS,
    Contents,
    Rate,
    drain_patch,
    progress,
    why_slices_stay,
)

BEGAN, LATER = "2026-05-01T12:00:00Z", "2026-05-01T12:10:00Z"


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 5)), min_size=1))
def test_progress_goes_on_from_what_was_reported(history: list[tuple[int, int, int]]) -> None:
    """Only the reported progress is remembered, so that another syncer continues it."""
    reached: DrainProgress | None = None
    for number, (namespaces, pods, claims) in enumerate(history):
        reached = progress(reached, Contents(namespaces, pods, claims), 0, BEGAN if number == 0 else LATER)
    assert reached is not None
    assert reached.since == BEGAN
    for part, seen in zip(
        (reached.namespaces, reached.pods, reached.claims), zip(*history, strict=True), strict=True
    ):
        assert (part.total, part.left) == (max(seen), seen[-1])


def test_the_first_blocked_namespaces_are_named_and_all_are_counted() -> None:
    blocked = {("acme", f"n{number:03}"): "full " * 1000 for number in range(MAX_BLOCKED + 5)}
    reached = progress(None, Contents(9, 9, 9, blocked), 7, BEGAN)
    assert reached.blocked_namespaces == MAX_BLOCKED + 5
    assert [each.namespace for each in reached.blocked] == [f"n{number:03}" for number in range(MAX_BLOCKED)]
    assert max(len(each.reason) for each in reached.blocked) == 1024
    assert reached.pods_per_hour == 7


def rate_of(*seen: tuple[float, int]) -> int:
    rate = Rate()
    for now, there in seen:
        rate.note(now, there)
    return rate.per_hour


@pytest.mark.parametrize(
    ("seen", "per_hour"),
    [
        ([], 0),
        ([(0.0, 10)], 0),
        ([(0.0, 10), (0.0, 9)], 0),
        ([(0.0, 10), (60.0, 8)], 120),
        ([(0.0, 10), (60.0, 8), (120.0, 8)], 60),
        ([(0.0, 10), (30.0, 15), (60.0, 14)], 60),
        ([(0.0, 100), (60.0, 50), (60.0 + RATE_SECONDS, 50)], 0),
    ],
)
def test_the_rate_is_that_of_the_last_minutes(seen: list[tuple[float, int]], per_hour: int) -> None:
    assert rate_of(*seen) == per_hour


def placement(*explanation: Explanation, **pins: int) -> NamespacePlacement:
    owner = VirtualClusterRef(namespace="vcsync", name="acme", uid="vc")
    return NamespacePlacement(
        name="shop",
        spec=NamespacePlacementSpec(
            virtual_cluster=owner, tenant="acme", namespace="shop", namespace_uid="ns", pins=pins
        ),
        status=NamespacePlacementStatus(placements={"r1": 1}, explanation=explanation),
    )


FULL = Explanation(super_cluster="r2", refused_by=("Capacity",), reason="cpu 1 asked, 0 of 4 free")
OPEN = Explanation(super_cluster="r3")
OWN = Explanation(super_cluster="r1", refused_by=("Drain",), slices=1)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (placement(OWN, FULL), "no other super cluster takes its slices: r2: cpu 1 asked, 0 of 4 free"),
        (placement(OWN, FULL, OPEN), ""),
        (placement(), ""),
        (placement(OWN), "no other super cluster takes its slices: there is none"),
        (
            placement(OWN, OPEN, r1=1),
            "slices are pinned to r1: remove it from spec.pins of the NamespacePlacement",
        ),
        (placement(OWN, OPEN, r3=1), ""),
    ],
)
def test_slices_stay_if_nobody_else_takes_them(found: NamespacePlacement, why: str) -> None:
    assert why_slices_stay(found, "r1") == why


PROGRESS = DrainProgress(since=BEGAN, pods=DrainCount(total=5, left=2))


@pytest.mark.parametrize(
    ("current", "found", "shard", "patch"),
    [
        ({}, None, (1, 1), None),
        ({"1/1": PROGRESS}, PROGRESS, (1, 1), None),
        ({}, PROGRESS, (1, 1), {"1/1": to_wire(PROGRESS)}),
        ({"1/1": PROGRESS}, None, (1, 1), {"1/1": None}),
        ({"2/2": PROGRESS}, None, (1, 1), {"2/2": None}),
        ({"1/1": PROGRESS}, PROGRESS, (2, 2), {"2/2": to_wire(PROGRESS)}),
        ({"1/2": PROGRESS}, PROGRESS, (2, 2), {"2/2": to_wire(PROGRESS)}),
    ],
)
def test_each_shard_writes_its_own_progress(
    current: dict[str, DrainProgress],
    found: DrainProgress | None,
    shard: tuple[int, int],
    patch: dict[str, Any] | None,
) -> None:
    assert drain_patch(current, found, shard) == patch
