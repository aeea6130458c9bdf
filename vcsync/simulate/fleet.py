"""The nodes of a hollow cluster, kept alive: registered, reported of, their Leases renewed; and what befalls them.

A node whose annotation says that it is down is left alone, but for saying so at once, for which its cluster's node
controller would take a minute. Taints are that one's.
"""

import math
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from vcsync.api.names import HOLLOW_STATE
from vcsync.kube.client import Client
from vcsync.kube.envelope import Envelope, decode, untyped
from vcsync.kube.errors import AlreadyExists, NotFound
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import LEASES, NODES
from vcsync.simulate.nodes import (
    DOWN,
    STATES,
    Condition,
    Shape,
    conditions,
    index_of,
    node,
    node_status,
)

LEASE_NAMESPACE = "kube-node-lease"
BEAT_SECONDS, REPORT_SECONDS = 30.0, 300.0
"""How often a kubelet renews its node's Lease, less often than real ones, and tells its status when nothing has changed."""
MOST_BEATS, MOST_REPORTS = 2.0, 1.0
"""Of all nodes together, in a second: with many nodes each has its turn more rarely."""
BEATS_OF_LEASE = 4
NOWHERE, NEVER = ("", 0), -math.inf


class Pace(Struct, frozen=True):
    """How often nodes show that they are alive, in seconds."""

    beat: float
    report: float


def pace(nodes: int, beat: float | None = None) -> Pace:
    """Return how often each of so many nodes does; `beat`: as somebody wants it."""
    wanted = beat if beat is not None else max(BEAT_SECONDS, nodes / MOST_BEATS)
    return Pace(wanted, max(REPORT_SECONDS, nodes / MOST_REPORTS))


class _Status(Struct):
    conditions: tuple[Condition, ...] | None = None


class _Told(Struct, frozen=True):
    """What was said of a node last, and when, by the monotonic clock."""

    state: str
    endpoint: tuple[str, int] | None
    reported: float
    beat: float


class Fleet:
    """Keeps the nodes.

    Args:
        client: of the cluster.
        nodes: sees the nodes that there are.
        count: how many there shall be.
        shape: what each holds.
        pace: how often each shows that it is alive.
        changed: told of a node that fares otherwise than before.
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
        self._told: dict[str, _Told] = {}
        self._registered: set[str] = set()
        self.endpoint: tuple[str, int] | None = None

    def down(self) -> list[str]:
        """Return the nodes that are down."""
        return sorted(name for name, told in self._told.items() if told.state == DOWN)

    @property
    def registered(self) -> int:
        """How many nodes have registered."""
        return len(self._registered)

    def alive(self, name: str) -> bool:
        """Whether a node's kubelet works: it is one of ours, and not down."""
        told = self._told.get(name)
        return told is not None and told.state != DOWN and self._nodes.cache.get("", name) is not None

    def state(self, name: str) -> str | None:
        """Return how a node of ours fares, empty: well; None: its kubelet has not begun yet."""
        told = self._told.get(name)
        return told.state if told is not None else None

    async def keep(self, name: str) -> float | None:
        """Do for a node what is due, and return when to look again.

        Raises:
            KubeError: the API cannot be reached, or refuses.
        """
        index = index_of(name, self._count)
        if index is None:
            return None
        found, fresh = self._nodes.cache.get("", name), False
        if found is None:
            if name in self._registered:
                return None  # somebody has deleted it; kubelets register when they start, and not again
            found, fresh = await self._register(index), True
        self._registered.add(name)
        told, now = self._told.get(name), time.monotonic()
        if told is None:
            told = self._told[name] = self._begin(found, index, now)
        state = _state(found)
        if (
            (told.state, told.endpoint) != (state, self.endpoint)
            or (state != DOWN and now - told.reported >= self._pace.report)
            or _doubted(found, state)
        ):
            found = await self._report(found, index, state)
            fared = told.state
            self._told[name] = told = _Told(state, self.endpoint, now, told.beat)
            if fared != state:
                self._changed(name)
        if state == DOWN:
            return None
        if now - told.beat >= self._pace.beat:
            await self._beat(found, new=fresh)
            self._told[name] = told = _Told(state, self.endpoint, told.reported, now)
        return min(told.beat + self._pace.beat, told.reported + self._pace.report) - now

    def _begin(self, found: Envelope, index: int, now: float) -> _Told:
        """Return what is known of a node at first: if its status says all there is to say, that was said already.

        Not all nodes have their turn at the same time.
        """
        turn = index / self._count
        wanted, there = node_status(index, self._shape, self.endpoint), untyped(found.status)
        same = all(there.get(key) == value for key, value in wanted.items())
        said = self.endpoint if same else None if self.endpoint else NOWHERE
        beat = now - turn * self._pace.beat if same else NEVER
        return _Told(_state(found), said, now - turn * self._pace.report, beat)

    def forget(self, name: str) -> None:
        """Take note that a node was deleted."""
        self._told.pop(name, None)

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
        renewed = {"renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
        try:
            if not new:
                await self._client.patch(LEASES, found.name, {"spec": renewed}, LEASE_NAMESPACE)
                return
        except NotFound:
            pass  # somebody has deleted it
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


def _doubted(found: Envelope, state: str) -> bool:
    """Whether somebody, the cluster's node controller for one, says otherwise of a node than its kubelet."""
    told = {each.type: each.status for each in decode(found.status, _Status).conditions or ()}
    return any(told.get(each["type"]) != each["status"] for each in conditions(state, datetime.now(UTC)))


def _state(found: Envelope) -> str:
    state = found.annotations.get(HOLLOW_STATE, "")
    return state if state in STATES else ""
