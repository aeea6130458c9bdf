"""Random pools with namespaces, and three ways to place their slices: vcsync's, first fit, and the optimum of a solver."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

import highspy
from msgspec import Struct
from msgspec.structs import replace

from vcsync.scheduling.ledger import Entry, Key, Ledger
from vcsync.scheduling.place import SliceRequest, place_slices
from vcsync.scheduling.resources import Resources, add, pieces, subtract, times
from vcsync.scheduling.snapshot import Health, SuperView

GIB = 1000 * 2**30
SIZES = ((1, 2), (1, 4), (2, 4), (2, 8), (4, 8), (4, 32))
"""CPU and GiB of slices."""
MOST_SLICES = 12
"""Largest number of slices of one namespace."""
SOLVER_SECONDS = 20.0
"""Longest time of the solver for one placement."""
GAP = 1e-4
"""The solver ends when it is known to be this close to the optimum."""

Placement = dict[Key, dict[str, int]]
"""Namespace -> super cluster -> number of slices, all positive."""


class Demand(Struct, frozen=True):
    """The slices that one namespace asks for."""

    key: Key
    slices: int
    size: Resources


class Problem(Struct, frozen=True):
    """A pool, and the namespaces that ask for slices, in the order in which they came.

    Attributes:
        capacity: super cluster -> amounts; a super cluster that is lost has none.
        demands: the namespaces.
        lost: the super cluster that is lost; empty if none is.
    """

    capacity: dict[str, Resources]
    demands: tuple[Demand, ...]
    lost: str = ""


def random_problem(seed: int, supers: int, percent: int) -> Problem:
    """Return a pool whose namespaces ask for a part of its CPU.

    Args:
        seed: gives the pool.
        supers: number of super clusters.
        percent: the part of the CPU, in percent.
    """
    chance = Random(seed)  # noqa: S311 - no secret
    capacity = {}
    for number in range(1, supers + 1):
        cpu = chance.randint(40, 120)
        capacity[f"r{number:02}"] = {"cpu": cpu * 1000, "memory": cpu * chance.randint(3, 5) * GIB}
    wanted = sum(each["cpu"] for each in capacity.values()) * percent // 100
    demands: list[Demand] = []
    while wanted > 0:
        cpu, memory = chance.choice(SIZES)
        slices = min(chance.randint(1, MOST_SLICES), max(1, wanted // (cpu * 1000)))
        wanted -= slices * cpu * 1000
        size = {"cpu": cpu * 1000, "memory": memory * GIB}
        demands.append(Demand(("tenant", f"ns-{len(demands):03}"), slices, size))
    return Problem(capacity, tuple(demands))


def with_loss(problem: Problem, seed: int) -> Problem:
    """Lose one super cluster of a pool."""
    lost = Random(seed).choice(sorted(problem.capacity))  # noqa: S311 - no secret
    return replace(problem, lost=lost)


def with_growth(problem: Problem, seed: int) -> Problem:
    """Let the quotas of some namespaces grow by half."""
    chance = Random(seed)  # noqa: S311 - no secret
    return replace(
        problem,
        demands=tuple(
            replace(each, slices=each.slices + (each.slices + 1) // 2) if chance.random() < 1 / 3 else each
            for each in problem.demands
        ),
    )


# --- figures of a placement


def placed(problem: Problem, placement: Placement) -> int:
    """Return the placed quota, as thousandths of a CPU with 4 GiB; slices on a lost super cluster do not count."""
    return sum(
        worth(each.size) * slices
        for each in problem.demands
        for super_id, slices in placement.get(each.key, {}).items()
        if super_id != problem.lost
    )


def worth(size: Mapping[str, int]) -> int:
    """Return what a slice counts: the mean of its CPU and a quarter of its GiB, in thousandths."""
    return (size["cpu"] + size["memory"] * 1000 // (4 * GIB)) // 2


def moved(before: Placement, after: Placement) -> int:
    """Return the number of slices that have left their super clusters."""
    return sum(
        max(0, slices - after.get(key, {}).get(super_id, 0))
        for key, there in before.items()
        for super_id, slices in there.items()
    )


def fault(problem: Problem, placement: Placement) -> str:
    """Return what is wrong with a placement: too many slices of a namespace or on a super cluster; empty if nothing is."""
    used: dict[str, Resources] = {}
    for each in problem.demands:
        there = placement.get(each.key, {})
        if sum(there.values()) > each.slices:
            return f"{each.key[1]} has more slices than it asks for"
        for super_id, slices in there.items():
            used[super_id] = add(used.get(super_id, {}), times(each.size, slices))
    for super_id, amounts in used.items():
        if super_id != problem.lost and min(subtract(problem.capacity[super_id], amounts).values()) < 0:
            return f"{super_id} has more slices than it has room for"
    return ""


# --- ways to place


def by_vcsync(problem: Problem, before: Placement | None = None, policy: str = "spread") -> Placement:
    """Place as vcsync does: namespace after namespace, those that wait again at the end.

    Args:
        problem: the pool.
        before: the present slices.
        policy: the policy of the namespace scheduler.
    """
    views = {
        super_id: SuperView(super_id, Health.LOST if super_id == problem.lost else Health.READY, amounts)
        for super_id, amounts in problem.capacity.items()
    }
    leaving = {problem.lost: 0} if problem.lost else {}
    ledger = Ledger()
    for each in problem.demands:
        ledger.put(each.key, Entry(each.size, dict((before or {}).get(each.key, {}))))
    waiting: Sequence[Demand] = problem.demands
    while waiting:
        again = []
        freed = False
        for each in waiting:
            entry = ledger.get(each.key)
            current = {} if entry is None else entry.placements
            allocated = {super_id: ledger.allocated(super_id, without=each.key) for super_id in views}
            request = SliceRequest(each.slices, each.size, current=current, policy=policy, leaving=leaving)
            decision = place_slices(views, allocated, request)
            ledger.put(each.key, Entry(each.size, decision.placements))
            freed = freed or moved({each.key: current}, {each.key: decision.placements}) > 0
            if decision.waiting:
                again.append(each)
        waiting = again if freed else ()
    return {
        each.key: dict(entry.placements)
        for each in problem.demands
        if (entry := ledger.get(each.key)) is not None and entry.placements
    }


def by_first_fit(problem: Problem, before: Placement | None = None) -> Placement:
    """Keep the present slices that may stay, and put each other slice on the first super cluster with room."""
    free = {super_id: amounts for super_id, amounts in problem.capacity.items() if super_id != problem.lost}
    found: Placement = {}
    for each in problem.demands:
        there = (before or {}).get(each.key, {})
        found[each.key] = {super_id: slices for super_id, slices in there.items() if super_id in free}
        for super_id, slices in found[each.key].items():
            free[super_id] = subtract(free[super_id], times(each.size, slices))
    for each in problem.demands:
        there = found[each.key]
        for super_id in sorted(free):
            new = min(each.slices - sum(there.values()), pieces(free[super_id], each.size))
            if new > 0:
                there[super_id] = there.get(super_id, 0) + new
                free[super_id] = subtract(free[super_id], times(each.size, new))
    return {key: there for key, there in found.items() if there}


class NoOptimum(Exception):
    """The solver has found no optimum in time."""


def by_solver(problem: Problem, before: Placement | None = None) -> Placement:
    """Place as much quota as possible.

    Args:
        problem: the pool.
        before: the present slices, of which as few as possible leave their super clusters; None if that does not matter.

    Raises:
        NoOptimum: that is not known in time.
    """
    model = _Model(problem)
    best = model.solve(model.quota(), most=True)
    if before is None:
        return best
    model.require(placed(problem, best))
    return model.solve(model.departures(before), most=False)


class _Model:
    """A mixed integer program: a variable for the slices of each namespace on each super cluster."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._highs = highspy.Highs()  # type: ignore[no-untyped-call]
        for option, value in (
            ("output_flag", False),
            ("threads", 1),
            ("random_seed", 1),
            ("mip_rel_gap", GAP),
            ("time_limit", SOLVER_SECONDS),
        ):
            self._highs.setOptionValue(option, value)
        supers = [super_id for super_id in problem.capacity if super_id != problem.lost]
        self._slices = {
            (each.key, super_id): self._highs.addIntegral(0, each.slices)
            for each in problem.demands
            for super_id in supers
        }
        total = self._highs.qsum
        for each in problem.demands:
            self._highs.addConstr(total(self._slices[each.key, name] for name in supers) <= each.slices)
        for name in supers:
            for resource, unit in (("cpu", 1000), ("memory", GIB)):
                used = total(
                    self._slices[each.key, name] * (each.size[resource] / unit) for each in problem.demands
                )
                self._highs.addConstr(used <= problem.capacity[name][resource] / unit)

    def quota(self) -> highspy.highs.highs_linear_expression:
        """Return the placed quota."""
        values = {each.key: worth(each.size) / 1000 for each in self._problem.demands}
        return self._highs.qsum(slices * values[key] for (key, _), slices in self._slices.items())

    def require(self, quota: int) -> None:
        """Require a placed quota."""
        self._highs.addConstr(self.quota() >= quota / 1000 - 1e-6)

    def departures(self, before: Placement) -> highspy.highs.highs_linear_expression:
        """Return the number of present slices that leave their super clusters."""
        left = []
        for key, there in before.items():
            for super_id, slices in there.items():
                if (key, super_id) in self._slices:
                    leaving = self._highs.addVariable(0, slices)
                    self._highs.addConstr(leaving + self._slices[key, super_id] >= slices)
                    left.append(leaving)
        return self._highs.qsum(left)

    def solve(self, aim: highspy.highs.highs_linear_expression, *, most: bool) -> Placement:
        """Return the placement with the largest or the smallest aim.

        Raises:
            NoOptimum: it is not known in time.
        """
        solve: Callable[..., object] = self._highs.maximize if most else self._highs.minimize
        solve(aim)
        status = self._highs.getModelStatus()
        if status != highspy.HighsModelStatus.kOptimal:
            raise NoOptimum(self._highs.modelStatusToString(status))
        found: Placement = {}
        for (key, super_id), value in zip(
            self._slices, self._highs.vals(list(self._slices.values())), strict=True
        ):
            if slices := round(float(value)):
                found.setdefault(key, {})[super_id] = slices
        return found
