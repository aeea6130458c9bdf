"""The cost of a load: CPU time and memory of processes, and requests answered by API servers."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from hack.testbed.bed import SHARED, TestBed
from hack.testbed.cluster import Cluster

_TICKS = os.sysconf("SC_CLK_TCK")
_SAMPLE = re.compile(r"^apiserver_request_total\{(?P<labels>.*)\} (?P<value>\S+)$", re.MULTILINE)
_REVIEWS = re.compile(r"^vcsync_podscheduler_reviews_total\{(?P<labels>.*)\} (?P<value>\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
GENERATOR = "load generator"
"""This process. It uses the machine but is not part of the measured system."""
_HEARTBEATS = ("leases", "nodes/status")
"""Resources that are written at a constant rate, however many Pods there are."""


class Request(NamedTuple):
    """A kind of request, as counted by an API server."""

    server: str
    """Name of the cluster: `r1`, `meta`, or the tenant's."""
    verb: str
    """`POST`, `PATCH`, ..., as in the metric (including `APPLY`, `LIST` and `WATCH`)."""
    resource: str
    """Plural, and the subresource if there is one: `pods/status`."""

    @property
    def is_standing(self) -> bool:
        """Whether it is unrelated to Pods: a watch or a heartbeat."""
        return self.verb in ("WATCH", "CONNECT") or self.resource in _HEARTBEATS


class Reading(Struct, frozen=True):
    """Meters at one moment. Subtract an earlier one."""

    cpu: dict[str, tuple[int, float]]
    """Process name -> (process id, CPU seconds since its start)."""
    requests: Counter[Request]
    busy: float
    """CPU seconds that the whole machine has worked since boot, on all CPUs."""
    elapsed: float
    """CPU seconds available since boot, on all CPUs."""


class Usage(Struct, frozen=True):
    """The usage between two readings."""

    cpu: dict[str, float]
    """Process name -> CPU seconds."""
    requests: dict[Request, int]
    foreign: float
    """Share of the machine (0 to 1) used by processes that are not metered; a busy neighbour slows everything down."""

    @property
    def stack_cpu(self) -> float:
        """Return the CPU seconds of everything except the load generator."""
        return sum(seconds for name, seconds in self.cpu.items() if name != GENERATOR)

    def count(self, *, server: str = "", verb: str = "", resource: str = "") -> int:
        """Return the number of requests except watches and heartbeats, filtered by the given arguments."""
        return sum(
            count
            for request, count in self.requests.items()
            if not request.is_standing
            and (not server or request.server == server)
            and (not verb or request.verb == verb)
            and (not resource or request.resource == resource)
        )


class Meter:
    """Reads the meters of a test bed's servers and of further processes.

    Args:
        bed: the test bed.
    """

    def __init__(self, bed: TestBed) -> None:
        self._bed = bed

    def processes(self, roles: Mapping[str, int]) -> dict[str, int]:
        """Return name -> process id of all servers, named `<cluster>/<component>`, and of `roles`."""
        found = {
            component if group == SHARED else f"{group}/{component}": process.pid
            for group, processes in self._bed.state.processes.items()
            for component, process in processes.items()
            if process.alive
        }
        return {GENERATOR: os.getpid(), **found, **roles}

    def read(self, roles: Mapping[str, int], *, ending: bool = False) -> Reading:
        """Take a reading.

        Args:
            roles: further processes, name -> process id.
            ending: whether it ends a measurement, which must not include the CPU time that API servers spend on
                reporting their counts.
        """
        requests = Counter[Request]() if ending else self._requests()
        cpu = {name: (pid, cpu_seconds(pid)) for name, pid in self.processes(roles).items()}
        busy, elapsed = machine_seconds()
        return Reading(cpu, self._requests() if ending else requests, busy, elapsed)

    def _requests(self) -> Counter[Request]:
        total: Counter[Request] = Counter()
        for cluster in self._bed.clusters.values():
            total.update(api_requests(cluster))
        return total


def between(before: Reading, after: Reading) -> Usage:
    """Return the usage between two readings; a process that was started in between counts from its start."""
    cpu = {}
    for name, (pid, seconds) in after.cpu.items():
        old_pid, old_seconds = before.cpu.get(name, (0, 0.0))
        cpu[name] = seconds - (old_seconds if old_pid == pid else 0.0)
    machine = max(after.elapsed - before.elapsed, 1e-9)
    foreign = (after.busy - before.busy - sum(cpu.values())) / machine
    return Usage(cpu, dict(after.requests - before.requests), max(foreign, 0.0))


def api_requests(cluster: Cluster) -> Counter[Request]:
    """Read how many requests an API server has answered since its start, by verb and resource."""
    status, text = cluster.call("GET", "/metrics", timeout=30)
    if status != 200 or not isinstance(text, str):
        raise RuntimeError(f"{cluster.name}: GET /metrics was answered with {status}")
    return parse_requests(cluster.name, text)


def parse_requests(server: str, metrics: str) -> Counter[Request]:
    """Parse `apiserver_request_total` in the text of /metrics, without requests that concern no resource."""
    found: Counter[Request] = Counter()
    for sample in _SAMPLE.finditer(metrics):
        labels = dict(_LABEL.findall(sample["labels"]))
        if labels.get("resource"):
            subresource = labels.get("subresource", "")
            resource = f"{labels['resource']}/{subresource}" if subresource else labels["resource"]
            found[Request(server, labels.get("verb", ""), resource)] += int(float(sample["value"]))
    return found


def parse_reviews(metrics: str) -> dict[str, int]:
    """Parse `vcsync_podscheduler_reviews_total` in the text of /metrics: outcome -> number of calls."""
    found = _REVIEWS.finditer(metrics)
    return {dict(_LABEL.findall(each["labels"]))["outcome"]: int(float(each["value"])) for each in found}


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of all threads of a process (user and system)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def memory_bytes(pid: int) -> int:
    """Return the memory of a process: its own pages and its share of common ones (proc(5), Pss)."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/{pid}/smaps_rollup has no Pss")


def machine_seconds() -> tuple[float, float]:
    """Return the CPU seconds since boot that the machine worked, and that were available."""
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    idle = fields[3] + fields[4]
    return (sum(fields) - idle) / _TICKS, sum(fields) / _TICKS


def percentile(values: Iterable[float], share: float) -> float:
    """Return the value that a `share` (0 to 1) of all values does not exceed (nearest rank).

    Raises:
        ValueError: there are no values.
    """
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no values")
    rank = max(1, -(-len(ordered) * round(share * 1000) // 1000))
    return ordered[rank - 1]
