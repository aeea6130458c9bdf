"""`vcsync rebalance`: what its dry run shows is what then moves, by the ordinary way, and only if the leader agrees."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from pool_kit import SLICE, Pool, Space, annotation, deployment, quota, super_of

from tests.real.waiting import eventually
from vcsync.api import names

CROWD = 6
"""Namespaces that begin on one super cluster. Other tests may leave some elsewhere."""


@contextmanager
def only_r1(pool: Pool) -> Iterator[None]:
    """Cordon the other super clusters."""
    others = sorted(set(pool.supers) - {"r1"})
    for super_id in others:
        pool.system.vcsync("super", "cordon", super_id)
    try:
        yield
    finally:
        for super_id in others:
            pool.system.vcsync("super", "uncordon", super_id)


@contextmanager
def crowd(pool: Pool) -> Iterator[list[Space]]:
    """Create namespaces with one slice each, all on r1, with a running Pod."""
    eventually(pool.all_ready)
    with ExitStack() as stack:
        with only_r1(pool):
            spaces = []
            for _ in range(CROWD):
                space = pool.new_space(prefix="crowd")
                space.create()
                stack.callback(space.delete)
                space.apply(quota(SLICE))
                spaces.append(space)
            for space in spaces:
                eventually(lambda space=space: space.placements() == {"r1": 1})
                eventually(space.has_account)
                space.apply(deployment("web", 1))
            for space in spaces:
                assert super_of(space.all_running("web", 1)[0]) == "r1"
        yield spaces


def rebalanced(pool: Pool, *options: str) -> dict[str, Any]:
    """Return the proposal that `vcsync rebalance` prints."""
    found: dict[str, Any] = json.loads(pool.system.vcsync("rebalance", *options, "-o", "json"))
    return found


def ask(space: Space, request: dict[str, Any]) -> None:
    """Ask for moves, as an operator could by hand."""
    space.pool.bed.meta.kubectl(
        "annotate", "namespaceplacement", space.name, "-n", space.key, "--overwrite",
        f"{names.MOVES}={json.dumps(request)}",
    )  # fmt: skip


@pytest.fixture(scope="module")
def spaces(pool: Pool) -> Iterator[list[Space]]:
    """Namespaces that crowd on r1."""
    with crowd(pool) as found:
        yield found


def test_a_dry_run_shows_moves_and_a_better_score_and_moves_nothing(pool: Pool, spaces: list[Space]) -> None:
    def shown() -> dict[str, Any]:
        """Return a proposal that text and smaller budgets agree with: nothing else has changed in the pool meanwhile."""
        found = rebalanced(pool, "--dry-run")
        one = rebalanced(pool, "--dry-run", "--budget", "1")
        said = pool.system.vcsync("rebalance", "--dry-run")
        assert one["moved"] == 1
        assert one["before"] == found["before"]
        assert f"The score goes from {found['before']['total']}% to {found['after']['total']}%." in said
        return found

    before = [space.placements() for space in spaces]
    found = eventually(shown)
    assert float(found["after"]["total"]) > float(found["before"]["total"])
    mine = [each for each in found["moves"] if each["namespace"] in {space.name for space in spaces}]
    assert mine
    assert {(each["source"], each["slices"]) for each in mine} == {("r1", 1)}
    assert "r1" not in {each["target"] for each in mine}
    assert found["moved"] == sum(each["slices"] for each in found["moves"]) <= found["budget"]
    assert [space.placements() for space in spaces] == before
    assert all(annotation(space.ledger(), names.MOVES) is None for space in spaces)


def test_what_a_tenant_cannot_get_the_leader_refuses(pool: Pool, spaces: list[Space]) -> None:
    space = spaces[0]
    # A request that was refused so long ago is removed at once.
    ask(
        space,
        {
            "at": "2026-01-01T00:00:00Z",
            "moves": [{"from": "r1", "to": "r2", "slices": 900}],
            "left": {"r1": 0},
        },
    )
    eventually(lambda: annotation(space.ledger(), names.MOVES) is None)
    nowhere = [{"from": "r1", "to": "nowhere", "slices": 1}]
    ask(space, {"at": "2999-01-01T00:00:00Z", "moves": nowhere, "left": {"r1": 0}})
    eventually(lambda: "nowhere takes no new slices" in (annotation(space.ledger(), names.MOVES) or ""))
    assert space.placements() == {"r1": 1}


def test_slices_and_pods_go_where_the_dry_run_showed(pool: Pool, spaces: list[Space]) -> None:
    def settled() -> dict[str, Any]:
        """Return a proposal that stays the same while other tests' namespaces may still leave the pool."""
        found = rebalanced(pool, "--dry-run")
        assert rebalanced(pool, "--dry-run") == found
        return found

    foretold = eventually(settled)
    done = rebalanced(pool)
    assert done["moves"] == foretold["moves"]
    moved = {each["namespace"]: each["target"] for each in done["moves"]}
    for space in spaces:
        home = moved.get(space.name, "r1")
        eventually(lambda space=space, home=home: space.placements() == {home: 1})
        eventually(lambda space=space, home=home: space.stands_on() == {home})
        eventually(lambda space=space, home=home: super_of(space.all_running("web", 1)[0]) == home)
    again = rebalanced(pool, "--dry-run")
    assert not set(moved) & {each["namespace"] for each in again["moves"]}
    assert float(again["before"]["total"]) >= float(foretold["before"]["total"])
