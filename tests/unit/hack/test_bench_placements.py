"""Placements of the benchmark: the solver's are optimal, and all of them are within capacity and quota."""

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hack.bench import quality
from hack.bench.placements import (
    GIB,
    Demand,
    Placement,
    Problem,
    by_first_fit,
    by_solver,
    by_vcsync,
    fault,
    moved,
    placed,
    random_problem,
    with_growth,
    with_loss,
    worth,
)

A, B = ("tenant", "a"), ("tenant", "b")


def size(cpu: int, memory: int) -> dict[str, int]:
    return {"cpu": cpu * 1000, "memory": memory * GIB}


amounts = st.builds(size, st.integers(1, 6), st.integers(1, 12))
problems = st.builds(
    lambda first, second, a, b, numbers: Problem(
        {"r1": first, "r2": second}, (Demand(A, numbers[0], a), Demand(B, numbers[1], b))
    ),
    amounts,
    amounts,
    amounts,
    amounts,
    st.tuples(st.integers(0, 3), st.integers(0, 3)),
)


def possible(problem: Problem) -> Iterator[Placement]:
    """Yield every placement that is within capacity and quota."""
    numbers = [range(each.slices + 1) for each in problem.demands for _ in range(2)]
    for a1, a2, b1, b2 in itertools.product(*numbers):
        found = {A: {"r1": a1, "r2": a2}, B: {"r1": b1, "r2": b2}}
        if not fault(problem, found):
            yield found


@given(problems)
@settings(max_examples=30)
def test_the_solver_places_as_much_as_can_be_placed(problem: Problem) -> None:
    found = by_solver(problem)
    assert not fault(problem, found)
    assert placed(problem, found) == max(placed(problem, each) for each in possible(problem))


@given(problems)
@settings(max_examples=30)
def test_the_solver_moves_no_more_than_it_has_to(problem: Problem) -> None:
    before = by_first_fit(problem)
    found = by_solver(problem, before)
    most = max(placed(problem, each) for each in possible(problem))
    assert placed(problem, found) == most
    least = min(moved(before, each) for each in possible(problem) if placed(problem, each) == most)
    assert moved(before, found) == least


@pytest.mark.parametrize("policy", ["spread", "pack", "cheap"])
@pytest.mark.parametrize("seed", range(5))
def test_no_placement_exceeds_capacity_or_quota_also_after_a_change(policy: str, seed: int) -> None:
    problem = random_problem(seed, 5, 100)
    before = by_vcsync(problem, policy=policy)
    assert not fault(problem, before)
    lost = with_loss(problem, seed)
    after = by_vcsync(lost, before, policy)
    assert not fault(lost, after)
    there = sum(slices.get(lost.lost, 0) for slices in before.values())
    stayed = sum(slices.get(lost.lost, 0) for slices in after.values())
    assert moved(before, after) == there - stayed  # and nothing else
    grown = with_growth(problem, seed)
    assert not fault(grown, by_vcsync(grown, before, policy))
    assert moved(before, by_vcsync(grown, before, policy)) == 0


@pytest.mark.parametrize("seed", range(5))
def test_first_fit_keeps_what_may_stay(seed: int) -> None:
    problem = random_problem(seed, 5, 90)
    before = by_first_fit(problem)
    lost = with_loss(problem, seed)
    after = by_first_fit(lost, before)
    assert not fault(problem, before)
    assert not fault(lost, after)
    assert moved(before, after) == sum(slices.get(lost.lost, 0) for slices in before.values())


@pytest.mark.parametrize(
    ("before", "after", "count"),
    [
        ({}, {A: {"r1": 2}}, 0),
        ({A: {"r1": 2}}, {A: {"r1": 2, "r2": 1}}, 0),
        ({A: {"r1": 2}}, {A: {"r1": 1, "r2": 1}}, 1),
        ({A: {"r1": 2}, B: {"r2": 3}}, {B: {"r1": 3}}, 5),
    ],
)
def test_slices_that_leave_have_moved(before: Placement, after: Placement, count: int) -> None:
    assert moved(before, after) == count


def test_slices_on_a_lost_super_cluster_are_not_placed() -> None:
    problem = Problem({"r1": size(8, 32), "r2": size(8, 32)}, (Demand(A, 2, size(2, 8)),), lost="r2")
    assert worth(size(2, 8)) == 2000
    assert placed(problem, {A: {"r1": 1, "r2": 1}}) == 2000


@pytest.mark.parametrize(
    ("placement", "text"),
    [
        ({A: {"r1": 3}}, "a has more slices than it asks for"),
        ({A: {"r1": 2}}, "r1 has more slices than it has room for"),
        ({A: {"r1": 1}}, ""),
    ],
)
def test_a_fault_of_a_placement_is_named(placement: Placement, text: str) -> None:
    problem = Problem({"r1": size(3, 32)}, (Demand(A, 2, size(2, 8)),))
    assert fault(problem, placement) == text


def test_a_pool_asks_for_the_part_that_is_wanted() -> None:
    problem = random_problem(3, 6, 90)
    asked = sum(each.slices * each.size["cpu"] for each in problem.demands)
    whole = sum(each["cpu"] for each in problem.capacity.values())
    assert 0 <= asked - whole * 90 // 100 <= 4000
    assert random_problem(3, 6, 90) == problem
    assert random_problem(4, 6, 90) != problem


def test_figures_compare_with_the_optimum() -> None:
    found = quality.measure(80, range(2), supers=3)
    assert (found.pools, found.unsolved) == (2, 0)
    assert 0 < found.worst <= found.spread <= 1 + 1e-3
    assert found.growth.moved_by_vcsync == 0
    assert found.loss.moved_at_least <= found.loss.moved_again
