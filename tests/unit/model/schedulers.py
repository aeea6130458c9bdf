"""One process of each scheduler: the real sessions, accounting, evictions and ledger writes, on watches that lag.

A scheduler is told the health of super clusters by the model. So its view is as wrong as that of any clock may be.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Mapping
from random import Random
from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace

from vcsync.api import names
from vcsync.api.objects import NamespacePlacement
from vcsync.api.resources import NAMESPACE_PLACEMENTS
from vcsync.api.specs import STAY
from vcsync.kube.errors import KubeError, NotFound, Unreachable
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import NAMESPACES
from vcsync.nsscheduler.commit import commit
from vcsync.nsscheduler.reconcile import Inputs, obey, reconcile
from vcsync.objects.envelope import Envelope
from vcsync.podscheduler.evictions import Evictions
from vcsync.podscheduler.leadership import Leadership, TenantSession
from vcsync.podscheduler.tenant import StillHeld
from vcsync.scheduling.ledger import Entry, Ledger
from vcsync.scheduling.place import Transfer
from vcsync.scheduling.resources import Resources, from_quantities
from vcsync.scheduling.snapshot import Health, SuperView
from vcsync.tenancy.distribution import entry_of

from .feeds import Feed
from .process import Process
from .setting import KEY, NS, Setting

FOREVER = 1e9
"""Seconds for which a super cluster that is lost has been so."""


class PodScheduler(Process):
    """A leader of the Pod scheduler, from the beginning of its term to the end."""

    _settings = SimpleNamespace(failover=STAY)
    _grant = Leadership._grant
    _is_fenced = Leadership._is_fenced
    _placement_changed = Leadership._placement_changed
    _room = Leadership._room
    _stands = Leadership._stands
    is_out = Leadership.is_out
    read_holders = Leadership.read_holders

    def __init__(self, setting: Setting, views: Mapping[str, SuperView]) -> None:
        super().__init__(setting, "pods", (KubeError, StillHeld))
        self.views = dict(views)
        self.pool = SimpleNamespace(views=self.views, held=False, lost=self._lost)
        self.work_queue = SimpleNamespace(
            add=lambda _tenant, item, priority=False: self.add(item),
            add_after=lambda _tenant, item, seconds: self.add_after(item, seconds),
        )
        self.promise_counts: Counter[str] = Counter()
        self._meta = setting.client(setting.meta, self.name)
        handle = SimpleNamespace(
            key=KEY,
            client=setting.client(setting.tenant, self.name),
            virtual_cluster=setting.virtual_cluster(),
        )
        term = SimpleNamespace(
            pool=self.pool,
            work=self.work_queue,
            read_holders=self.read_holders,
            is_out=self.is_out,
            written=lambda *_: None,
            promise_counts=self.promise_counts,
        )
        self.session = TenantSession(handle, term, 1 << 28)
        self.session.pods._clock = self.clock
        self.told: dict[str, str] = {}
        """UID of a Pod -> the last Event about it."""
        self.session.events.emit = self._emit
        self.placements = Reflector(self._meta, NAMESPACE_PLACEMENTS, sink=self._placement_changed)
        self.tenants: dict[str, TenantSession] = {}
        self.evictions = Evictions(self.pool, self._is_fenced, self._stands, Random(0), self.clock)
        self.feeds = {
            "placements": Feed(setting.meta, self.placements),
            "pods": Feed(setting.tenant, self.session.reflector),
        }
        for reflector in (
            self.session.claims,
            self.session.devices,
            self.session.snapshots,
            self.session.services,
        ):
            reflector._replace_cache([], "1")
        for placement in self.placements.cache.items(KEY):
            self._grant(self.session, placement)
        self.tenants[KEY] = self.session
        self.session.pods.begin()

    def judge(self, super_id: str, **changes: Any) -> None:
        """Change what this scheduler believes of a super cluster."""
        self.views[super_id] = replace(self.views[super_id], **changes)
        self.session.pods.pool_changed(frozenset({super_id}))

    def capacity_changed(self, super_id: str) -> None:
        self.session.pods.capacity_changed(super_id)

    def settings_changed(self) -> None:
        self.session.handle.virtual_cluster = self.setting.virtual_cluster()
        self.session.pods.pool_changed()

    def evict(self, passes: int) -> None:
        """Let a wave of evictions leave the super clusters that are lost."""
        self.evictions.look(lambda step: self._start(step, passes))

    def _start(self, step: Coroutine[Any, Any, None], passes: int) -> None:
        key = ("wave", self.setting.now)
        task = self.active[key] = self.setting.loop.create_task(step)
        task.add_done_callback(lambda _: self.active.pop(key, None))
        self.setting.settle(passes)

    async def handle(self, item: Any) -> float | None:
        if item[1]:
            await self.session.pods.schedule(item)
        else:
            self.session.pods.wake(item[0])
        return None

    def _lost(self) -> dict[str, float]:
        return {name: FOREVER for name, view in self.views.items() if view.health is Health.LOST}

    def _emit(self, regarding: Any, _type: str, _reason: str, message: str, **_: object) -> None:
        self.told[regarding.uid] = message


class NamespaceScheduler(Process):
    """A leader of the namespace scheduler, from the beginning of its term to the end.

    Attributes:
        leaving: lost super cluster that the namespace may leave -> slices that must stay.
        transfers: slices that are to move.
        connected: whether it has a session with the tenant.
        others: super cluster -> amounts that another namespace of the tenant has not freed.
    """

    def __init__(self, setting: Setting, views: Mapping[str, SuperView], term: int) -> None:
        super().__init__(setting, "slices", (KubeError,))
        self.views = dict(views)
        self.leaving: dict[str, int] = {}
        self.transfers: tuple[Transfer, ...] = ()
        self.connected = True
        self.others: dict[str, Resources] = {}
        self._unanswered = False
        self._meta = setting.client(setting.meta, self.name)
        self._tenant = setting.client(setting.tenant, self.name)
        self.placements = Reflector(self._meta, NAMESPACE_PLACEMENTS, sink=lambda _: self.add(NS))
        if setting.meta.find(NAMESPACE_PLACEMENTS, NS, KEY) is not None:
            stamp = {"metadata": {"annotations": {names.LEDGER_TERM: f"term-{term}"}}}
            setting.meta.patch(NAMESPACE_PLACEMENTS, NS, stamp, KEY)
        self.feeds = {"placements": Feed(setting.meta, self.placements)}
        self.add(NS)

    def judge(self, super_id: str, **changes: Any) -> None:
        """Change what this scheduler believes of a super cluster."""
        self.views[super_id] = replace(self.views[super_id], **changes)
        if self.views[super_id].health is not Health.LOST:
            self.leaving.pop(super_id, None)
        self.add(NS)

    async def handle(self, item: Any) -> float | None:
        if self._unanswered:
            await self._read()
        inputs = self._inputs()
        plan = reconcile(inputs) if self.connected else obey(inputs)
        try:
            await commit(inputs, plan, self, self if self.connected else None)
        except Unreachable as error:
            self._unanswered = error.endpoint == self._meta.name
            raise
        if plan.decision is not None and self.transfers == inputs.transfers:
            self.transfers = ()
        return None

    def _inputs(self) -> Inputs:
        found = self.placements.cache.get(KEY, NS)
        placement = None if found is None else NamespacePlacement.from_envelope(found)
        ledger = Ledger()
        if placement is not None:
            ledger.put((KEY, NS), entry_of(placement))
        if self.others:
            ledger.put((KEY, "depot"), Entry({}, {}, dict(self.others)))
        return Inputs(
            (KEY, NS),
            self.setting.virtual_cluster(),
            self.setting.tenant.get(NAMESPACES, NS) if self.connected else None,
            tuple(self.setting.hards) if self.connected else (),
            placement,
            dict(self.views),
            ledger,
            from_quantities({"cpu": "2", "memory": "4Gi"}),
            "spread",
            "2026-01-01T00:00:00Z",
            leaving=dict(self.leaving),
            transfers=self.transfers,
        )

    async def _read(self) -> None:
        try:
            self.placements.observe(await self._meta.get(NAMESPACE_PLACEMENTS, NS, KEY))
        except NotFound:
            known = self.placements.cache.get(KEY, NS)
            if known is not None:
                self.placements.observe_gone(KEY, NS, known.uid)
        self._unanswered = False

    # The ledger, as `commit` writes it

    async def create(self, namespace: str, body: dict[str, Any]) -> Envelope:
        return self._seen(await self._meta.create(NAMESPACE_PLACEMENTS, body, namespace))

    async def patch(self, namespace: str, name: str, change: dict[str, Any], subresource: str) -> Envelope:
        return self._seen(
            await self._meta.patch(NAMESPACE_PLACEMENTS, name, change, namespace, subresource=subresource)
        )

    async def delete(self, namespace: str, name: str, uid: str, version: str) -> None:
        left = await self._meta.delete(
            NAMESPACE_PLACEMENTS, name, namespace, uid=uid, resource_version=version
        )
        if left is None:
            self.placements.observe_gone(namespace, name, uid)
        else:
            self.placements.observe(left)

    def _seen(self, answer: Envelope) -> Envelope:
        self.placements.observe(answer)
        return answer

    # The tenant, as `commit` reads and writes it

    async def withdraw(self, inputs: Inputs, lost: str) -> None:
        return

    async def live_namespace(self, name: str) -> Envelope | None:
        try:
            return await self._tenant.get(NAMESPACES, name)
        except NotFound:
            return None

    async def live_hards(self, _namespace: str) -> list[dict[str, str]]:
        await asyncio.sleep(0)
        return self.setting.hards

    async def patch_namespace(self, name: str, patch: dict[str, Any]) -> Envelope:
        return await self._tenant.patch(NAMESPACES, name, patch)
