"""The parts of /status and metrics that several roles share: tenants, the pool, errors and reconciles."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from vcsync.fairqueue import ObjectName, WorkerPool
from vcsync.kube.reflector import Reflector
from vcsync.objects.times import unix_time_text
from vcsync.scheduling.ledger import Ledger
from vcsync.scheduling.resources import to_quantities
from vcsync.tenancy.distribution import undistributed
from vcsync.tenancy.health import lasting
from vcsync.tenancy.pool import Pool
from vcsync.tenancy.registry import TenantRegistry, TenantState

_MOST_ERRORS = 20
STALE_SECONDS = 15.0
"""Seconds without an open stream after which a server counts as not answering. A stream that ends is reopened immediately."""


def tenants_status(registry: TenantRegistry, work: WorkerPool[Any]) -> dict[str, dict[str, Any]]:
    """Return each tenant's state and queue, by cluster key, and refused VirtualClusters by name."""
    shown: dict[str, dict[str, Any]] = {}
    for tenant in registry.statistics():
        shown[tenant.key or tenant.virtual_cluster] = {
            "vc": tenant.virtual_cluster,
            "synced": tenant.state is TenantState.READY,
            "state": str(tenant.state),
            "since": wall_time(time.monotonic() - tenant.since),
            "queue": work.queue.ready(tenant.key),
            "delayed": work.queue.depth(tenant.key) - work.queue.ready(tenant.key),
            "waiting": 0,
            "lastError": tenant.last_error or None,
        }
    return shown


def troubles_metric(registry: TenantRegistry) -> Metric:
    """Return the number of tenants that are not served, by condition of their VirtualClusters, to alert on."""
    counts = Counter(trouble.type for trouble in registry.troubles())
    family = GaugeMetricFamily(
        "vcsync_tenants_in_trouble", "Tenants that are not served, by condition", labels=["type"]
    )
    for kind in ("WrongControlPlane", "TenantTooLarge"):
        family.add_metric([kind], float(counts[kind]))
    return family


def pool_status(pool: Pool, ledger: Ledger | None = None) -> dict[str, dict[str, Any]]:
    """Return each super cluster's health, capacity, distributed and free amounts, and problems."""
    shown: dict[str, dict[str, Any]] = {}
    for super_id, view in sorted(pool.views.items()):
        silent, judgement = pool.silent_for(super_id), pool.judgement(super_id)
        shown[super_id] = {
            "health": judgement.word,
            "reason": judgement.reason,
            "since": wall_time(time.monotonic() - pool.state_for(super_id)),
            "silentSeconds": None if silent is None else round(silent, 1),
            "cordoned": view.cordoned,
            "draining": view.draining,
            "capacity": to_quantities(view.capacity),
        }
        if ledger is not None:
            dealt = ledger.allocated(super_id)
            shown[super_id]["dealt"] = to_quantities(dealt)
            shown[super_id]["free"] = to_quantities(undistributed(view.capacity, dealt))
    for super_id, problem in pool.problems.items():
        shown.setdefault(super_id, {})["problem"] = problem
    return shown


def pool_troubles(pool: Pool) -> str:
    """Return which super clusters are not healthy, and why, as text; empty if all are."""
    judged = ((super_id, pool.judgement(super_id)) for super_id in sorted(pool.views))
    return "; ".join(
        f"super cluster {super_id} is {judgement.word.lower()}: {judgement.reason}"
        for super_id, judgement in judged
        if judgement.reason
    )


def unanswered(followed: Mapping[str, Reflector]) -> str:
    """Return which server does not answer any more, as text; empty if all do.

    Args:
        followed: name of a server -> one of its reflectors.
    """
    for server, reflector in followed.items():
        if reflector.stale_since is not None:
            silent_for = time.monotonic() - reflector.stale_since
            if silent_for > STALE_SECONDS:
                return f"the {server} has not answered for {lasting(silent_for)}"
    return ""


def last_errors(*works: WorkerPool[Any], most: int = _MOST_ERRORS) -> list[dict[str, Any]]:
    """Return the newest errors of items, newest first, in the same form for every role.

    Args:
        works: worker pools of the items.
        most: largest number of errors to return.
    """
    everything = (entry for work in works for entry in work.last_errors.items())
    newest = sorted(everything, key=lambda entry: -entry[1].time)[:most]
    return [
        {
            "time": wall_time(error.time),
            "tenant": tenant,
            "item": _text(item),
            "error": error.message,
            "attempts": error.attempts,
            "reconcile": error.reconcile,
        }
        for (tenant, item), error in newest
    ]


def reconcile_metrics(*works: WorkerPool[Any]) -> Iterable[Metric]:
    """Return how the reconciles of worker pools ended and how long they took, by controller.

    The families are controller-runtime's `reconcile_total` and `reconcile_time_seconds`.
    """
    total = CounterMetricFamily(
        "vcsync_reconcile", "Reconciles by controller and result", labels=["controller", "result"]
    )
    seconds = HistogramMetricFamily(
        "vcsync_reconcile_time_seconds", "How long reconciles take, by controller", labels=["controller"]
    )
    for work in works:
        for (controller, result), count in sorted(work.reconciles.results.items()):
            total.add_metric([controller, result], float(count))
        for controller, durations in sorted(work.reconciles.durations.items()):
            seconds.add_metric([controller], list(durations.cumulative()), durations.total)
    yield total
    yield seconds


def timeline(works: Iterable[WorkerPool[Any]], tenant: str, name: ObjectName) -> list[dict[str, Any]]:
    """Return the last transitions of an object, oldest first, as plain JSON values.

    Args:
        works: the pools whose handlers noted them.
        tenant: the tenant's cluster key.
        name: the object.
    """
    transitions = sorted(transition for work in works for transition in work.timeline.of(tenant, name))
    return [
        {
            "time": unix_time_text(transition.time),
            "controller": transition.controller,
            "reconcile": transition.reconcile,
            "what": transition.what,
            "version": transition.version,
        }
        for transition in transitions
    ]


def _text(item: Any) -> str:
    return "/".join(item) if isinstance(item, tuple) else str(item)


def wall_time(moment: float) -> str:
    """Convert a `time.monotonic()` of this process to RFC 3339 text."""
    return unix_time_text(time.time() - time.monotonic() + moment)


def skipped_metric(reflectors: Iterable[Reflector]) -> Metric:
    """Return the number of objects that cannot be read or processed at present, by resource, to alert on."""
    counts: Counter[str] = Counter()
    for reflector in reflectors:
        if reflector.skipped:
            counts[reflector.resource.plural] += reflector.skipped
    family = GaugeMetricFamily(
        "vcsync_skipped_objects", "Objects that cannot be read or processed, by resource", labels=["resource"]
    )
    for resource, count in sorted(counts.items()):
        family.add_metric([resource], float(count))
    return family


def shared_skipped(reflectors: Iterable[Reflector]) -> dict[str, Any]:
    """Return the skipped objects of reflectors that all tenants share, by resource; empty if there are none."""
    by_resource = {reflector.resource.plural: skipped_objects(reflector) for reflector in reflectors}
    skipped = {resource: objects for resource, objects in by_resource.items() if objects}
    return {"skipped": skipped} if skipped else {}


def skipped_objects(reflector: Reflector) -> dict[str, Any]:
    """Return the objects that a reflector could not process, each with the reason; empty if there are none."""
    statistics = reflector.statistics()
    if not statistics.skipped_total:
        return {}
    skipped = {"/".join(filter(None, key)): reason for key, reason in statistics.skipped.items()}
    return {"skipped": skipped, "skippedTotal": statistics.skipped_total}
