"""The audit log of a process: opened from settings, counted in /metrics, and flushed at the end."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from vcsync.apiserver.audit import policy
from vcsync.apiserver.audit.auditor import Auditor
from vcsync.apiserver.audit.events import LARGEST_EVENT
from vcsync.apiserver.audit.files import Bounds, Files
from vcsync.apiserver.audit.writer import Writer


class Exists(Protocol):
    """Returns whether a tenant exists."""

    def __call__(self, tenant: str) -> bool:
        """Return whether a tenant exists."""
        ...


@dataclass(frozen=True)
class AuditSettings:
    """Settings of the audit log.

    Attributes:
        policy_file: The audit policy.
        folder: Folder of the logs.
        bounds: Limits of the files.
        largest: Bytes of the largest event.
    """

    policy_file: Path
    folder: Path
    bounds: Bounds = field(default_factory=Bounds)
    largest: int = LARGEST_EVENT


class AuditLog(Collector):
    """The audit log of all tenants.

    Args:
        settings: Settings of the log.

    Raises:
        PolicyError: The policy file is invalid.
        OSError: A file cannot be read, or the folder cannot be used.
    """

    def __init__(self, settings: AuditSettings) -> None:
        rules = policy.read(settings.policy_file.read_bytes())
        files = Files(settings.folder, settings.bounds, time.time)
        self._writer = Writer(files, settings.largest, time.monotonic)
        self.auditor = Auditor(rules, self._writer, time.time_ns)

    def start(self) -> None:
        """Start writing."""
        self._writer.start()

    def stop(self) -> None:
        """Write queued events, and stop. Blocks for a few seconds at most."""
        self._writer.stop()

    def register(self, registry: CollectorRegistry) -> None:
        """Add the metrics of the log to a registry."""
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Yield kube-apiserver's metrics: events, lost events, and requests by level."""
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
