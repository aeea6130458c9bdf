"""Compares turns of contenders on the same servers: directly, through vcsync, and through another syncer. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, Literal

import msgspec
from msgspec import Struct

from hack.bench.load import Latency
from hack.bench.meter import GENERATOR
from hack.bench.report import added_requests, number
from hack.bench.runs import Burst
from hack.bench.stage import PODSCHEDULER, SUPER, SYNCER, TENANT

PEER = "peer"
"""Name of the other syncer's tenant and of its process."""

Contender = Literal["direct", "ours", "peer"]
EVERYONE: tuple[Contender, ...] = ("direct", "ours", "peer")
THROUGH_TENANTS: tuple[Contender, ...] = ("ours", "peer")

_PROCESSES: dict[str, dict[Contender, str]] = {
    "syncer": {"ours": SYNCER, "peer": PEER},
    "Pod scheduler": {"ours": PODSCHEDULER},
    "namespace scheduler": {"ours": "nsscheduler"},
    **{
        f"tenant's {component}": {"ours": f"{TENANT}/{component}", "peer": f"{PEER}/{component}"}
        for component in ("kube-apiserver", "kube-controller-manager")
    },
    **{
        f"super cluster's {component}": dict.fromkeys(EVERYONE, f"{SUPER}/{component}")
        for component in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
    },
    "etcd": dict.fromkeys(EVERYONE, "etcd"),
}
"""Purpose of a process -> its name in the turns of each contender that has it."""
_HEADINGS = ("", "direct", "ours", "peer", "ours to peer", "aim", "")

STACK_AIM, ADDED_AIM, BURST_AIM = 0.9, 0.7, 1.0
"""Limits of the ratio of our figure to the peer's: CPU of the whole stack, latency that one Pod at a time has more than
directly, and the slowest Pods of a burst."""


class Turn(Struct, frozen=True):
    """The measurements of one contender in one round."""

    contender: Contender
    round: int
    """Counted from 1."""
    burst: Burst
    one_at_a_time: Latency


class Line(Struct, frozen=True, kw_only=True):
    """One row of the comparison: a figure of each contender in each round."""

    name: str
    unit: str
    direct: tuple[float, ...] = ()
    ours: tuple[float, ...] = ()
    peer: tuple[float, ...] = ()
    limit: float | None = None
    """Aim: what the ratio is at most."""

    @property
    def ratio(self) -> float | None:
        """Our mean over all rounds to the peer's; None if one of them is missing, or the peer's is not above 0."""
        if not self.ours or not self.peer or fmean(self.peer) <= 0:
            return None
        return fmean(self.ours) / fmean(self.peer)

    @property
    def met(self) -> bool | None:
        """Return whether the aim is met; None if there is no aim or no ratio."""
        return None if self.limit is None or self.ratio is None else self.ratio <= self.limit

    @property
    def verdict(self) -> str:
        """Return `met`, or the amount by which the ratio misses the aim."""
        if self.limit is None or self.ratio is None:
            return ""
        return "met" if self.met else f"missed by {number(self.ratio - self.limit)}"


def lines(turns: Sequence[Turn]) -> list[Line]:
    """Return the rows for all turns; without any, none."""
    if not turns:
        return []
    made = [
        _line(turns, f"{turns[0].burst.pods} Pods at once", "Pods/s", lambda turn: turn.burst.per_second),
        _line(turns, "  creation to Running, p50", "s", lambda turn: turn.burst.latency.p50 / 1000),
        _line(
            turns,
            "  creation to Running, p99",
            "s",
            lambda turn: turn.burst.latency.p99 / 1000,
            limit=BURST_AIM,
        ),
        *_processors(turns),
        _line(
            turns, "  API requests added", "/Pod", lambda turn: added_requests(turn.burst), THROUGH_TENANTS
        ),
        _line(turns, "  placed after the creation", "/Pod", _placements, ("ours",)),
        *_reviews(turns),
        _line(
            turns, "  used by other programs", "% of the machine", lambda turn: 100 * turn.burst.usage.foreign
        ),
        *_single(turns),
    ]
    return [line for line in made if line.direct or line.ours or line.peer]


def _line(
    turns: Sequence[Turn],
    name: str,
    unit: str,
    figure: Callable[[Turn], float],
    only: Sequence[Contender] = EVERYONE,
    *,
    limit: float | None = None,
) -> Line:
    """Return a row with the same figure of each contender."""
    found = {each: tuple(figure(turn) for turn in turns if turn.contender == each) for each in only}
    return Line(name=name, unit=unit, limit=limit, **found)


def _processors(turns: Sequence[Turn]) -> list[Line]:
    """Return a row for each process that works on Pods, for the sum of all others, and for the sum of all."""
    contenders = {turn.contender for turn in turns}
    shown: dict[Contender, set[str]] = {each: {GENERATOR} for each in contenders}
    made = []
    for name, processes in _PROCESSES.items():
        for contender in contenders & processes.keys():
            shown[contender].add(processes[contender])
        made.append(_line(turns, f"  CPU: {name}", "ms/Pod", _used_by(processes), tuple(processes)))

    def others(turn: Turn) -> float:
        return _milliseconds(turn.burst, turn.burst.usage.cpu.keys() - shown[turn.contender])

    def whole(turn: Turn) -> float:
        return 1000 * turn.burst.usage.stack_cpu / turn.burst.pods

    return [
        *made,
        _line(turns, "  CPU: others", "ms/Pod", others),
        _line(turns, "  CPU: whole stack", "ms/Pod", whole, limit=STACK_AIM),
    ]


def _used_by(processes: Mapping[Contender, str]) -> Callable[[Turn], float]:
    return lambda turn: _milliseconds(turn.burst, (processes[turn.contender],))


def _milliseconds(burst: Burst, processes: Iterable[str]) -> float:
    return 1000 * sum(burst.usage.cpu.get(process, 0.0) for process in processes) / burst.pods


def _placements(turn: Turn) -> float:
    """Return how many Pods got their super cluster by a write after their creation."""
    return turn.burst.usage.count(server=TENANT, verb="PATCH", resource="pods") / turn.burst.pods


def _reviews(turns: Sequence[Turn]) -> list[Line]:
    """Return a row for each outcome of calls of the placement webhook; none if nobody called it."""
    outcomes = sorted({outcome for turn in turns for outcome in turn.burst.reviews})

    def calls(outcome: str) -> Callable[[Turn], float]:
        return lambda turn: turn.burst.reviews.get(outcome, 0) / turn.burst.pods

    return [
        _line(turns, f"  calls of the placement webhook, {each}", "/Pod", calls(each), ("ours",))
        for each in outcomes
    ]


def _single(turns: Sequence[Turn]) -> list[Line]:
    """Return the rows of one Pod at a time, with what each contender adds to the direct turn of the same round."""
    direct = {turn.round: turn.one_at_a_time.p50 for turn in turns if turn.contender == "direct"}

    def added(turn: Turn) -> float:
        return turn.one_at_a_time.p50 - direct[turn.round]

    compared = [turn for turn in turns if turn.round in direct]
    return [
        _line(turns, "one Pod at a time, p50", "ms", lambda turn: turn.one_at_a_time.p50),
        _line(turns, "  p99", "ms", lambda turn: turn.one_at_a_time.p99),
        _line(compared, "  p50 added to direct", "ms", added, THROUGH_TENANTS, limit=ADDED_AIM),
    ]


def cells(made: Sequence[Line]) -> list[tuple[str, ...]]:
    """Return the texts of the table, the headings first; a cell has the figures of all rounds."""
    return [_HEADINGS, *map(_cells, made)]


def _cells(line: Line) -> tuple[str, ...]:
    figures = (", ".join(map(number, each)) for each in (line.direct, line.ours, line.peer))
    aim = "" if line.limit is None else f"≤ {number(line.limit)}"
    return (f"{line.name} ({line.unit})", *figures, number(line.ratio), aim, line.verdict)


def plain(made: Sequence[Line]) -> list[dict[str, Any]]:
    """Return the rows as JSON objects, with ratios and verdicts."""
    return [{**msgspec.to_builtins(line), "ratio": line.ratio, "met": line.met} for line in made]
