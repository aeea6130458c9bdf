"""The results as a table beside the aims and the figures of the system this one replaces, and as JSON."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from hack.bench.meter import Request, Usage
from hack.bench.runs import Burst, Deletion, Idle, LowLoad, Memory, Restart
from hack.bench.stage import SUPER, SYNCER, TENANT

PODSCHEDULER = "podscheduler"
API_SERVER = "kube-apiserver"
GO_DIRECT_STACK = 9.0
"""CPU milliseconds of the whole stack per Pod created directly, where the Go syncer was measured."""
_GO_SERVERS: dict[str, tuple[float | None, float]] = {
    f"{SUPER}/{API_SERVER}": (4.9, 8.4),
    f"{TENANT}/{API_SERVER}": (None, 7.6),
    "etcd": (0.9, 3.0),
}
"""CPU milliseconds per Pod under the retired Go syncer: direct, tenant."""

Run = TypeVar("Run")


class Results(Struct, kw_only=True):
    """Everything that was measured in one run; what was not is None."""

    burst_direct: Burst | None = None
    burst: Burst | None = None
    low_direct: LowLoad | None = None
    low: LowLoad | None = None
    memory: Memory | None = None
    idle: Idle | None = None
    restart: Restart | None = None
    deletion_direct: Deletion | None = None
    deletion: Deletion | None = None


class Aim(Struct, frozen=True):
    """What is aimed at."""

    limit: float
    at: Literal["most", "least"] = "most"
    of: Literal["tenant", "ratio", "difference", "scaled"] = "tenant"
    """Which figure it is about: the tenant side's, tenant to direct, tenant less direct, or the tenant side's at the
    reference machine's pace."""


class Row(Struct, frozen=True, kw_only=True):
    """One line of the table."""

    name: str
    unit: str = ""
    direct: float | None = None
    tenant: float | None = None
    go_direct: float | None = None
    """The same figure of the retired Go syncer, where it is known."""
    go_tenant: float | None = None
    aim: Aim | None = None
    scaled: float | None = None
    """The tenant's figure, had this machine spent as much CPU on a Pod created directly as the Go syncer's did. A
    machine that is busy with other things, or slower, spends more on everything."""

    @property
    def ratio(self) -> float | None:
        """Tenant to direct."""
        return _ratio(self.tenant, self.direct)

    @property
    def go_ratio(self) -> float | None:
        """Tenant to direct, of the Go syncer."""
        return _ratio(self.go_tenant, self.go_direct)

    @property
    def judged(self) -> float | None:
        """The figure that the aim is about."""
        if self.aim is None or self.tenant is None:
            return None
        if self.aim.of == "ratio":
            return self.ratio
        if self.aim.of == "scaled":
            return self.scaled
        if self.aim.of == "difference":
            return None if self.direct is None else self.tenant - self.direct
        return self.tenant

    @property
    def met(self) -> bool | None:
        """Whether the aim is met; None when there is none, or no figure."""
        if self.aim is None or self.judged is None:
            return None
        return self.judged <= self.aim.limit if self.aim.at == "most" else self.judged >= self.aim.limit

    @property
    def verdict(self) -> str:
        """`met`, or by how much it is not."""
        if self.aim is None or self.judged is None:
            return ""
        if self.met:
            return "met"
        return f"missed by {_number(abs(self.judged - self.aim.limit))}"


def _ratio(one: float | None, other: float | None) -> float | None:
    return one / other if one is not None and other else None


# --- rows


def rows(results: Results) -> list[Row]:
    """The table's lines, of what was measured."""
    made: list[Row] = []
    if results.burst is not None:
        made += _burst_rows(results.burst, results.burst_direct)
    if results.low is not None:
        made += _low_rows(results.low, results.low_direct)
    if results.memory is not None and results.burst is not None:
        made += _memory_rows(results.memory, results.burst.pods)
    if results.idle is not None:
        made += [
            Row(
                name=f"idle minute with {results.idle.pods} Pods: {SYNCER}",
                unit="s CPU",
                tenant=results.idle.usage.cpu[SYNCER] * 60 / results.idle.seconds,
                go_tenant=0.11,
                aim=Aim(0.1),
            ),
            *(
                Row(name=f"idle minute: {role}", unit="s CPU", tenant=seconds * 60 / results.idle.seconds)
                for role, seconds in results.idle.usage.cpu.items()
                if role in (PODSCHEDULER, "nsscheduler")
            ),
            Row(name="idle minute: requests but heartbeats", tenant=float(results.idle.usage.count())),
        ]
    if results.restart is not None:
        made += _restart_rows(results.restart)
    if results.deletion is not None:
        made += _deletion_rows(results.deletion, results.deletion_direct)
    return made


def _compare(
    name: str,
    unit: str,
    figure: Callable[[Run], float],
    tenant: Run,
    direct: Run | None,
    *,
    go_direct: float | None = None,
    go_tenant: float | None = None,
    aim: Aim | None = None,
    pace: float | None = None,
) -> Row:
    """A line with the same figure of both sides."""
    return Row(
        scaled=None if pace is None else figure(tenant) / pace,
        name=name,
        unit=unit,
        direct=None if direct is None else figure(direct),
        tenant=figure(tenant),
        go_direct=go_direct,
        go_tenant=go_tenant,
        aim=aim,
    )


def _cpu(process: str) -> Callable[[Burst], float]:
    return lambda burst: 1000 * burst.usage.cpu.get(process, 0.0) / burst.pods


def _stack(burst: Burst) -> float:
    return 1000 * burst.usage.stack_cpu / burst.pods


def _burst_rows(tenant: Burst, direct: Burst | None) -> list[Row]:
    pace = None if direct is None else _stack(direct) / GO_DIRECT_STACK
    servers = sorted(name for name in tenant.usage.cpu if "/" in name or name == "etcd")
    shown = [
        _compare(
            f"CPU: {name}",
            "ms/Pod",
            _cpu(name),
            tenant,
            direct,
            go_direct=go_direct,
            go_tenant=go_tenant,
            pace=pace,
        )
        for name in servers
        for go_direct, go_tenant in [_GO_SERVERS.get(name, (None, None))]
    ]
    return [
        _compare(
            f"{tenant.pods} Pods, 50 creations in flight",
            "Pods/s",
            lambda burst: burst.per_second,
            tenant,
            direct,
            go_direct=156,
            go_tenant=50,
            aim=Aim(2 * 50 / 156, "least", "ratio"),
        ),
        _compare("  creation to Running, p50", "s", lambda burst: burst.latency.p50 / 1000, tenant, direct),
        _compare(
            "  creation to Running, p99",
            "s",
            lambda burst: burst.latency.p99 / 1000,
            tenant,
            direct,
            go_direct=7.4,
            go_tenant=34.7,
        ),
        _compare(
            f"CPU: {SYNCER}",
            "ms/Pod",
            _cpu(SYNCER),
            tenant,
            None,
            go_tenant=4.0,
            aim=Aim(1.5, of="scaled"),
            pace=pace,
        ),
        _compare(f"CPU: {PODSCHEDULER}", "ms/Pod", _cpu(PODSCHEDULER), tenant, None, pace=pace),
        _compare("CPU: nsscheduler", "ms/Pod", _cpu("nsscheduler"), tenant, None, pace=pace),
        *shown,
        _compare(
            "CPU: whole stack",
            "ms/Pod",
            _stack,
            tenant,
            direct,
            go_direct=GO_DIRECT_STACK,
            go_tenant=27.7,
            aim=Aim(18.0, of="scaled"),
            pace=pace,
        ),
        Row(
            name="API requests beside the user's and the super cluster's",
            unit="/Pod",
            tenant=added_requests(tenant),
            go_tenant=6.3,
            aim=Aim(5.0),
        ),
        Row(name="  of which quota counted by controllers", unit="/Pod", tenant=_quota_counts(tenant)),
    ]


_SUPERS_OWN = frozenset(
    {("POST", "pods/binding"), ("PATCH", "pods/status"), ("POST", "events"), ("PATCH", "events")}
)
"""What a Pod causes in a super cluster by itself: its scheduler binds it and tells of it, its kubelet reports on it."""


def added_requests(burst: Burst) -> float:
    """Requests per Pod that are there because of vcsync.

    All that the three API servers answered, but for the user's creations and what the super cluster's own scheduler and
    kubelet wrote there (the syncer writes nothing of that kind to a super cluster for Pods without readiness gates).
    """
    own = sum(burst.usage.count(server=SUPER, verb=verb, resource=resource) for verb, resource in _SUPERS_OWN)
    return (burst.usage.count() - own) / burst.pods - 1


def _quota_counts(burst: Burst) -> float:
    return burst.usage.count(verb="PUT", resource="resourcequotas/status") / burst.pods


def _low_rows(tenant: LowLoad, direct: LowLoad | None) -> list[Row]:
    added = Aim(10.0, of="difference")
    return [
        _compare(name, "ms", figure, tenant, direct, go_direct=go_direct, go_tenant=go_tenant, aim=aim)
        for name, figure, go_direct, go_tenant, aim in (
            ("one Pod at a time, p50", lambda low: low.one_at_a_time.p50, 9.8, 25.8, added),
            ("one Pod at a time, p99", lambda low: low.one_at_a_time.p99, 38.6, 50.5, None),
            ("20 Pods/s, p50", lambda low: low.paced.p50, 9.7, 25.4, added),
            ("20 Pods/s, p99", lambda low: low.paced.p99, 19.4, 89.3, None),
        )
    ]


def _memory_rows(memory: Memory, pods: int) -> list[Row]:
    return [
        Row(
            name=f"memory: {role}",
            unit="KB/Pod",
            tenant=(after - memory.before[role]) / 1024 / pods,
            go_tenant=28.0 if role == SYNCER else None,
            aim=Aim(10.0) if role == SYNCER else None,
        )
        for role, after in sorted(memory.after.items(), reverse=True)
    ]


def _restart_rows(restart: Restart) -> list[Row]:
    return [
        Row(
            name=f"restart with {restart.pods} Pods: a new Pod runs after",
            unit="s",
            tenant=restart.new_pod,
            go_tenant=1.5,
        ),
        Row(
            name="  deleted in the tenant meanwhile: wrong for",
            unit="s",
            tenant=restart.deleted_in_tenant,
            go_tenant=60.0,
            aim=Aim(2.0),
        ),
        Row(
            name="  changed in the tenant meanwhile: wrong for",
            unit="s",
            tenant=restart.changed_in_tenant,
            aim=Aim(2.0),
        ),
        Row(
            name="  deleted in the super cluster meanwhile: wrong for",
            unit="s",
            tenant=restart.deleted_in_super,
            go_tenant=60.0,
            aim=Aim(2.0),
        ),
        Row(name="  CPU of the restart", unit="s CPU", tenant=restart.usage.cpu.get(SYNCER)),
    ]


def _deletion_rows(tenant: Deletion, direct: Deletion | None) -> list[Row]:
    def per_pod(figure: Callable[[Usage], float]) -> Callable[[Deletion], float]:
        return lambda deletion: figure(deletion.usage) / deletion.pods

    deletes = per_pod(lambda usage: usage.count(verb="DELETE", resource="pods"))
    return [
        _compare(f"deleting {tenant.pods} Pods", "Pods/s", lambda run: run.per_second, tenant, direct),
        _compare(
            "  lingering",
            "%",
            lambda run: 100 * run.lingering / run.pods,
            tenant,
            direct,
            go_tenant=10.0,
            aim=Aim(0.0),
        ),
        _compare(
            "  from the last answer to the last Pod's end",
            "s",
            lambda run: run.after_last_answer,
            tenant,
            direct,
        ),
        _compare("  DELETEs in tenant and super cluster", "/Pod", deletes, tenant, direct),
        _compare(
            "  CPU: whole stack", "ms/Pod", per_pod(lambda usage: 1000 * usage.stack_cpu), tenant, direct
        ),
        _compare(
            f"  CPU: {SYNCER}",
            "ms/Pod",
            per_pod(lambda usage: 1000 * usage.cpu.get(SYNCER, 0.0)),
            tenant,
            None,
        ),
    ]


# --- text

_HEADINGS = ("", "direct", "tenant", "ratio", "scaled", "Go direct", "Go tenant", "Go ratio", "aim", "")


def table(made: Sequence[Row]) -> str:
    """The lines as text in columns."""
    cells = [_HEADINGS, *(_cells(row) for row in made)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_HEADINGS))]
    return "\n".join(
        "  ".join(
            text.ljust(width) if column in (0, len(_HEADINGS) - 1) else text.rjust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    )


def markdown(made: Sequence[Row]) -> str:
    """The lines as a Markdown table."""
    lines = [_HEADINGS, ("---", *(["--:"] * 8), "---"), *(_cells(row) for row in made)]
    return "\n".join("| " + " | ".join(cell.strip() for cell in line) + " |" for line in lines)


def _cells(row: Row) -> tuple[str, ...]:
    name = f"{row.name} ({row.unit})" if row.unit else row.name
    figures = (row.direct, row.tenant, row.ratio, row.scaled, row.go_direct, row.go_tenant, row.go_ratio)
    return (name, *map(_number, figures), _aim(row.aim), row.verdict)


def _aim(aim: Aim | None) -> str:
    if aim is None:
        return ""
    text = f"{'≤' if aim.at == 'most' else '≥'} {_number(aim.limit)}"
    return text + {"tenant": "", "ratio": " ratio", "difference": " more", "scaled": " scaled"}[aim.of]


def _number(value: float | None) -> str:
    if value is None:
        return ""
    size = abs(value)
    if size >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if size >= 9.995 else f"{value:.2f}"


def request_table(burst: Burst) -> str:
    """Requests per Pod by server, verb and resource, the frequent ones first."""
    lines = [f"{'requests per Pod':<40}{'':>8}"]
    lines += [
        f"{request.server:<8} {request.verb:<8} {request.resource:<22} {count / burst.pods:8.2f}"
        for request, count in _frequent(burst.usage)
        if count / burst.pods >= 0.005
    ]
    return "\n".join(lines)


def _frequent(usage: Usage) -> Iterable[tuple[Request, int]]:
    return sorted(
        ((request, count) for request, count in usage.requests.items() if not request.is_standing),
        key=lambda pair: -pair[1],
    )


# --- JSON


def document(results: Results, made: Sequence[Row], settings: dict[str, Any]) -> bytes:
    """Everything as JSON: machine, settings, table, raw results."""
    whole = {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "settings": settings,
        "table": [
            {
                **msgspec.to_builtins(row),
                "ratio": row.ratio,
                "goRatio": row.go_ratio,
                "judged": row.judged,
                "met": row.met,
            }
            for row in made
        ],
        "measured": _plain(results),
    }
    return msgspec.json.format(msgspec.json.encode(whole), indent=1)


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "cpus": os.cpu_count(),
        "model": models[0] if models else platform.machine(),
        "memoryGiB": round(memory / 2**30, 1),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "load": os.getloadavg(),
    }


def _plain(value: Any) -> Any:
    """Structs as objects; what is counted by kind of request as a list."""
    if isinstance(value, Usage):
        return {
            "cpuSeconds": value.cpu,
            "foreignShare": value.foreign,
            "requests": [
                {"server": request.server, "verb": request.verb, "resource": request.resource, "count": count}
                for request, count in sorted(value.requests.items())
            ],
        }
    if isinstance(value, Struct):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
    return value
