"""The role: takes part in the election, leads, and reports its state to operators."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
    SummaryMetricFamily,
)

from vcsync.api import names
from vcsync.fairqueue import ObjectName
from vcsync.kube.client import Client
from vcsync.podscheduler.leadership import Leadership
from vcsync.podscheduler.promises import Promise
from vcsync.podscheduler.settings import Settings
from vcsync.podscheduler.tenant import Outcome
from vcsync.podscheduler.webhook_callers import Callers
from vcsync.podscheduler.webhook_service import WebhookService
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


class PodScheduler:
    """Assigns every Pod of every tenant to one super cluster on which its namespace has slices.

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
        own = settings or Settings()
        self._terms = Terms(
            meta,
            names.ROLE_PODSCHEDULER,
            identity=identity,
            leader_elect=leader_elect,
            begin=lambda lease: Leadership(meta, own, lease=lease, make_client=make_client),
        )
        self.webhook = None if own.webhook is None else WebhookService(meta, own.webhook, self._callers)

    async def run(self) -> None:
        """Schedule until cancelled."""
        if self.webhook is None:
            await self._terms.run()
            return
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.webhook.run(), name="placement-webhook")
            await self._terms.run()

    def promise(  # noqa: PLR0917 - parts, each of its own type
        self,
        tenant: str,
        control_plane: str,
        namespace: str,
        name: str,
        spec: bytes,
        labels: Mapping[str, str] | None = None,
    ) -> Promise | None:
        """Promise room to a Pod that is about to be created, for the admission of an API server in the same process.

        Args:
            tenant: the tenant's name.
            control_plane: UID of its control plane.
            namespace: the Pod's namespace.
            name: its name.
            spec: its spec.
            labels: its labels.

        Returns:
            The promise, without a super cluster if the Pod has to wait. None if this process does not lead, does not follow
            the tenant's Pods, or does not schedule this one.
        """
        term = self._terms.current
        return None if term is None else term.promise(tenant, control_plane, namespace, name, spec, labels)

    def _callers(self) -> Callers | None:
        term = self._terms.current
        return None if term is None else term.callers

    def explain_pod(self, tenant: str, namespace: str, name: str) -> dict[str, Any] | None:
        """Return the last decision on a Pod as plain data; None if there was none in this term or it is forgotten."""
        term = self._terms.current
        outcome = None if term is None else term.outcomes.get((tenant, namespace, name))
        return None if outcome is None else _explain(outcome)

    def ready(self) -> tuple[bool, str]:
        """Return whether the role works, and if not, why."""
        return self._terms.ready("SuperClusters and NamespacePlacements")

    def status(self) -> dict[str, Any]:
        """Return the state of the role as plain JSON values."""
        term = self._terms.current
        shown = self._terms.status()
        if self.webhook is not None:
            shown["placementWebhook"] = self.webhook.state
        if term is None:
            return shown
        tenants = tenants_status(term.registry, term.work)
        for key, session in term.tenants.items():
            accounting = session.pods.accounting
            tenants[key]["kinds"] = {
                "pods": {
                    "objects": len(accounting.pods),
                    "synced": session.reflector.synced,
                    **skipped_objects(session.reflector),
                }
            }
            tenants[key]["waiting"] = accounting.waiting_count()
            tenants[key]["promised"] = len(session.pods.promises)
        queue = term.work.queue.statistics()
        return shown | {
            "tenants": tenants,
            "superClusters": pool_status(term.pool),
            **shared_skipped(term.shared()),
            "queues": {"pods": queue.queued, "delayed": queue.delayed, "inProcess": queue.in_process},
            "lastErrors": last_errors(term.work),
        }

    def timeline(self, tenant: str, name: ObjectName) -> list[dict[str, Any]]:
        """Return the last transitions of a tenant's object, oldest first."""
        term = self._terms.current
        return [] if term is None else timeline([term.work], tenant, name)

    def metrics(self) -> Iterable[Metric]:
        """Yield the metric families. Their size does not grow with the number of Pods."""
        term = self._terms.current
        yield self._terms.leading()
        if term is None:
            return
        yield from reconcile_metrics(term.work)
        statistics = term.work.queue.statistics()
        for name, text, value in (
            ("queued", "Pods in the queue that are due", statistics.queued),
            ("delayed", "Pods in the queue that are due later", statistics.delayed),
        ):
            gauge = GaugeMetricFamily(f"vcsync_podscheduler_{name}", text)
            gauge.add_metric([], float(value))
            yield gauge
        waiting = GaugeMetricFamily(
            "vcsync_podscheduler_waiting", "Pods that fit on no super cluster", labels=["tenant"]
        )
        for key, session in sorted(term.tenants.items()):
            waiting.add_metric([key], float(session.pods.accounting.waiting_count()))
        yield waiting
        yield troubles_metric(term.registry)
        yield skipped_metric([*term.shared(), *(session.reflector for session in term.tenants.values())])
        decisions = CounterMetricFamily(
            "vcsync_podscheduler_decisions", "Decisions by outcome", labels=["outcome"]
        )
        for outcome, count in sorted(term.counts.items()):
            decisions.add_metric([outcome], float(count))
        yield decisions
        promises = CounterMetricFamily(
            "vcsync_podscheduler_promises",
            "Answers to the admission of new Pods, and promises that ended without a Pod, by what became of them",
            labels=["outcome"],
        )
        for outcome, count in sorted(term.promise_counts.items()):
            promises.add_metric([outcome], float(count))
        yield promises
        evictions = CounterMetricFamily(
            "vcsync_podscheduler_evictions",
            "Pods on lost super clusters, by what was done with them",
            labels=["outcome"],
        )
        for outcome, count in sorted(term.evictions.counts.items()):
            evictions.add_metric([outcome], float(count))
        yield evictions
        reviews = CounterMetricFamily(
            "vcsync_podscheduler_reviews",
            "Calls of the placement webhook of external control planes, by their answer",
            labels=["outcome"],
        )
        for outcome, count in sorted(term.callers.counts.items()):
            reviews.add_metric([outcome], float(count))
        yield reviews
        latency = SummaryMetricFamily(
            "vcsync_podscheduler_latency_seconds",
            "Time from seeing a Pod to having written its super cluster",
        )
        latency.add_metric([], count_value=term.counts["assigned"], sum_value=term.latency_sum)
        yield latency


def _explain(outcome: Outcome) -> dict[str, Any]:
    """Return a decision as plain data."""
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
