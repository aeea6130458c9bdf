"""Counts requests, for the operator of the process and for each tenant."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from vcsync.apiserver.handlers.exchange import Incoming, Outgoing
from vcsync.apiserver.request.caller import ALL, SYSTEM
from vcsync.apiserver.request.reply import Stream
from vcsync.apiserver.serving.tenant_metrics import TenantMetrics
from vcsync.process.stall_counts import STALLS

APPLY = "application/apply-patch"
"""Prefix of the content types of server-side apply."""


class RequestMetrics:
    """Metrics of requests. Their number does not depend on tenants or resources.

    Attributes:
        registry: Holds the metrics of the process.
        tenants: Counts the requests of each tenant.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(STALLS)
        self.requests = Counter(
            "apiserver_request_total", "Requests by verb and code.", ("verb", "code"), registry=self.registry
        )
        self.seconds = Histogram(
            "apiserver_request_duration_seconds", "Duration of answers.", ("verb",), registry=self.registry
        )
        self.long_running = Gauge("apiserver_longrunning_requests", "Open watches.", registry=self.registry)
        self.defects = Counter(
            "apiserver_defects_total",
            "Requests, and changes of the store, that met an unexpected error; the log has each of them.",
            registry=self.registry,
        )
        self.aside = Gauge(
            "vcsync_tenants_set_aside",
            "Tenants that only the operator reaches, because their work stalled the server.",
            registry=self.registry,
        )
        self.tenants = TenantMetrics()

    def text(self, tenant: str) -> bytes:
        """Return the metrics that a tenant may read: those of its own requests, or of the process for the system."""
        return generate_latest(self.registry) if tenant in (SYSTEM, ALL) else self.tenants.text(tenant)


def count_request(metrics: RequestMetrics, incoming: Incoming, outgoing: Outgoing) -> None:
    """Count an authorized request among those of its tenant."""
    if incoming.tenant and outgoing.info is not None:
        code = 200 if isinstance(outgoing.answer, Stream) else outgoing.answer.status
        applies = incoming.headers.get("Content-Type", "").startswith(APPLY)
        metrics.tenants.count(incoming.tenant, outgoing.info, code, applies=applies)
