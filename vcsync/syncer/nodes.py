"""Virtual nodes: what a tenant sees of a node, made with its first Pod there, kept fresh, taken away after its last."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import structlog

from vcsync.api import names
from vcsync.kube.client import Client
from vcsync.kube.envelope import Envelope
from vcsync.kube.errors import AlreadyExists, KubeError, NotFound
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import LEASES, NODES
from vcsync.syncer.kinds.node import node_gone_patch, node_patch, node_status_patch, virtual_node
from vcsync.syncer.kinds.plan import TenantContext

LEASE_NAMESPACE = "kube-node-lease"
"""Where a node's heartbeat lives (KEP-589)."""

AT_ONCE = 16
"""How many Leases of one tenant are renewed at the same time."""

log = structlog.get_logger(__name__)


class Pace(NamedTuple):
    """How fast virtual nodes live, in seconds."""

    interval: float
    """Between two renewals of one node's Lease."""
    linger: float
    """How long an empty node stays."""


class NodeNotReady(Exception):
    """The super cluster's node is not known (yet), so the tenant cannot be shown it."""


class NameTaken(Exception):
    """A node of that name stands in the tenant that this super cluster's syncer did not make."""


class VirtualNodes:
    """The virtual nodes that one super cluster shows to one tenant.

    Args:
        client: client of the tenant's control plane.
        tenant: cluster key.
        super_id: id of the super cluster.
        reflector: the tenant's Nodes that carry this super cluster's id.
        super_node: the super cluster's node of a name, from the cache.
        pods_on: how many of the tenant's Pods stand on a node of the super cluster.
        clock: monotonic seconds.
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
        clock: Callable[[], float],
    ) -> None:
        self._client = client
        self._tenant = tenant
        self._super_id = super_id
        self._reflector = reflector
        self._super_node = super_node
        self._pods_on = pods_on
        self._clock = clock
        self._interval = 0.0
        self._making: dict[str, asyncio.Lock] = {}
        self._empty_since: dict[str, float] = {}
        self._leaving: set[str] = set()
        self._renewed: dict[str, float] = {}
        self._in_work: set[str] = set()

    async def ensure(self, node: str, context: TenantContext) -> None:
        """Make the virtual node for `node` of the super cluster unless it stands already.

        Raises:
            NodeNotReady: the super cluster's node is not in the cache.
            NameTaken: the tenant has an object of that name which is not ours.
            KubeError: the tenant's API refused or could not be reached.
        """
        name = names.virtual_node_name(node, self._super_id)
        self._empty_since.pop(name, None)
        if self._standing(name):
            return
        async with self._making.setdefault(name, asyncio.Lock()):
            try:
                if not self._standing(name):
                    await self._create(node, name, context)
            finally:
                self._making.pop(name, None)

    async def refresh(self, node: str, context: TenantContext, now: str) -> None:
        """Bring the virtual node up to date with the super cluster's node; writes only material differences.

        One that the tenant has deleted though its Pods stand there is made anew: its own controllers would end them.

        Args:
            node: name of the super cluster's node.
            context: the tenant, as its kinds see it.
            now: RFC 3339 time for new conditions.
        """
        shown = self._reflector.cache.get("", names.virtual_node_name(node, self._super_id))
        actual = self._super_node(node)
        if shown is None:
            if actual is not None and self._pods_on(node) > 0:
                await self.ensure(node, context)
            return
        if actual is None:
            changes = [(node_gone_patch(shown, now), "status")]
        else:
            changes = [
                (node_patch(shown, actual, context), ""),
                (node_status_patch(shown, actual, now), "status"),
            ]
        for patch, subresource in changes:
            if patch:
                patch.setdefault("metadata", {})["uid"] = shown.uid
                self._reflector.observe(
                    await self._client.patch(NODES, shown.name, patch, subresource=subresource)
                )

    async def beat(self, pace: Callable[[], Pace]) -> None:
        """Renew leases and take empty nodes away, for ever, spread evenly over each interval.

        One write per node and interval at most (KEP-589: a Lease instead of the whole status). Each node has its time in the
        interval, however long answers take: up to `AT_ONCE` of them are waited for.

        Args:
            pace: how often and how long, asked anew for each round.
        """
        seats = asyncio.Semaphore(AT_ONCE)
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
                    await seats.acquire()
                    self._in_work.add(name)
                    tasks.create_task(self._beat_once(name, interval, linger, seats))
                await self._sleep_until(began + interval)

    def _longest_waiting_first(self) -> list[str]:
        """Return the nodes in the order of their last renewals, so that no change of order makes one wait longer."""
        names_shown = [node.name for node in self._reflector.cache.items()]
        self._renewed = {name: self._renewed.get(name, -math.inf) for name in names_shown}
        return sorted(names_shown, key=self._renewed.__getitem__)

    async def _sleep_until(self, then: float) -> None:
        await asyncio.sleep(max(0.0, then - self._clock()))

    async def _beat_once(self, name: str, interval: float, linger: float, seats: asyncio.Semaphore) -> None:
        began = self._clock()
        try:
            if not await self._collect(name, linger):
                await self._renew(name, interval)
                self._renewed[name] = began
        except KubeError as error:
            log.warning("virtual node not refreshed", tenant=self._tenant, node=name, error=str(error))
        finally:
            self._in_work.discard(name)
            seats.release()

    def shown(self) -> list[str]:
        """The super cluster's nodes that the tenant is shown."""
        found = (
            names.split_virtual_node(node.name, self._super_id) for node in self._reflector.cache.items()
        )
        return [node for node in found if node is not None]

    def shows(self, node: str) -> bool:
        """Whether the tenant is shown this node of the super cluster."""
        return self._reflector.cache.get("", names.virtual_node_name(node, self._super_id)) is not None

    def _standing(self, name: str) -> bool:
        node = self._reflector.cache.get("", name)
        return node is not None and not node.deleting and name not in self._leaving

    async def _create(self, node: str, name: str, context: TenantContext) -> None:
        actual = self._super_node(node)
        if actual is None:
            raise NodeNotReady(f"node {node} of super cluster {self._super_id} is not known yet")
        try:
            made = await self._client.create(NODES, virtual_node(actual, context))
        except AlreadyExists:
            made = await self._client.get(NODES, name)
            if made.labels.get(names.SUPER_CLUSTER_ID) != self._super_id:
                raise NameTaken(
                    f"the tenant has a Node {name} that vcsync did not make; delete or rename it"
                ) from None
        self._reflector.observe(made)
        await self._renew(name, self._interval)  # the first beat may come a whole interval later

    async def _collect(self, name: str, linger: float) -> bool:
        """Take the node away if it has been empty for `linger` seconds; True when it is gone or going."""
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
        async with self._making.setdefault(name, asyncio.Lock()):
            # Whoever brings a Pod there from now on waits, and makes the node anew.
            self._leaving.add(name)
            try:
                with suppress(NotFound):
                    await self._client.delete(NODES, name, uid=node.uid)
                self._reflector.observe_gone("", name, node.uid)
            finally:
                self._leaving.discard(name)
                self._making.pop(name, None)
        self._empty_since.pop(name, None)
        log.info("virtual node taken away", tenant=self._tenant, node=name)
        return True

    async def _renew(self, name: str, interval: float) -> None:
        actual = self._super_node(names.split_virtual_node(name, self._super_id) or "")
        if actual is None:
            return
        now = datetime.now(UTC)
        # The lease's own duration leaves room for two missed beats.
        spec: dict[str, Any] = {
            "holderIdentity": name,
            "leaseDurationSeconds": max(40, int(timedelta(seconds=interval * 3).total_seconds())),
            "renewTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }
        try:
            await self._client.patch(LEASES, name, {"spec": spec}, LEASE_NAMESPACE)
        except NotFound:
            node = self._reflector.cache.get("", name)
            if node is None:
                return
            # So that it goes with its node, as kubelets' do.
            owner = {"apiVersion": NODES.api_version, "kind": NODES.kind, "name": name, "uid": node.uid}
            body = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]},
                "spec": spec,
            }
            await self._client.create(LEASES, body, LEASE_NAMESPACE)
