"""The results as rows with the aims."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from hack.bench.load import Latency
from hack.bench_up.runs import Burst

PODS_PER_SECOND = 300.0
IDLE_SHARE = 0.01
QUIET_RATIO = 1.2


class Results(Struct, kw_only=True):
    """All results; missing ones are None."""

    tenants: int
    started: float = 0.0
    idle: float | None = None
    alone: Latency | None = None
    beside: Latency | None = None
    jobs_per_second: float = 0.0
    pods: Burst | None = None
    memory: int | None = None
    direct: Burst | None = None


Line = tuple[str, str, str, str, str]
"""Name, value through tenants, value directly, ratio, aim."""


def lines(results: Results) -> list[Line]:
    """Return a row for each result."""
    return [
        ("", "tenants", "direct", "ratio", "aim"),
        (f"start with {results.tenants} tenants (s)", f"{results.started:.1f}", "", "", ""),
        *_pods(results),
        *_waits(results),
        *_standing(results),
    ]


def _pods(results: Results) -> list[Line]:
    through, direct = results.pods, results.direct
    if through is None:
        return []

    rate = through.per_second
    return [
        _compared(
            f"{through.pods} Pods (Pods/s)",
            rate,
            direct.per_second if direct else 0.0,
            _aim(rate >= PODS_PER_SECOND, f">= {PODS_PER_SECOND:.0f}"),
        ),
        _compared("creation to Running, p50 (s)", _p50(through), _p50(direct)),
        _compared("creation to Running, p99 (s)", _p99(through), _p99(direct)),
        _compared("CPU (ms/Pod)", through.cpu_per_pod, direct.cpu_per_pod if direct else 0.0),
    ]


def _p50(run: Burst | None) -> float:
    return run.latency.p50 / 1000 if run else 0.0


def _p99(run: Burst | None) -> float:
    return run.latency.p99 / 1000 if run else 0.0


def _compared(name: str, one: float, other: float, aim: str = "") -> Line:
    ratio = f"{one / other:.2f}" if other else ""
    return name, f"{one:.3g}", f"{other:.3g}" if other else "", ratio, aim


def _waits(results: Results) -> list[Line]:
    alone, beside = results.alone, results.beside
    if alone is None or beside is None:
        return []
    ratio = beside.p99 / alone.p99
    aim = _aim(ratio <= QUIET_RATIO, f"<= {QUIET_RATIO:.1f}")
    beside_what = f"beside {results.jobs_per_second:.0f} Jobs/s"
    return [
        ("Deployment to Running, alone, p50 (ms)", f"{alone.p50:.0f}", "", "", ""),
        ("Deployment to Running, alone, p99 (ms)", f"{alone.p99:.0f}", "", "", ""),
        (f"  {beside_what}, p50 (ms)", f"{beside.p50:.0f}", "", f"{beside.p50 / alone.p50:.2f}", ""),
        (f"  {beside_what}, p99 (ms)", f"{beside.p99:.0f}", "", f"{ratio:.2f}", aim),
    ]


def _standing(results: Results) -> list[Line]:
    found: list[Line] = []
    if results.idle is not None:
        aim = _aim(results.idle < IDLE_SHARE, f"< {100 * IDLE_SHARE:.0f}")
        found.append(
            (f"{results.tenants} idle tenants (% of a CPU)", f"{100 * results.idle:.2f}", "", "", aim)
        )
    if results.memory is not None:
        pods = results.pods.pods if results.pods else 0
        found.append((f"memory with {pods} Pods (MB)", f"{results.memory / 1e6:.0f}", "", "", ""))
    return found


def _aim(met: bool, text: str) -> str:
    return f"{text} {'met' if met else 'missed'}"


def table(found: Sequence[Line]) -> str:
    """Format rows as text in columns."""
    widths = [max(len(line[column]) for line in found) for column in range(5)]
    return "\n".join(
        "  ".join(
            text.ljust(width) if column in (0, 4) else text.rjust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in found
    )
