"""Tells the meta cluster what a super cluster has and how it is: the status of its SuperCluster object."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime
from typing import Any

import structlog
from msgspec import Struct, field, to_builtins

from vcsync.api import names
from vcsync.api.conditions import Condition, set_condition
from vcsync.api.objects import SuperCluster
from vcsync.api.resources import SUPER_CLUSTERS
from vcsync.kube.client import Client
from vcsync.kube.envelope import Envelope, decode
from vcsync.kube.errors import KubeError, Unauthorized
from vcsync.kube.quantity import InvalidQuantity, canonical, milli
from vcsync.syncer.ledger import Entry
from vcsync.tenancy.brake import Brake, released_at

CHECK_SECONDS = 2.0
"""How often the caches are looked at for a change worth telling."""
PROBE_SECONDS = 10.0
"""How often the super cluster is asked for a sign of life while its watches are alive."""

log = structlog.get_logger(__name__)

BRAKED = "Braked"
"""Type of the condition on a SuperCluster: deletions that nobody was seen to ask for wait for an operator."""
_LONGEST_MESSAGE = 4096

Amounts = dict[str, int]
"""Resource name -> thousandths."""


class _Condition(Struct, gc=False):
    type: str = ""
    status: str = ""


class _NodeSpec(Struct, gc=False):
    unschedulable: bool = False


class _NodeStatus(Struct, gc=False):
    allocatable: dict[str, str] = field(default_factory=dict)
    conditions: list[_Condition] = field(default_factory=list)


class Capacity(Struct, frozen=True):
    """What the nodes of a super cluster offer together. Amounts in thousandths."""

    allocatable: Amounts
    largest_node: Amounts
    ready: int
    total: int


def capacity(nodes: Iterable[Envelope]) -> Capacity:
    """Add up what the ready, uncordoned nodes offer.

    Allocatable, not capacity: what the kubelet keeps for itself is nobody's (reference section 9.5).
    """
    allocatable: Amounts = {}
    largest: Amounts = {}
    ready = total = 0
    for node in nodes:
        total += 1
        status = decode(node.status, _NodeStatus) if node.status else _NodeStatus()
        is_ready = any(c.type == "Ready" and c.status == "True" for c in status.conditions)
        if not is_ready or node.deleting or (node.spec and decode(node.spec, _NodeSpec).unschedulable):
            continue
        ready += 1
        for resource, text in status.allocatable.items():
            try:
                amount = milli(text)
            except InvalidQuantity:
                continue
            allocatable[resource] = allocatable.get(resource, 0) + amount
            largest[resource] = max(largest.get(resource, 0), amount)
    return Capacity(allocatable, largest, ready, total)


def status_patch(
    seen: Capacity,
    *,
    allocated: Amounts,
    reachable: bool,
    why_unreachable: str,
    conditions: Iterable[Condition],
    identity: str,
    version: str,
    generation: int,
    now: str,
    brakes: Collection[Brake] = (),
) -> dict[str, Any]:
    """The status of the SuperCluster object, as a merge patch.

    Args:
        seen: what its nodes offer.
        allocated: what the ledger has dealt out here.
        reachable: whether the super cluster answers.
        why_unreachable: the last error while it does not.
        conditions: the conditions the object has now.
        identity: which syncer speaks.
        version: the super cluster's Kubernetes version.
        generation: of the SuperCluster object; `kubectl wait` believes no condition of an older one.
        now: RFC 3339.
        brakes: deletions that wait for an operator.
    """
    ready = reachable and seen.ready > 0
    updated = set_condition(
        conditions,
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
        message="; ".join(
            f"{brake.tenant or 'all tenants'}: {brake.wanted} of {brake.of} {brake.what}" for brake in brakes
        )[:_LONGEST_MESSAGE],
        now=now,
        observed_generation=generation,
    )
    free = {name: max(0, amount - allocated.get(name, 0)) for name, amount in seen.allocatable.items()}
    return {
        "status": {
            "allocatable": _texts(seen.allocatable),
            "allocated": _texts(allocated),
            "free": _texts(free),
            "largestNode": _texts(seen.largest_node),
            "nodes": {"ready": seen.ready, "total": seen.total},
            "conditions": to_builtins(updated),
            "heartbeatTime": now,
            "syncerIdentity": identity,
            "version": version,
        }
    }


def _texts(amounts: Amounts) -> dict[str, str]:
    return {name: canonical(amount) for name, amount in sorted(amounts.items())}


class Heartbeat:
    """Writes the status of one SuperCluster: at once when it changed, else every `interval` seconds.

    Args:
        meta: client of the meta cluster.
        super_client: client of the super cluster.
        super_id: its id, which is also the object's name.
        nodes: the super cluster's nodes, from the cache.
        stale: whether the cache of nodes is no longer followed.
        entries: the ledger's entries of this super cluster.
        identity: which syncer speaks.
        brakes: deletions that wait for an operator.
        interval: seconds between two heartbeats of a super cluster that does not change.
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
        interval: float = 20.0,
    ) -> None:
        self._brakes = brakes
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
        self._looked_at = 0.0
        self._reachable = False

    async def run(self) -> None:
        """Beat until cancelled."""
        written_at = float("-inf")
        loop = asyncio.get_running_loop()
        while True:
            await self._probe(loop.time())
            seen = capacity(self._nodes())
            allocated = allocated_by(self._entries())
            brakes = tuple(self._brakes())
            facts = (seen, allocated, self._reachable, self._version, brakes)
            if facts != self._written or loop.time() - written_at >= self._interval:
                try:
                    await self._write(seen, allocated, brakes)
                    self._written, written_at = facts, loop.time()
                except KubeError as error:
                    log.warning("heartbeat not written", super_cluster=self._super_id, error=str(error))
            await asyncio.sleep(CHECK_SECONDS)

    async def _probe(self, now: float) -> None:
        """Ask the super cluster whether it answers: often while it does not, rarely while its watches are alive."""
        if self._reachable and not self._stale() and now - self._looked_at < PROBE_SECONDS:
            return
        self._looked_at = now
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
                    "it is taken up without a restart"
                )

    async def _write(self, seen: Capacity, allocated: Amounts, brakes: Collection[Brake]) -> None:
        current = SuperCluster.from_envelope(await self._meta.get(SUPER_CLUSTERS, self._super_id))
        self.released = released_at(current.annotations.get(names.BRAKE_RELEASED))
        patch = status_patch(
            seen,
            allocated=allocated,
            reachable=self._reachable,
            why_unreachable=self._error,
            conditions=current.status.conditions,
            identity=self._identity,
            version=self._version,
            generation=current.generation,
            now=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            brakes=brakes,
        )
        await self._meta.patch(SUPER_CLUSTERS, self._super_id, patch, subresource="status")


def allocated_by(entries: Iterable[Entry]) -> Amounts:
    """What the ledger has dealt out on this super cluster: slices times their size, over all namespaces."""
    total: Amounts = {}
    for entry in entries:
        for resource, text in entry.placement.slice_size.items():
            total[resource] = total.get(resource, 0) + entry.slices * milli(text)
    return total
