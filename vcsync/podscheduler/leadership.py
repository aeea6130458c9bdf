"""The pod scheduler while it leads: follows the ledger, the pool and all tenants' Pods."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable

import structlog

from vcsync.api import names
from vcsync.api.objects import NamespacePlacement
from vcsync.api.resources import NAMESPACE_PLACEMENTS
from vcsync.fairqueue import WorkerPool
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.envelope import Envelope, strip
from vcsync.kube.errors import Unauthorized
from vcsync.kube.events import EventRecorder
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import PODS
from vcsync.podscheduler.pods import FINISHED, Key, slim
from vcsync.podscheduler.settings import Settings
from vcsync.podscheduler.tenant import Outcome, TenantPods, pod_door
from vcsync.scheduling.resources import from_quantities
from vcsync.tenancy import Pool, TenantHandle, TenantRegistry

_COMPONENT = "vcsync-podscheduler"
_MOST_OUTCOMES = 10_000  # Pods whose last decision is remembered

_log = structlog.get_logger(__name__)


class TenantSession:
    """One connected tenant."""

    def __init__(self, handle: TenantHandle, leadership: "Leadership") -> None:
        self.handle = handle
        self.events = EventRecorder(handle.client, _COMPONENT)
        self.reflector = Reflector(
            handle.client,
            PODS,
            field_selector=FINISHED,
            project=slim,
            on_change=self._observe,
        )
        door = pod_door(handle.client, self.events, self.reflector.observe, self.reflector.observe_gone)
        key = handle.key
        self.pods = TenantPods(
            door,
            lambda: leadership.pool.views,
            lambda item, urgent: leadership.work.add(key, item, priority=urgent),
            lambda item, delay: leadership.work.add_after(key, item, delay),
        )

    def _observe(self, change: Change) -> None:
        self.pods.observe(change)


class Leadership:
    """One term as leader. Everything is built anew for a term: what another leader did meanwhile is read first."""

    def __init__(
        self, meta: Client, settings: Settings, *, make_client: Callable[[bytes, str], Client] | None = None
    ) -> None:
        self._settings = settings
        self._held_back = ""
        self.pool = Pool(meta, patience=settings.patience, on_change=self._pool_changed)
        self.placements = Reflector(
            meta, NAMESPACE_PLACEMENTS, project=_slim_placement, on_change=self._placement_changed
        )
        self.registry = TenantRegistry(
            meta, names.ROLE_PODSCHEDULER, self._run_tenant, make_client=make_client
        )
        self.work: WorkerPool[Key] = WorkerPool("podscheduler", self._handle, workers=settings.workers)
        self.tenants: dict[str, TenantSession] = {}
        self.outcomes: OrderedDict[tuple[str, str, str], Outcome] = OrderedDict()
        self.counts = {"assigned": 0, "waiting": 0}
        self.latency_sum = 0.0  # seconds from seeing to having assigned, over all Pods
        self._open: dict[str, tuple[object, ...]] = {}

    async def run(self) -> None:
        """Follow and decide until cancelled. Nothing is decided before the whole ledger and pool are known."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.pool.run(), name="pool")
            tasks.create_task(self.placements.run(), name="placements")
            await self.pool.reflector.wait_synced()
            await self.placements.wait_synced()
            await self.pool.wait_reported(self._hold_back)
            self._hold_back("")
            tasks.create_task(self.registry.run(), name="tenants")
            _log.info("pod scheduler began", placements=len(self.placements.cache))
            await self.work.run()

    def synced(self) -> bool:
        """Whether decisions are made."""
        return self.pool.reflector.synced and self.placements.synced and self.registry.virtual_clusters.synced

    def held_back(self) -> str:
        """What it waits for before it decides, although it has read everything; empty if it decides."""
        return self._held_back

    def _hold_back(self, reason: str) -> None:
        self._held_back = reason

    # What happens elsewhere

    async def _run_tenant(self, handle: TenantHandle) -> None:
        session = TenantSession(handle, self)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(session.reflector.run())
                tasks.create_task(session.events.run())
                await session.reflector.wait_synced()
                for placement in self.placements.cache.items(handle.key):
                    self._grant(session, placement)
                self.tenants[handle.key] = session
                self.work.queue.set_limit(handle.key, self._settings.per_tenant)
                handle.ready()
                session.pods.begin()
                while True:
                    self.work.queue.set_weight(handle.key, handle.virtual_cluster.spec.weight)
                    await handle.changed.wait()
                    handle.changed.clear()
        finally:
            self.tenants.pop(handle.key, None)
            self.work.queue.forget_group(handle.key)

    def _placement_changed(self, change: Change) -> None:
        placement = change.new or change.old
        session = None if placement is None else self.tenants.get(placement.namespace)
        if session is None or placement is None:
            return
        if change.new is None:
            session.pods.grant(placement.name, {}, {})
        else:
            self._grant(session, placement)

    def _grant(self, session: TenantSession, envelope: Envelope) -> None:
        try:
            placement = NamespacePlacement.from_envelope(envelope)
            size = from_quantities(placement.dealt_size)
        except ValueError as error:  # what was granted before still counts
            _log.error("namespace placement cannot be read", placement=envelope.key, error=str(error))
            return
        # An entry that is being deleted takes no new Pods.
        session.pods.grant(envelope.name, size, {} if envelope.deleting else placement.status.placements)

    def _pool_changed(self) -> None:
        """Wake Pods that wait, unless only amounts changed that Pods are not measured by."""
        views = self.pool.views.values()
        now_open: dict[str, tuple[object, ...]] = {
            view.id: (view.health, view.cordoned, view.draining, sorted(view.largest_node.items()))
            for view in views
        }
        if now_open != self._open:
            self._open = now_open
            for session in self.tenants.values():
                session.pods.pool_changed()

    # One Pod

    async def _handle(self, tenant: str, key: Key) -> None:
        session = self.tenants.get(tenant)
        if session is None:  # looked at as soon as the tenant is connected
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
        self.counts[outcome.kind] += 1
        self.latency_sum += outcome.latency
        self._remember((tenant, *key), outcome)

    def _remember(self, key: tuple[str, str, str], outcome: Outcome) -> None:
        self.outcomes[key] = outcome
        self.outcomes.move_to_end(key)
        if len(self.outcomes) > _MOST_OUTCOMES:
            self.outcomes.popitem(last=False)


def _slim_placement(placement: Envelope) -> Envelope:
    return strip(placement, spec=False, status=False)
