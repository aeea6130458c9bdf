"""Counts how often work of each tenant stalled the event loop of this process."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client.metrics_core import CounterMetricFamily
from prometheus_client.registry import Collector

MOST_TENANTS = 1_000
"""Tenants to count apart. Stalls of further ones are counted for the tenant with the empty name, like those of nobody."""


class StallCounts(Collector):
    """A Prometheus collector of the number of stalls by tenant."""

    def __init__(self) -> None:
        """Begin with none."""
        self._counts: Counter[str] = Counter()

    def add(self, tenant: str) -> None:
        """Count a stall during the work of a tenant. Empty: whose work it was is unknown, or it was nobody's."""
        known = tenant in self._counts or len(self._counts) < MOST_TENANTS
        self._counts[tenant if known else ""] += 1

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Return the metric. Prometheus calls it once for each scrape."""
        family = CounterMetricFamily(
            "vcsync_event_loop_stalls",
            "How often the event loop stood for a second or longer, by the tenant whose work ran",
            labels=["tenant"],
        )
        for tenant, count in self._counts.copy().items():
            family.add_metric([tenant], float(count))
        yield family


STALLS = StallCounts()
"""The stalls of this process, which has one event loop."""
