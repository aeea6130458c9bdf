"""Reports a super cluster's capacity and health: writes the status of its SuperCluster object in the meta cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec
import structlog
from msgspec import Struct, field, to_builtins

from vcsync.api import names
from vcsync.api.conditions import condition_of, set_condition
from vcsync.api.objects import SuperCluster
from vcsync.api.resources import SUPER_CLUSTERS
from vcsync.api.specs import SuperClusterSpec, Trouble
from vcsync.kube.client import Client
from vcsync.kube.errors import KubeError, Unauthorized
from vcsync.objects.conditions import Condition
from vcsync.objects.envelope import Envelope, decode
from vcsync.objects.quantity import InvalidQuantity, canonical, milli
from vcsync.objects.times import time_text
from vcsync.scheduling.resources import from_quantities
from vcsync.scheduling.snapshot import InvalidHeadroom, distributable
from vcsync.syncer.ledger import Entry
from vcsync.tenancy.brake import Brake, released_at
from vcsync.tenancy.distribution import undistributed
from vcsync.tenancy.troubles import reported

CHECK_SECONDS = 2.0
"""Seconds between two checks whether the status has changed."""
PROBE_SECONDS = 10.0
"""Seconds between two requests that check whether the super cluster answers, while its watches are open."""

log = structlog.get_logger(__name__)

BRAKED = "Braked"
"""Type of the SuperCluster's condition which reports that deletions without an observed request wait for an operator."""
NOT_PUBLISHED = "DefinitionsNotPublished"
"""Type of the SuperCluster's condition which reports that tenants do not get definitions with the label."""
_LONGEST_MESSAGE = 4096
_OF_TAINTS = ("key", "value", "effect")
_encode = msgspec.json.Encoder().encode

Amounts = dict[str, int]
"""Resource name -> thousandths."""
Published = Mapping[str, tuple[Any, ...]]
"""Field of the status -> descriptions of the published classes of one kind."""


class _NodeSpec(Struct, gc=False):
    unschedulable: bool = False
    taints: tuple[dict[str, Any], ...] | None = None


class _NodeStatus(Struct, gc=False):
    allocatable: dict[str, str] = field(default_factory=dict)
    conditions: list[Condition] = field(default_factory=list)


class Capacity(Struct, frozen=True):
    """The capacity of a super cluster's nodes. Amounts are in thousandths.

    Attributes:
        allocatable: sum over the ready, schedulable nodes.
        largest_node: the largest amount on one of these nodes, by resource.
        ready: number of these nodes.
        total: number of all nodes.
    """

    allocatable: Amounts
    largest_node: Amounts
    ready: int
    total: int
    version: str = ""
    """Changes with what scheduling depends on: these nodes' labels, taints and amounts."""


def capacity(nodes: Iterable[Envelope]) -> Capacity:
    """Return the capacity of the ready, schedulable nodes.

    This is `status.allocatable`, not `status.capacity`, which includes the amounts that kubelets reserve (reference
    section 9.5).
    """
    allocatable: Amounts = {}
    largest: Amounts = {}
    ready = total = 0
    version = 0
    for node in nodes:
        total += 1
        status = decode(node.status, _NodeStatus) if node.status else _NodeStatus()
        is_ready = any(c.type == "Ready" and c.status == "True" for c in status.conditions)
        spec = decode(node.spec, _NodeSpec) if node.spec else _NodeSpec()
        if not is_ready or node.deleting or spec.unschedulable:
            continue
        ready += 1
        taints = [{key: taint.get(key) for key in _OF_TAINTS} for taint in spec.taints or ()]
        known = (node.name, sorted(node.labels.items()), taints, sorted(status.allocatable.items()))
        # The order of nodes does not matter.
        version ^= int.from_bytes(blake2b(_encode(known), digest_size=8).digest())
        for resource, text in status.allocatable.items():
            try:
                amount = milli(text)
            except InvalidQuantity:
                continue
            allocatable[resource] = allocatable.get(resource, 0) + amount
            largest[resource] = max(largest.get(resource, 0), amount)
    return Capacity(allocatable, largest, ready, total, f"{version:016x}")


def status_patch(
    current: SuperCluster,
    seen: Capacity,
    *,
    allocated: Amounts,
    reachable: bool,
    why_unreachable: str,
    identity: str,
    version: str,
    now: str,
    brakes: Collection[Brake] = (),
    published: Published | None = None,
    unpublished: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the merge patch of the SuperCluster's status. While no node is ready, the last amounts remain.

    Args:
        current: the present object. Its generation is recorded in the conditions, as `kubectl wait` requires.
        seen: the capacity of the nodes.
        allocated: the amounts that the ledger distributes on this super cluster.
        reachable: whether the super cluster answers.
        why_unreachable: the last error while it does not answer.
        identity: name of the syncer that reports.
        version: the super cluster's Kubernetes version.
        now: the current time in RFC 3339.
        brakes: deletions that wait for an operator.
        published: the published classes. The last ones remain of kinds that are absent, since theirs are not known.
        unpublished: name -> why tenants do not get a CustomResourceDefinition with the label. The condition appears with
            the first one.
    """
    ready = reachable and seen.ready > 0
    generation, before = current.generation, current.status
    updated = set_condition(
        before.conditions,
        "Reachable",
        status=reachable,
        reason="Answers" if reachable else "NoAnswer",
        message="" if reachable else why_unreachable,
        now=now,
        observed_generation=generation,
    )
    updated = set_condition(
        updated,
        "Ready",
        status=ready,
        reason="NodesReady" if ready else "NoReadyNode",
        message=f"{seen.ready} of {seen.total} nodes are ready",
        now=now,
        observed_generation=generation,
    )
    updated = set_condition(
        updated,
        BRAKED,
        status=bool(brakes),
        reason="TooManyDeletions" if brakes else "NothingWaits",
        message="; ".join(f"{brake.tenant or 'all tenants'}: {brake.text()}" for brake in brakes)[
            :_LONGEST_MESSAGE
        ],
        now=now,
        observed_generation=generation,
    )
    if unpublished or condition_of(updated, NOT_PUBLISHED) is not None:
        updated = set_condition(
            updated,
            NOT_PUBLISHED,
            status=bool(unpublished),
            reason="Refused" if unpublished else "AllPublished",
            message="; ".join(f"{name}: {why}" for name, why in sorted((unpublished or {}).items()))[
                :_LONGEST_MESSAGE
            ],
            now=now,
            observed_generation=generation,
        )
    allocatable = seen.allocatable if seen.ready else from_quantities(before.allocatable)
    largest_node = seen.largest_node if seen.ready else from_quantities(before.largest_node)
    return {
        "status": {
            **to_builtins(published or {}),
            "allocatable": _replacing(before.allocatable, allocatable),
            "allocated": _replacing(before.allocated, allocated),
            "free": _replacing(before.free, _free(current.spec, allocatable, allocated)),
            "largestNode": _replacing(before.largest_node, largest_node),
            "nodes": {"ready": seen.ready, "total": seen.total},
            "nodesVersion": seen.version,
            "conditions": to_builtins(updated),
            "heartbeatTime": now,
            "syncerIdentity": identity,
            "version": version,
        }
    }


def _free(spec: SuperClusterSpec, allocatable: Amounts, allocated: Amounts) -> Amounts:
    """Return the amounts that can still be distributed; empty if the headroom is invalid."""
    try:
        usable = distributable(allocatable, spec.headroom, spec.overcommit)
    except InvalidHeadroom:
        return {}
    return undistributed(usable, allocated)


def _replacing(before: Mapping[str, str], amounts: Amounts) -> dict[str, str | None]:
    """Return amounts for a merge patch that removes all earlier ones."""
    texts = {name: canonical(amount) for name, amount in sorted(amounts.items())}
    return {name: None for name in before if name not in texts} | texts


class _Report(NamedTuple):
    """The values to report. Only the first shard reports `seen` and `allocated`."""

    seen: Capacity | None
    allocated: Amounts
    reachable: bool
    version: str
    brakes: tuple[Brake, ...]
    published: Published
    unpublished: Mapping[str, str]
    troubles: tuple[Trouble, ...]


class Heartbeat:
    """Writes the status of one SuperCluster: within `CHECK_SECONDS` of a change, and else every `interval` seconds.

    Attributes:
        released: when an operator last released the brake of this super cluster; None before the first write.

    Args:
        meta: client of the meta cluster.
        super_client: client of the super cluster.
        super_id: its id, which is also the object's name.
        nodes: returns the super cluster's nodes from the cache.
        stale: returns whether the watch of nodes is lost.
        entries: returns the ledger's entries of this super cluster.
        identity: name of the syncer that reports.
        brakes: returns the deletions that wait for an operator.
        published: returns the published classes of the kinds that have been read.
        unpublished: returns the definitions that are not published, and why.
        troubles: returns the reasons why tenants are not fully served.
        shard: (number, count) of the shard of tenants. Only the first shard reports on the super cluster itself; every
            shard reports on its tenants.
        interval: seconds between two heartbeats of a super cluster that does not change.
        settings: called with the operator's settings of the super cluster, with each heartbeat.
    """

    def __init__(
        self,
        *,
        meta: Client,
        super_client: Client,
        super_id: str,
        nodes: Callable[[], Iterable[Envelope]],
        stale: Callable[[], bool],
        entries: Callable[[], Iterable[Entry]],
        identity: str,
        brakes: Callable[[], Collection[Brake]] = tuple,
        published: Callable[[], Published] = dict,
        unpublished: Callable[[], Mapping[str, str]] = dict,
        troubles: Callable[[], Iterable[Trouble]] = tuple,
        shard: tuple[int, int] = (1, 1),
        interval: float = 20.0,
        settings: Callable[[SuperClusterSpec], None] = lambda _: None,
    ) -> None:
        self._settings = settings
        self._brakes = brakes
        self._published = published
        self._unpublished = unpublished
        self._troubles = troubles
        self._shard = shard
        self._is_first = shard[0] == 1
        self.released: datetime | None = None
        self._meta = meta
        self._super = super_client
        self._super_id = super_id
        self._nodes = nodes
        self._stale = stale
        self._entries = entries
        self._identity = identity
        self._interval = interval
        self._written: Any = None
        self._version = ""
        self._error = ""
        self._unwritten = ""
        self._probed_at = 0.0
        self._reachable = False

    @property
    def trouble(self) -> str:
        """Name of the server that does not answer, as text; empty if both do."""
        if self._error:
            return f"the super cluster does not answer: {self._error}"
        return f"the heartbeat cannot be written: {self._unwritten}" if self._unwritten else ""

    async def run(self) -> None:
        """Write heartbeats until cancelled."""
        written_at = float("-inf")
        loop = asyncio.get_running_loop()
        while True:
            if self._is_first:
                await self._probe(loop.time())
            report = self._report()
            if report != self._written or loop.time() - written_at >= self._interval:
                try:
                    await self._write(report)
                    self._written, written_at = report, loop.time()
                    self._unwritten = ""
                except KubeError as error:
                    self._unwritten = str(error)[:500]
                    log.warning("heartbeat not written", super_cluster=self._super_id, error=str(error))
            await asyncio.sleep(CHECK_SECONDS)

    async def _probe(self, now: float) -> None:
        """Check whether the super cluster answers: every `PROBE_SECONDS` while its watches are open, else on each call."""
        if self._reachable and not self._stale() and now - self._probed_at < PROBE_SECONDS:
            return
        self._probed_at = now
        try:
            answer = await self._super.version()
            self._version = str(answer.get("gitVersion", ""))
            self._reachable, self._error = True, ""
        except KubeError as error:
            self._reachable, self._error = False, str(error)[:500]
            if isinstance(error, Unauthorized):
                self._error += (
                    ": the credentials expired or were revoked; put a valid kubeconfig into the Secret of "
                    f"spec.kubeconfigSecretRef (default {names.SYSTEM_NAMESPACE}/{names.super_secret(self._super_id)}); "
                    "it is used without a restart"
                )

    def _report(self) -> _Report:
        seen = capacity(self._nodes()) if self._is_first else None
        allocated = allocated_by(self._entries()) if self._is_first else {}
        return _Report(
            seen,
            allocated,
            self._reachable,
            self._version,
            tuple(self._brakes()),
            self._published() if self._is_first else {},
            self._unpublished() if self._is_first else {},
            reported(self._troubles()),
        )

    async def _write(self, report: _Report) -> None:
        current = SuperCluster.from_envelope(await self._meta.get(SUPER_CLUSTERS, self._super_id))
        self._settings(current.spec)
        self.released = released_at(current.annotations.get(names.BRAKE_RELEASED))
        status: dict[str, Any] = {}
        if report.seen is not None:
            status = status_patch(
                current,
                report.seen,
                allocated=report.allocated,
                reachable=self._reachable,
                why_unreachable=self._error,
                identity=self._identity,
                version=self._version,
                now=time_text(datetime.now(UTC)),
                brakes=report.brakes,
                published=report.published,
                unpublished=report.unpublished,
            )["status"]
        if (reports := reports_patch(current.status.reports, report.troubles, self._shard)) is not None:
            status["reports"] = reports
        if status:
            await self._meta.patch(SUPER_CLUSTERS, self._super_id, {"status": status}, subresource="status")


def reports_patch(
    current: Mapping[str, tuple[Trouble, ...]], troubles: tuple[Trouble, ...], shard: tuple[int, int]
) -> dict[str, Any] | None:
    """Return the merge patch for `status.reports`; None if nothing changes.

    The first shard removes reports from an earlier number of shards.

    Args:
        current: the present reports.
        troubles: the troubles that this shard reports.
        shard: (number, count) of this shard.
    """
    which, count = shard
    own = f"{which}/{count}"
    patch: dict[str, Any] = {}
    if troubles != current.get(own, ()):
        patch[own] = to_builtins(list(troubles)) or None
    if which == 1:
        patch |= {other: None for other in current if not other.endswith(f"/{count}")}
    return patch or None


def allocated_by(entries: Iterable[Entry]) -> Amounts:
    """Return the amounts of all namespaces on this super cluster, including slices that are not cleared yet."""
    total: Amounts = {}
    for entry in entries:
        for resource, amount in entry.allocated.items():
            total[resource] = total.get(resource, 0) + amount
    return {resource: amount for resource, amount in total.items() if amount}
