"""Counts requests that limits refused, for the operator's metrics and log. Neither grows with the number of tenants."""

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

MAX_TENANTS = 200
"""Tenants with a label of their own."""

NEWS_SECONDS = 600.0
"""Time after which refusals of the same kind are news again."""

OTHER = "other"
"""Label of all other tenants together. A tenant of this name is counted among them."""


class RefusalCounts(Collector):
    """The counts of one process.

    A tenant gets a label when one of its requests is first refused, as long as there are labels left, and keeps it.

    Args:
        most: Tenants with a label of their own.
    """

    def __init__(self, most: int = MAX_TENANTS) -> None:
        self._most = most
        self._tenants: set[str] = set()
        self._counts: dict[tuple[str, str, str], int] = {}
        self._told: dict[tuple[str, str, str], float] = {}
        self._last: dict[tuple[str, str, str], float] = {}

    def add(self, tenant: str, holder: str, limit: str, now: float) -> bool:
        """Count a refused request. Returns whether it is news: the first of its kind within `NEWS_SECONDS`.

        Args:
            tenant: The tenant.
            holder: Whose limit it was; one of few words.
            limit: The limit; one of few words.
            now: Seconds of a clock that never goes back.
        """
        if tenant not in self._tenants:
            if len(self._tenants) < self._most:
                self._tenants.add(tenant)
            else:
                tenant = OTHER
        key = (tenant, holder, limit)
        self._counts[key] = self._counts.get(key, 0) + 1
        self._last[key] = now
        is_news = key not in self._told or now - self._told[key] >= NEWS_SECONDS
        if is_news:
            self._told[key] = now
        return is_news

    def recently(self, now: float) -> dict[str, list[str]]:
        """Return the limits that refused requests within `NEWS_SECONDS`, as `HOLDER/LIMIT`, by the tenant's label."""
        found: dict[str, list[str]] = {}
        for (tenant, holder, limit), at in self._last.items():
            if now - at < NEWS_SECONDS:
                found.setdefault(tenant, []).append(f"{holder}/{limit}")
        return found

    def describe(self) -> Iterable[Metric]:
        """Return nothing: the name of the metric need not be known before the first collection."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Return the metric."""
        family = CounterMetricFamily(
            "vcsync_tenant_refused_requests_total",
            "Requests of tenants that were refused because a limit was reached.",
            labels=("tenant", "holder", "limit"),
        )
        for labels, count in sorted(self._counts.items()):
            family.add_metric(labels, count)
        yield family
