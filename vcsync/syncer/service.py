"""The syncer of one super cluster: wires caches, ledger, tenants, workers and loops together."""

from __future__ import annotations

import asyncio
import itertools
import time
import zlib
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import structlog
from msgspec import Struct, to_builtins
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from vcsync.api import names
from vcsync.api.names import cluster_key
from vcsync.api.objects import VirtualCluster
from vcsync.api.resources import VIRTUAL_CLUSTERS
from vcsync.fairqueue import WorkerPool
from vcsync.kube.client import Client
from vcsync.kube.envelope import Envelope
from vcsync.kube.errors import KubeError, NotFound
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import NAMESPACES, PODS, RUNTIME_CLASSES, SERVICES
from vcsync.syncer.caches import TENANT_MEMORY_BYTES, SuperCaches
from vcsync.syncer.drain import Drain
from vcsync.syncer.drift import DriftLedger
from vcsync.syncer.heartbeat import Heartbeat
from vcsync.syncer.identity import check_identity
from vcsync.syncer.kinds import KINDS
from vcsync.syncer.kinds.plan import Dependency
from vcsync.syncer.ledger import Holding, Ledger
from vcsync.syncer.nodes import NodeNotReady
from vcsync.syncer.patrol import Patrol
from vcsync.syncer.reconcile import Busy, SliceExhausted
from vcsync.syncer.steps import STEP_ITEMS
from vcsync.syncer.tenant import NODE, REFILL, TenantSync
from vcsync.syncer.tenant_events import Destination, NotYet, TenantEvents
from vcsync.syncer.waiting import Item, WaitingRoom
from vcsync.tenancy.brake import Gate, released_at
from vcsync.tenancy.registry import TenantHandle, TenantRegistry, TenantStatistics
from vcsync.tenancy.status import skipped_objects

DRAIN = "drain"
"""Items of this kind drain a namespace; (namespace, "")."""

WAITING_SHOWN = 100
"""Waiting items of a tenant that /status names."""

log = structlog.get_logger(__name__)

LEAVING_SECONDS = 1.0
"""When to look again at a namespace whose tenant is being removed."""


class SyncerSettings(Struct, frozen=True, kw_only=True):
    """What an operator can set for one syncer."""

    workers: int = 64
    """Items handled at once."""
    tenant_share: int = 32
    """Items of one tenant handled at once: a slow tenant cannot take all the workers."""
    patrol_seconds: float = 300.0
    """Seconds between two rounds of the patrol."""
    brake_share: float = 0.3
    """No larger share than this of what stands is deleted at once, unless somebody was seen to ask for it."""
    memory_per_tenant: int = TENANT_MEMORY_BYTES
    """Bytes that one tenant's objects may take of memory; one with more is not synced."""
    shard: tuple[int, int] = (1, 1)
    """(which, of how many) shards of tenants; the first shard speaks for the super cluster."""
    identity: str = "syncer"
    """Who this process is, in SuperCluster status and leases."""


class Syncer:
    """Keeps one super cluster in step with every tenant that has slices there.

    Args:
        meta: client of the meta cluster.
        super_client: client of the super cluster.
        super_id: its id.
        settings: what the operator set.
    """

    def __init__(
        self, *, meta: Client, super_client: Client, super_id: str, settings: SyncerSettings | None = None
    ) -> None:
        self._meta = meta
        self._super_client = super_client
        self.super_id = super_id
        self._settings = settings or SyncerSettings()
        self._clock = time.monotonic
        self._waiting = WaitingRoom()
        self._drift = DriftLedger()
        self._tenants: dict[str, TenantSync] = {}
        self._gate = Gate(self._settings.brake_share, released=self._released, clock=self._clock)
        self._synced = False
        self._pool: WorkerPool[Item] = WorkerPool(
            f"syncer-{super_id}",
            self._handle,
            workers=self._settings.workers,
            clock=self._clock,
            on_error=self._failed,
        )
        self.caches = SuperCaches(
            super_client, KINDS, enqueue=self._enqueue_super, wake=self._wake, on_node=self._node_changed
        )
        self.ledger = Ledger(meta, super_id, self._placement_changed)
        self._drain = Drain(
            meta=meta,
            super_client=super_client,
            super_id=super_id,
            caches=self.caches,
            ledger=self.ledger,
            tell=self._tell_drained,
            evict=self._evict,
            clock=self._clock,
            gate=self._gate,
        )
        self._events = TenantEvents(super_client, owner=self._owner_of_event, translate=self._translate_event)
        self._heartbeat = Heartbeat(
            meta=meta,
            super_client=super_client,
            super_id=super_id,
            nodes=self.caches.nodes.cache.items,
            stale=lambda: self.caches.nodes.stale_since is not None,
            entries=self.ledger.entries,
            identity=self._settings.identity,
            brakes=self._gate.braked.values,
        )
        self._patrol = Patrol(
            tenants=lambda: list(self._tenants.values()),
            caches=self.caches,
            ledger=self.ledger,
            enqueue=self._pool.add,
            drain=self._enqueue_drain,
            period=self._settings.patrol_seconds,
        )
        self._registry = TenantRegistry(meta, names.ROLE_SYNCER, self._run_tenant, accept=self._in_shard)

    # --- life

    async def run(self) -> None:
        """Sync until cancelled; what is in flight is finished first.

        Raises:
            WrongSuperCluster: the kubeconfig leads elsewhere.
        """
        await check_identity(self._super_client, self.super_id)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.caches.run())
                tasks.create_task(self.ledger.reflector.run())
                if self._settings.shard[0] == 1:
                    tasks.create_task(self._heartbeat_when_synced())
                await self.caches.wait_synced()
                await self.ledger.reflector.wait_synced()
                self._synced = True
                log.info("super cluster synced", super_cluster=self.super_id)
                self._begin_drains()
                tasks.create_task(self._events.run())
                tasks.create_task(self._registry.run())
                tasks.create_task(self._patrol.run())
                tasks.create_task(self._work())
        finally:
            self._synced = False

    async def _work(self) -> None:
        try:
            await self._pool.run()
        finally:
            log.info("syncer stops", super_cluster=self.super_id)

    async def drain_work(self, timeout: float) -> bool:  # noqa: ASYNC109  running out of time is a result here
        """Take no more work and wait for what is in flight; whether it ended in time (seconds)."""
        return await self._pool.drain(timeout)

    async def _heartbeat_when_synced(self) -> None:
        await self.caches.nodes.wait_synced()
        await self.ledger.reflector.wait_synced()
        await self._heartbeat.run()

    def _in_shard(self, virtual_cluster: VirtualCluster) -> bool:
        return self._owns(cluster_key(virtual_cluster))

    async def _run_tenant(self, handle: TenantHandle) -> None:
        """One session of one tenant; ends by cancellation (the tenant went, or has new credentials) or failure."""
        tenant = TenantSync(
            handle,
            server=(await handle.client.connection.credentials()).url,
            super_client=self._super_client,
            here=self.caches,
            super_id=self.super_id,
            ledger=self.ledger,
            kinds=KINDS,
            enqueue=self._pool.add,
            wake=self._wake,
            waiting=self._waiting,
            drift=self._drift,
            gate=self._gate,
            on_changed=lambda changed: self._pool.queue.set_weight(handle.key, changed.spec.weight),
            clock=self._clock,
            memory=self._settings.memory_per_tenant,
        )
        self._tenants[handle.key] = tenant
        self._pool.queue.set_weight(handle.key, handle.virtual_cluster.spec.weight)
        self._pool.queue.set_limit(handle.key, self._settings.tenant_share)
        try:
            await tenant.run()
        finally:
            del self._tenants[handle.key]
            self._waiting.forget_tenant(handle.key)
            self._gate.forget(handle.key)
            self._pool.queue.forget_group(handle.key)
            for entry in self.ledger.entries(handle.key):
                if entry.holding is Holding.DRAINING:
                    self._enqueue_drain(handle.key, entry.namespace)

    # --- work

    async def _handle(self, key: str, item: Item) -> float | None:
        if item.kind == DRAIN:
            if await self._is_leaving(key):
                return LEAVING_SECONDS
            return await self._drain.step(key, item.namespace)
        tenant = self._tenants.get(key)
        if tenant is None or not tenant.ready:
            return None
        try:
            return await _look_at(tenant, item)
        except Exception:
            if self._tenants.get(key) is not tenant:
                # Its session ended meanwhile, and with it its client; the next one, if any, looks at everything.
                return None
            raise

    def _failed(self, key: str, item: Item, error: Exception, delay: float) -> None:
        """Log what an item failed with; an error that no API caused is a defect of ours and shows its trace."""
        about = {"super_cluster": self.super_id, "tenant": key, "item": "/".join(item), "again_in": delay}
        if isinstance(error, KubeError | SliceExhausted | Busy | NodeNotReady):
            log.info("item failed", error=str(error), **about)
        else:
            log.error("item failed", exc_info=error, **about)

    def _enqueue_super(self, tenant: str, item: Item) -> None:
        session = self._tenants.get(tenant)
        if session is not None:
            session.world.enqueue(tenant, item)
        if item.kind in (PODS.plural, NAMESPACES.plural):
            namespace = item.namespace or item.name
            entry = self.ledger.entry(tenant, namespace)
            if entry is None or entry.holding is Holding.DRAINING:
                self._enqueue_drain(tenant, namespace)

    def _enqueue_drain(self, tenant: str, namespace: str) -> None:
        if self._synced and self._owns(tenant):
            self._pool.add(tenant, Item(DRAIN, namespace, ""))

    def _tell_drained(self, key: str, pod: Envelope) -> None:
        tenant = self._tenants.get(key)
        if tenant is not None:
            tenant.tell_drained(pod)

    async def _is_leaving(self, key: str) -> bool:
        """Whether a tenant is being removed whose session has not ended yet.

        Its own Pods stay as they are, so nothing may go here while the session still follows that.
        """
        session = self._tenants.get(key)
        if session is None:
            return False
        known = session.handle.virtual_cluster
        try:
            found = await self._meta.get(VIRTUAL_CLUSTERS, known.name, known.namespace)
        except NotFound:
            return True
        return found.deleting or found.uid != known.uid

    async def _evict(self, key: str, pod: Envelope) -> str:
        """Ask a tenant whether a Pod may end; one that is not connected has no say, or it could keep us for ever."""
        tenant = self._tenants.get(key)
        return await tenant.evict(pod) if tenant is not None and tenant.ready else ""

    def _owns(self, key: str) -> bool:
        """Whether this shard answers for a tenant, known or gone."""
        return in_shard(key, self._settings.shard)

    def _begin_drains(self) -> None:
        for entry in self.ledger.entries():
            if entry.holding is Holding.DRAINING or entry.clearing:
                self._enqueue_drain(entry.tenant, entry.namespace)

    def _placement_changed(self, tenant: str, namespace: str) -> None:
        if not self._synced:
            return
        entry = self.ledger.entry(tenant, namespace)
        if entry is None and namespace == names.TENANT_DNS_NAMESPACE:
            self._enqueue_drain(tenant, namespace)  # the last who used the name server here has gone
        if entry is not None and (entry.holding is Holding.DRAINING or entry.clearing):
            self._enqueue_drain(tenant, namespace)
        session = self._tenants.get(tenant)
        if session is not None:
            session.ledger_changed(namespace)

    def _released(self, tenant: str) -> datetime | None:
        """When an operator last said that deletions are right: a tenant's, or those that belong to none."""
        session = self._tenants.get(tenant)
        if session is None:
            return self._heartbeat.released if not tenant else None
        return released_at(session.handle.virtual_cluster.annotations.get(names.BRAKE_RELEASED))

    def _wake(self, tenant: str, dependency: Dependency) -> None:
        if dependency.resource == RUNTIME_CLASSES:
            self._runtime_classes_changed(tenant)
            return
        woken = self._waiting.wake(tenant, dependency)
        owner = self._tenants.get(tenant)
        if owner is not None and len(woken) > STEP_ITEMS:
            owner.look_again(woken)
        else:
            for item in woken:
                self._pool.add(tenant, item)
        if (
            dependency.side == "super"
            and dependency.resource == SERVICES
            and dependency.name == names.TENANT_DNS_SERVICE
        ):
            session = self._tenants.get(tenant)
            if session is not None:
                session.dns_changed()

    def _runtime_classes_changed(self, tenant: str) -> None:
        """See what a change of a tenant's RuntimeClasses, or of the super cluster's ("" then), means for Pods."""
        for key, session in self._tenants.items():
            if tenant in ("", key):
                session.runtime_classes_changed()

    def _node_changed(self, node: str) -> None:
        for key, tenant in self._tenants.items():
            if tenant.nodes.shows(node):
                self._pool.add(key, Item(NODE, "", node))

    # --- events

    def _owner_of_event(self, event: Envelope) -> str:
        namespace = self.caches.get(NAMESPACES, "", event.namespace)
        return namespace.annotations.get(names.CLUSTER, "") if namespace is not None else ""

    def _translate_event(self, event: Envelope) -> Destination | None:
        tenant = self._tenants.get(self._owner_of_event(event))
        if tenant is None:
            return None
        if not tenant.ready:
            raise NotYet
        return tenant.destination(event)

    # --- what operators see: a StatusSource of vcsync.status

    def ready(self) -> tuple[bool, str]:
        """Whether the syncer does its work now, and if not why."""
        if not self._synced:
            behind = ", ".join(_first_list(r) for r in self.caches.all() if not r.synced) or "the ledger"
            return False, f"super cluster {self.super_id}: waiting for the first list of {behind}"
        waiting = [key for key, tenant in self._tenants.items() if not tenant.ready]
        return True, f"{len(waiting)} tenants are still being synced" if waiting else ""

    def status(self) -> dict[str, Any]:
        """Everything an operator may want to know, as plain JSON values."""
        queue = self._pool.queue
        now = self._clock()
        return {
            "superCluster": self.super_id,
            "shard": "/".join(map(str, self._settings.shard)),
            "queue": to_builtins(queue.statistics()),
            "super": {
                "caches": _cache_states(self.caches.all()),
                "requests": to_builtins(self._super_client.statistics()),
            },
            # One after another as they are asked for: all at once would keep the event loop.
            "tenants": (self._tenant_status(statistics, now) for statistics in self._registry.statistics()),
            "drains": [
                {"tenant": tenant, "namespace": namespace, "reason": reason}
                for (tenant, namespace), reason in self._drain.reasons.items()
            ],
            "events": {
                "written": self._events.written,
                "dropped": self._events.dropped,
                **skipped_objects(self._events.reflector),
            },
            "patrol": {"rounds": self._patrol.rounds, "found": self._patrol.found},
            "braked": [to_builtins(brake) for brake in self._gate.braked.values()],
            "drift": {
                "repairs": self._drift.total,
                "latest": [to_builtins(repair) for repair in self._drift.latest()],
            },
            "lastErrors": [
                {"tenant": tenant, "item": "/".join(item), **error._asdict()}
                for (tenant, item), error in self._pool.last_errors.items()
            ],
        }

    def _tenant_status(self, statistics: TenantStatistics, now: float) -> dict[str, Any]:
        key = statistics.key
        tenant = self._tenants.get(key)
        oldest = self._pool.queue.oldest(key, now)
        longest = self._waiting.longest(key)
        return {
            **to_builtins(statistics),
            "queued": self._pool.queue.ready(key),
            "delayed": self._pool.queue.depth(key) - self._pool.queue.ready(key),
            "oldest": {"item": "/".join(oldest[0]), "age": oldest[1], "attempts": oldest[2]}
            if oldest
            else None,
            "waitingLongest": {
                "item": "/".join(longest[0]),
                "reason": longest[1].reason,
                "age": now - longest[1].since,
            }
            if longest
            else None,
            "waiting": [
                {"item": "/".join(item), "reason": parked.reason, "age": now - parked.since}
                for item, parked in itertools.islice(self._waiting.of(key), WAITING_SHOWN)
            ],
            "caches": _cache_states(tenant.world.theirs.all()) if tenant is not None else {},
        }

    def metrics(self) -> Iterable[Metric]:
        """Metric families; at most a handful of series per tenant."""
        statistics = self._pool.queue.statistics()
        queue = GaugeMetricFamily("vcsync_syncer_queue", "Items by state", labels=["super_cluster", "state"])
        for state in ("queued", "delayed", "in_process"):
            queue.add_metric([self.super_id, state], getattr(statistics, state))
        yield queue
        depth = GaugeMetricFamily(
            "vcsync_syncer_tenant_queued",
            "Items of a tenant that wait for a worker",
            labels=["super_cluster", "tenant"],
        )
        for key in self._tenants:
            depth.add_metric([self.super_id, key], self._pool.queue.depth(key))
        yield depth
        objects = GaugeMetricFamily(
            "vcsync_syncer_objects", "Objects in caches", labels=["super_cluster", "side"]
        )
        objects.add_metric([self.super_id, "super"], sum(len(r.cache) for r in self.caches.all()))
        objects.add_metric(
            [self.super_id, "tenant"],
            sum(len(r.cache) for t in self._tenants.values() for r in t.world.theirs.all()),
        )
        yield objects
        for name, text, value in (
            ("waiting", "Items parked until something else changes", len(self._waiting)),
            ("braked", "Deletions too many to be believed, by tenant and kind", len(self._gate.braked)),
            ("drains", "Namespaces being drained", len(self._drain.reasons)),
        ):
            gauge = GaugeMetricFamily(f"vcsync_syncer_{name}", text, labels=["super_cluster"])
            gauge.add_metric([self.super_id], value)
            yield gauge
        for name, text, value in (
            ("drift_repairs", "Repairs of what had changed in the super cluster only", self._drift.total),
            ("events_written", "Events told again in tenants", self._events.written),
            ("events_dropped", "Events not told again", self._events.dropped),
        ):
            counter = CounterMetricFamily(f"vcsync_syncer_{name}", text, labels=["super_cluster"])
            counter.add_metric([self.super_id], value)
            yield counter


def in_shard(key: str, shard: tuple[int, int]) -> bool:
    """Whether a tenant belongs to a shard; each tenant belongs to exactly one, the same in every process.

    Args:
        key: cluster key of the tenant.
        shard: (which, of how many), the first is 1.
    """
    which, count = shard
    return zlib.crc32(key.encode()) % count == which - 1


def _first_list(reflector: Reflector) -> str:
    """A resource that has not been listed yet, and what keeps it from being listed."""
    error = reflector.statistics().last_error
    return f"{reflector.resource.plural} ({error})" if error else reflector.resource.plural


def _cache_states(reflectors: Iterable[Reflector]) -> dict[str, Any]:
    return {
        reflector.resource.plural: {
            "objects": len(reflector.cache),
            "synced": reflector.synced,
            "lastError": reflector.statistics().last_error,
            **skipped_objects(reflector),
        }
        for reflector in reflectors
    }


async def _look_at(tenant: TenantSync, item: Item) -> float | None:
    """Bring one item of a tenant a step further."""
    if item.kind == NODE:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        await tenant.nodes.refresh(item.name, tenant.context, now)
        return None
    if item.kind == REFILL:
        await tenant.placement_changed(item.namespace)
        return None
    return await tenant.reconcile(item)
