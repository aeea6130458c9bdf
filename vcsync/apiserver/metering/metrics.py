"""Metrics of what tenants use, for the operator. Their number does not grow with the number of tenants."""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from vcsync.apiserver.metering.counters import Amounts, Counters

MAX_TENANTS = 200
"""Tenants with a label of their own."""

OTHER = "other"
"""Label of all other tenants together. A tenant of this name is counted among them."""

_SERIES: tuple[tuple[str, str, Callable[[Amounts], float]], ...] = (
    ("vcsync_tenant_reads_total", "Requests of tenants that read.", lambda used: used.reads),
    ("vcsync_tenant_writes_total", "Other requests of tenants.", lambda used: used.writes),
    ("vcsync_tenant_received_bytes_total", "Bytes of bodies of requests.", lambda used: used.bytes_in),
    ("vcsync_tenant_sent_bytes_total", "Bytes of bodies of answers.", lambda used: used.bytes_out),
    (
        "vcsync_tenant_watch_seconds_total",
        "Time during which watches were open, added up over all watches.",
        lambda used: used.watch_milliseconds / 1000,
    ),
)


class TenantUsage(Collector):
    """The metrics of one process.

    A tenant gets a label when it is first seen, as long as there are labels left, and keeps it until the process ends. So
    no counter decreases.

    Args:
        totals: Returns the counters of each tenant with what it has used of this process.
        most: Tenants with a label of their own.
    """

    def __init__(
        self, totals: Callable[[], Iterator[tuple[Counters, Amounts]]], most: int = MAX_TENANTS
    ) -> None:
        self._totals = totals
        self._most = most
        self._sums: dict[str, Amounts] = {OTHER: Amounts()}
        self._last: dict[str, Amounts] = {}

    def describe(self) -> Iterable[Metric]:
        """Return nothing: the names of the metrics need not be known before the first collection."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Return the metrics, with what was used since the last call added."""
        last = {}
        for counters, amounts in self._totals():
            label = self._label(counters.tenant)
            grown = amounts.minus(self._last.get(counters.uid, Amounts()))
            self._sums[label] = self._sums.get(label, Amounts()).plus(grown)
            last[counters.uid] = amounts
        self._last = last
        for name, text, value in _SERIES:
            family = CounterMetricFamily(name, text, labels=("tenant",))
            for label, amounts in sorted(self._sums.items()):
                family.add_metric((label,), value(amounts))
            yield family

    def _label(self, tenant: str) -> str:
        return tenant if tenant in self._sums or len(self._sums) <= self._most else OTHER
