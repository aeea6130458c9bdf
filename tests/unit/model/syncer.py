"""One process of a syncer: the real caches, plans, reconciler, executor and drain, on watches that lag."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from vcsync.kube.cache import Cache
from vcsync.kube.errors import KubeError
from vcsync.kube.resources import (
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    RESOURCE_QUOTAS,
    SERVICE_ACCOUNTS,
    VOLUME_SNAPSHOTS,
)
from vcsync.syncer.caches import SuperCaches
from vcsync.syncer.drain import Drain
from vcsync.syncer.drift.detector import DriftDetector
from vcsync.syncer.drift.ledger import DriftLedger
from vcsync.syncer.kinds import KINDS
from vcsync.syncer.kinds.plan import Dependency
from vcsync.syncer.ledger import Holding, Ledger
from vcsync.syncer.nodes import NodeNotReady
from vcsync.syncer.pending import PendingPods
from vcsync.syncer.reconcile import Busy, SliceExhausted
from vcsync.syncer.service import DRAIN
from vcsync.syncer.tenant import NODE, REFILL, TenantSync
from vcsync.syncer.waiting import Item, ParkedItems
from vcsync.tenancy.brake import DeletionLimiter, Releases

from .feeds import Feed
from .process import Process
from .setting import KEY, Setting
from .super_cluster import SuperCluster

SYNCED = {name: KINDS[name] for name in ("namespaces", "serviceaccounts", "pods")}
RETRIED = (KubeError, Busy, SliceExhausted, NodeNotReady)


class Syncer(Process):
    """A syncer from its start to its end.

    Attributes:
        waiting: the items that wait, with reasons.
        session: its session with the tenant.
    """

    def __init__(self, setting: Setting, super_cluster: SuperCluster) -> None:
        super().__init__(setting, super_cluster.id, RETRIED)
        self.super_cluster = super_cluster
        self.waiting = ParkedItems()
        above = setting.client(setting.tenant, self.name)
        below = setting.client(super_cluster.api, self.name)
        meta = setting.client(setting.meta, self.name)
        self.caches = SuperCaches(
            below, SYNCED, enqueue=self._enqueue, wake=self._wake, on_node=lambda _: None
        )
        for resource in (PERSISTENT_VOLUME_CLAIMS, VOLUME_SNAPSHOTS):
            self.caches.reflectors[resource] = SimpleNamespace(synced=True, cache=Cache(), resource=resource)
        self.ledger = Ledger(meta, self.name, self._placement_changed)
        limiter = DeletionLimiter(0.3, released=lambda _: None, releases=Releases(), clock=self.clock)
        handle = SimpleNamespace(
            key=KEY,
            client=above,
            virtual_cluster=setting.virtual_cluster(),
            changed=asyncio.Event(),
            prove=_believed,
            ready=lambda: None,
            refused=lambda: None,
        )
        self.session = TenantSync(
            handle,
            server="https://10.0.0.1:6443",
            super_client=below,
            super_caches=self.caches,
            super_id=self.name,
            ledger=self.ledger,
            kinds=SYNCED,
            enqueue=self._enqueue,
            wake=self._wake,
            waiting=self.waiting,
            drift=DriftDetector(DriftLedger(self.clock), _unread, self.clock),
            limiter=limiter,
            on_changed=lambda _: None,
            note=lambda *_: None,
            clock=self.clock,
            leaving=_no,
        )
        self.session.objects.pending = PendingPods(self.clock)
        self.drain = Drain(
            meta=meta,
            super_client=below,
            super_id=self.name,
            caches=self.caches,
            ledger=self.ledger,
            on_deleted=lambda _, pod: self.session.report_drained(pod),
            evict=lambda _, pod: self.session.evict(pod),
            unbound=lambda _, pod: self.session.is_unbound(pod),
            availability=lambda _, namespace: self.session.availability(namespace),
            keeps_data=_no,
            clock=self.clock,
            limiter=limiter,
        )
        theirs = self.session.objects.tenant_caches
        self.feeds = {
            "placements": Feed(setting.meta, self.ledger.reflector),
            "copies": Feed(super_cluster.api, self.caches.reflectors[PODS]),
            "pods": Feed(setting.tenant, theirs.reflectors[PODS]),
            "quotas": Feed(super_cluster.api, self.caches.reflectors[RESOURCE_QUOTAS]),
            "super namespaces": Feed(super_cluster.api, self.caches.reflectors[NAMESPACES]),
            "super accounts": Feed(super_cluster.api, self.caches.reflectors[SERVICE_ACCOUNTS]),
            "super nodes": Feed(super_cluster.api, self.caches.nodes),
            "namespaces": Feed(setting.tenant, theirs.reflectors[NAMESPACES]),
            "accounts": Feed(setting.tenant, theirs.reflectors[SERVICE_ACCOUNTS]),
            "nodes": Feed(setting.tenant, theirs.nodes),
        }
        self.session.begin()
        self.run(self.session.enqueue_all())
        for entry in self.ledger.entries():
            if entry.holding is Holding.DRAINING or entry.clearing:
                self.add(Item(DRAIN, entry.namespace, ""))

    async def handle(self, item: Item) -> float | None:
        """Work on one item, as `Syncer._handle` does."""
        if item.kind == DRAIN:
            return await self.drain.step(KEY, item.namespace)
        if item.kind == REFILL:
            await self.session.placement_changed(item.namespace)
            return None
        return await self.session.reconcile(item)

    def reason(self, namespace: str, name: str) -> str:
        """Return why a Pod waits here; empty if it does not."""
        parked = self.waiting.reason(KEY, Item(PODS.plural, namespace, name))
        return parked.reason if parked is not None else ""

    def _enqueue(self, _tenant: str, item: Item) -> None:
        if item.kind != NODE:
            self.add(item)

    def _wake(self, _tenant: str, dependency: Dependency) -> None:
        for item in self.waiting.wake(KEY, dependency):
            self.add(item)

    def _placement_changed(self, _tenant: str, namespace: str) -> None:
        if not hasattr(self, "feeds"):
            return
        entry = self.ledger.entry(KEY, namespace)
        if entry is not None and (entry.holding is Holding.DRAINING or entry.clearing):
            self.add(Item(DRAIN, namespace, ""))
        self.session.ledger_changed(namespace)


async def _believed(_lists: int) -> None:
    return


async def _no(*_: object) -> bool:
    return False


async def _unread(*_: object) -> dict[str, Any] | None:
    return None
