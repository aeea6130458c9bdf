"""The role: takes part in the election, leads, and reports its state to operators."""

from collections.abc import Iterable
from typing import Any

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from vcsync.api import names
from vcsync.fairqueue import ObjectName
from vcsync.kube.client import Client
from vcsync.registration.clients import stored_client
from vcsync.tenancy.status import last_errors, reconcile_metrics, shared_skipped, skipped_metric
from vcsync.tenancy.terms import Terms
from vcsync.tenantcontroller.control_planes import OpenClient
from vcsync.tenantcontroller.leadership import Leadership
from vcsync.tenantcontroller.settings import Settings


class TenantController:
    """Creates and registers the control planes that Tenants describe, and deletes them with the Tenants.

    Args:
        meta: client of the meta cluster; the caller closes it.
        server: client of the server that has embedded control planes; the caller closes it.
        identity: name of this process in the election; unique.
        leader_elect: whether to lead only while holding the Lease. Disable it only if no other process exists.
        settings: the operator's settings.
        open_client: opens clients of control planes; for tests.
    """

    def __init__(
        self,
        meta: Client,
        server: Client,
        *,
        identity: str,
        leader_elect: bool = True,
        settings: Settings | None = None,
        open_client: OpenClient = stored_client,
    ) -> None:
        self._terms = Terms(
            meta,
            names.ROLE_TENANTS,
            identity=identity,
            leader_elect=leader_elect,
            begin=lambda _office: Leadership(meta, server, settings or Settings(), open_client),
        )

    async def run(self) -> None:
        """Work until cancelled."""
        await self._terms.run()

    def ready(self) -> tuple[bool, str]:
        """Return whether the role works, and if not, why."""
        return self._terms.ready("Tenants and VirtualClusters")

    def status(self) -> dict[str, Any]:
        """Return the state of the role as plain JSON values."""
        term = self._terms.current
        shown = self._terms.status()
        if term is None:
            return shown
        queue = term.work.queue.statistics()
        return shown | {
            "phases": dict(sorted(term.counts().items())),
            **shared_skipped((term.tenants, term.templates, term.virtual_clusters)),
            "queues": {"tenants": queue.queued, "delayed": queue.delayed, "inProcess": queue.in_process},
            "lastErrors": last_errors(term.work),
        }

    def timeline(self, _tenant: str, _name: ObjectName) -> list[dict[str, Any]]:
        """Return nothing: the role handles no objects of tenants."""
        return []

    def metrics(self) -> Iterable[Metric]:
        """Yield the metric families. Their size does not grow with the number of Tenants."""
        term = self._terms.current
        yield self._terms.leading()
        if term is None:
            return
        yield from reconcile_metrics(term.work)
        yield skipped_metric((term.tenants, term.templates, term.virtual_clusters))
        phases = GaugeMetricFamily("vcsync_tenants", "Tenants by phase", labels=["phase"])
        counts = term.counts()
        for phase in ("Pending", "Running", "Terminating", "Error"):
            phases.add_metric([phase], float(counts[phase]))
        yield phases
