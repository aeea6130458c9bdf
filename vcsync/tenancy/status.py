"""How roles show their tenants and the pool to operators."""

import time
from datetime import UTC, datetime
from typing import Any

from vcsync.fairqueue import WorkerPool
from vcsync.kube.reflector import Reflector
from vcsync.scheduling.ledger import Ledger
from vcsync.scheduling.resources import to_quantities
from vcsync.tenancy.pool import Pool
from vcsync.tenancy.registry import TenantRegistry, TenantState

_MOST_ERRORS = 20


def tenants_status(registry: TenantRegistry, work: WorkerPool[Any]) -> dict[str, dict[str, Any]]:
    """Every tenant (and every refused VirtualCluster, by its name) with its state and its queue."""
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


def pool_status(pool: Pool, ledger: Ledger | None = None) -> dict[str, dict[str, Any]]:
    """Every super cluster with its health and capacity, what is dealt out of it, and what is wrong with it."""
    shown: dict[str, dict[str, Any]] = {}
    for super_id, view in sorted(pool.views.items()):
        silent = pool.silent_for(super_id)
        shown[super_id] = {
            "health": view.health.name.capitalize(),
            "silentSeconds": None if silent is None else round(silent, 1),
            "cordoned": view.cordoned,
            "draining": view.draining,
            "capacity": to_quantities(view.capacity),
        }
        if ledger is not None:
            shown[super_id]["dealt"] = to_quantities(ledger.allocated(super_id))
    for super_id, problem in pool.problems.items():
        shown.setdefault(super_id, {})["problem"] = problem
    return shown


def last_errors(work: WorkerPool[Any]) -> list[dict[str, str]]:
    """The newest errors of work items, newest first."""
    newest = sorted(work.last_errors.items(), key=lambda entry: -entry[1].time)[:_MOST_ERRORS]
    return [
        {"time": wall_time(error.time), "what": f"{tenant}: {_text(item)}", "error": error.message}
        for (tenant, item), error in newest
    ]


def _text(item: Any) -> str:
    return "/".join(item) if isinstance(item, tuple) else str(item)


def wall_time(moment: float) -> str:
    """A `time.monotonic()` of this process as RFC 3339 text."""
    return datetime.fromtimestamp(time.time() - time.monotonic() + moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def skipped_objects(reflector: Reflector) -> dict[str, Any]:
    """Which objects a reflector could not take, and why; nothing while there is none."""
    seen = reflector.statistics()
    if not seen.skipped_total:
        return {}
    named = {"/".join(filter(None, key)): why for key, why in seen.skipped.items()}
    return {"skipped": named, "skippedTotal": seen.skipped_total}
