"""Puts the steps of a syncer together to the hops of each Pod, and to a table of medians. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Final, NamedTuple

from msgspec import Struct

HOPS: Final = (
    ("the user sends the creation", "the syncer has its event", "tenant's API server, admission, watch"),
    ("the syncer has its event", "the reconcile begins", "queue of the syncer"),
    ("the reconcile begins", "the creation is sent", "plan: conversion"),
    ("the creation is sent", "it is answered", "super cluster's API server"),
    ("it is answered", "the syncer has Running", "super cluster: scheduler, kubelet, watch"),
    ("the syncer has Running", "the reconcile begins", "queue of the syncer"),
    ("the reconcile begins", "the status is sent", "plan: status"),
    ("the status is sent", "it is answered", "tenant's API server"),
    ("it is answered", "the user has Running", "tenant's watch"),
)
"""(from, to, where) of each hop, in their order."""
TENANT_WRITES: Final = ("bind", "patch")
"""Values of `Step.what` of writes in the tenant."""
WHOLE: Final = "the whole way"


class Step(Struct):
    """One line of `traced.py`. Times are in seconds of one clock."""

    step: str
    at: float
    pod: str
    arrived: float | None = None
    sent: float | None = None
    what: str = ""
    writes: int = 0
    runs: bool = False


class Seen(NamedTuple):
    """Times of a Pod for the user: when the creation was sent, and when a watch reported the Pod as running."""

    sent: float
    running: float


class Way(NamedTuple):
    """The way of one Pod: the duration of each hop in milliseconds, and the syncer's writes in the tenant."""

    hops: tuple[float, ...]
    writes: int

    @property
    def whole(self) -> float:
        """Milliseconds from the first hop's begin to the last one's end."""
        return sum(self.hops)


def ways(steps: Iterable[Step], seen: Mapping[str, Seen]) -> list[Way]:
    """Return the ways of the Pods whose steps are complete."""
    by_pod: dict[str, list[Step]] = {name: [] for name in seen}
    for each in steps:
        if each.pod in by_pod:
            by_pod[each.pod].append(each)
    found = (_way(sorted(mine, key=lambda step: step.at), seen[name]) for name, mine in by_pod.items())
    return [way for way in found if way is not None]


def writes_per_pod(steps: Iterable[Step], pods: Sequence[str]) -> float:
    """Return how many requests that bind a Pod or write its status the syncers sent to the tenant for each of some Pods."""
    wanted = set(pods)
    return sum(each.writes for each in steps if each.pod in wanted and each.what in TENANT_WRITES) / len(pods)


def _way(steps: Sequence[Step], seen: Seen) -> Way | None:
    created = next((each for each in steps if each.what == "create" and each.sent), None)
    ran = next((each for each in steps if each.runs and each.sent), None)
    if created is None or ran is None or created.sent is None or ran.sent is None:
        return None
    down = _before(steps, created.sent)
    up = _before(steps, ran.sent)
    if down is None or up is None or up[0] < created.sent:
        return None
    # The event of a fast super cluster may arrive before the creation's answer: the syncer then has both at once.
    answered = min(created.at, up[0])
    times = (seen.sent, *down, created.sent, answered, *up, ran.sent, ran.at, seen.running)
    hops = tuple(1000 * (later - earlier) for earlier, later in pairwise(times))
    writes = sum(each.writes for each in steps if each.what in TENANT_WRITES)
    return Way(hops, writes)


def _before(steps: Sequence[Step], sent: float) -> tuple[float, float] | None:
    """Return when the event arrived that led to a request, and when the reconcile that sent it began."""
    began = next((each.at for each in reversed(steps) if each.step == "began" and each.at <= sent), None)
    if began is None:
        return None
    arrived = [
        each.arrived for each in steps if each.step == "received" and each.arrived and each.at <= began
    ]
    return (arrived[-1], began) if arrived else None


def table(measured: Mapping[str, Sequence[Way]], bursts: Mapping[str, Sequence[float]]) -> str:
    """Return the medians of each version as a Markdown table; with two versions, the ratio of the first to the second.

    Args:
        measured: name of the version -> the ways of Pods created one at a time.
        bursts: name of the version -> writes in the tenant per Pod of each burst.
    """
    names = list(measured)
    ratio = ["ratio"] if len(names) == 2 else []
    heads = ["from", "to", "where", *names, *ratio]
    rows: list[tuple[tuple[str, str, str], list[float]]] = [
        (hop, [median(way.hops[at] for way in measured[name]) for name in names])
        for at, hop in enumerate(HOPS)
    ]
    rows.append(((WHOLE, "", ""), [median(way.whole for way in measured[name]) for name in names]))
    single = [sum(way.writes for way in measured[name]) / len(measured[name]) for name in names]
    rows.append((("writes in the tenant, a Pod at a time", "", "per Pod"), single))
    rows.append(
        (("writes in the tenant, in a burst", "", "per Pod"), [median(bursts[name]) for name in names])
    )
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    lines += [_line(cells, values) for cells, values in rows]
    return "\n".join(lines)


def _line(cells: Sequence[str], values: Sequence[float]) -> str:
    shown = [f"{value:.2f}" for value in values]
    last = [f"{values[0] / values[1]:.2f}" if values[1] else ""] if len(values) == 2 else []
    return f"| {' | '.join([*cells, *shown, *last])} |"
