"""The tables about the schedulers: the speed of their cores, and the quality of placements. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from hack.bench.quality import Change, Quality
from hack.bench.report import Aim, number
from hack.bench.schedulers import Speed

Cells = list[tuple[str, ...]]
"""Lines of a table, the headings first."""


class Line(Struct, frozen=True):
    """One line of a table: the same figure in several cases, and an aim that applies to each.

    Attributes:
        name: what it is, with its unit.
        figures: one of each case.
        aim: the aim, if there is one.
    """

    name: str
    figures: tuple[float, ...]
    aim: Aim | None = None

    @property
    def verdict(self) -> str:
        """`met`, or the amount by which the worst figure misses the aim; empty without an aim."""
        if self.aim is None:
            return ""
        most = self.aim.at == "most"
        worst = max(self.figures) if most else min(self.figures)
        if worst <= self.aim.limit if most else worst >= self.aim.limit:
            return "met"
        return f"missed by {number(abs(worst - self.aim.limit))}"

    def cells(self) -> tuple[str, ...]:
        """Return the cells of the line."""
        sign = "" if self.aim is None else f"{'≤' if self.aim.at == 'most' else '≥'} {number(self.aim.limit)}"
        return (self.name, *map(number, self.figures), sign, self.verdict)


def speed_table(speeds: Sequence[Speed]) -> Cells:
    """Return the table about the speed of the cores."""
    headings = ("", *(f"{each.supers} super clusters" for each in speeds), "aim", "")
    return [headings, *(line.cells() for line in speed_lines(speeds))]


def speed_lines(speeds: Sequence[Speed]) -> list[Line]:
    """Return the lines about the speed of the cores. Seconds are CPU seconds."""

    def line(name: str, figures: Sequence[float], aim: Aim | None = None) -> Line:
        return Line(name, tuple(figures), aim)

    return [
        line(
            "namespaces placed per second",
            [each.namespaces / each.placing for each in speeds],
            Aim(1000, "least"),
        ),
        line("  CPU of one (ms)", [1000 * each.placing / each.namespaces for each in speeds]),
        line(
            "  CPU of one that is decided again, without a change (ms)",
            [1000 * each.deciding_again / each.namespaces for each in speeds],
        ),
        line(
            "Pods per second: seen, decided, written, bound",
            [each.pods / (each.pods_seen + each.pods_decided + each.pods_bound) for each in speeds],
            Aim(5000, "least"),
        ),
        line("  CPU to read and count a new one (µs)", [1e6 * each.pods_seen / each.pods for each in speeds]),
        line(
            "  CPU to decide, and to read the answer of the write (µs)",
            [1e6 * each.pods_decided / each.pods for each in speeds],
        ),
        line("  CPU to read that it is bound (µs)", [1e6 * each.pods_bound / each.pods for each in speeds]),
        line("memory of one in the Pod scheduler (KB)", [each.memory / 1024 / each.pods for each in speeds]),
        line(
            f"lost super cluster with {speeds[0].loss.pods} Pods: all decisions (s CPU)",
            [each.loss.total for each in speeds],
            Aim(5, "most"),
        ),
        line("  marking its Pods", [each.loss.marking for each in speeds]),
        line(
            f"  moving the slices of {speeds[0].loss.namespaces} namespaces",
            [each.loss.slices for each in speeds],
        ),
        line("  choosing and evicting Pods", [each.loss.evictions for each in speeds]),
        line("  placing the Pods that replace them", [each.loss.replacing for each in speeds]),
    ]


def quality_table(found: Sequence[Quality]) -> Cells:
    """Return the table about the quality of placements."""
    headings = ("", *(f"{each.percent} % asked" for each in found), "aim", "")
    return [headings, *(line.cells() for line in quality_lines(found))]


def quality_lines(found: Sequence[Quality]) -> list[Line]:
    """Return the lines about the quality of placements. Placed quota is in percent of the optimum."""

    def line(name: str, figures: Sequence[float], aim: Aim | None = None) -> Line:
        return Line(name, tuple(figures), aim)

    near = Aim(98, "least")
    return [
        line("placed quota: policy spread (%)", [100 * each.spread for each in found], near),
        line("  in the worst pool", [100 * each.worst for each in found]),
        line("  policy pack", [100 * each.pack for each in found]),
        line("  first fit", [100 * each.first_fit for each in found]),
        *_change_lines("a super cluster lost", [each.loss for each in found], near),
        *_change_lines("a third of the quotas grown by half", [each.growth for each in found], near),
        line("pools without known optimum, left out", [each.unsolved for each in found]),
    ]


def _change_lines(what: str, changes: Sequence[Change], near: Aim) -> list[Line]:
    return [
        Line(f"{what}: placed quota (%)", tuple(100 * each.vcsync for each in changes), near),
        Line("  first fit", tuple(100 * each.first_fit for each in changes)),
        Line("  slices that vcsync moves", tuple(each.moved_by_vcsync for each in changes)),
        Line("  that the optimum moves, computed again", tuple(each.moved_again for each in changes)),
        Line("  that it moves at least", tuple(each.moved_at_least for each in changes)),
        Line(
            "  vcsync to the optimum computed again",
            tuple(each.moved_by_vcsync / each.moved_again if each.moved_again else 0.0 for each in changes),
            Aim(0.1, "most"),
        ),
    ]
