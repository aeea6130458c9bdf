"""Keeps the nodes of a hollow cluster registered, with status and Leases, and applies their simulated states.

A node that is down according to its annotation gets no heartbeats. Its conditions become unknown immediately, which
would take its cluster's node controller a minute. That controller sets the taints.
"""

import math
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from vcsync.api.names import HOLLOW_STATE
from vcsync.kube.client import Client
from vcsync.kube.errors import AlreadyExists, NotFound
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import LEASES, NODES
from vcsync.objects.conditions import Condition
from vcsync.objects.envelope import Envelope, decode, untyped
from vcsync.objects.times import micro_time_text
from vcsync.simulate.nodes import (
    DOWN,
    STATES,
    Shape,
    conditions,
    index_of,
    node,
    node_status,
)

LEASE_NAMESPACE = "kube-node-lease"
BEAT_SECONDS, REPORT_SECONDS = 30.0, 300.0
"""Seconds between renewals of a node's Lease, more than for real kubelets, and between unchanged status updates."""
MOST_BEATS, MOST_REPORTS = 2.0, 1.0
"""Renewals per second of all nodes together: with many nodes each is renewed less often."""
BEATS_OF_LEASE = 4
NOWHERE, NEVER = ("", 0), -math.inf


class Pace(Struct, frozen=True):
    """Intervals of the nodes' heartbeats, in seconds."""

    beat: float
    report: float


def pace(nodes: int, beat: float | None = None) -> Pace:
    """Return the intervals for this number of nodes; `beat`: the configured one."""
    wanted = beat if beat is not None else max(BEAT_SECONDS, nodes / MOST_BEATS)
    return Pace(wanted, max(REPORT_SECONDS, nodes / MOST_REPORTS))


class _Status(Struct):
    conditions: tuple[Condition, ...] | None = None


class _Report(Struct, frozen=True):
    """The last report about a node, with its time on the monotonic clock."""

    state: str
    endpoint: tuple[str, int] | None
    reported: float
    beat: float


class Fleet:
    """Maintains the nodes.

    Args:
        client: client of the cluster.
        nodes: cache of the existing nodes.
        count: number of nodes.
        shape: capacity of each node.
        pace: intervals of the heartbeats.
        changed: called with a node whose simulated state changed.
    """

    def __init__(  # noqa: PLR0917 - what it works with, each of its own type
        self,
        client: Client,
        nodes: Reflector,
        count: int,
        shape: Shape,
        pace: Pace,
        changed: Callable[[str], None],
    ) -> None:
        self._client = client
        self._nodes = nodes
        self._count = count
        self._shape = shape
        self._pace = pace
        self._changed = changed
        self._reports: dict[str, _Report] = {}
        self._registered: set[str] = set()
        self.endpoint: tuple[str, int] | None = None

    def down(self) -> list[str]:
        """Return the nodes that are down."""
        return sorted(name for name, report in self._reports.items() if report.state == DOWN)

    @property
    def registered(self) -> int:
        """Return the number of registered nodes."""
        return len(self._registered)

    def alive(self, name: str) -> bool:
        """Return whether a node's kubelet works: the node belongs to this cluster and is not down."""
        report = self._reports.get(name)
        return report is not None and report.state != DOWN and self._nodes.cache.get("", name) is not None

    def state(self, name: str) -> str | None:
        """Return the simulated state of a node, empty: healthy; None: its kubelet has not started yet."""
        report = self._reports.get(name)
        return report.state if report is not None else None

    async def keep(self, name: str) -> float | None:
        """Do the due work for a node, and return the seconds until more is due.

        Raises:
            KubeError: the API cannot be reached, or refuses a write.
        """
        index = index_of(name, self._count)
        if index is None:
            return None
        found, fresh = self._nodes.cache.get("", name), False
        if found is None:
            if name in self._registered:
                return None  # It was deleted; kubelets register only when they start.
            found, fresh = await self._register(index), True
        self._registered.add(name)
        report, now = self._reports.get(name), time.monotonic()
        if report is None:
            report = self._reports[name] = self._begin(found, index, now)
        state = _state(found)
        if (
            (report.state, report.endpoint) != (state, self.endpoint)
            or (state != DOWN and now - report.reported >= self._pace.report)
            or _overwritten(found, state)
        ):
            found = await self._report(found, index, state)
            before = report.state
            self._reports[name] = report = _Report(state, self.endpoint, now, report.beat)
            if before != state:
                self._changed(name)
        if state == DOWN:
            return None
        if now - report.beat >= self._pace.beat:
            await self._beat(found, new=fresh)
            self._reports[name] = report = _Report(state, self.endpoint, report.reported, now)
        return min(report.beat + self._pace.beat, report.reported + self._pace.report) - now

    def _begin(self, found: Envelope, index: int, now: float) -> _Report:
        """Return the assumed last report of a node: a complete status counts as already reported.

        The times differ between nodes, so that their writes are spread over the interval.
        """
        turn = index / self._count
        wanted, there = node_status(index, self._shape, self.endpoint), untyped(found.status)
        same = all(there.get(key) == value for key, value in wanted.items())
        said = self.endpoint if same else None if self.endpoint else NOWHERE
        beat = now - turn * self._pace.beat if same else NEVER
        return _Report(_state(found), said, now - turn * self._pace.report, beat)

    def forget(self, name: str) -> None:
        """Record that a node was deleted."""
        self._reports.pop(name, None)

    async def _register(self, index: int) -> Envelope:
        try:
            found = await self._client.create(NODES, node(index))
        except AlreadyExists:
            found = await self._client.get(NODES, node(index)["metadata"]["name"])
        self._nodes.observe(found)
        return found

    async def _report(self, found: Envelope, index: int, state: str) -> Envelope:
        before = decode(found.status, _Status).conditions or ()
        status: dict[str, Any] = {"conditions": conditions(state, datetime.now(UTC), before)}
        if state != DOWN:
            status |= node_status(index, self._shape, self.endpoint)
        patch = {"metadata": {"uid": found.uid}, "status": status}
        answer = await self._client.patch(NODES, found.name, patch, kind="strategic", subresource="status")
        self._nodes.observe(answer)
        return answer

    async def _beat(self, found: Envelope, *, new: bool) -> None:
        """Renew a node's Lease."""
        renewed = {"renewTime": micro_time_text(datetime.now(UTC))}
        try:
            if not new:
                await self._client.patch(LEASES, found.name, {"spec": renewed}, LEASE_NAMESPACE)
                return
        except NotFound:
            pass  # It was deleted.
        owner = {"apiVersion": "v1", "kind": "Node", "name": found.name, "uid": found.uid}
        spec = {
            "holderIdentity": found.name,
            "leaseDurationSeconds": max(1, int(self._pace.beat * BEATS_OF_LEASE)),
            **renewed,
        }
        metadata = {"name": found.name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]}
        try:
            await self._client.create(LEASES, {"metadata": metadata, "spec": spec}, LEASE_NAMESPACE)
        except AlreadyExists:
            await self._client.patch(
                LEASES, found.name, {"metadata": metadata, "spec": spec}, LEASE_NAMESPACE
            )


def _overwritten(found: Envelope, state: str) -> bool:
    """Return whether another writer, such as the node controller, changed the conditions that the kubelet reported."""
    stored = {each.type: each.status for each in decode(found.status, _Status).conditions or ()}
    return any(stored.get(each["type"]) != each["status"] for each in conditions(state, datetime.now(UTC)))


def _state(found: Envelope) -> str:
    state = found.annotations.get(HOLLOW_STATE, "")
    return state if state in STATES else ""
