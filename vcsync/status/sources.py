"""What a role shows to operators, and how the answers of several roles are put together."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from vcsync.status.plain import plain

MAX_SERIES_PER_FAMILY = 5_000
"""Samples one metric family may have in one answer; what is beyond is dropped and counted."""


STEP_ITEMS = 10
"""Items of an iterator in a role's state that are told before the event loop is let go; each may have a hundred lines."""


class StatusSource(Protocol):
    """One role (or a part of one) as the status endpoint sees it.

    All three are called in the event loop while a request is answered: they must be quick and do no I/O.
    """

    def ready(self) -> tuple[bool, str]:
        """Say whether the role does its work now, and if not (or only partly) why in one sentence."""
        ...

    def status(self) -> dict[str, Any]:
        """Return the role's state as plain JSON values, free of secrets; long lists at its top level as iterators."""
        ...

    def metrics(self) -> Iterable[Metric]:
        """Return metric families with a bounded number of series, named ``vcsync_...``."""
        ...


def readiness(sources: Mapping[str, StatusSource]) -> tuple[bool, list[str]]:
    """Ask every source whether it is ready.

    Returns:
        Whether all are, and one line per source: ``[+] name`` or ``[-] name: reason``.
    """
    lines = []
    everything = True
    for name, source in sorted(sources.items()):
        try:
            is_ready, reason = source.ready()
        except Exception as error:  # noqa: BLE001  one broken source must not hide the others
            is_ready, reason = False, f"cannot say: {type(error).__name__}: {error}"
        everything &= is_ready
        mark = "+" if is_ready else "-"
        lines.append(f"[{mark}] {name}" + (f": {reason}" if reason else ""))
    return everything, lines


async def statuses(sources: Mapping[str, StatusSource]) -> dict[str, dict[str, Any]]:
    """Return the state of every source by name; a source that fails shows its error instead.

    A value that is an iterator becomes a list, and the event loop is let go after every `STEP_ITEMS` of its items.
    """
    answers = {}
    for name, source in sorted(sources.items()):
        try:
            is_ready, reason = source.ready()
            state = {"ready": is_ready, "reason": reason, **source.status()}
            answers[name] = {key: await _plain_in_steps(value) for key, value in state.items()}
        except Exception as error:  # noqa: BLE001  one broken source must not hide the others
            answers[name] = {"ready": False, "reason": f"cannot say: {type(error).__name__}: {error}"}
    return answers


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
    """A Prometheus collector that merges the families of all sources, told apart by the label ``source``."""

    def __init__(self, sources: Mapping[str, StatusSource]) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Metric]:
        """Ask every source anew; called once per scrape."""
        families: dict[str, Metric] = {}
        dropped = Metric(
            "vcsync_status_dropped_series", "Series left out of this answer to bound it", "gauge"
        )
        failed = Metric("vcsync_status_failed_source", "1 if the source could not give its metrics", "gauge")
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
    """Add one source's family to the merged one of the same name."""
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
    """Return a registry of its own with the process's figures and everything the sources have to say."""
    own = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=own)
    own.register(SourcesCollector(sources))
    return own
