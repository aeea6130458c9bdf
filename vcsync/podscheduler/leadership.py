"""One term of the Pod scheduler: follows the ledger, the pool and all tenants' Pods while it leads."""

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from random import Random

import msgspec
import structlog

from vcsync.api import names
from vcsync.api.objects import NamespacePlacement, SuperCluster
from vcsync.api.resources import NAMESPACE_PLACEMENTS, SUPER_CLUSTERS
from vcsync.fairqueue import ObjectName, WorkerPool
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.errors import KubeError, NotFound, Unauthorized
from vcsync.kube.events import EventRecorder, ObjectRef
from vcsync.kube.long_lists import take_pages
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import (
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    RESOURCE_CLAIMS,
    SERVICES,
    VOLUME_SNAPSHOTS,
)
from vcsync.objects.envelope import Envelope, strip
from vcsync.objects.quantity import InvalidQuantity
from vcsync.podscheduler.admission_reviews import NewPod
from vcsync.podscheduler.claims import Claims, Clones, slim_claim, slim_snapshot, snapshot_source
from vcsync.podscheduler.device_claims import DeviceClaims, slim_device_claim
from vcsync.podscheduler.evictions import Evictions, PodRemover, Stand
from vcsync.podscheduler.finished_names import FinishedNames
from vcsync.podscheduler.pods import FINISHED, Key, slim
from vcsync.podscheduler.promises import Promise
from vcsync.podscheduler.settings import Settings
from vcsync.podscheduler.tenant import Outcome, PodClient, StillHeld, TenantPods
from vcsync.podscheduler.together import KeptServices, slim_service
from vcsync.podscheduler.webhook_callers import Callers
from vcsync.podscheduler.webhook_endpoint import lead_service
from vcsync.scheduling.pods import pod_needs
from vcsync.scheduling.resources import from_quantities
from vcsync.scheduling.shares import Share
from vcsync.tenancy import Pool, TenantHandle, TenantRegistry
from vcsync.tenancy.caches import wait_for_caches
from vcsync.tenancy.memory import TenantMemory
from vcsync.tenancy.status import pool_troubles, unanswered
from vcsync.tenancy.terms import UNCONTESTED, TermLease

_COMPONENT = "vcsync-podscheduler"
_NOT_KEPT = "NotKeptTogether"
_CLAIMS_BACKOFF = (1.0, 60.0)  # seconds; the tenant's roles may be of an earlier version and forbid the reads
_REST_AFTER_LISTS = 20.0  # times as long as the lists of a tenant's Pods took, until they may be read again
_CLAIMS_SECONDS = 2.0  # for which decisions wait for the claims to be read
_MOST_PAGES = 200  # of 500 Pods of a namespace, which are read again for its Services
_MOST_OUTCOMES = 10_000  # Pods whose last decision is remembered
# Seconds without an event of a tenant's Pods since the last watch ended, after which nothing is promised to new ones. A
# watch that was opened again may show that it works only at the first bookmark, after a minute.
_STALE_SECONDS = 120.0

_log = structlog.get_logger(__name__)


class TenantSession:
    """The session with one connected tenant.

    Args:
        handle: the tenant.
        leadership: the term that the session belongs to.
        memory: bytes that the tenant's objects may take in the caches.
    """

    def __init__(self, handle: TenantHandle, leadership: "Leadership", memory: int) -> None:
        self.handle = handle
        self.events = EventRecorder(handle.client, _COMPONENT)
        self._kept = KeptServices()
        self._regroup: set[str] = set()  # namespaces whose Pods may have other Services
        self._to_regroup = asyncio.Event()
        self.memory = limit = TenantMemory(
            memory, "Pod scheduler", "new Pods are not placed, running ones continue"
        )
        self.reflector = Reflector(
            handle.client,
            PODS,
            field_selector=FINISHED,
            project=limit.projection(
                PODS,
                lambda pod: slim(pod, self._kept.selecting(pod.namespace, pod.labels), leadership.pool.views),
            ),
            sink=limit.counted(PODS, self._observe),
        )
        self.services = Reflector(
            handle.client,
            SERVICES,
            label_selector=names.KEEP_TOGETHER,
            project=limit.projection(SERVICES, slim_service),
            sink=limit.counted(SERVICES, self._service_changed),
            backoff=_CLAIMS_BACKOFF,
        )
        self.claims = Reflector(
            handle.client,
            PERSISTENT_VOLUME_CLAIMS,
            project=limit.projection(PERSISTENT_VOLUME_CLAIMS, slim_claim),
            sink=limit.counted(PERSISTENT_VOLUME_CLAIMS, self._claim_changed),
            backoff=_CLAIMS_BACKOFF,
        )
        self.devices = Reflector(
            handle.client,
            RESOURCE_CLAIMS,
            project=limit.projection(RESOURCE_CLAIMS, slim_device_claim),
            sink=limit.counted(RESOURCE_CLAIMS, self._device_claim_changed),
            backoff=_CLAIMS_BACKOFF,
        )
        self.snapshots = Reflector(
            handle.client,
            VOLUME_SNAPSHOTS,
            label_selector=names.SUPER_CLUSTER,
            project=limit.projection(VOLUME_SNAPSHOTS, slim_snapshot),
            sink=limit.counted(VOLUME_SNAPSHOTS, self._snapshot_changed),
            backoff=_CLAIMS_BACKOFF,
        )
        writer = PodClient(
            handle.client,
            self.events,
            self.reflector.observe,
            self.reflector.observe_gone,
            self.claims,
            lambda namespace: leadership.read_holders(handle.key, namespace),
            self.devices,
            leadership.is_out,
        )
        key = handle.key
        self.pods = TenantPods(
            writer,
            lambda: leadership.pool.views,
            lambda item, urgent: leadership.work.add(key, item, priority=urgent),
            lambda item, delay: leadership.work.add_after(key, item, delay),
            suspended=lambda: handle.virtual_cluster.spec.suspended,
            claims=Claims(
                self.claims.cache.get,
                partial(_unread, self.claims, handle.client.name),
                self._holds,
                self.snapshots.cache.get,
                partial(_unread, self.snapshots, handle.client.name),
            ),
            devices=DeviceClaims(
                self.devices.cache.get, partial(_unread, self.devices, handle.client.name), self._holds
            ),
            version=lambda: self.reflector.version,
            on_written=partial(leadership.written, key),
            promise_counts=leadership.promise_counts,
            services=self._kept,
            holds=self._holds,
            on_unseen=self._look_for_finished,
        )
        self.remover = PodRemover(handle.client, self.events, self.reflector.observe_gone)
        self.finished_names = FinishedNames(handle.client, self.pods, StillHeld)
        self._clones = Clones()
        self._restored = Clones(snapshot_source)
        self._holders: dict[str, frozenset[str]] = {}

    def hold(self, namespace: str, super_ids: frozenset[str]) -> None:
        """Set the super clusters that may have objects of a namespace, and enqueue what may leave others now."""
        before = self._holders.get(namespace, frozenset())
        if before == super_ids:
            return
        if super_ids:
            self._holders[namespace] = super_ids
        else:
            self._holders.pop(namespace, None)
        self.pods.claims_may_move(namespace)
        self.pods.released(namespace)
        if before - super_ids:
            self.finished_names.look_again()

    def held(self, namespace: str) -> frozenset[str]:
        """Return the super clusters that may have objects of a namespace."""
        return self._holders.get(namespace, frozenset())

    def _look_for_finished(self) -> None:
        self.finished_names.look_again()

    def _holds(self, namespace: str, super_id: str) -> bool:
        return super_id in self._holders.get(namespace, ())

    @property
    def name(self) -> str:
        """The tenant's name."""
        virtual_cluster = self.handle.virtual_cluster
        return virtual_cluster.spec.tenant or virtual_cluster.name

    def follows(self) -> bool:
        """Return whether the tenant's Pods are known as they are at present."""
        since = self.reflector.stale_since
        return since is None or time.monotonic() - since < _STALE_SECONDS

    async def follow_claims(self) -> None:
        """Keep the claims current, and enqueue the Pods that waited for them to be read."""
        async with asyncio.TaskGroup() as tasks:
            for reflector in (self.claims, self.devices, self.snapshots):
                tasks.create_task(self._follow(reflector))

    async def _follow(self, reflector: Reflector) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(reflector.run())
            await reflector.wait_synced()
            self.pods.pool_changed()

    def _service_changed(self, change: Change) -> None:
        regroup, problem = self._kept.observe(change)
        service = change.new
        if service is not None and problem:
            subject = ObjectRef("v1", "Service", service.name, service.namespace, service.uid)
            self.events.emit(subject, "Warning", _NOT_KEPT, problem, now=time.time())
        subject_of = change.new or change.old
        if regroup and subject_of is not None:
            self._regroup.add(subject_of.namespace)
            self._to_regroup.set()

    async def regroup(self) -> None:
        """Note which Services keep which Pods together, whenever such a Service changes.

        The Pods' labels are not kept, so the Pods of the namespace are listed. A tenant may change its Services all the time:
        its lists take a small share of the time.
        """
        self._regroup.clear()  # these Services were known before the Pods are read
        self._to_regroup.clear()
        least, most = _CLAIMS_BACKOFF
        pause = least
        while True:
            await self._to_regroup.wait()
            self._to_regroup.clear()
            failed, began = False, time.monotonic()
            for namespace in sorted(self._regroup):
                self._regroup.discard(namespace)
                try:
                    pages = self.handle.client.pages(PODS, namespace, field_selector=FINISHED)
                    await take_pages(pages, partial(self.pods.regroup, namespace), _MOST_PAGES)
                except KubeError as error:
                    _log.info("pods of services cannot be read", tenant=self.handle.key, error=str(error))
                    failed = True
                    self._regroup.add(namespace)
                    self._to_regroup.set()
            pause = min(most, 2 * pause) if failed else least
            await asyncio.sleep(max(pause, _REST_AFTER_LISTS * (time.monotonic() - began)))

    def _claim_changed(self, change: Change) -> None:
        claim = change.new or change.old
        self._clones.observe(change.old, change.new)
        self._restored.observe(change.old, change.new)
        if claim is not None:
            for name in (claim.name, *self._clones.of(claim.namespace, claim.name)):
                self.pods.claim_changed(claim.namespace, name)

    def _device_claim_changed(self, change: Change) -> None:
        claim = change.new or change.old
        if claim is not None:
            self.pods.claim_changed(claim.namespace, claim.name, RESOURCE_CLAIMS)

    def _snapshot_changed(self, change: Change) -> None:
        snapshot = change.new or change.old
        if snapshot is not None:
            for name in self._restored.of(snapshot.namespace, snapshot.name):
                self.pods.claim_changed(snapshot.namespace, name)

    def _observe(self, change: Change) -> None:
        self.pods.observe(change)


class Leadership:
    """One term as leader. It starts without state, and first reads everything that earlier leaders wrote.

    Args:
        meta: client of the meta cluster.
        settings: the operator's settings.
        lease: the lease of the term.
        make_client: makes a tenant's client from a kubeconfig and a cluster key; for tests.
    """

    def __init__(
        self,
        meta: Client,
        settings: Settings,
        *,
        lease: TermLease = UNCONTESTED,
        make_client: Callable[[bytes, str], Client] | None = None,
    ) -> None:
        self._meta = meta
        self._settings = settings
        self._lease = lease
        self._held_back = ""
        self.pool = Pool(meta, patience=settings.patience, on_change=self._pool_changed)
        self.placements = Reflector(
            meta, NAMESPACE_PLACEMENTS, project=_slim_placement, sink=self._placement_changed
        )
        self.registry = TenantRegistry(
            meta, names.ROLE_PODSCHEDULER, self._run_tenant, make_client=make_client
        )
        self.work: WorkerPool[Key] = WorkerPool(
            "podscheduler", self._handle, workers=settings.workers, meter=time.thread_time
        )
        self.tenants: dict[str, TenantSession] = {}
        self._by_name: dict[
            str, list[TenantSession]
        ] = {}  # a VirtualCluster of each namespace may have the same name
        self.callers = Callers(meta, self.tenants)
        self.outcomes: OrderedDict[tuple[str, str, str], Outcome] = OrderedDict()
        self.counts = {"assigned": 0, "promised": 0, "waiting": 0, "withdrawn": 0}
        self.evictions = Evictions(
            self.pool,
            self._is_fenced,
            self._stands,
            Random(),  # noqa: S311 - an order, not a secret
        )
        self.promise_counts = Counter({"placed": 0, "left": 0, "given back": 0, "expired": 0})
        # Seconds from seeing a Pod to having assigned it, summed over all Pods.
        self.latency_sum = 0.0
        self._open: dict[str, tuple[object, ...]] = {}
        self._able: dict[str, tuple[object, ...]] = {}
        self._run_pods: frozenset[str] = frozenset()  # super clusters that may run Pods

    async def run(self) -> None:
        """Schedule until cancelled. Decisions begin when the whole ledger and pool have been read."""
        async with asyncio.TaskGroup() as tasks:
            if self._settings.webhook is not None and self._settings.webhook.endpoint:
                # First of all: calls that arrive before the tenants are known end sooner than those at a leader that is gone.
                endpoint = self._settings.webhook.endpoint
                tasks.create_task(lead_service(self._meta, endpoint, self._lease.still_held), name="endpoint")
            tasks.create_task(self.pool.run(), name="pool")
            tasks.create_task(self.placements.run(), name="placements")
            await wait_for_caches([self.pool.reflector, self.placements])
            await self.pool.wait_reported(self._hold_back)
            self._hold_back("")
            tasks.create_task(self.registry.run(), name="tenants")
            _log.info("pod scheduler began", placements=len(self.placements.cache))
            tasks.create_task(self.evictions.run(), name="evictions")
            await self.work.run()

    async def read_holders(self, tenant: str, namespace: str) -> frozenset[str]:
        """Return the super clusters that may have objects of a tenant's namespace, by a live read of the ledger.

        Raises:
            KubeError: the ledger could not be read.
            ValueError: its entry is malformed.
        """
        try:
            found = await self._meta.get(NAMESPACE_PLACEMENTS, namespace, tenant)
        except NotFound:
            return frozenset()
        return _holders(found, NamespacePlacement.from_envelope(found).status.placements)

    def synced(self) -> bool:
        """Return whether all caches are filled."""
        return self.pool.reflector.synced and self.placements.synced and self.registry.virtual_clusters.synced

    def shared(self) -> tuple[Reflector, ...]:
        """Return the reflectors that all tenants share."""
        return self.pool.reflector, self.placements, self.registry.virtual_clusters

    def held_back(self) -> str:
        """Return why decisions wait although the caches are filled; empty if they do not."""
        return self._held_back or unanswered({"meta cluster": self.pool.reflector})

    def troubles(self) -> str:
        """Return which super clusters are not healthy, and why; empty if all are."""
        return pool_troubles(self.pool)

    def _hold_back(self, reason: str) -> None:
        self._held_back = reason

    def promise(  # noqa: PLR0917 - parts, each of its own type
        self,
        tenant: str,
        control_plane: str,
        namespace: str,
        name: str,
        spec: bytes,
        labels: Mapping[str, str] | None,
    ) -> Promise | None:
        """Promise room to a Pod that is about to be created; see `PodScheduler.promise`."""
        found = [
            session
            for session in self._by_name.get(tenant, ())
            if session.name == tenant and session.handle.control_plane_uid == control_plane
        ]
        if len(found) != 1 or not found[0].follows():
            return None
        try:
            needs = pod_needs(spec, name)
        except (msgspec.ValidationError, InvalidQuantity):  # validation refuses the Pod
            return None
        return found[0].pods.promise(namespace, name, needs, labels)

    def written(self, tenant: str, promise: Promise) -> None:
        """Record that a Pod was created on the super cluster that was promised.

        Args:
            tenant: cluster key.
            promise: the promise.
        """
        key = promise.namespace, promise.name
        self.work.timeline.add(
            tenant,
            ObjectName(PODS.plural, *key),
            f"created on super cluster {promise.super_id}",
            now=time.time(),
            version=str(promise.revision),
        )
        self.counts["promised"] += 1
        self._remember((tenant, *key), Outcome("assigned", promise.super_id, promise.decision))

    # Changes of other objects

    async def _run_tenant(self, handle: TenantHandle) -> None:
        session = TenantSession(handle, self, self._settings.memory_per_tenant)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(session.memory.exceeded())
                tasks.create_task(session.events.run())
                tasks.create_task(session.services.run())
                # Pods are read after the Services, so that it is known which of them belong together.
                with suppress(TimeoutError):
                    async with asyncio.timeout(_CLAIMS_SECONDS):
                        await session.services.wait_synced()
                tasks.create_task(session.reflector.run())
                tasks.create_task(session.regroup())
                tasks.create_task(session.follow_claims())
                await wait_for_caches([session.reflector])
                with suppress(TimeoutError):
                    async with asyncio.timeout(_CLAIMS_SECONDS):
                        await session.claims.wait_synced()
                for placement in self.placements.cache.items(handle.key):
                    self._grant(session, placement)
                self.tenants[handle.key] = session
                self.work.queue.set_limit(handle.key, self._settings.per_tenant)
                handle.ready()
                session.pods.begin()
                tasks.create_task(session.finished_names.run())
                self._by_name.setdefault(session.name, []).append(session)
                if self._settings.webhook is not None:
                    tasks.create_task(self.callers.follow(handle.key, partial(_expect, session)))
                suspended = handle.virtual_cluster.spec.suspended
                while True:
                    spec = handle.virtual_cluster.spec
                    self.work.queue.set_weight(handle.key, spec.weight)
                    if spec.suspended != suspended:
                        suspended = spec.suspended
                        session.pods.pool_changed()
                    await handle.changed.wait()
                    handle.changed.clear()
        finally:
            session.pods.promises.close()
            self._forget_name(session)
            self.tenants.pop(handle.key, None)
            self.work.queue.forget_group(handle.key)
            self.work.timeline.forget(handle.key)

    def _forget_name(self, session: TenantSession) -> None:
        for name, sessions in list(self._by_name.items()):
            if session in sessions:
                sessions.remove(session)
                if not sessions:
                    del self._by_name[name]

    def _placement_changed(self, change: Change) -> None:
        placement = change.new or change.old
        session = None if placement is None else self.tenants.get(placement.namespace)
        if session is None or placement is None:
            return
        if change.new is None:
            session.pods.grant(placement.name, {}, {})
            session.hold(placement.name, frozenset())
        else:
            self._grant(session, placement)

    def _grant(self, session: TenantSession, envelope: Envelope) -> None:
        try:
            placement = NamespacePlacement.from_envelope(envelope)
            size = from_quantities(placement.placed_slice_size)
        except ValueError as error:  # the earlier grant remains, and what may be there counts as there
            _log.error("namespace placement cannot be read", placement=envelope.key, error=str(error))
            session.hold(envelope.name, session.held(envelope.name) | _holders(envelope, {}))
            return
        # An entry that is being deleted takes no new Pods.
        placements = placement.status.placements
        session.pods.grant(envelope.name, size, {} if envelope.deleting else placements)
        session.hold(envelope.name, _holders(envelope, placements))

    async def _is_fenced(self, super_id: str) -> bool:
        """Return whether a super cluster is fenced, by a live read."""
        try:
            found = SuperCluster.from_envelope(await self._meta.get(SUPER_CLUSTERS, super_id))
        except (NotFound, ValueError):
            return False
        return found.spec.fenced

    async def is_out(self, super_id: str) -> bool:
        """Return whether a super cluster is fenced or not registered, by a live read.

        Raises:
            KubeError: it could not be read.
            ValueError: the SuperCluster is malformed.
        """
        try:
            found = SuperCluster.from_envelope(await self._meta.get(SUPER_CLUSTERS, super_id))
        except NotFound:
            return True
        return found.spec.fenced

    def _room(self, session: TenantSession, namespace: str, super_id: str) -> list[Share]:
        return session.pods.accounting.room_elsewhere(namespace, super_id, self.pool.views)

    def _stands(self) -> dict[str, Stand]:
        """Return what evictions have to know of the connected tenants."""
        return {
            key: Stand(
                session.handle.virtual_cluster.spec.failover or self._settings.failover,
                session.pods.accounting.pods.values,
                session.pods.accounting.capacities,
                partial(self._room, session),
                session.remover,
                session.handle.virtual_cluster.spec.pod_replacement_policy == "TerminationStarted",
            )
            for key, session in self.tenants.items()
        }

    def _pool_changed(self) -> None:
        """Wake Pods that wait, unless the change of the pool cannot concern them."""
        views = self.pool.views.values()
        now_open: dict[str, tuple[object, ...]] = {
            view.id: (
                view.health,
                view.out_of_touch,
                view.cordoned,
                view.draining,
                sorted(view.largest_node.items()),
                view.storage_classes,
                view.runtime_classes,
                view.device_classes,
                view.network_id,
            )
            for view in views
        }
        changed = frozenset(
            super_id
            for super_id in now_open.keys() | self._open.keys()
            if now_open.get(super_id) != self._open.get(super_id)
        )
        able = {
            view.id: (*now_open[view.id][:4], sorted(view.capacity.items()), view.nodes_version)
            for view in views
        }
        more_able = [super_id for super_id, found in able.items() if found != self._able.get(super_id)]
        run_pods = frozenset(view.id for view in views if not view.fenced)
        fewer, self._run_pods = self._run_pods - run_pods, run_pods
        self._open, self._able = now_open, able
        for session in self.tenants.values():
            if changed:
                session.pods.pool_changed(changed)
            for super_id in more_able:
                session.pods.capacity_changed(super_id)
            if fewer:
                session.finished_names.look_again()

    # One Pod

    async def _handle(self, tenant: str, key: Key) -> None:
        session = self.tenants.get(tenant)
        if session is None:  # `begin` enqueues the tenant's Pods when it is connected
            return
        if not key[1]:
            session.pods.wake(key[0])
            return
        try:
            outcome = await session.pods.schedule(key)
        except Unauthorized:
            session.handle.refused()
            raise
        if outcome.kind == "left":
            return
        what = {
            "assigned": f"assigned to super cluster {outcome.super_id}",
            "withdrawn": "withdrawn from its super cluster",
        }.get(outcome.kind, "has to wait")
        self.work.timeline.add(
            tenant, ObjectName(PODS.plural, *key), what, now=time.time(), version=outcome.version
        )
        self.counts[outcome.kind] += 1
        self.latency_sum += outcome.latency
        self._remember((tenant, *key), outcome)

    def _remember(self, key: tuple[str, str, str], outcome: Outcome) -> None:
        self.outcomes[key] = outcome
        self.outcomes.move_to_end(key)
        if len(self.outcomes) > _MOST_OUTCOMES:
            self.outcomes.popitem(last=False)


def _expect(session: TenantSession, pod: NewPod) -> Promise | None:
    """Promise room to a Pod that a tenant's own control plane is about to create."""
    if not session.follows():
        return None
    return session.pods.promise(pod.birth.namespace, pod.birth.name, pod.needs, pod.labels, pod.birth)


def _unread(reflector: Reflector, endpoint: str) -> str:
    """Return why objects of a kind are not known; empty if they are. The tenant reads it.

    Args:
        reflector: the reflector of the kind.
        endpoint: name of its client, which contains the tenant's cluster key and is left out.
    """
    if reflector.synced:
        return ""
    why = (reflector.statistics().last_error or "").removeprefix(f"{endpoint}: ")
    return f"{reflector.resource.kind}s cannot be read{f': {why}' if why else ' yet'}"


def _holders(placement: Envelope, placements: Mapping[str, int]) -> frozenset[str]:
    """Return the super clusters of a placement. One that has lost its slices has objects until its finalizer is removed."""
    draining = (names.super_id_of_finalizer(each) for each in placement.finalizers)
    return frozenset([*placements, *(each for each in draining if each)])


def _slim_placement(placement: Envelope) -> Envelope:
    return strip(placement, spec=False, status=False)
