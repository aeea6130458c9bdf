"""The role: stands for election, leads, and shows operators what it does."""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import to_builtins
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from vcsync.api import names
from vcsync.kube.client import Client
from vcsync.nsscheduler.leadership import Leadership
from vcsync.nsscheduler.reconcile import Wish
from vcsync.nsscheduler.settings import Settings
from vcsync.scheduling.resources import to_quantities
from vcsync.tenancy.status import last_errors, pool_status, skipped_objects, tenants_status
from vcsync.tenancy.terms import Terms


class NamespaceScheduler:
    """Deals the quotas of all tenants' namespaces out over the pool of super clusters.

    Args:
        meta: the meta cluster; stays the caller's to close.
        identity: who we are in the election; different for each process.
        leader_elect: lead only while holding the Lease; False if there is certainly no other.
        settings: see there.
        make_client: how a tenant's client is made of a kubeconfig and its cluster key.
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
        self._terms = Terms(
            meta,
            names.ROLE_NSSCHEDULER,
            identity=identity,
            leader_elect=leader_elect,
            begin=lambda office: Leadership(
                meta, settings or Settings(), make_client=make_client, office=office
            ),
        )

    async def run(self) -> None:
        """Schedule until cancelled."""
        await self._terms.run()

    def explain_namespace(self, tenant: str, namespace: str) -> dict[str, Any] | None:
        """The last decision on a namespace, as plain data; None if there was none in this term."""
        term = self._terms.current
        wish = None if term is None else term.outcomes.get((tenant, namespace))
        return None if wish is None else _explain(wish)

    def ready(self) -> tuple[bool, str]:
        """Whether it does its work now."""
        return self._terms.ready("VirtualClusters, SuperClusters and NamespacePlacements")

    def status(self) -> dict[str, Any]:
        """The state of the role as plain JSON values."""
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
        for tenant, _namespace in term.waiting:
            if tenant in tenants:
                tenants[tenant]["waiting"] += 1
        queue = term.work.queue.statistics()
        return shown | {
            "tenants": tenants,
            "superClusters": pool_status(term.pool, term.ledger),
            "placements": len(term.ledger),
            "braked": [to_builtins(brake) for brake in term.gate.braked.values()],
            "queues": {"namespaces": queue.queued, "delayed": queue.delayed, "inProcess": queue.in_process},
            "waiting": [
                {"tenant": tenant, "namespace": namespace, "reason": term.outcomes[tenant, namespace].message}
                for tenant, namespace in list(term.waiting)[:100]
                if (tenant, namespace) in term.outcomes
            ],
            "lastErrors": last_errors(term.work),
        }

    def metrics(self) -> Iterable[Metric]:
        """Metric families; none grows with the number of namespaces."""
        term = self._terms.current
        yield self._terms.leading()
        if term is None:
            return
        statistics = term.work.queue.statistics()
        for name, text, value in (
            ("queued", "Namespaces that are to be looked at", statistics.queued + statistics.delayed),
            ("placements", "Namespaces in the ledger", len(term.ledger)),
            ("waiting", "Namespaces with slices that wait", len(term.waiting)),
            ("braked", "Placements that would go, too many to be believed, by tenant", len(term.gate.braked)),
        ):
            gauge = GaugeMetricFamily(f"vcsync_nsscheduler_{name}", text)
            gauge.add_metric([], float(value))
            yield gauge
        decisions = CounterMetricFamily(
            "vcsync_nsscheduler_decisions", "Changes in how a namespace stands, by outcome", labels=["reason"]
        )
        for reason, count in sorted(term.decisions.items()):
            decisions.add_metric([reason], float(count))
        yield decisions


def _explain(wish: Wish) -> dict[str, Any]:
    """A decision as plain data."""
    decision = wish.decision
    shown: dict[str, Any] = {"reason": wish.reason, "message": wish.message}
    if decision is None:
        return shown
    return shown | {
        "quota": to_quantities(wish.quota),
        "sliceSize": to_quantities(wish.size | wish.objects),
        "slices": wish.slices,
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
