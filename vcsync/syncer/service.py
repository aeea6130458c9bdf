"""The syncer of one super cluster: connects its caches, ledger, tenants, workers and loops."""

from __future__ import annotations

import asyncio
import itertools
import time
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any

import structlog
from msgspec import Struct, to_builtins
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from vcsync.api import names
from vcsync.api.objects import SuperCluster, VirtualCluster, cluster_key
from vcsync.api.resources import VIRTUAL_CLUSTERS
from vcsync.api.specs import ShownNodes, SuperClusterSpec, Trouble
from vcsync.fairqueue import ObjectName, WorkerPool
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.errors import KubeError, NotFound
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import (
    INGRESS_CLASSES,
    INGRESSES,
    NAMESPACES,
    PODS,
    PRIORITY_CLASSES,
    RUNTIME_CLASSES,
    SERVICES,
    Resource,
)
from vcsync.objects.envelope import Envelope
from vcsync.objects.times import time_text
from vcsync.published.definitions import differences
from vcsync.published.kind import described
from vcsync.published.kinds import KINDS as PUBLISHED
from vcsync.scheduling.snapshot import Health
from vcsync.syncer.availability import Availability
from vcsync.syncer.caches import SuperCaches, item_of, offered
from vcsync.syncer.definitions import DefinitionStore
from vcsync.syncer.drain import Drain
from vcsync.syncer.drain_report import DrainReport
from vcsync.syncer.drift.detector import DriftDetector, reader
from vcsync.syncer.drift.ledger import DriftLedger
from vcsync.syncer.drift.repairs import CAUSES
from vcsync.syncer.drift.store import DriftStore
from vcsync.syncer.endpoint_exchange import EndpointExchange
from vcsync.syncer.heartbeat import CHECK_SECONDS, Heartbeat, Published
from vcsync.syncer.host_index import HostIndex, Place
from vcsync.syncer.identity import check_identity
from vcsync.syncer.kinds import KINDS
from vcsync.syncer.kinds.plan import Dependency
from vcsync.syncer.kubelet_api.service import KubeletApi
from vcsync.syncer.kubelet_api.settings import KubeletSettings
from vcsync.syncer.ledger import Holding, Ledger
from vcsync.syncer.nodes import NameTaken, NodeNotReady
from vcsync.syncer.patrol import Patrol
from vcsync.syncer.pod_meter import PodMeter
from vcsync.syncer.reconcile import Busy, SliceExhausted
from vcsync.syncer.shared_slices import Owner
from vcsync.syncer.steps import STEP_ITEMS
from vcsync.syncer.tenant import NODE, REFILL, TenantSync
from vcsync.syncer.tenant_events import Destination, NotYet, TenantEvents
from vcsync.syncer.waiting import Item, ParkedItems
from vcsync.tenancy.brake import DeletionLimiter, Releases, released_at
from vcsync.tenancy.caches import not_synced, wait_for_caches
from vcsync.tenancy.failure import Patience
from vcsync.tenancy.memory import TENANT_MEMORY_BYTES
from vcsync.tenancy.pool import Pool
from vcsync.tenancy.proof import WrongControlPlane
from vcsync.tenancy.registry import TenantHandle, TenantRegistry, TenantStatistics
from vcsync.tenancy.service_ranges import RANGE_REFUSED, ServiceRanges, range_refused
from vcsync.tenancy.status import (
    last_errors,
    reconcile_metrics,
    shared_skipped,
    skipped_metric,
    skipped_objects,
    timeline,
    troubles_metric,
    unanswered,
)
from vcsync.tenancy.troubles import braked

DRAIN = "drain"
"""Kind of the items that drain a namespace: (namespace, "")."""

EXCHANGE = "shared-endpoints"
"""Kind of the items that exchange endpoints with other super clusters: (super namespace, "")."""

WAITING_SHOWN = 100
"""Largest number of a tenant's parked items that /status lists."""

log = structlog.get_logger(__name__)

_CREATION_SECONDS = 5.0
"""Longest time in seconds that tenants wait for what copies have from their creation on to be read in the super cluster."""
LEAVING_SECONDS = 1.0
"""Seconds until a drain is tried again for a tenant that is being removed."""


class SyncerSettings(Struct, frozen=True, kw_only=True):
    """The operator's settings of one syncer."""

    workers: int = 64
    """Number of items that are reconciled concurrently."""
    tenant_share: int = 32
    """Number of items of one tenant that are reconciled concurrently, so that a slow tenant cannot take all workers."""
    patrol_seconds: float = 300.0
    """Seconds between two rounds of the patrol."""
    brake_share: float = 0.3
    """The largest share of a tenant's objects that is deleted within ten minutes without an observed request."""
    memory_per_tenant: int = TENANT_MEMORY_BYTES
    """Bytes of memory that one tenant's objects may take. A tenant with more is not synced."""
    shard: tuple[int, int] = (1, 1)
    """(number, count) of the shard of tenants; the first shard writes the SuperCluster's status."""
    kubelet: KubeletSettings | None = None
    """Settings of the kubelet API of virtual nodes. None: it is not served."""
    identity: str = "syncer"
    """Name of this process in the SuperCluster's status and in leases."""
    patience: Patience = Patience()
    """Silence after which another super cluster is lost, and its endpoints are withdrawn here."""
    unschedulable_seconds: float = 60.0
    """Seconds without a node for the copy of a Pod after which the Pod may be placed on another super cluster."""


class Syncer:
    """Synchronizes one super cluster with every tenant that has slices there.

    Args:
        meta: client of the meta cluster.
        super_client: client of the super cluster.
        super_id: its id.
        settings: the operator's settings.
        make_client: makes a client from a tenant's kubeconfig, with the tenant's key as its name.
        releases: releases of brakes that this process has seen, also in earlier syncers of this super cluster.
    """

    def __init__(
        self,
        *,
        meta: Client,
        super_client: Client,
        super_id: str,
        settings: SyncerSettings | None = None,
        make_client: Callable[[bytes, str], Client] | None = None,
        releases: Releases | None = None,
    ) -> None:
        self._meta = meta
        self._super_client = super_client
        self.super_id = super_id
        self._settings = settings or SyncerSettings()
        self._clock = time.monotonic
        self._waiting = ParkedItems()
        self._drift = DriftLedger(self._clock)
        self._drift_detector = DriftDetector(self._drift, reader(super_client), self._clock)
        self._tenants: dict[str, TenantSync] = {}
        self._limiter = DeletionLimiter(
            self._settings.brake_share,
            released=self._released,
            releases=releases or Releases(),
            clock=self._clock,
            release_others=f"--super-cluster {super_id}",
        )
        self._synced = False
        self._pool: WorkerPool[Item] = WorkerPool(
            f"syncer-{super_id}",
            self._handle,
            workers=self._settings.workers,
            clock=self._clock,
            on_error=self._failed,
            controller_of=lambda item: f"syncer-{item.kind}",
        )
        self._pod_meter = PodMeter(meta=meta, super_id=super_id, shard=self._settings.shard, owns=self._owns)
        self._drift_store = DriftStore(meta, self._drift, super_id, self._settings.shard)
        kubelet = self._settings.kubelet
        self._kubelet_api = KubeletApi(kubelet, super_id, super_client) if kubelet is not None else None
        self._hosts = HostIndex(
            lambda place: self._wake_others(Dependency("super", INGRESSES, place.namespace, place.name)),
            self._ingress_contested,
        )
        self.caches = SuperCaches(
            super_client,
            KINDS,
            enqueue=self._enqueue_super,
            wake=self._wake,
            on_node=self._node_changed,
            on_cordon=self._cordon_changed,
            on_pod=self._pod_meter.observe,
            on_read=self._optional_kind_read,
            on_ingress=self._ingress_changed,
            on_ingress_class=lambda name: self._wake_others(Dependency("super", INGRESS_CLASSES, "", name)),
            on_service_cidr=self._service_ranges_changed,
        )
        self._shown_nodes: ShownNodes | None = None
        self.ledger = Ledger(meta, super_id, self._placement_changed)
        self._networks: dict[str, str] = {}
        self._lost: frozenset[str] = frozenset()
        self._super_clusters = Pool(
            meta, patience=self._settings.patience, on_change=self._pool_changed, clock=self._clock
        )
        self._exchange = EndpointExchange(
            meta=meta,
            super_client=super_client,
            super_id=super_id,
            caches=self.caches,
            ledger=self.ledger,
            pool=self._super_clusters,
            enqueue=lambda tenant, place: self._pool.add(tenant, Item(EXCHANGE, place, "")),
            owns=self._owns,
            leads=self._settings.shard[0] == 1,
            report=self._report_not_shared,
            clock=self._clock,
        )
        self._drain = Drain(
            meta=meta,
            super_client=super_client,
            super_id=super_id,
            caches=self.caches,
            ledger=self.ledger,
            on_deleted=self._report_drained,
            evict=self._evict,
            unbound=self._unbound,
            availability=self._availability,
            keeps_data=self._keeps_data,
            clock=self._clock,
            limiter=self._limiter,
        )
        self._drain_report = DrainReport(
            meta=meta,
            super_id=super_id,
            shard=self._settings.shard,
            caches=self.caches,
            ledger=self.ledger,
            blocked=self._drain.blocked,
            owns=self._owns,
            found=self._own_super_cluster,
            clock=self._clock,
        )
        self._events = TenantEvents(super_client, owner=self._owner_of_event, translate=self._translate_event)
        self._out_of_touch = False
        self._definitions = DefinitionStore(meta, super_client, super_id)
        self._lost_since = ""
        self.fenced = asyncio.Event()
        """Set once an operator fences the super cluster. The owner stops the syncer then."""
        self._heartbeat = Heartbeat(
            meta=meta,
            super_client=super_client,
            super_id=super_id,
            nodes=self.caches.nodes.cache.items,
            stale=lambda: self.caches.nodes.stale_since is not None,
            entries=self.ledger.entries,
            identity=self._settings.identity,
            brakes=self._limiter.braked.values,
            published=self._published,
            unpublished=self._unpublished,
            troubles=self._troubles,
            shard=self._settings.shard,
            settings=self._settings_read,
        )
        self._patrol = Patrol(
            tenants=lambda: list(self._tenants.values()),
            caches=self.caches,
            ledger=self.ledger,
            enqueue=self._pool.add,
            drain=self._enqueue_drain,
            period=self._settings.patrol_seconds,
        )
        self._service_ranges = ServiceRanges()
        self._refused_ranges: dict[tuple[str, str], str] = {}
        self._registry = TenantRegistry(
            meta,
            names.ROLE_SYNCER,
            self._run_tenant,
            accept=self._in_shard,
            on_change=self._virtual_cluster_changed,
            make_client=make_client,
        )

    # --- start and end

    async def run(self) -> None:
        """Sync until cancelled. Items in flight are finished first.

        Raises:
            WrongSuperCluster: the kubeconfig leads to another cluster.
            ExceptionGroup: a part failed. It contains CachesNotSynced if the super cluster or the ledger could not be
                read within `CACHE_SYNC_SECONDS`.
        """
        await check_identity(self._super_client, self.super_id)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.caches.run())
                tasks.create_task(self.ledger.reflector.run())
                tasks.create_task(self._super_clusters.run())
                tasks.create_task(self._heartbeat_when_synced())
                if self._settings.shard[0] == 1:
                    tasks.create_task(self._definitions.run())
                tasks.create_task(self._bind_streams_when_permitted())
                await wait_for_caches(
                    [*self.caches.required(), self.ledger.reflector, self._super_clusters.reflector]
                )
                await self._read_what_creations_need()
                self._synced = True
                log.info("super cluster synced", super_cluster=self.super_id)
                self._begin_drains()
                tasks.create_task(self._events.run())
                tasks.create_task(self._watch_touch())
                tasks.create_task(self._registry.run())
                tasks.create_task(self._patrol.run())
                tasks.create_task(self._pod_meter.run())
                tasks.create_task(self._drift_store.run())
                tasks.create_task(self._drain_report.run())
                tasks.create_task(self._exchange.run())
                tasks.create_task(self._work())
        finally:
            self._synced = False

    async def _read_what_creations_need(self) -> None:
        """Wait until the published PriorityClasses and ServiceCIDRs are known.

        A Pod keeps the priority that it was created with, and a Service its cluster IP. A syncer whose roles are of an earlier
        version, or whose super cluster has no ServiceCIDRs, goes on without them.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(_CREATION_SECONDS):
                await self.caches.classes[PRIORITY_CLASSES].wait_synced()
                await self.caches.service_cidrs.wait_synced()

    async def _work(self) -> None:
        try:
            await self._pool.run()
        finally:
            log.info("syncer stops", super_cluster=self.super_id)

    async def drain_work(self, timeout: float) -> bool:  # noqa: ASYNC109  running out of time is a result here
        """Take no more items, and wait up to `timeout` seconds for those in flight. Return whether they ended in time."""
        return await self._pool.drain(timeout)

    async def _heartbeat_when_synced(self) -> None:
        await self.caches.nodes.wait_synced()
        await self.ledger.reflector.wait_synced()
        await self._heartbeat.run()

    async def _bind_streams_when_permitted(self) -> None:
        """Have sessions keep RoleBindings for logs and exec as soon as those can be read."""
        await self.caches.role_bindings.wait_synced()
        for session in self._tenants.values():
            session.refresh_context()

    async def _watch_touch(self) -> None:
        """Follow whether the super cluster is heard from, and compare everything again when that changes."""
        while True:
            if (out_of_touch := bool(self._trouble())) != self._out_of_touch:
                self._out_of_touch = out_of_touch
                for session in self._tenants.values():
                    session.refresh_context()
            await asyncio.sleep(CHECK_SECONDS)

    def _published(self) -> Published:
        """Return the published classes of the kinds that have been read."""
        caches = ((kind, self.caches.classes[kind.resource]) for kind in PUBLISHED)
        classes = {
            kind.status_field: described(kind, each.cache.items()) for kind, each in caches if each.synced
        }
        definitions = self._definitions.published
        return classes if definitions is None else {**classes, "customResourceDefinitions": definitions}

    def _unpublished(self) -> dict[str, str]:
        """Return why tenants do not get definitions that the operator publishes here, by name."""
        return {
            **differences(self._super_clusters.views.values(), self.super_id),
            **self._definitions.refused,
        }

    def _in_shard(self, virtual_cluster: VirtualCluster) -> bool:
        return self._owns(cluster_key(virtual_cluster))

    async def _run_tenant(self, handle: TenantHandle) -> None:
        """Run one session of one tenant until it fails, or is cancelled for a removed tenant or new credentials."""
        tenant = TenantSync(
            handle,
            server=(await handle.client.connection.credentials()).url,
            super_client=self._super_client,
            super_caches=self.caches,
            super_id=self.super_id,
            ledger=self.ledger,
            kinds=KINDS,
            enqueue=self._pool.add,
            wake=self._wake,
            waiting=self._waiting,
            drift=self._drift_detector,
            limiter=self._limiter,
            note=partial(self._note, handle.key),
            on_changed=lambda changed: self._pool.queue.set_weight(handle.key, changed.spec.weight),
            clock=self._clock,
            memory=self._settings.memory_per_tenant,
            kubelet_api=self._kubelet_api,
            leaving=partial(self._is_leaving, handle.key),
            hosts=self._hosts,
            shown_nodes=lambda: self._shown_nodes,
            networks=lambda: self._networks,
            lost=lambda: self._lost,
            service_range=self._service_ranges.range_of,
            out_of_touch=lambda: self._out_of_touch,
            lost_since=lambda: self._lost_since,
            unschedulable_seconds=self._settings.unschedulable_seconds,
        )
        self._tenants[handle.key] = tenant
        self._pool.queue.set_weight(handle.key, handle.virtual_cluster.spec.weight)
        self._pool.queue.set_limit(handle.key, self._settings.tenant_share)
        try:
            await tenant.run()
        finally:
            del self._tenants[handle.key]
            self._waiting.forget_tenant(handle.key)
            self._hosts.release_all(handle.key)
            self._limiter.forget(handle.key)
            self._pool.queue.forget_group(handle.key)
            self._pool.timeline.forget(handle.key)
            for entry in self.ledger.entries(handle.key):
                if entry.holding is Holding.DRAINING:
                    self._enqueue_drain(handle.key, entry.namespace)
            self._exchange.tenant_changed(handle.key)

    # --- work

    async def _handle(self, key: str, item: Item) -> float | None:
        if item.kind == DRAIN:
            if await self._is_leaving(key):
                return LEAVING_SECONDS
            return await self._drain.step(key, item.namespace)
        if item.kind == EXCHANGE:
            return await self._exchange.step(item.namespace)
        tenant = self._tenants.get(key)
        if tenant is None or not tenant.ready:
            return None
        try:
            return await _reconcile(tenant, item)
        except Exception:
            if self._tenants.get(key) is not tenant:
                # The session and its client ended meanwhile. The next session reconciles every item.
                return None
            raise

    def _note(self, key: str, item: Item, what: str, version: str) -> None:
        """Record an action on a tenant's object in the timeline."""
        name = ObjectName(item.kind, item.namespace, item.name)
        self._pool.timeline.add(key, name, what, now=time.time(), version=version)

    def timeline(self, tenant: str, name: ObjectName) -> list[dict[str, Any]]:
        """Return the last transitions of a tenant's object, oldest first."""
        return timeline([self._pool], tenant, name)

    def _failed(self, key: str, item: Item, error: Exception, delay: float) -> None:
        """Log the error of an item, with its traceback if neither an API nor a tenant caused it, since it is a defect then."""
        about = {"super_cluster": self.super_id, "tenant": key, "item": "/".join(item), "again_in": delay}
        if isinstance(error, KubeError | SliceExhausted | Busy | NodeNotReady | NameTaken):
            log.info("item failed", error=str(error), **about)
        else:
            log.error("item failed", exc_info=error, **about)

    def _enqueue_super(self, tenant: str, item: Item) -> None:
        session = self._tenants.get(tenant)
        if session is not None:
            session.need()
            session.objects.enqueue(tenant, item)
        if item.kind in (PODS.plural, NAMESPACES.plural):
            namespace = item.namespace or item.name
            entry = self.ledger.entry(tenant, namespace)
            if entry is None or entry.holding is Holding.DRAINING:
                self._enqueue_drain(tenant, namespace)

    def _enqueue_drain(self, tenant: str, namespace: str) -> None:
        if self._synced and self._owns(tenant):
            self._pool.add(tenant, Item(DRAIN, namespace, ""))

    def _report_drained(self, key: str, pod: Envelope) -> None:
        tenant = self._tenants.get(key)
        if tenant is not None:
            tenant.report_drained(pod)

    async def _is_leaving(self, key: str) -> bool:
        """Return whether a tenant with a session is being removed.

        The tenant's own Pods must remain unchanged. So the super cluster's copies must not be removed while the session
        would report that to the tenant.
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
        """Evict a Pod in its tenant; see `TenantSync.evict`. A tenant that is not connected cannot delay the drain."""
        tenant = self._tenants.get(key)
        return await tenant.evict(pod) if tenant is not None and tenant.ready else ""

    def _unbound(self, key: str, pod: Envelope) -> bool:
        """Return whether a tenant's Pod has no node yet. A tenant that is not connected cannot delay the drain."""
        tenant = self._tenants.get(key)
        return tenant is not None and tenant.ready and tenant.is_unbound(pod)

    def _availability(self, key: str, namespace: str) -> Availability | None:
        """Return who knows which Pods of a namespace may leave. A tenant that is not connected cannot delay the drain."""
        tenant = self._tenants.get(key)
        return tenant.availability(namespace) if tenant is not None and tenant.ready else None

    async def _keeps_data(self, key: str, namespace: str) -> bool:
        """Return whether a namespace exists, as far as can be known, so that its volumes are not deleted.

        The ledger's entry tells only that it has no slices, for which a missing ResourceQuota is enough. A tenant that is not
        connected keeps its data while it is registered.
        """
        session = self._tenants.get(key)
        if session is not None and session.ready:
            try:
                return await session.has_namespace(namespace)
            except WrongControlPlane:
                return True
        return self._is_registered(key)

    def _is_registered(self, key: str) -> bool:
        """Return whether a tenant is registered and not being removed. One that cannot be read may be this one."""
        registered = self._registry.virtual_clusters
        if not registered.synced:
            return True
        for envelope in registered.cache.items():
            try:
                found = VirtualCluster.from_envelope(envelope)
                if cluster_key(found) == key:
                    return not found.deleting
            except ValueError:
                return True
        return False

    def _owns(self, key: str) -> bool:
        """Return whether a tenant, present or removed, belongs to this shard."""
        return in_shard(key, self._settings.shard)

    def _begin_drains(self) -> None:
        for entry in self.ledger.entries():
            if entry.holding is Holding.DRAINING or entry.clearing:
                self._enqueue_drain(entry.tenant, entry.namespace)

    def _placement_changed(self, tenant: str, namespace: str) -> None:
        if not self._synced:
            return
        self._exchange.placement_changed(tenant, namespace)
        entry = self.ledger.entry(tenant, namespace)
        if entry is None and namespace == names.TENANT_DNS_NAMESPACE:
            # The last namespace that used the name server here was removed.
            self._enqueue_drain(tenant, namespace)
        if entry is not None and (entry.holding is Holding.DRAINING or entry.clearing):
            self._enqueue_drain(tenant, namespace)
        session = self._tenants.get(tenant)
        if session is not None:
            session.ledger_changed(namespace)

    def _own_super_cluster(self) -> SuperCluster | None:
        """Return the super cluster as it was last seen; None if it cannot be read."""
        found = self._super_clusters.super_clusters()
        return next((each for each in found if each.name == self.super_id), None)

    def _pool_changed(self) -> None:
        """Follow a change of the super clusters: of their health, or of their networks."""
        views = self._super_clusters.views
        networks = {each.id: each.network_id for each in views.values() if each.network_id}
        if networks != self._networks:
            self._networks = networks
            for session in self._tenants.values():
                session.refresh_context()
        lost = frozenset(each.id for each in views.values() if each.health is Health.LOST)
        if changed := lost ^ self._lost:
            self._lost = lost
            for session in self._tenants.values():
                session.lost_changed(changed)
        own = views.get(self.super_id)
        if own is not None and own.fenced:
            self.fenced.set()
        self._drain_report.super_cluster_changed()
        since = own.out_of_touch if own is not None and own.health is Health.LOST else ""
        if since != self._lost_since:
            self._lost_since = since
            for key, session in self._tenants.items():
                for node in session.nodes.shown():
                    self._pool.add(key, Item(NODE, "", node))
        if self._synced:
            self._exchange.pool_changed()

    def _report_not_shared(self, owner: Owner, service: str, message: str) -> None:
        session = self._tenants.get(owner.tenant)
        if session is not None:
            session.report_not_shared(owner.namespace, service, message)

    def _virtual_cluster_changed(self, change: Change) -> None:
        if self._service_ranges.observe(change):
            self._service_ranges_changed()
        refused = self._service_ranges.refused()
        for name, cidr in refused.items() - self._refused_ranges.items():
            self._registry.warn(name, RANGE_REFUSED, range_refused(cidr))
        self._refused_ranges = refused

    def _service_ranges_changed(self) -> None:
        """Follow a change of the ranges of cluster IPs that tenants have for themselves, or that are published here."""
        for session in self._tenants.values():
            session.refresh_context()

    def _released(self, tenant: str) -> datetime | None:
        """Return when an operator last released the brake of a tenant; "" stands for objects without tenant."""
        session = self._tenants.get(tenant)
        if session is None:
            return self._heartbeat.released if not tenant else None
        return released_at(session.handle.virtual_cluster.annotations.get(names.BRAKE_RELEASED))

    def _troubles(self) -> list[Trouble]:
        return [*braked(self._limiter.braked.values()), *self._registry.troubles()]

    def _wake(self, tenant: str, dependency: Dependency) -> None:
        if dependency.resource == RUNTIME_CLASSES:
            self._runtime_class_changed(tenant, dependency.name)
            return
        if not tenant:
            for key in list(self._tenants):
                self._wake(key, dependency)
            return
        if dependency.side == "super" and dependency.resource == SERVICES:
            self._exchange.changed(dependency.namespace)
        woken = self._waiting.wake(tenant, dependency)
        owner = self._tenants.get(tenant)
        if owner is not None and len(woken) > STEP_ITEMS:
            owner.enqueue_in_steps(woken)
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

    def _wake_others(self, dependency: Dependency) -> None:
        """Enqueue the items of all tenants that wait for an object of somebody else."""
        woken = self._waiting.wake_others(dependency)
        for tenant, item in woken:
            session = self._tenants.get(tenant)
            if session is not None and len(woken) > STEP_ITEMS:
                session.enqueue_in_steps((item,))
            else:
                self._pool.add(tenant, item)

    def _ingress_changed(self, change: Change) -> None:
        """Keep the index of hosts equal to the Ingresses of the super cluster."""
        kind = KINDS[INGRESSES.plural]
        self._hosts.follow(
            change, lambda found: found.annotations[names.CLUSTER] if item_of(kind, found) is not None else ""
        )

    def _ingress_contested(self, place: Place) -> None:
        """Enqueue an Ingress with a host of two owners, so that the younger copy is deleted."""
        found = self.caches.get(INGRESSES, *place)
        item = item_of(KINDS[INGRESSES.plural], found) if found is not None else None
        if found is not None and item is not None:
            self._enqueue_super(found.annotations[names.CLUSTER], item)

    def _runtime_class_changed(self, tenant: str, name: str) -> None:
        """Pass on a change of a tenant's RuntimeClass, or of the super cluster's if `tenant` is ""."""
        if tenant:
            session = self._tenants.get(tenant)
            if session is not None:
                session.runtime_class_changed(name)
            return
        for session in self._tenants.values():
            session.runtime_classes_changed()

    def _optional_kind_read(self, resource: Resource) -> None:
        for key in self._tenants:
            self._wake(key, offered(resource))

    def _settings_read(self, spec: SuperClusterSpec) -> None:
        """Follow the operator's settings of the super cluster: what tenants see of its nodes."""
        if spec.shown_nodes == self._shown_nodes:
            return
        self._shown_nodes = spec.shown_nodes
        for tenant in self._tenants.values():
            tenant.shown_nodes_changed()
        for node in self.caches.nodes.cache.items():
            self._node_changed(node.name)

    def _node_changed(self, node: str) -> None:
        for key, tenant in self._tenants.items():
            if tenant.nodes.shows(node):
                self._pool.add(key, Item(NODE, "", node))

    def _cordon_changed(self, node: str) -> None:
        """Reconcile the budgets of tenants with Pods on a node that an operator begins to drain, or gives back."""
        for key, tenant in self._tenants.items():
            if self.caches.pods_on(key, node):
                tenant.enqueue_budgets()

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

    # --- vcsync.status.StatusSource

    def ready(self) -> tuple[bool, str]:
        """Return whether the syncer works, and if not, why."""
        if not self._synced:
            behind = not_synced(self.caches.required()) or not_synced([self.ledger.reflector])
            return False, f"super cluster {self.super_id}: waiting for the first list of {behind}"
        if trouble := self._trouble():
            return False, f"super cluster {self.super_id}: {trouble}"
        waiting = [key for key, tenant in self._tenants.items() if tenant.needed and not tenant.ready]
        return True, f"{len(waiting)} tenants are still being synced" if waiting else ""

    def _trouble(self) -> str:
        """Return which server this syncer needs and does not hear from; empty if it hears from both."""
        followed = {"super cluster": self.caches.nodes, "meta cluster": self.ledger.reflector}
        return self._heartbeat.trouble or unanswered(followed)

    def status(self) -> dict[str, Any]:
        """Return the syncer's state for operators, as plain JSON values."""
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
            # A generator, since the status of all tenants in one step would block the event loop.
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
            **shared_skipped(self._shared()),
            "sharedEndpoints": self._exchange.status(),
            "patrol": {
                "rounds": self._patrol.rounds,
                "found": self._patrol.found,
                "cpuSeconds": self._patrol.cost.cpu_seconds,
                "longestStepSeconds": self._patrol.cost.longest_step,
            },
            "braked": [to_builtins(brake) for brake in self._limiter.braked.values()],
            "definitions": {
                "published": [each.name for each in self._definitions.published or ()],
                "refused": self._unpublished(),
                "notStored": self._definitions.trouble or None,
            },
            "drift": {
                "repairs": self._drift.total,
                "notStored": self._drift_store.trouble or None,
                "latest": [to_builtins(repair) for repair in self._drift.latest()],
            },
            "lastErrors": last_errors(self._pool, most=len(self._pool.last_errors)),
        }

    def _shared(self) -> tuple[Reflector, ...]:
        """Return the reflectors besides those of `caches`."""
        return (
            self._events.reflector,
            self.ledger.reflector,
            self._registry.virtual_clusters,
            self._super_clusters.reflector,
            self._definitions.reflector,
        )

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
            "kubeletApi": self._kubelet_api.state(key) if self._kubelet_api is not None else None,
            "metricsApi": self._kubelet_api.metrics_api_state(key) if self._kubelet_api is not None else None,
            # A tenant with nothing on this super cluster is not watched.
            "watched": tenant is not None and tenant.needed,
            "caches": _cache_states(tenant.objects.tenant_caches.all())
            if tenant is not None and tenant.needed
            else {},
        }

    def metrics(self) -> Iterable[Metric]:
        """Yield the metric families. The number of series is small for each tenant."""
        statistics = self._pool.queue.statistics()
        queue = GaugeMetricFamily("vcsync_syncer_queue", "Items by state", labels=["super_cluster", "state"])
        for state in ("queued", "delayed", "in_process"):
            queue.add_metric([self.super_id, state], getattr(statistics, state))
        yield queue
        labels = ["super_cluster", "tenant"]
        queued = GaugeMetricFamily(
            "vcsync_syncer_tenant_queued", "Items of a tenant that wait for a worker", labels=labels
        )
        delayed = GaugeMetricFamily(
            "vcsync_syncer_tenant_delayed", "Items of a tenant that are due later", labels=labels
        )
        for key in self._tenants:
            ready = self._pool.queue.ready(key)
            queued.add_metric([self.super_id, key], ready)
            delayed.add_metric([self.super_id, key], self._pool.queue.depth(key) - ready)
        yield from (queued, delayed)
        objects = GaugeMetricFamily(
            "vcsync_syncer_objects", "Objects in caches", labels=["super_cluster", "side"]
        )
        objects.add_metric([self.super_id, "super"], sum(len(r.cache) for r in self.caches.all()))
        objects.add_metric(
            [self.super_id, "tenant"],
            sum(len(r.cache) for t in self._tenants.values() for r in t.objects.tenant_caches.all()),
        )
        yield objects
        for name, text, value in (
            ("waiting", "Items parked until something else changes", len(self._waiting)),
            (
                "braked",
                "Tenants and kinds of objects whose deletion waits for an operator",
                len(self._limiter.braked),
            ),
            ("drains", "Namespaces being drained", len(self._drain.reasons)),
        ):
            gauge = GaugeMetricFamily(f"vcsync_syncer_{name}", text, labels=["super_cluster"])
            gauge.add_metric([self.super_id], value)
            yield gauge
        repairs = CounterMetricFamily(
            "vcsync_syncer_drift_repairs",
            "Repairs of objects that changed in the super cluster only",
            labels=["super_cluster", "kind", "cause"],
        )
        for kind, cause in itertools.product(KINDS, CAUSES):
            repairs.add_metric([self.super_id, kind, cause], self._drift.counts[kind, cause])
        yield repairs
        if self._kubelet_api is not None:
            yield from self._kubelet_api.metrics()
        yield troubles_metric(self._registry)
        yield from reconcile_metrics(self._pool)
        theirs = (each for tenant in self._tenants.values() for each in tenant.objects.tenant_caches.all())
        yield skipped_metric(itertools.chain(self.caches.all(), self._shared(), theirs))
        for name, text, value in (
            ("events_written", "Events copied to tenants", self._events.written),
            ("events_dropped", "Events not copied to tenants", self._events.dropped),
        ):
            counter = CounterMetricFamily(f"vcsync_syncer_{name}", text, labels=["super_cluster"])
            counter.add_metric([self.super_id], value)
            yield counter


def in_shard(key: str, shard: tuple[int, int]) -> bool:
    """Return whether a tenant belongs to a shard. Each tenant belongs to exactly one, the same in every process.

    Args:
        key: cluster key of the tenant.
        shard: (number, count); the first shard's number is 1.
    """
    which, count = shard
    return zlib.crc32(key.encode()) % count == which - 1


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


async def _reconcile(tenant: TenantSync, item: Item) -> float | None:
    """Reconcile one item of a tenant."""
    if item.kind == NODE:
        now = time_text(datetime.now(UTC))
        await tenant.nodes.refresh(item.name, tenant.context, now)
        return None
    if item.kind == REFILL:
        await tenant.placement_changed(item.namespace)
        return None
    return await tenant.reconcile(item)
