"""Counts requests, for operators of the whole process and for each tenant."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from vcsync.controlplane.identity.caller import ALL, SYSTEM
from vcsync.controlplane.rest.metering import Meter
from vcsync.controlplane.rest.reply import Stream
from vcsync.controlplane.rest.way import Incoming, Outgoing

APPLY = "application/apply-patch"


class Metrics:
    """Counts requests; a handful of series."""

    def __init__(self) -> None:
        """Make the series."""
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "apiserver_request_total", "Requests by verb and code.", ("verb", "code"), registry=self.registry
        )
        self.seconds = Histogram(
            "apiserver_request_duration_seconds", "Duration of answers.", ("verb",), registry=self.registry
        )
        self.watches = Gauge("apiserver_longrunning_requests", "Open watches.", registry=self.registry)
        self.defects = Counter(
            "apiserver_defects_total",
            "Requests, and changes of the store, that met an unexpected error; the log tells of each.",
            registry=self.registry,
        )
        self.tenants = Meter()

    def text(self, tenant: str) -> bytes:
        """Write what a tenant may read: its own requests; the system space reads of the whole process."""
        return generate_latest(self.registry) if tenant in (SYSTEM, ALL) else self.tenants.text(tenant)


def count(metrics: Metrics, incoming: Incoming, outgoing: Outgoing) -> None:
    """Count a request that was let in among those of its tenant."""
    if incoming.tenant and outgoing.info is not None:
        code = 200 if isinstance(outgoing.answer, Stream) else outgoing.answer.status
        applies = incoming.headers.get("Content-Type", "").startswith(APPLY)
        metrics.tenants.count(incoming.tenant, outgoing.info, code, applies=applies)
