"""The role: stands for election, leads, and shows operators what it does."""

from collections.abc import Callable, Iterable
from typing import Any

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
    SummaryMetricFamily,
)

from vcsync.api import names
from vcsync.kube.client import Client
from vcsync.podscheduler.leadership import Leadership
from vcsync.podscheduler.settings import Settings
from vcsync.podscheduler.tenant import Outcome
from vcsync.tenancy.status import last_errors, pool_status, skipped_objects, tenants_status
from vcsync.tenancy.terms import Terms


class PodScheduler:
    """Gives every Pod of every tenant to one super cluster where its namespace holds slices.

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
            names.ROLE_PODSCHEDULER,
            identity=identity,
            leader_elect=leader_elect,
            begin=lambda _office: Leadership(meta, settings or Settings(), make_client=make_client),
        )

    async def run(self) -> None:
        """Schedule until cancelled."""
        await self._terms.run()

    def explain_pod(self, tenant: str, namespace: str, name: str) -> dict[str, Any] | None:
        """The last decision on a Pod, as plain data; None if there was none in this term or it is long ago."""
        term = self._terms.current
        outcome = None if term is None else term.outcomes.get((tenant, namespace, name))
        return None if outcome is None else _explain(outcome)

    def ready(self) -> tuple[bool, str]:
        """Whether it does its work now."""
        return self._terms.ready("SuperClusters and NamespacePlacements")

    def status(self) -> dict[str, Any]:
        """The state of the role as plain JSON values."""
        term = self._terms.current
        shown = self._terms.status()
        if term is None:
            return shown
        tenants = tenants_status(term.registry, term.work)
        for key, session in term.tenants.items():
            book = session.pods.book
            tenants[key]["kinds"] = {
                "pods": {
                    "objects": len(book.pods),
                    "synced": session.reflector.synced,
                    **skipped_objects(session.reflector),
                }
            }
            tenants[key]["waiting"] = book.waiting_count()
        queue = term.work.queue.statistics()
        return shown | {
            "tenants": tenants,
            "superClusters": pool_status(term.pool),
            "queues": {"pods": queue.queued, "delayed": queue.delayed, "inProcess": queue.in_process},
            "lastErrors": last_errors(term.work),
        }

    def metrics(self) -> Iterable[Metric]:
        """Metric families; none grows with the number of Pods."""
        term = self._terms.current
        yield self._terms.leading()
        if term is None:
            return
        statistics = term.work.queue.statistics()
        queued = GaugeMetricFamily("vcsync_podscheduler_queued", "Pods that are to be looked at")
        queued.add_metric([], float(statistics.queued + statistics.delayed))
        yield queued
        waiting = GaugeMetricFamily(
            "vcsync_podscheduler_waiting", "Pods for which there is no place", labels=["tenant"]
        )
        for key, session in sorted(term.tenants.items()):
            waiting.add_metric([key], float(session.pods.book.waiting_count()))
        yield waiting
        decisions = CounterMetricFamily(
            "vcsync_podscheduler_decisions", "Decisions by outcome", labels=["outcome"]
        )
        for outcome, count in sorted(term.counts.items()):
            decisions.add_metric([outcome], float(count))
        yield decisions
        latency = SummaryMetricFamily(
            "vcsync_podscheduler_latency_seconds", "From seeing a Pod to having written its super cluster"
        )
        latency.add_metric([], count_value=term.counts["assigned"], sum_value=term.latency_sum)
        yield latency


def _explain(outcome: Outcome) -> dict[str, Any]:
    """A decision as plain data."""
    shown: dict[str, Any] = {"outcome": outcome.kind, "superCluster": outcome.super_id or None}
    if outcome.decision is None:
        return shown
    return shown | {
        "message": outcome.decision.reasons(),
        "superClusters": [
            {
                "id": entry.super_id,
                "score": entry.score,
                "refused": {refusal.filter: refusal.message for refusal in entry.refusals},
            }
            for entry in outcome.decision.explanation
        ],
    }
