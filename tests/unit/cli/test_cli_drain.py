"""The words about the progress of a drain."""

from __future__ import annotations

import pytest

from vcsync.api.specs import MAX_BLOCKED, BlockedNamespace, DrainCount, DrainProgress
from vcsync.cli.super.progress import blocked_lines, contents, minutes_left, overall, progress_line


def reached(
    pods: tuple[int, int] = (0, 0), *, per_hour: int = 0, claims: int = 0, blocked: tuple[str, ...] = ()
) -> DrainProgress:
    return DrainProgress(
        since="2026-05-01T12:00:00Z",
        namespaces=DrainCount(total=4, left=1),
        pods=DrainCount(total=pods[0], left=pods[1]),
        claims=DrainCount(total=claims, left=claims),
        pods_per_hour=per_hour,
        blocked_namespaces=len(blocked),
        blocked=tuple(
            BlockedNamespace(tenant="acme", namespace=each, reason="full") for each in blocked[:MAX_BLOCKED]
        ),
    )


@pytest.mark.parametrize(
    ("progress", "line"),
    [
        (
            reached((10, 4), per_hour=120),
            "6 of 10 Pods, 3 of 4 namespaces have left; 2 Pods a minute; about 2 min left",
        ),
        (
            reached((10, 4), per_hour=90, claims=2, blocked=("a",)),
            (
                "6 of 10 Pods, 3 of 4 namespaces have left; 1.5 Pods a minute; about 3 min left; "
                "claims with volumes that stay: 2; blocked namespaces: 1"
            ),
        ),
        (reached((10, 4)), "6 of 10 Pods, 3 of 4 namespaces have left; 0 Pods a minute"),
    ],
)
def test_a_line_tells_what_has_left_and_how_long_the_rest_takes(progress: DrainProgress, line: str) -> None:
    assert progress_line(progress) == line


@pytest.mark.parametrize(
    ("left", "per_hour", "minutes"), [(4, 0, None), (0, 60, None), (1, 7, 9), (7, 60, 7)]
)
def test_the_rest_takes_as_long_as_the_rate_says(left: int, per_hour: int, minutes: int | None) -> None:
    assert minutes_left(reached((10, left), per_hour=per_hour)) == minutes


def test_contents_are_counted_in_words() -> None:
    assert contents(reached((2, 1), claims=1)) == "1 namespace, 1 Pod, 1 claim with a volume"
    assert contents(reached((2, 2))) == "1 namespace, 2 Pods, 0 claims with volumes"


def test_blocked_namespaces_are_named_and_the_rest_is_counted() -> None:
    many = tuple(f"n{number:02}" for number in range(MAX_BLOCKED + 2))
    lines = blocked_lines(reached(blocked=many))
    assert lines[0] == "blocked: acme/n00: full"
    assert lines[-1] == "blocked: 2 more"
    assert len(lines) == MAX_BLOCKED + 1
    assert blocked_lines(reached()) == []


def test_shards_of_the_syncer_are_added_up() -> None:
    shards = {
        "1/2": reached((10, 4), per_hour=60, blocked=("b",)),
        "2/2": reached((5, 1), per_hour=30, claims=1, blocked=("a",)),
    }
    whole = overall(shards)
    assert whole is not None
    assert (whole.pods.total, whole.pods.left, whole.pods_per_hour) == (15, 5, 90)
    assert (whole.namespaces.total, whole.claims.left) == (8, 1)
    assert [each.namespace for each in whole.blocked] == ["a", "b"]
    assert whole.blocked_namespaces == 2
    assert overall({}) is None
