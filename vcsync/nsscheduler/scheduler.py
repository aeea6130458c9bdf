"""The role namespace scheduler: takes part in the election, leads, and reports its state to operators."""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import to_builtins
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from vcsync.api import names
from vcsync.fairqueue import ObjectName
from vcsync.kube.client import Client
from vcsync.nsscheduler.leadership import Leadership
from vcsync.nsscheduler.reconcile import Plan
from vcsync.nsscheduler.settings import Settings
from vcsync.scheduling.resources import to_quantities
from vcsync.tenancy.brake import Releases
from vcsync.tenancy.status import (
    last_errors,
    pool_status,
    reconcile_metrics,
    shared_skipped,
    skipped_metric,
    skipped_objects,
    tenants_status,
    timeline,
    troubles_metric,
)
from vcsync.tenancy.terms import Terms


class NamespaceScheduler:
    """Distributes the quotas of all tenants' namespaces over the pool of super clusters.

    Args:
        meta: client of the meta cluster; the caller closes it.
        identity: name of this process in the election; unique.
        leader_elect: whether to lead only while holding the Lease. Disable it only if no other process exists.
        settings: the operator's settings.
        make_client: makes a tenant's client from a kubeconfig and a cluster key; for tests.
    """

    def __init__(
        self,
        meta: Client,
        *,
        identity: str,
        leader_elect: bool = True,
        settings: Settings | None = None,
        make_client: Callable[[bytes, str], Client] | None = None,
    ) -> None:
        releases = Releases()
        self._terms = Terms(
            meta,
            names.ROLE_NSSCHEDULER,
            identity=identity,
            leader_elect=leader_elect,
            begin=lambda lease: Leadership(
                meta, settings or Settings(), make_client=make_client, lease=lease, releases=releases
            ),
        )

    async def run(self) -> None:
        """Schedule until cancelled."""
        await self._terms.run()

    def explain_namespace(self, tenant: str, namespace: str) -> dict[str, Any] | None:
        """Return the last decision on a namespace as plain data; None if there was none in this term."""
        term = self._terms.current
        plan = None if term is None else term.outcomes.get((tenant, namespace))
        return None if plan is None else _explain(plan)

    def ready(self) -> tuple[bool, str]:
        """Return whether the role works, and if not, why."""
        return self._terms.ready("VirtualClusters, SuperClusters and NamespacePlacements")

    def status(self) -> dict[str, Any]:
        """Return the state of the role as plain JSON values."""
        term = self._terms.current
        shown = self._terms.status()
        if term is None:
            return shown
        tenants = tenants_status(term.registry, term.work)
        for key, session in term.tenants.items():
            reflectors = {"namespaces": session.namespaces, "resourcequotas": session.quotas}
            tenants[key]["kinds"] = {
                kind: {
                    "objects": len(reflector.cache),
                    "synced": reflector.synced,
                    **skipped_objects(reflector),
                }
                for kind, reflector in reflectors.items()
            }
            if session.definitions.troubles:
                tenants[key]["definitions"] = dict(session.definitions.troubles)
        for tenant, _namespace in term.waiting:
            if tenant in tenants:
                tenants[tenant]["waiting"] += 1
        queue = term.work.queue.statistics()
        if problem := term.failure_writer.problem:
            shown = shown | {"failureRecords": problem}
        return shown | {
            "tenants": tenants,
            "superClusters": pool_status(term.pool, term.ledger),
            "placements": len(term.ledger),
            **shared_skipped(term.shared()),
            "braked": [to_builtins(brake) for brake in term.limiter.braked.values()],
            "queues": {"namespaces": queue.queued, "delayed": queue.delayed, "inProcess": queue.in_process},
            "waiting": [
                {"tenant": tenant, "namespace": namespace, "reason": term.outcomes[tenant, namespace].message}
                for tenant, namespace in list(term.waiting)[:100]
                if (tenant, namespace) in term.outcomes
            ],
            "lastErrors": last_errors(term.work),
        }

    def timeline(self, tenant: str, name: ObjectName) -> list[dict[str, Any]]:
        """Return the last transitions of a tenant's object, oldest first."""
        term = self._terms.current
        return [] if term is None else timeline([term.work], tenant, name)

    def metrics(self) -> Iterable[Metric]:
        """Yield the metric families. Their size does not grow with the number of namespaces."""
        term = self._terms.current
        yield self._terms.leading()
        if term is None:
            return
        yield from reconcile_metrics(term.work)
        statistics = term.work.queue.statistics()
        for name, text, value in (
            ("queued", "Namespaces in the queue that are due", statistics.queued),
            ("delayed", "Namespaces in the queue that are due later", statistics.delayed),
            ("placements", "Namespaces in the ledger", len(term.ledger)),
            ("waiting", "Namespaces with slices that wait", len(term.waiting)),
            (
                "braked",
                "Tenants and kinds of objects whose removal waits for an operator",
                len(term.limiter.braked),
            ),
        ):
            gauge = GaugeMetricFamily(f"vcsync_nsscheduler_{name}", text)
            gauge.add_metric([], float(value))
            yield gauge
        yield troubles_metric(term.registry)
        sessions = term.tenants.values()
        followed = [each for session in sessions for each in (session.namespaces, session.quotas)]
        yield skipped_metric([*term.shared(), *followed])
        decisions = CounterMetricFamily(
            "vcsync_nsscheduler_decisions", "Changes of namespaces' states by new state", labels=["reason"]
        )
        for reason, count in sorted(term.decisions.items()):
            decisions.add_metric([reason], float(count))
        yield decisions


def _explain(plan: Plan) -> dict[str, Any]:
    """Return a decision as plain data."""
    decision = plan.decision
    shown: dict[str, Any] = {"reason": plan.reason, "message": plan.message}
    if decision is None:
        return shown
    return shown | {
        "quota": to_quantities(plan.quota),
        "sliceSize": to_quantities(plan.size | plan.objects),
        "slices": plan.slices,
        "placements": decision.placements,
        "waiting": decision.waiting,
        "refused": [refusal.message for refusal in decision.refusals],
        "superClusters": [
            {
                "id": entry.super_id,
                "slices": entry.slices,
                "kept": entry.kept,
                "score": entry.score,
                "refused": {refusal.filter: refusal.message for refusal in entry.refusals},
            }
            for entry in decision.explanation
        ],
    }
