"""The audit log as the process has it: opened from settings, counted for /metrics, flushed at the end."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from vcsync.controlplane.audit import policy
from vcsync.controlplane.audit.auditor import Auditor
from vcsync.controlplane.audit.events import LARGEST_EVENT
from vcsync.controlplane.audit.files import Bounds, Files
from vcsync.controlplane.audit.writer import Writer


class Exists(Protocol):
    """Tells whether there is a tenant."""

    def __call__(self, tenant: str) -> bool:
        """Whether there is."""
        ...


@dataclass(frozen=True)
class AuditSettings:
    """What the operator asked for. `folder`: of the logs; `largest`: bytes of an event."""

    policy_file: Path
    folder: Path
    bounds: Bounds = field(default_factory=Bounds)
    largest: int = LARGEST_EVENT


class AuditLog(Collector):
    """The log of all tenants."""

    def __init__(self, settings: AuditSettings) -> None:
        """Open it.

        Raises:
            PolicyError: the policy file is none.
            OSError: a file cannot be read, or the folder not used.
        """
        rules = policy.read(settings.policy_file.read_bytes())
        files = Files(settings.folder, settings.bounds, time.time)
        self._writer = Writer(files, settings.largest, time.monotonic)
        self.auditor = Auditor(rules, self._writer, time.time_ns)

    def start(self) -> None:
        """Begin to write."""
        self._writer.start()

    def stop(self) -> None:
        """Write what is queued, and end; blocks for a few seconds at most."""
        self._writer.stop()

    def register(self, registry: CollectorRegistry) -> None:
        """Show its counts in a registry."""
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Yield kube-apiserver's series: events, events lost, requests by level."""
        yield CounterMetricFamily(
            "apiserver_audit_event", "Audit events written.", value=self._writer.written
        )
        lost = CounterMetricFamily(
            "apiserver_audit_error", "Audit events that were not written.", labels=["plugin"]
        )
        lost.add_metric(["log"], self._writer.dropped)
        yield lost
        levels = CounterMetricFamily("apiserver_audit_level", "Requests by audit level.", labels=["level"])
        for level, count in self.auditor.counts.items():
            levels.add_metric([_NAMES[level]], count)
        yield levels


_NAMES = {each: name for name, each in policy.LEVELS.items()}
