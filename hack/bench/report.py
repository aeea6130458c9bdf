"""The results as rows with the aims and the figures of the retired Go syncer. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar

from msgspec import Struct

from hack.bench.idle_tenants import IdleTenants
from hack.bench.kinds import KindRun
from hack.bench.meter import Usage
from hack.bench.quality import Quality
from hack.bench.runs import Burst, Deletion, Idle, LowLoad, Memory, Patrol, Restart
from hack.bench.schedulers import Speed
from hack.bench.stage import PODSCHEDULER, SUPER, SYNCER, TENANT

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
    """All results of one run; missing ones are None."""

    burst_direct: Burst | None = None
    burst: Burst | None = None
    low_direct: LowLoad | None = None
    low: LowLoad | None = None
    memory: Memory | None = None
    idle: Idle | None = None
    patrol: Patrol | None = None
    restart: Restart | None = None
    deletion_direct: Deletion | None = None
    deletion: Deletion | None = None
    idle_tenants: IdleTenants | None = None
    kinds_direct: list[KindRun] = []
    kinds: list[KindRun] = []
    schedulers: list[Speed] = []
    quality: list[Quality] = []


class Aim(Struct, frozen=True):
    """An aim."""

    limit: float
    at: Literal["most", "least"] = "most"
    of: Literal["tenant", "ratio", "difference", "scaled"] = "tenant"
    """The figure that it limits: the tenant side's, tenant to direct, tenant less direct, or the tenant side's scaled to
    the reference machine."""


class Row(Struct, frozen=True, kw_only=True):
    """One row of the table."""

    name: str
    unit: str = ""
    direct: float | None = None
    tenant: float | None = None
    go_direct: float | None = None
    """The corresponding figure of the retired Go syncer, if known."""
    go_tenant: float | None = None
    aim: Aim | None = None
    scaled: float | None = None
    """The tenant's figure, scaled by the ratio of the CPU time of a Pod created directly on the Go syncer's machine to
    that on this machine. A slower or busier machine spends more CPU time on everything."""

    @property
    def ratio(self) -> float | None:
        """Tenant to direct."""
        return _ratio(self.tenant, self.direct)

    @property
    def go_ratio(self) -> float | None:
        """Return the ratio of tenant to direct of the Go syncer."""
        return _ratio(self.go_tenant, self.go_direct)

    @property
    def judged(self) -> float | None:
        """Return the figure to which the aim applies."""
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
        """Return whether the aim is met; None if there is no aim or no figure."""
        if self.aim is None or self.judged is None:
            return None
        return self.judged <= self.aim.limit if self.aim.at == "most" else self.judged >= self.aim.limit

    @property
    def verdict(self) -> str:
        """Return `met`, or the amount by which it is missed."""
        if self.aim is None or self.judged is None:
            return ""
        if self.met:
            return "met"
        return f"missed by {number(abs(self.judged - self.aim.limit))}"


def _ratio(one: float | None, other: float | None) -> float | None:
    return one / other if one is not None and other else None


# --- rows


def rows(results: Results) -> list[Row]:
    """Return the table's rows for all results."""
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
    if results.patrol is not None:
        made += _patrol_rows(results.patrol)
    if results.restart is not None:
        made += _restart_rows(results.restart)
    if results.deletion is not None:
        made += _deletion_rows(results.deletion, results.deletion_direct)
    if results.idle_tenants is not None:
        made += _idle_tenant_rows(results.idle_tenants)
    made += _kind_rows(results.kinds, results.kinds_direct)
    return made


def _patrol_rows(patrol: Patrol) -> list[Row]:
    return [
        Row(
            name=f"patrol of {patrol.pods} Pods: one round",
            unit="s CPU",
            tenant=patrol.cpu_seconds,
            aim=Aim(0.3),
        ),
        Row(name="  longest step", unit="ms CPU", tenant=1000 * patrol.longest_step, aim=Aim(5.0)),
    ]


def _idle_tenant_rows(idle: IdleTenants) -> list[Row]:
    grown = {role: (idle.after[role] - before) / idle.count / 1e6 for role, before in idle.before.items()}
    return [
        Row(name="memory of an idle tenant, all roles", unit="MB", tenant=sum(grown.values())),
        *(
            Row(name=f"  {role}", unit="MB", tenant=grown[role], aim=Aim(0.6) if role == SYNCER else None)
            for role in sorted(grown)
        ),
    ]


def _kind_rows(tenant: list[KindRun], direct: list[KindRun]) -> list[Row]:
    """Return the CPU milliseconds to create and delete one object of each kind."""
    directly = {run.name: 1000 * run.usage.stack_cpu / run.count for run in direct}
    return [
        row
        for run in tenant
        for row in (
            Row(
                name=f"create and delete one {run.name}: whole stack",
                unit="ms CPU",
                direct=directly.get(run.name),
                tenant=1000 * run.usage.stack_cpu / run.count,
            ),
            Row(name=f"  {SYNCER}", unit="ms CPU", tenant=1000 * run.usage.cpu[SYNCER] / run.count),
        )
    ]


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
    """Return a row with the same figure of both sides."""
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
    resources = [
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
        *resources,
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
            name="API requests besides the user's and the super cluster's",
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
"""Requests of a Pod that the super cluster itself causes: binding and Event of its scheduler, status of its kubelet."""


def added_requests(burst: Burst) -> float:
    """Return the requests per Pod that vcsync causes.

    All requests to the three API servers, except the user's creations and the writes of the super cluster's own scheduler and
    kubelet (the syncer makes no such writes in a super cluster for Pods without readiness gates).
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


def number(value: float | None) -> str:
    """Format a figure with about three digits; empty for None."""
    if value is None:
        return ""
    size = abs(value)
    if size >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if size >= 9.995 else f"{value:.2f}"
