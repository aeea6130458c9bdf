"""The namespace scheduler while it leads: follows meta and all tenants, decides, and writes."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog
from msgspec.structs import replace

from vcsync.api import names
from vcsync.api.conditions import set_condition
from vcsync.api.objects import NamespacePlacement, VirtualCluster, status_patch
from vcsync.api.resources import NAMESPACE_PLACEMENTS, SUPER_CLUSTERS, VIRTUAL_CLUSTERS
from vcsync.fairqueue import WorkerPool
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.envelope import Envelope
from vcsync.kube.errors import KubeError, NotFound, ServerError, Unauthorized, Unreachable, describe
from vcsync.kube.events import EventType
from vcsync.kube.reflector import Reflector
from vcsync.nsscheduler.commit import commit, ledger_writes
from vcsync.nsscheduler.fence import LedgerDoor, stamp_all
from vcsync.nsscheduler.nodes import clear_remains
from vcsync.nsscheduler.pods import pods_of_pool
from vcsync.nsscheduler.reconcile import (
    BRAKED,
    NO_QUOTA,
    Facts,
    Wish,
    entry_of,
    reconcile,
)
from vcsync.nsscheduler.roots import remove_root, remove_root_of_none
from vcsync.nsscheduler.session import TenantSession, subject_of
from vcsync.nsscheduler.settings import Settings
from vcsync.nsscheduler.withdrawal import SMALL
from vcsync.scheduling.ledger import Entry, Ledger
from vcsync.scheduling.resources import Resources, from_quantities
from vcsync.scheduling.slices import PODS
from vcsync.scheduling.snapshot import Health, SuperView
from vcsync.tenancy import Pool, TenantHandle, TenantRegistry
from vcsync.tenancy.brake import Braked, Gate, released_at
from vcsync.tenancy.proof import WrongControlPlane
from vcsync.tenancy.terms import UNCONTESTED, Office

Key = tuple[str, str]

_RETRY_SECONDS = 1.0  # between two tries to read the ledger
_BRAKED_SECONDS = 60.0  # when to look again at what waits for an operator
_LONGEST_MESSAGE = 4096  # characters of a condition's message
_WAKE_SECONDS = 1.0  # namespaces that wait are looked at no more often, however much the pool changes
_MOST_OUTCOMES = 20_000  # namespaces whose last decision is remembered
_LEADERLESS_SECONDS = 60.0  # a namespace made so long before a term is news to it: nobody may have led
_UNPLACED_BY_NATURE = frozenset({"kube-system", "kube-public", "kube-node-lease", "default"})
_VIRTUAL_CLUSTER = ""  # the work item that stands for the VirtualCluster itself
REMAINS = ".remains"
"""The work item that stands for what removed super clusters have left in a tenant."""

_log = structlog.get_logger(__name__)


class Leadership:
    """One term as leader. Everything is built anew for a term: what another leader did meanwhile is read first."""

    def __init__(
        self,
        meta: Client,
        settings: Settings,
        *,
        make_client: Callable[[bytes, str], Client] | None = None,
        office: Office = UNCONTESTED,
    ) -> None:
        self._office = office
        self._held_back = ""
        self._meta = meta
        self._settings = settings
        self._default_size = from_quantities(settings.default_slice)
        self._news_since = _now(-_LEADERLESS_SECONDS)
        self.ledger = Ledger()
        self.gate = Gate(settings.brake_share, small=SMALL, released=self._released, clock=time.monotonic)
        self.pool = Pool(meta, patience=settings.patience, on_change=self._pool_changed)
        self.placements = Reflector(meta, NAMESPACE_PLACEMENTS, on_change=self._placement_changed)
        self.registry = TenantRegistry(
            meta,
            names.ROLE_NSSCHEDULER,
            self._run_tenant,
            on_change=self._virtual_cluster_changed,
            make_client=make_client,
        )
        self.work: WorkerPool[str] = WorkerPool("nsscheduler", self._handle, workers=settings.workers)
        self.tenants: dict[str, TenantSession] = {}
        self.waiting: dict[Key, None] = {}
        self.outcomes: OrderedDict[Key, Wish] = OrderedDict()
        self.decisions: dict[str, int] = {}
        self._assumed: set[Key] = set()
        # Whose last write was not answered: it counts as done until a look at the ledger itself tells.
        self._unanswered: set[Key] = set()
        self._told: dict[Key, tuple[EventType, str, str]] = {}
        self._woken_at = 0.0
        self._in_pool: frozenset[str] = frozenset()
        self._pods: Resources = {}
        self._writes = ledger_writes(meta, self.placements.observe, self.placements.observe_gone, office)

    async def run(self) -> None:
        """Follow and decide until cancelled. Nothing is decided before the whole ledger and pool are known."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.pool.run(), name="pool")
            tasks.create_task(self.placements.run(), name="placements")
            tasks.create_task(self.registry.run(), name="tenants")
            await self.pool.reflector.wait_synced()
            await self.placements.wait_synced()
            await self.registry.virtual_clusters.wait_synced()
            await self._fence()
            await self.pool.wait_reported(self._hold_back)
            self._hold_back("")
            _log.info(
                "namespace scheduler began", placements=len(self.ledger), super_clusters=len(self.pool.views)
            )
            await self.work.run()

    def synced(self) -> bool:
        """Whether decisions are made."""
        reflectors = (self.pool.reflector, self.placements, self.registry.virtual_clusters)
        return all(reflector.synced for reflector in reflectors)

    def held_back(self) -> str:
        """What it waits for before it decides, although it has read everything; empty if it decides."""
        return self._held_back

    def _hold_back(self, reason: str) -> None:
        self._held_back = reason

    async def _fence(self) -> None:
        """See to it that nothing which an earlier leader has sent can land from now on."""
        if not self._office.term:
            return
        self._hold_back("fencing the ledger against late writes of an earlier leader")
        entries = await self._whole_ledger()
        for entry in entries:
            self.placements.observe(entry)

        async def patch(namespace: str, name: str, change: dict[str, Any]) -> Envelope:
            return await self._meta.patch(NAMESPACE_PLACEMENTS, name, change, namespace)

        async def read(namespace: str, name: str) -> Envelope:
            return await self._meta.get(NAMESPACE_PLACEMENTS, name, namespace)

        placements = self.placements
        door = LedgerDoor(read, patch, placements.observe, placements.observe_gone, self._office.sure)
        await stamp_all(entries, self._office.term, door)

    async def _whole_ledger(self) -> list[Envelope]:
        """Read the ledger from the store itself: a server's cache may lack what an earlier leader made last."""
        while True:
            try:
                return await self._meta.list(NAMESPACE_PLACEMENTS)
            except KubeError as error:
                _log.warning("ledger cannot be read", **describe(error))
                await asyncio.sleep(_RETRY_SECONDS)

    # What happens elsewhere

    async def _run_tenant(self, handle: TenantHandle) -> None:
        session = TenantSession(
            handle,
            self.work.add,
            gate=self.gate,
            placed=lambda key: [placement.name for placement in self.placements.cache.items(key)],
        )
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(session.namespaces.run())
                tasks.create_task(session.quotas.run())
                tasks.create_task(session.events.run())
                await session.namespaces.wait_synced()
                await session.quotas.wait_synced()
                handle.ready()
                self.tenants[handle.key] = session
                self.work.queue.set_limit(handle.key, self._settings.per_tenant)
                spec = released = None
                while True:
                    said = handle.virtual_cluster.annotations.get(names.BRAKE_RELEASED)
                    if (handle.virtual_cluster.spec, said) != (spec, released):
                        spec, released = handle.virtual_cluster.spec, said
                        self.work.queue.set_weight(handle.key, spec.weight)
                        self._add_all(handle.key)
                        self.work.add(handle.key, REMAINS)
                    await handle.changed.wait()
                    handle.changed.clear()
        finally:
            self.tenants.pop(handle.key, None)
            self.gate.forget(handle.key)

    def _released(self, tenant: str) -> datetime | None:
        session = self.tenants.get(tenant)
        if session is None:
            return None
        return released_at(session.handle.virtual_cluster.annotations.get(names.BRAKE_RELEASED))

    def _add_all(self, tenant: str) -> None:
        """Look at everything of a tenant: its namespaces, and what the ledger has of it."""
        session = self.tenants.get(tenant)
        for namespace in session.namespaces.cache.items() if session is not None else ():
            self.work.add(tenant, namespace.name)
        for placement in self.placements.cache.items(tenant):
            self.work.add(tenant, placement.name)

    def _virtual_cluster_changed(self, change: Change) -> None:
        """Clear what a VirtualCluster leaves behind, whether its tenant can be reached or not."""
        if change.new is not None and not change.new.deleting:
            return
        try:
            key = names.cluster_key(VirtualCluster.from_envelope(subject_of(change)))
        except ValueError:  # it never was a tenant, hence has nothing
            return
        self._add_all(key)
        self.work.add(key, _VIRTUAL_CLUSTER)

    def _placement_changed(self, change: Change) -> None:
        placement = subject_of(change)
        key = placement.key
        if change.new is None:
            self._unanswered.discard(key)
        if key not in self._assumed and key not in self._unanswered:
            self._book(key)
        self.work.add(*key)
        if change.new is None:
            self.waiting.pop(key, None)
            self.work.add(placement.namespace, _VIRTUAL_CLUSTER)

    def _book(self, key: Key) -> None:
        """Enter into the sums what the ledger says of a namespace."""
        found = self.placements.cache.get(*key)
        before = self.ledger.get(key)
        if found is None:
            self.ledger.drop(key)
        else:
            try:
                self.ledger.put(key, entry_of(NamespacePlacement.from_envelope(found)))
            except ValueError as error:  # what it held still counts
                _log.error(
                    "namespace placement cannot be read", tenant=key[0], namespace=key[1], error=str(error)
                )
                return
        if _gave_back(before, self.ledger.get(key)):
            self._pool_changed()

    def _pool_changed(self) -> None:
        """Have a new look at whoever waits, and at whoever holds slices where an operator wants none."""
        self._wake_waiting()
        for super_id, view in self.pool.views.items():
            if view.draining:
                for key in self.ledger.on(super_id):
                    self.work.add(*key)
        before, self._in_pool = self._in_pool, frozenset(self.pool.views)
        if before - self._in_pool:
            for tenant in self.tenants:
                self.work.add(tenant, REMAINS)
        self._note_pods()

    def _note_pods(self) -> None:
        """Have a new look at everyone when slices are to have room for another number of Pods than so far."""
        before = self._pods
        self._pods = pods_of_pool(self._default_size, self.pool.views, before.get(PODS))
        if self._pods != before:
            for tenant in self.tenants:
                self._add_all(tenant)

    def _wake_waiting(self) -> None:
        """Have a new look at all namespaces with slices that wait."""
        if not self.waiting:
            return
        now = time.monotonic()
        if self._woken_at <= now:  # else that look is still to come, and sees this change, too
            self._woken_at = max(now, self._woken_at + _WAKE_SECONDS)
        for tenant, namespace in self.waiting:
            self.work.add_after(tenant, namespace, self._woken_at - now)

    # One namespace

    async def _handle(self, tenant: str, namespace: str) -> float | None:
        if namespace == _VIRTUAL_CLUSTER:
            await self._release_virtual_cluster(tenant)
        elif namespace == REMAINS:
            return await self._clear_remains(tenant)
        else:
            return await self._look_at(tenant, namespace)
        return None

    async def _look_at(self, tenant: str, namespace: str) -> float | None:
        if (tenant, namespace) in self._unanswered:
            await self._find_out(tenant, namespace)
        found = self.placements.cache.get(tenant, namespace)
        placement = None if found is None else NamespacePlacement.from_envelope(found)
        if placement is not None and await self._owner_is_gone(placement):
            await self._drop(placement)
            return None
        session = self.tenants.get(tenant)
        if session is None:  # looked at as soon as the tenant is connected
            return None
        facts = Facts(
            (tenant, namespace),
            session.handle.virtual_cluster,
            session.namespaces.cache.get("", namespace),
            session.hards(namespace),
            placement,
            await self._views(tenant, namespace),
            self.ledger,
            self._default_size,
            self._settings.policy,
            _now(),
        )
        return await self._decide(facts, session)

    async def _decide(self, facts: Facts, session: TenantSession) -> float | None:
        """Decide, count the decision at once, and write it; what was certainly not written no longer counts.

        Returns:
            seconds after which to look again at what an operator has to look at first.
        """
        key = facts.key
        wish = reconcile(facts)
        self._assumed.add(key)
        try:
            if wish.decision is not None:
                self.ledger.put(key, Entry(wish.size, wish.decision.placements, wish.clearing))
            await commit(facts, wish, self._writes, session.door)
        except (Braked, WrongControlPlane) as error:
            wish.reason, wish.message, wish.event = BRAKED, str(error), None
            await self._show_braked(facts, wish)
            self._remember(facts, wish)
            return _BRAKED_SECONDS
        except Unauthorized as error:
            if error.endpoint == session.handle.client.name:
                session.handle.refused()
            raise
        except (ServerError, Unreachable) as error:
            if error.endpoint == self._meta.name:
                self._unanswered.add(key)
            raise
        finally:
            self._assumed.discard(key)
            if key not in self._unanswered:
                self._book(key)
        if not wish.delete:
            session.withdrawal.settled(key[1])
        self._remember(facts, wish)
        self._tell(facts, wish, session)
        return None

    async def _show_braked(self, facts: Facts, wish: Wish) -> None:
        """Say at the ledger's entry that it stays until an operator has looked."""
        placement = facts.placement
        if placement is None:
            return
        told = set_condition(
            placement.status.conditions,
            BRAKED,
            status=True,
            reason="TooManyDeletions",
            message=wish.message[:_LONGEST_MESSAGE],
            now=facts.now,
            observed_generation=placement.generation,
        )
        patch = status_patch(
            placement.status,
            replace(placement.status, conditions=told),
            resource_version=placement.resource_version,
        )
        if patch is not None:
            await self._writes.patch(placement.namespace, placement.name, patch, "status")

    async def _find_out(self, tenant: str, namespace: str) -> None:
        """Read what has become of a write that was not answered."""
        try:
            self.placements.observe(await self._meta.get(NAMESPACE_PLACEMENTS, namespace, tenant))
        except NotFound:
            known = self.placements.cache.get(tenant, namespace)
            if known is not None:
                self.placements.observe_gone(tenant, namespace, known.uid)
        self._unanswered.discard((tenant, namespace))
        self._book((tenant, namespace))

    def _remember(self, facts: Facts, wish: Wish) -> None:
        key = facts.key
        if wish.waiting:
            self.waiting[key] = None
        else:
            self.waiting.pop(key, None)
        if facts.namespace is None:
            self.outcomes.pop(key, None)
            return
        before = self.outcomes.get(key)
        if before is None or before.reason != wish.reason:
            self.decisions[wish.reason] = self.decisions.get(wish.reason, 0) + 1
        self.outcomes[key] = wish
        self.outcomes.move_to_end(key)
        if len(self.outcomes) > _MOST_OUTCOMES:
            self.outcomes.popitem(last=False)

    def _tell(self, facts: Facts, wish: Wish, session: TenantSession) -> None:
        """Send the tenant an Event, once per change."""
        namespace = facts.namespace
        if namespace is None or wish.event is None:
            self._told.pop(facts.key, None)
            return
        if self._told.get(facts.key) == wish.event:
            return
        self._told[facts.key] = wish.event
        lasting = namespace.name in _UNPLACED_BY_NATURE or namespace.creation_timestamp < self._news_since
        if wish.reason == NO_QUOTA and facts.placement is None and lasting:
            return  # it has long been so, nobody is waiting for anything
        session.door.emit(namespace, *wish.event)

    async def _views(self, tenant: str, namespace: str) -> dict[str, SuperView]:
        """The pool; with a stand-in for super clusters that hold slices of the namespace and cannot be seen.

        Only one that is certainly gone loses its slices.
        """
        entry = self.ledger.get((tenant, namespace))
        unseen = set(entry.placements) - set(self.pool.views) if entry is not None else set()
        if not unseen:
            return self.pool.views
        views = dict(self.pool.views)
        for super_id in sorted(unseen):
            if not await self._super_cluster_is_gone(super_id):
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

    async def _clear_remains(self, tenant: str) -> float | None:
        """Take away the virtual nodes that removed super clusters have left in a tenant."""
        session = self.tenants.get(tenant)
        if session is None:  # looked at as soon as the tenant is connected
            return None
        try:
            return await clear_remains(tenant, session.handle.client, self._meta, self.pool.views)
        except Unauthorized as error:
            if error.endpoint == session.handle.client.name:
                session.handle.refused()
            raise

    # VirtualClusters that go

    async def _owner_is_gone(self, placement: NamespacePlacement) -> bool:
        """Whether the VirtualCluster of a ledger entry is gone or on its way; absence is confirmed by a GET."""
        owner = placement.spec.virtual_cluster
        seen = self.registry.virtual_clusters.cache.get(owner.namespace, owner.name)
        if seen is not None and seen.uid == owner.uid and not seen.deleting:
            return False
        try:
            live = await self._meta.get(VIRTUAL_CLUSTERS, owner.name, owner.namespace)
        except NotFound:
            return True
        return live.uid != owner.uid or live.deleting

    async def _drop(self, placement: NamespacePlacement) -> None:
        """Delete a ledger entry; it stays until the syncers have cleared what it stands for."""
        if not placement.deleting:
            await self._writes.delete(
                placement.namespace, placement.name, placement.uid, placement.resource_version
            )
        self.waiting.pop((placement.namespace, placement.name), None)

    async def _release_virtual_cluster(self, tenant: str) -> None:
        """Take our finalizer off a VirtualCluster that is being deleted, once nothing of it is in the ledger."""
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
            for key in [key for key in self._unanswered if key[0] == tenant]:  # nobody finds out any more
                self._unanswered.discard(key)
                self._book(key)
        if gone and not await self._meta.list(NAMESPACE_PLACEMENTS, tenant):
            await remove_root_of_none(self._meta, tenant)


def _key_of(virtual_cluster: Envelope) -> str:
    try:
        return names.cluster_key(VirtualCluster.from_envelope(virtual_cluster))
    except ValueError:  # it never was a tenant
        return ""


def _belongs_to(placement: Envelope, virtual_cluster: Envelope) -> bool:
    return NamespacePlacement.from_envelope(placement).spec.virtual_cluster.uid == virtual_cluster.uid


def _gave_back(before: Entry | None, after: Entry | None) -> bool:
    """Whether a namespace holds less on any super cluster than it did."""
    if before is None or before == after:
        return False
    if after is None or after.size != before.size:
        return True
    return any(
        any(amount > after.holds(super_id).get(name, 0) for name, amount in before.holds(super_id).items())
        for super_id in {**before.placements, **before.clearing}
    )


def _now(later: float = 0.0) -> str:
    """The time in so many seconds (RFC 3339)."""
    return (datetime.now(UTC) + timedelta(seconds=later)).strftime("%Y-%m-%dT%H:%M:%SZ")
