"""One term of the namespace scheduler as leader: it follows the meta cluster and all tenants, decides, and writes."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random
from typing import Any

import structlog
from msgspec.structs import replace

from vcsync.api import names
from vcsync.api.conditions import set_condition
from vcsync.api.objects import NamespacePlacement, VirtualCluster, cluster_key, status_patch
from vcsync.api.resources import NAMESPACE_PLACEMENTS, SUPER_CLUSTERS, VIRTUAL_CLUSTERS
from vcsync.api.specs import FailBack, Failover, Trouble
from vcsync.fairqueue import ObjectName, WorkerPool
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.errors import (
    KubeError,
    NotFound,
    ServerError,
    Unauthorized,
    Unreachable,
    describe,
)
from vcsync.kube.events import EventType
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import NAMESPACES
from vcsync.nsscheduler.absence import SLICED, Absence, count_sliced, count_tenants, owner_exists
from vcsync.nsscheduler.clients import LedgerClient, LedgerFence, StoredLedger
from vcsync.nsscheduler.commit import commit
from vcsync.nsscheduler.definition_texts import DefinitionTexts
from vcsync.nsscheduler.departures import Waves
from vcsync.nsscheduler.drains import Drains
from vcsync.nsscheduler.failure_writer import FailureWriter
from vcsync.nsscheduler.fence import stamp_all
from vcsync.nsscheduler.nodes import clear_remains
from vcsync.nsscheduler.rebalancing import Rebalancing
from vcsync.nsscheduler.reconcile import (
    BRAKED,
    EMPTY_NAMESPACES,
    NO_QUOTA,
    Inputs,
    Plan,
    obey,
    reconcile,
)
from vcsync.nsscheduler.roots import remove_orphaned_root, remove_record, remove_root
from vcsync.nsscheduler.session import PUBLISHED, TenantSession, subject_of
from vcsync.nsscheduler.settings import Settings
from vcsync.nsscheduler.stateful import stateful_slices
from vcsync.nsscheduler.status_writer import StatusWriter
from vcsync.nsscheduler.transfers import Transfers
from vcsync.nsscheduler.withdrawal import SMALL
from vcsync.objects.envelope import Envelope
from vcsync.objects.times import time_text
from vcsync.scheduling.ledger import Entry, Ledger
from vcsync.scheduling.pool_pods import pods_of_pool
from vcsync.scheduling.resources import Resources, from_quantities
from vcsync.scheduling.slices import PODS
from vcsync.scheduling.snapshot import Health, SuperView
from vcsync.tenancy import Pool, TenantHandle, TenantRegistry
from vcsync.tenancy.brake import Braked, Count, DeletionLimiter, Releases, released_at
from vcsync.tenancy.caches import wait_for_caches
from vcsync.tenancy.distribution import entry_of
from vcsync.tenancy.proof import WrongControlPlane
from vcsync.tenancy.status import pool_troubles, unanswered
from vcsync.tenancy.terms import UNCONTESTED, TermLease
from vcsync.tenancy.troubles import braked

Key = tuple[str, str]

_RETRY_SECONDS = 1.0  # between two tries to read the ledger
_BRAKED_SECONDS = 60.0  # until an item that waits for an operator is reconciled again
_LONGEST_MESSAGE = 4096  # characters of a condition's message
_WAKE_SECONDS = 1.0
"""Shortest time between two attempts for waiting namespaces, however often the pool changes."""
_MOST_OUTCOMES = 20_000  # namespaces whose last decision is remembered
_LEADERLESS_SECONDS = 60.0
"""Namespaces created up to this long before the term count as new, since there may have been no leader."""
_USUALLY_WITHOUT_QUOTA = EMPTY_NAMESPACES | {"kube-system", "default"}
_CONNECT_SECONDS = 10.0
"""Seconds from the beginning of a term in which orders wait for the sessions with their tenants, whose own input counts then."""
_VIRTUAL_CLUSTER = ""  # the work item for the VirtualCluster itself
REMAINS = ".remains"
"""The work item for virtual nodes that removed super clusters have left in a tenant."""

_log = structlog.get_logger(__name__)


class Leadership:
    """One term as leader. It starts without state, and first reads everything that earlier leaders wrote.

    Args:
        meta: client of the meta cluster.
        settings: the operator's settings.
        make_client: makes a tenant's client from a kubeconfig and a cluster key; for tests.
        lease: the lease of the term.
        releases: remembers the releases of brakes over several terms.
    """

    def __init__(
        self,
        meta: Client,
        settings: Settings,
        *,
        make_client: Callable[[bytes, str], Client] | None = None,
        lease: TermLease = UNCONTESTED,
        releases: Releases | None = None,
    ) -> None:
        self._lease = lease
        self._held_back = ""
        self._meta = meta
        self._settings = settings
        self._default_size = from_quantities(settings.default_slice)
        self._new_since = _now(-_LEADERLESS_SECONDS)
        self.ledger = Ledger()
        self.limiter = DeletionLimiter(
            settings.brake_share,
            small=SMALL,
            released=self._released,
            releases=releases or Releases(),
            clock=time.monotonic,
        )
        self.pool = Pool(meta, patience=settings.patience, on_change=self._pool_changed)
        self.absence = Absence(meta, self.limiter, lambda super_id: super_id in self.pool.taken_out)
        self.placements = Reflector(meta, NAMESPACE_PLACEMENTS, sink=self._placement_changed)
        self.registry = TenantRegistry(
            meta,
            names.ROLE_NSSCHEDULER,
            self._run_tenant,
            on_change=self._virtual_cluster_changed,
            make_client=make_client,
        )
        self._status_writer = StatusWriter(
            meta,
            self.registry.virtual_clusters,
            supers=self.pool.super_clusters,
            own=self.tenants_in_trouble,
            found=self._control_plane_uid,
            lease=lease,
        )
        self.failure_writer = FailureWriter(meta, self.pool, lease)
        self.work: WorkerPool[str] = WorkerPool("nsscheduler", self._handle, workers=settings.workers)
        self.tenants: dict[str, TenantSession] = {}
        self.waiting: dict[Key, None] = {}
        self.outcomes: OrderedDict[Key, Plan] = OrderedDict()
        self.decisions: dict[str, int] = {}
        self._owners: dict[str, VirtualCluster] = {}
        self._sessions_due = 0.0
        self._assumed: set[Key] = set()
        # Namespaces whose last write was not answered. The write counts as done until the ledger has been read.
        self._unanswered: set[Key] = set()
        self._last_events: dict[Key, tuple[EventType, str, str]] = {}
        self._woken_at = 0.0
        self._in_pool: frozenset[str] = frozenset()
        self._classes: dict[str, dict[str, tuple[Any, ...]]] = {}
        self._definitions = DefinitionTexts(meta)
        self._pods: Resources = {}
        self.waves = Waves(
            self.pool,
            self.ledger,
            self._failover_of,
            self._stateful_slices,
            lambda key: self.work.add(*key),
            Random(),  # noqa: S311 - an order, not a secret
        )
        self.drains = Drains(
            self.pool,
            self.ledger,
            lambda key: self.work.add(*key),
            Random(),  # noqa: S311 - an order, not a secret
        )
        self._writes = LedgerClient(meta, self.placements.observe, self.placements.observe_gone, lease)
        stored = StoredLedger(self.placements.cache, self._writes)
        self.rebalancing = Rebalancing(
            self.pool.views,
            self.ledger,
            settings.policy,
            stored,
            self._fail_back_of,
            settings.move_budget,
            settings.rebalance_seconds,
        )
        self.transfers = Transfers(
            self.pool.views,
            self.ledger,
            settings.policy,
            stored,
            self.tenants.__contains__,
            self._stateful_slices,
            lambda key: self.work.add(*key),
        )

    async def run(self) -> None:
        """Schedule until cancelled. Decisions begin when the whole ledger and pool have been read."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.pool.run(), name="pool")
            tasks.create_task(self.placements.run(), name="placements")
            tasks.create_task(self.registry.run(), name="tenants")
            await wait_for_caches([self.pool.reflector, self.placements, self.registry.virtual_clusters])
            tasks.create_task(self._status_writer.run(), name="conditions")
            tasks.create_task(self.failure_writer.run(), name="failures")
            await self._fence()
            await self.pool.wait_reported(self._hold_back)
            self._hold_back("")
            _log.info(
                "namespace scheduler began", placements=len(self.ledger), super_clusters=len(self.pool.views)
            )
            self._sessions_due = time.monotonic() + _CONNECT_SECONDS
            tasks.create_task(self.waves.run(), name="waves")
            tasks.create_task(self.drains.run(), name="drains")
            tasks.create_task(self.transfers.run(), name="transfers")
            tasks.create_task(self.rebalancing.run(), name="rebalancing")
            await self.work.run()

    def synced(self) -> bool:
        """Return whether all caches are filled."""
        reflectors = (self.pool.reflector, self.placements, self.registry.virtual_clusters)
        return all(reflector.synced for reflector in reflectors)

    def tenants_in_trouble(self) -> list[Trouble]:
        """Return the reasons, as far as this scheduler knows them, why tenants are not fully served."""
        return [*braked(self.limiter.braked.values()), *self.registry.troubles()]

    def _control_plane_uid(self, tenant: str) -> str:
        """Return the UID of a tenant's control plane; "" while the tenant has no session."""
        session = self.tenants.get(tenant)
        return session.handle.control_plane_uid if session is not None else ""

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

    async def _fence(self) -> None:
        """Make writes of earlier leaders that are still in flight fail from now on."""
        if not self._lease.term:
            return
        self._hold_back("fencing the ledger against late writes of an earlier leader")
        entries = await self._whole_ledger()
        for entry in entries:
            self.placements.observe(entry)

        placements = self.placements
        ledger = LedgerFence(self._meta, placements.observe, placements.observe_gone, self._lease)
        await stamp_all(entries, self._lease.term, ledger)

    async def _whole_ledger(self) -> list[Envelope]:
        """Read the ledger from the store: a server's cache may lack an earlier leader's last entries."""
        while True:
            try:
                return await self._meta.list(NAMESPACE_PLACEMENTS)
            except KubeError as error:
                _log.warning("ledger cannot be read", **describe(error))
                await asyncio.sleep(_RETRY_SECONDS)

    # Changes of other objects

    def _placed(self, tenant: str) -> dict[str, int]:
        """Return the namespaces of a tenant that have entries, with the number of their slices."""
        entries = {item.name: self.ledger.get(item.key) for item in self.placements.cache.items(tenant)}
        return {name: sum(entry.placements.values()) if entry else 0 for name, entry in entries.items()}

    async def _run_tenant(self, handle: TenantHandle) -> None:
        session = TenantSession(
            handle,
            self.work.add,
            limiter=self.limiter,
            definitions=self._definitions,
            placed=self._placed,
            memory=self._settings.memory_per_tenant,
        )
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(session.memory.exceeded())
                tasks.create_task(session.namespaces.run())
                tasks.create_task(session.quotas.run())
                tasks.create_task(session.events.run())
                tasks.create_task(session.without_effect.run())
                for publisher in session.publishers.values():
                    tasks.create_task(publisher.run())
                await wait_for_caches([session.namespaces, session.quotas])
                handle.ready()
                self.tenants[handle.key] = session
                self.work.queue.set_limit(handle.key, self._settings.per_tenant)
                for item in PUBLISHED:
                    self.work.add(handle.key, item)
                spec = released = None
                while True:
                    release = handle.virtual_cluster.annotations.get(names.BRAKE_RELEASED)
                    if (handle.virtual_cluster.spec, release) != (spec, released):
                        spec, released = handle.virtual_cluster.spec, release
                        self.work.queue.set_weight(handle.key, spec.weight)
                        self._add_all(handle.key)
                        self.work.add(handle.key, REMAINS)
                    await handle.changed.wait()
                    handle.changed.clear()
        finally:
            self.tenants.pop(handle.key, None)
            self.limiter.forget(handle.key)

    def _released(self, tenant: str) -> datetime | None:
        if not tenant:
            return self.absence.released
        session = self.tenants.get(tenant)
        if session is None:
            return None
        return released_at(session.handle.virtual_cluster.annotations.get(names.BRAKE_RELEASED))

    def _add_all(self, tenant: str) -> None:
        """Enqueue all namespaces of a tenant, and all its entries of the ledger."""
        session = self.tenants.get(tenant)
        for namespace in session.namespaces.cache.items() if session is not None else ():
            self.work.add(tenant, namespace.name)
        for placement in self.placements.cache.items(tenant):
            self.work.add(tenant, placement.name)

    def _virtual_cluster_changed(self, change: Change) -> None:
        """Enqueue all items of a VirtualCluster that goes or has other settings, whether its tenant can be reached or not."""
        self.absence.virtual_cluster_changed(change)
        try:
            found = VirtualCluster.from_envelope(subject_of(change))
            key = cluster_key(found)
        except ValueError:  # it never was a tenant
            return
        known = self._owners.get(key)
        if change.new is None or change.new.deleting:
            if known is not None and known.uid == found.uid:
                del self._owners[key]
            self._add_all(key)
            self.work.add(key, _VIRTUAL_CLUSTER)
        elif known is None or known.uid == found.uid:
            self._owners[key] = found
            if change.old is None or change.old.spec != change.new.spec:
                self._add_all(key)

    def _placement_changed(self, change: Change) -> None:
        placement = subject_of(change)
        key = placement.key
        if change.new is None:
            self._unanswered.discard(key)
        if key not in self._assumed and key not in self._unanswered:
            self._count(key)
        self.work.add(*key)
        if change.new is None:
            self.waiting.pop(key, None)
            self.work.add(placement.namespace, _VIRTUAL_CLUSTER)

    def _count(self, key: Key) -> None:
        """Update the sums of distributed amounts from a namespace's entry of the ledger."""
        found = self.placements.cache.get(*key)
        before = self.ledger.get(key)
        if found is None:
            self.ledger.drop(key)
        else:
            try:
                self.ledger.put(key, entry_of(NamespacePlacement.from_envelope(found)))
            except ValueError as error:  # the amounts counted before remain
                _log.error(
                    "namespace placement cannot be read", tenant=key[0], namespace=key[1], error=str(error)
                )
                return
        if _frees_amounts(before, self.ledger.get(key)):
            self._pool_changed()

    def _failover_of(self, tenant: str) -> Failover | None:
        """Return the policy of a tenant for lost super clusters; None if it has no VirtualCluster."""
        owner = self._owners.get(tenant)
        return None if owner is None else owner.spec.failover or self._settings.failover

    def _fail_back_of(self, tenant: str) -> FailBack | None:
        """Return the policy of a tenant for the way back; None while it has no session, or is suspended."""
        session = self.tenants.get(tenant)
        if session is None or session.handle.virtual_cluster.spec.suspended:
            return None
        return session.handle.virtual_cluster.spec.fail_back or self._settings.fail_back

    async def _stateful_slices(self, key: Key, super_id: str) -> int:
        """Return how many slices of a namespace on a super cluster its Pods with claims need.

        Raises:
            KubeError: the tenant's Pods or claims cannot be read.
        """
        session, entry = self.tenants.get(key[0]), self.ledger.get(key)
        if session is None:
            raise Unreachable("its control plane is not connected", endpoint=key[0])
        if entry is None:
            return 0
        return await stateful_slices(session.handle.client, key[1], super_id, entry.size)

    def _pool_changed(self) -> None:
        """Enqueue the namespaces that wait, and those that may leave super clusters."""
        self._wake_waiting()
        self.waves.follow()
        self.drains.follow()
        before, self._in_pool = self._in_pool, frozenset(self.pool.views)
        if before - self._in_pool:
            for tenant in self.tenants:
                self.work.add(tenant, REMAINS)
        self._note_classes()
        self._note_pods()

    def _note_classes(self) -> None:
        """Enqueue the published classes and definitions of all tenants whose kind has changed in the pool."""
        for item, field in PUBLISHED.items():
            published = {view.id: getattr(view, field) for view in self.pool.views.values()}
            classes = {super_id: found for super_id, found in published.items() if found}
            if classes != self._classes.get(item, {}):
                self._classes[item] = classes
                for tenant in self.tenants:
                    self.work.add(tenant, item)

    def _note_pods(self) -> None:
        """Enqueue all namespaces if the number of Pods of a slice has changed."""
        before = self._pods
        self._pods = pods_of_pool(self._default_size, self.pool.views, before.get(PODS))
        if self._pods != before:
            for tenant in self.tenants:
                self._add_all(tenant)

    def _wake_waiting(self) -> None:
        """Enqueue all namespaces with slices that wait, at most every `_WAKE_SECONDS`."""
        if not self.waiting:
            return
        now = time.monotonic()
        # Otherwise the items are still queued for `_woken_at`, and will see this change.
        if self._woken_at <= now:
            self._woken_at = max(now, self._woken_at + _WAKE_SECONDS)
        for tenant, namespace in self.waiting:
            self.work.add_after(tenant, namespace, self._woken_at - now)

    # One namespace

    async def _handle(self, tenant: str, namespace: str) -> float | None:
        if namespace == _VIRTUAL_CLUSTER:
            return await self._release_virtual_cluster(tenant)
        if namespace == REMAINS:
            return await self._clear_remains(tenant)
        if namespace in PUBLISHED:
            return await self._publish_classes(tenant, namespace)
        return await self._reconcile(tenant, namespace)

    async def _reconcile(self, tenant: str, namespace: str) -> float | None:
        if (tenant, namespace) in self._unanswered:
            await self._read_unanswered(tenant, namespace)
        found = self.placements.cache.get(tenant, namespace)
        placement = None if found is None else NamespacePlacement.from_envelope(found)
        if placement is not None:
            if not await self._owner_exists(placement):
                return await self._drop(placement)
            self.absence.tenant_exists(tenant)
        session = self.tenants.get(tenant)
        if session is None:
            return await self._obey(placement)
        inputs = await self._inputs(session.handle.virtual_cluster, placement, (tenant, namespace))
        inputs = replace(
            inputs, namespace=session.namespaces.cache.get("", namespace), hards=session.hards(namespace)
        )
        again = await self._decide(inputs, reconcile(inputs), session)
        return _BRAKED_SECONDS if again is None and self.limiter.is_braked(tenant, SLICED) else again

    async def _obey(self, placement: NamespacePlacement | None) -> float | None:
        """Carry out the operator's orders about a tenant that is not connected. Its own input and its mirror wait for it."""
        if placement is None:  # the namespace is enqueued when the tenant is connected
            return None
        owner = self._owners.get(placement.namespace)
        if owner is None or owner.uid != placement.spec.virtual_cluster.uid:
            return None
        early = self._sessions_due - time.monotonic()
        if early > 0 and not owner.spec.suspended:
            return early
        inputs = await self._inputs(owner, placement, (placement.namespace, placement.name))
        return await self._decide(inputs, obey(inputs), None)

    async def _inputs(self, owner: VirtualCluster, placement: NamespacePlacement | None, key: Key) -> Inputs:
        """Return the inputs of a decision that do not come from the tenant."""
        return Inputs(
            key,
            owner,
            None,
            (),
            placement,
            await self._views(*key),
            self.ledger,
            self._default_size,
            self._settings.policy,
            _now(),
            self.waves.departures.leaving(key),
            transfers=self.transfers.of(key),
            held=self.drains.waves.held(key),
        )

    async def _decide(self, inputs: Inputs, plan: Plan, session: TenantSession | None) -> float | None:
        """Count a decision, and write it. A decision that was certainly not written is not counted any more.

        Args:
            inputs: the inputs of the decision.
            plan: the decision.
            session: the session with the tenant; None if it is not connected.

        Returns:
            Seconds until the next attempt if an operator has to release the decision; None otherwise.
        """
        key = inputs.key
        self._assumed.add(key)
        try:
            if plan.decision is not None:
                self.ledger.put(key, Entry(plan.size, plan.decision.placements, plan.clearing))
            tenant = None if session is None else session.control_plane
            await commit(inputs, plan, self._writes, tenant, partial(self._note_written, inputs, plan))
        except (Braked, WrongControlPlane) as error:
            plan.reason, plan.message, plan.event = BRAKED, str(error), None
            if inputs.placement is not None:
                await self._show_braked(inputs.placement, plan.message)
            self._remember(inputs, plan)
            return _BRAKED_SECONDS
        except Unauthorized as error:
            if session is not None and error.endpoint == session.handle.client.name:
                session.handle.refused()
            raise
        except (ServerError, Unreachable) as error:
            if error.endpoint == self._meta.name:
                self._unanswered.add(key)
            raise
        finally:
            self.waves.departures.note_tried(key)
            self._assumed.discard(key)
            if key not in self._unanswered:
                self._count(key)
        self._note(inputs, plan)
        self._remember(inputs, plan)
        if session is not None:
            if not plan.confirm:
                session.withdrawal.settled(key[1])
            self._emit(inputs, plan, session)
        return None

    def _note_written(self, inputs: Inputs, plan: Plan) -> None:
        """Note that the ledger is as decided. The waves do not wait for the mirror, which the tenant may refuse."""
        self.drains.waves.note_decided(inputs.key, inputs.held)
        self.transfers.note_decided(inputs.key, inputs.transfers, plan.message)

    def _note(self, inputs: Inputs, plan: Plan) -> None:
        """Record the decision in the timeline of the tenant's Namespace."""
        if plan.confirm:
            what = f"slices withdrawn: the {plan.confirm} is gone"
        elif plan.placements is None:
            return
        else:
            slices = ", ".join(f"{super_id} {count}" for super_id, count in sorted(plan.placements.items()))
            what = f"slices: {slices or 'none'}"
        version = inputs.placement.resource_version if inputs.placement is not None else ""
        tenant, namespace = inputs.key
        name = ObjectName(NAMESPACES.plural, "", namespace)
        self.work.timeline.add(tenant, name, what, now=time.time(), version=version)

    async def _show_braked(self, placement: NamespacePlacement, message: str) -> None:
        """Write a condition to a ledger entry which says that its removal waits for an operator's release."""
        conditions = set_condition(
            placement.status.conditions,
            BRAKED,
            status=True,
            reason="TooManyDeletions",
            message=message[:_LONGEST_MESSAGE],
            now=_now(),
            observed_generation=placement.generation,
        )
        patch = status_patch(
            placement.status,
            replace(placement.status, conditions=conditions),
            resource_version=placement.resource_version,
        )
        if patch is not None:
            await self._writes.patch(placement.namespace, placement.name, patch, "status")

    async def _read_unanswered(self, tenant: str, namespace: str) -> None:
        """Read the entry after a write that was not answered."""
        try:
            self.placements.observe(await self._meta.get(NAMESPACE_PLACEMENTS, namespace, tenant))
        except NotFound:
            known = self.placements.cache.get(tenant, namespace)
            if known is not None:
                self.placements.observe_gone(tenant, namespace, known.uid)
        self._unanswered.discard((tenant, namespace))
        self._count((tenant, namespace))

    def _remember(self, inputs: Inputs, plan: Plan) -> None:
        key = inputs.key
        if plan.waiting:
            self.waiting[key] = None
        else:
            self.waiting.pop(key, None)
        if inputs.namespace is None:
            self.outcomes.pop(key, None)
            return
        before = self.outcomes.get(key)
        if before is None or before.reason != plan.reason:
            self.decisions[plan.reason] = self.decisions.get(plan.reason, 0) + 1
        self.outcomes[key] = plan
        self.outcomes.move_to_end(key)
        if len(self.outcomes) > _MOST_OUTCOMES:
            self.outcomes.popitem(last=False)

    def _emit(self, inputs: Inputs, plan: Plan, session: TenantSession) -> None:
        """Emit an Event in the tenant, once for each change."""
        namespace = inputs.namespace
        if namespace is None or plan.event is None:
            self._last_events.pop(inputs.key, None)
            return
        if self._last_events.get(inputs.key) == plan.event:
            return
        self._last_events[inputs.key] = plan.event
        lasting = namespace.name in _USUALLY_WITHOUT_QUOTA or namespace.creation_timestamp < self._new_since
        if plan.reason == NO_QUOTA and inputs.placement is None and lasting:
            return  # the namespace is old or needs no quota: an Event would be noise
        session.control_plane.emit(namespace, *plan.event)

    async def _views(self, tenant: str, namespace: str) -> dict[str, SuperView]:
        """Return the pool, with placeholders for super clusters that have slices of the namespace but are missing.

        A super cluster loses its slices only if it is certainly gone, and only if the limiter permits it.
        """
        entry = self.ledger.get((tenant, namespace))
        unseen = set(entry.placements) - set(self.pool.views) if entry is not None else set()
        if not unseen:
            self.absence.supers_exist(tenant, namespace)
            return self.pool.views
        views = dict(self.pool.views)
        for super_id in sorted(unseen):
            if not await self._super_cluster_is_gone(super_id) or not await self._may_lose(
                tenant, namespace, super_id
            ):
                views[super_id] = SuperView(super_id, Health.UNKNOWN, {})
        return views

    async def _super_cluster_is_gone(self, super_id: str) -> bool:
        if self.pool.reflector.cache.get("", super_id) is not None:
            return False
        try:
            await self._meta.get(SUPER_CLUSTERS, super_id)
        except NotFound:
            return True
        return False

    async def _may_lose(self, tenant: str, namespace: str, super_id: str) -> bool:
        """Return whether a namespace may lose its slices on a super cluster that is gone."""

        async def count() -> tuple[int, int]:
            keys = [placement.key for placement in self.placements.cache.items(tenant)]
            entries = [entry for key in keys if (entry := self.ledger.get(key)) is not None]
            return count_sliced(entries, self.pool.views, self.pool.taken_out)

        try:
            await self.absence.require_slices(tenant, namespace, super_id, count)
        except Braked:
            return False
        return True

    async def _publish_classes(self, tenant: str, item: str) -> float | None:
        session = self.tenants.get(tenant)
        if session is None:  # the item is enqueued when the tenant is connected
            return None
        try:
            return await session.publishers[item].publish(self.pool.views.values())
        except Unauthorized as error:
            if error.endpoint == session.handle.client.name:
                session.handle.refused()
            raise

    async def _clear_remains(self, tenant: str) -> float | None:
        """Delete the virtual nodes that removed super clusters have left in a tenant."""
        session = self.tenants.get(tenant)
        if session is None:  # the item is enqueued when the tenant is connected
            return None

        async def permit(super_id: str, node: str, count: Count) -> None:
            await self.absence.require_node(tenant, super_id, node, count)

        try:
            again = await clear_remains(tenant, session.handle.client, self._meta, self.pool.views, permit)
        except Braked:
            return _BRAKED_SECONDS
        except Unauthorized as error:
            if error.endpoint == session.handle.client.name:
                session.handle.refused()
            raise
        if again is None:
            self.absence.nodes_settled(tenant)
        return again

    # VirtualClusters that are deleted

    async def _owner_exists(self, placement: NamespacePlacement) -> bool:
        """Return whether the VirtualCluster of a ledger entry exists and is not being deleted. Its absence is read live."""
        if owner_exists(placement, self.registry.virtual_clusters.cache):
            return True
        owner = placement.spec.virtual_cluster
        try:
            live = await self._meta.get(VIRTUAL_CLUSTERS, owner.name, owner.namespace)
        except NotFound:
            return False
        if live.uid == owner.uid and live.deleting:
            self.absence.remember_deleted(owner.uid)
        return live.uid == owner.uid and not live.deleting

    async def _drop(self, placement: NamespacePlacement) -> float | None:
        """Delete a ledger entry. Its finalizers keep it until the syncers have removed the namespace's objects.

        Returns:
            Seconds until the next attempt if an operator has to release the deletion; None otherwise.
        """
        if not placement.deleting:
            try:
                await self._permit_removal(placement.namespace, placement.spec.virtual_cluster.uid)
            except Braked as braked:
                await self._show_braked(placement, str(braked))
                return _BRAKED_SECONDS
            await self._writes.delete(
                placement.namespace, placement.name, placement.uid, placement.resource_version
            )
        self.waiting.pop((placement.namespace, placement.name), None)
        return None

    async def _permit_removal(self, tenant: str, uid: str) -> None:
        """Permit the removal of everything a tenant has in the meta cluster, or raise Braked."""

        async def count() -> tuple[int, int]:
            return count_tenants(tenant, self.placements.cache, self.registry.virtual_clusters.cache)

        await self.absence.require_tenant(tenant, uid, count)

    async def _release_virtual_cluster(self, tenant: str) -> float | None:
        """Remove the finalizer of a VirtualCluster that is being deleted, once the ledger has no entries of it.

        Returns:
            Seconds until the next attempt if an operator has to release the deletion; None otherwise.
        """
        gone = True
        for envelope in self.registry.virtual_clusters.cache.items():
            if _key_of(envelope) != tenant:
                continue
            gone = False
            if not envelope.deleting or names.VIRTUAL_CLUSTER_DRAIN_FINALIZER not in envelope.finalizers:
                continue
            left = await self._meta.list(NAMESPACE_PLACEMENTS, tenant)
            if any(_belongs_to(item, envelope) for item in left):
                for item in left:
                    self.placements.observe(item)
                    self.work.add(tenant, item.name)
                continue
            record = VirtualCluster.from_envelope(envelope).spec.tenant or envelope.name
            await remove_record(self._meta, record, envelope.uid)
            await remove_root(self._meta, tenant, envelope.uid)
            others = [name for name in envelope.finalizers if name != names.VIRTUAL_CLUSTER_DRAIN_FINALIZER]
            patch: dict[str, Any] = {
                "metadata": {"resourceVersion": envelope.resource_version, "finalizers": others}
            }
            try:
                answer = await self._meta.patch(VIRTUAL_CLUSTERS, envelope.name, patch, envelope.namespace)
            except NotFound:
                continue
            _log.info("virtual cluster is drained", tenant=tenant, virtual_cluster=envelope.name)
            if others:
                self.registry.virtual_clusters.observe(answer)
            self.work.queue.forget_group(tenant)
            self.work.timeline.forget(tenant)
            for key in [key for key in self._unanswered if key[0] == tenant]:
                self._unanswered.discard(key)
                self._count(key)
        if gone and not await self._meta.list(NAMESPACE_PLACEMENTS, tenant):
            try:
                await remove_orphaned_root(self._meta, tenant, lambda uid: self._permit_removal(tenant, uid))
            except Braked:
                return _BRAKED_SECONDS
        return None


def _key_of(virtual_cluster: Envelope) -> str:
    try:
        return cluster_key(VirtualCluster.from_envelope(virtual_cluster))
    except ValueError:  # it never was a tenant
        return ""


def _belongs_to(placement: Envelope, virtual_cluster: Envelope) -> bool:
    return NamespacePlacement.from_envelope(placement).spec.virtual_cluster.uid == virtual_cluster.uid


def _frees_amounts(before: Entry | None, after: Entry | None) -> bool:
    """Return whether a namespace holds less on any super cluster than before."""
    if before is None or before == after:
        return False
    if after is None or after.size != before.size:
        return True
    return any(
        any(amount > after.holds(super_id).get(name, 0) for name, amount in before.holds(super_id).items())
        for super_id in {**before.placements, **before.clearing}
    )


def _now(later: float = 0.0) -> str:
    """Return the time `later` seconds from now, in RFC 3339."""
    return time_text(datetime.now(UTC) + timedelta(seconds=later))
