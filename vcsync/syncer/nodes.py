"""Virtual nodes: created in a tenant with its first Pod on a node, kept up to date, and removed after its last Pod."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import structlog

from vcsync.api import names
from vcsync.kube.client import Client
from vcsync.kube.errors import AlreadyExists, KubeError, NotFound
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import LEASES, NODES
from vcsync.objects.envelope import Envelope
from vcsync.objects.times import micro_time_text
from vcsync.syncer.kinds.node import (
    node_gone_patch,
    node_lost_patch,
    node_patch,
    node_status_patch,
    virtual_node,
)
from vcsync.syncer.kinds.plan import TenantContext

LEASE_NAMESPACE = "kube-node-lease"
"""Namespace of the Leases that are nodes' heartbeats (KEP-589)."""

CONCURRENCY = 16
"""Number of Leases of one tenant that are renewed concurrently."""

log = structlog.get_logger(__name__)


class Pace(NamedTuple):
    """Intervals of virtual nodes, in seconds."""

    interval: float
    """Seconds between two renewals of a node's Lease."""
    linger: float
    """Seconds after which a node without Pods is removed."""


class NodeNotReady(Exception):
    """The super cluster's node is not in the cache, so its virtual node cannot be created yet."""


class NameTaken(Exception):
    """The tenant has a Node of the same name that this super cluster's syncer did not create."""


class VirtualNodes:
    """The virtual nodes of one super cluster in one tenant.

    Args:
        client: client of the tenant's control plane.
        tenant: cluster key.
        super_id: id of the super cluster.
        reflector: reflector of the tenant's Nodes with this super cluster's id as label.
        super_node: returns a node of the super cluster from the cache, by its name.
        pods_on: returns the number of the tenant's Pods on a node of the super cluster.
        bound: returns whether Pods of the tenant that have not ended are bound to a virtual node, even if the super
            cluster has none of them.
        clock: monotonic seconds.
        lost: returns since when nobody knows what happens in the super cluster, in words; "" while it is not lost.
    """

    def __init__(
        self,
        *,
        client: Client,
        tenant: str,
        super_id: str,
        reflector: Reflector,
        super_node: Callable[[str], Envelope | None],
        pods_on: Callable[[str], int],
        bound: Callable[[str], Awaitable[bool]],
        clock: Callable[[], float],
        lost: Callable[[], str] = lambda: "",
    ) -> None:
        self._client = client
        self._tenant = tenant
        self._super_id = super_id
        self._reflector = reflector
        self._super_node = super_node
        self._pods_on = pods_on
        self._bound = bound
        self._clock = clock
        self._lost = lost
        self._interval = 0.0
        self._locks: dict[str, asyncio.Lock] = {}
        self._empty_since: dict[str, float] = {}
        self._deleting: set[str] = set()
        self._renewed: dict[str, float] = {}
        self._in_work: set[str] = set()

    async def ensure(self, node: str, context: TenantContext) -> None:
        """Create the virtual node for `node` of the super cluster unless it exists.

        Raises:
            NodeNotReady: the super cluster's node is not in the cache.
            NameTaken: the tenant has a Node of that name that this syncer did not create.
            KubeError: the tenant's API refused or could not be reached.
        """
        name = names.virtual_node_name(node, self._super_id)
        self._empty_since.pop(name, None)
        if self._exists(name):
            return
        async with self._locks.setdefault(name, asyncio.Lock()):
            try:
                if not self._exists(name):
                    await self._create(node, name, context)
            finally:
                self._locks.pop(name, None)

    async def refresh(self, node: str, context: TenantContext, now: str) -> None:
        """Update the virtual node from the super cluster's node. Only relevant differences are written.

        A virtual node that was deleted in the tenant while Pods are on it is created again: without it the tenant's
        controllers would delete the Pods. While the super cluster is lost, its nodes are not ready, and their Leases end.

        Args:
            node: name of the super cluster's node.
            context: the tenant's settings for the kinds.
            now: the time for new conditions, in RFC 3339.
        """
        shown = self._reflector.cache.get("", names.virtual_node_name(node, self._super_id))
        actual = self._super_node(node)
        if shown is None:
            if actual is not None and self._pods_on(node) > 0:
                await self.ensure(node, context)
            return
        if lost := self._lost():
            changes = [(node_lost_patch(shown, lost, now), "status")]
        elif actual is None:
            changes = [(node_gone_patch(shown, now), "status")]
        else:
            changes = [
                (node_patch(shown, actual, context), ""),
                (node_status_patch(shown, actual, context, now), "status"),
            ]
        for patch, subresource in changes:
            if patch:
                patch.setdefault("metadata", {})["uid"] = shown.uid
                self._reflector.observe(
                    await self._client.patch(NODES, shown.name, patch, subresource=subresource)
                )

    async def beat(self, pace: Callable[[], Pace]) -> None:
        """Renew Leases and remove empty nodes until cancelled, spread evenly over each interval.

        Each node causes at most one write in each interval (KEP-589: a Lease instead of the whole status). Each node has a
        fixed time in the interval. Slow answers do not delay other nodes while fewer than `CONCURRENCY` are outstanding.

        Args:
            pace: returns the intervals; called for each round.
        """
        slots = asyncio.Semaphore(CONCURRENCY)
        self._in_work.clear()
        async with asyncio.TaskGroup() as tasks:
            while True:
                interval, linger = pace()
                self._interval = interval
                began = self._clock()
                shown = self._longest_waiting_first()
                for position, name in enumerate(shown):
                    await self._sleep_until(began + interval * position / len(shown))
                    if name in self._in_work:  # its last renewal is not answered yet
                        continue
                    await slots.acquire()
                    self._in_work.add(name)
                    tasks.create_task(self._beat_once(name, interval, linger, slots))
                await self._sleep_until(began + interval)

    def _longest_waiting_first(self) -> list[str]:
        """Return the nodes in the order of their last renewals, so that none waits longer because the order changes."""
        names_shown = [node.name for node in self._reflector.cache.items()]
        self._renewed = {name: self._renewed.get(name, -math.inf) for name in names_shown}
        return sorted(names_shown, key=self._renewed.__getitem__)

    async def _sleep_until(self, then: float) -> None:
        await asyncio.sleep(max(0.0, then - self._clock()))

    async def _beat_once(self, name: str, interval: float, linger: float, slots: asyncio.Semaphore) -> None:
        began = self._clock()
        try:
            if not await self._collect(name, linger):
                await self._renew(name, interval)
                self._renewed[name] = began
        except KubeError as error:
            log.warning("virtual node not refreshed", tenant=self._tenant, node=name, error=str(error))
        finally:
            self._in_work.discard(name)
            slots.release()

    def shown(self) -> list[str]:
        """Return the super cluster's nodes that have virtual nodes in the tenant."""
        nodes = (
            names.split_virtual_node(node.name, self._super_id) for node in self._reflector.cache.items()
        )
        return [node for node in nodes if node is not None]

    def shows(self, node: str) -> bool:
        """Return whether a node of the super cluster has a virtual node in the tenant."""
        return self._reflector.cache.get("", names.virtual_node_name(node, self._super_id)) is not None

    def _exists(self, name: str) -> bool:
        node = self._reflector.cache.get("", name)
        return node is not None and not node.deleting and name not in self._deleting

    async def _create(self, node: str, name: str, context: TenantContext) -> None:
        actual = self._super_node(node)
        if actual is None:
            raise NodeNotReady(f"node {node} of super cluster {self._super_id} is not known yet")
        try:
            created = await self._client.create(NODES, virtual_node(actual, context))
        except AlreadyExists:
            created = await self._client.get(NODES, name)
            if created.labels.get(names.SUPER_CLUSTER_ID) != self._super_id:
                raise NameTaken(
                    f"the tenant has a Node {name} that vcsync did not create; delete or rename it"
                ) from None
        self._reflector.observe(created)
        # The first renewal in `beat` may come a whole interval later.
        await self._renew(name, self._interval)

    async def _collect(self, name: str, linger: float) -> bool:
        """Remove the node if it has been empty for `linger` seconds. Return whether it is gone or being deleted.

        The node is kept while the tenant has Pods on it, even if the super cluster has none: the super cluster may have
        lost its data, and without the node the tenant's controllers would delete the Pods.
        """
        actual = names.split_virtual_node(name, self._super_id)
        node = self._reflector.cache.get("", name)
        if node is None or node.deleting or actual is None:
            return True
        if self._pods_on(actual) > 0:
            self._empty_since.pop(name, None)
            return False
        if self._super_node(actual) is None:
            linger = 0.0
        if self._clock() - self._empty_since.setdefault(name, self._clock()) < linger:
            return False
        if await self._bound(name):
            return False
        async with self._locks.setdefault(name, asyncio.Lock()):
            # From here on `ensure` waits for the lock, and then creates the node again.
            self._deleting.add(name)
            try:
                with suppress(NotFound):
                    await self._client.delete(NODES, name, uid=node.uid)
                self._reflector.observe_gone("", name, node.uid)
            finally:
                self._deleting.discard(name)
                self._locks.pop(name, None)
        self._empty_since.pop(name, None)
        log.info("virtual node removed", tenant=self._tenant, node=name)
        return True

    async def _renew(self, name: str, interval: float) -> None:
        actual = self._super_node(names.split_virtual_node(name, self._super_id) or "")
        if actual is None or self._lost():
            return
        now = datetime.now(UTC)
        # The lease's own duration leaves room for two missed beats.
        spec: dict[str, Any] = {
            "holderIdentity": name,
            "leaseDurationSeconds": max(40, int(timedelta(seconds=interval * 3).total_seconds())),
            "renewTime": micro_time_text(now),
        }
        try:
            await self._client.patch(LEASES, name, {"spec": spec}, LEASE_NAMESPACE)
        except NotFound:
            node = self._reflector.cache.get("", name)
            if node is None:
                return
            # The owner makes the garbage collector delete the Lease with its node, as for kubelets' Leases.
            owner = {"apiVersion": NODES.api_version, "kind": NODES.kind, "name": name, "uid": node.uid}
            body = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]},
                "spec": spec,
            }
            await self._client.create(LEASES, body, LEASE_NAMESPACE)
