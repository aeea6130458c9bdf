"""The quality of placements: how much quota vcsync places and how much it moves, against first fit and the optimum."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean

from msgspec import Struct

from hack.bench.placements import (
    NoOptimum,
    Placement,
    Problem,
    by_first_fit,
    by_solver,
    by_vcsync,
    moved,
    placed,
    random_problem,
    with_growth,
    with_loss,
)

SUPERS = 6
PERCENTS = (70, 80, 90, 100)
"""Parts of the pool's CPU that namespaces ask for, in percent."""
POOLS = 10
"""Random pools for each part."""


class Change(Struct, frozen=True):
    """Figures after a change of the pool or its namespaces, as sums or means over the random pools.

    Attributes:
        vcsync: placed quota of vcsync to that of the optimum.
        first_fit: placed quota of first fit, which keeps present slices too, to that of the optimum.
        moved_by_vcsync: slices that vcsync moves.
        moved_again: slices that move if the optimum is computed again without regard to the present slices.
        moved_at_least: slices that move at least if as much quota is placed as possible.
    """

    vcsync: float
    first_fit: float
    moved_by_vcsync: int
    moved_again: int
    moved_at_least: int


class Quality(Struct, frozen=True):
    """Figures of pools whose namespaces ask for the same part of them.

    Attributes:
        percent: that part.
        pools: number of pools.
        unsolved: pools of which the solver knew no optimum in time, and which are left out.
        spread: placed quota of the policy `spread` to that of the optimum.
        worst: the same of the pool in which it is least.
        pack: placed quota of the policy `pack` to that of the optimum.
        first_fit: placed quota of first fit to that of the optimum.
        loss: after the loss of a super cluster.
        growth: after a third of the quotas have grown by half.
    """

    percent: int
    pools: int
    unsolved: int
    spread: float
    worst: float
    pack: float
    first_fit: float
    loss: Change
    growth: Change


class _Pool(Struct, frozen=True):
    """Figures of one pool."""

    spread: float
    pack: float
    first_fit: float
    loss: Change
    growth: Change


def measure_all(say: Callable[[str], None]) -> list[Quality]:
    """Measure pools of each part."""
    found = []
    for percent in PERCENTS:
        say(f"placements: {POOLS} pools of {SUPERS} super clusters, namespaces ask for {percent} %")
        found.append(measure(percent, range(POOLS)))
    return found


def measure(percent: int, seeds: range, supers: int = SUPERS) -> Quality:
    """Measure random pools.

    Args:
        percent: the part of their CPU that namespaces ask for.
        seeds: one for each pool.
        supers: number of super clusters of each pool.

    Raises:
        NoOptimum: the solver knows the optimum of no pool in time.
    """
    pools = []
    for seed in seeds:
        try:
            pools.append(_measure(random_problem(seed, supers, percent), seed))
        except NoOptimum:
            continue
    if not pools:
        raise NoOptimum(f"none of {len(seeds)} pools")
    return Quality(
        percent,
        len(pools),
        len(seeds) - len(pools),
        fmean(each.spread for each in pools),
        min(each.spread for each in pools),
        fmean(each.pack for each in pools),
        fmean(each.first_fit for each in pools),
        _together([each.loss for each in pools]),
        _together([each.growth for each in pools]),
    )


def _measure(problem: Problem, seed: int) -> _Pool:
    best, ours, first = by_solver(problem), by_vcsync(problem), by_first_fit(problem)
    most = placed(problem, best)
    return _Pool(
        placed(problem, ours) / most,
        placed(problem, by_vcsync(problem, policy="pack")) / most,
        placed(problem, first) / most,
        _change(with_loss(problem, seed), best, ours, first),
        _change(with_growth(problem, seed), best, ours, first),
    )


def _change(changed: Problem, best: Placement, ours: Placement, first: Placement) -> Change:
    again = by_solver(changed)
    most = placed(changed, again)
    after = by_vcsync(changed, ours)
    return Change(
        placed(changed, after) / most,
        placed(changed, by_first_fit(changed, first)) / most,
        moved(ours, after),
        moved(best, again),
        moved(best, by_solver(changed, best)),
    )


def _together(changes: list[Change]) -> Change:
    return Change(
        fmean(each.vcsync for each in changes),
        fmean(each.first_fit for each in changes),
        sum(each.moved_by_vcsync for each in changes),
        sum(each.moved_again for each in changes),
        sum(each.moved_at_least for each in changes),
    )
