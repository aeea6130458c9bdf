"""The interface through which roles report their state to operators, and the merged responses of all roles."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from vcsync.fairqueue import ObjectName
from vcsync.process.stall_counts import STALLS
from vcsync.status.plain import plain

MAX_SERIES_PER_FAMILY = 5_000
"""Most samples of a metric family in a response. Further samples are dropped and counted."""


STEP_ITEMS = 10
"""Items of an iterator in the state of a role that are converted before the event loop runs other tasks. Each may have a
hundred lines."""


class StatusSource(Protocol):
    """A role, or a part of one, for the status endpoint.

    The event loop calls the methods while it serves a request. They must be fast and must not do I/O.
    """

    def ready(self) -> tuple[bool, str]:
        """Return whether the role does its work now, and if not, or only partly, the reason in one sentence."""
        ...

    def status(self) -> dict[str, Any]:
        """Return the state of the role as JSON values, without secrets. Long lists at its top level are iterators."""
        ...

    def metrics(self) -> Iterable[Metric]:
        """Return metric families with a bounded number of series, named ``vcsync_...``."""
        ...


@runtime_checkable
class TimelineSource(Protocol):
    """A role that keeps the last transitions of objects."""

    def timeline(self, tenant: str, name: ObjectName) -> list[dict[str, Any]]:
        """Return the last transitions of an object, oldest first.

        Each has `time`, `controller`, `reconcile`, `what` and `version`.

        Args:
            tenant: Cluster key of the tenant, or its name in an embedded control plane.
            name: The object.
        """
        ...


def timelines(
    sources: Mapping[str, StatusSource], tenants: Sequence[str], name: ObjectName
) -> list[dict[str, Any]]:
    """Return the transitions of an object in all roles, oldest first. Each names its role as `source`."""
    found = [
        {"source": role, **transition}
        for role, source in sorted(sources.items())
        if isinstance(source, TimelineSource)
        for tenant in tenants
        for transition in source.timeline(tenant, name)
    ]
    return sorted(found, key=lambda transition: str(transition["time"]))


def readiness(sources: Mapping[str, StatusSource]) -> tuple[bool, list[str]]:
    """Return the readiness of all sources.

    Returns:
        Whether all are ready, and one line for each source: ``[+] name`` or ``[-] name: reason``.
    """
    lines = []
    all_ready = True
    for name, source in sorted(sources.items()):
        try:
            is_ready, reason = source.ready()
        except Exception as error:  # noqa: BLE001  one broken source must not hide the others
            is_ready, reason = False, _unknown(error)
        all_ready &= is_ready
        mark = "+" if is_ready else "-"
        lines.append(f"[{mark}] {name}" + (f": {reason}" if reason else ""))
    return all_ready, lines


async def statuses(sources: Mapping[str, StatusSource]) -> dict[str, dict[str, Any]]:
    """Return the state of all sources by name. A source that fails has its error as state.

    An iterator becomes a list. The event loop runs other tasks after every `STEP_ITEMS` of its items.
    """
    answers = {}
    for name, source in sorted(sources.items()):
        try:
            is_ready, reason = source.ready()
            state = {"ready": is_ready, "reason": reason, **source.status()}
            answers[name] = {key: await _plain_in_steps(value) for key, value in state.items()}
        except Exception as error:  # noqa: BLE001  one broken source must not hide the others
            answers[name] = {"ready": False, "reason": _unknown(error)}
    return answers


def _unknown(error: Exception) -> str:
    return f"state is unknown: {type(error).__name__}: {error}"


async def _plain_in_steps(value: Any) -> Any:
    if not isinstance(value, Iterator):
        return plain(value)
    items = []
    for count, item in enumerate(value, 1):
        items.append(plain(item))
        if count % STEP_ITEMS == 0:
            await asyncio.sleep(0)
    return items


class SourcesCollector(Collector):
    """A Prometheus collector that merges the families of all sources. The label ``source`` names the source.

    Args:
        sources: The roles by name.
    """

    def __init__(self, sources: Mapping[str, StatusSource]) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Metric]:
        """Collect the metrics of all sources. Prometheus calls it once for each scrape."""
        families: dict[str, Metric] = {}
        dropped = Metric(
            "vcsync_status_dropped_series", "Series dropped from this response because of its limit", "gauge"
        )
        failed = Metric(
            "vcsync_status_failed_source", "1 if the source failed to return its metrics", "gauge"
        )
        ready = Metric("vcsync_ready", "1 if the source does its work now", "gauge")
        for name, source in sorted(self._sources.items()):
            try:
                is_ready = source.ready()[0]
                collected = list(source.metrics())
            except Exception:  # noqa: BLE001  one broken source must not hide the others
                failed.add_sample(failed.name, {"source": name}, 1.0)
                continue
            ready.add_sample(ready.name, {"source": name}, float(is_ready))
            failed.add_sample(failed.name, {"source": name}, 0.0)
            for family in collected:
                _merge(families, dropped, name, family)
        yield from families.values()
        yield from (ready, failed, dropped)


def _merge(families: dict[str, Metric], dropped: Metric, source: str, family: Metric) -> None:
    """Add the family of a source to the merged family of the same name."""
    target = families.get(family.name)
    if target is None:
        target = Metric(family.name, family.documentation, family.type, family.unit)
        families[family.name] = target
    room = max(0, MAX_SERIES_PER_FAMILY - len(target.samples))
    for sample in family.samples[:room]:
        target.add_sample(sample.name, {**sample.labels, "source": source}, sample.value)
    if len(family.samples) > room:
        labels = {"family": family.name, "source": source}
        dropped.add_sample(dropped.name, labels, float(len(family.samples) - room))


def registry(sources: Mapping[str, StatusSource]) -> CollectorRegistry:
    """Return a new registry with the metrics of the process and of all sources."""
    own = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=own)
    own.register(SourcesCollector(sources))
    own.register(STALLS)
    return own
