"""The patrol: compares the caches of both sides in small steps, and enqueues differences that no event reported."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from vcsync.kube.resources import NAMESPACES
from vcsync.syncer.caches import SuperCaches, owner_of
from vcsync.syncer.ledger import Ledger
from vcsync.syncer.steps import StepMeter, in_steps
from vcsync.syncer.tenant import TenantSync
from vcsync.syncer.waiting import Item

STEP_PAUSE_SECONDS = 0.05
"""Seconds to pause after each step of compared pairs."""


class Patrol:
    """Periodically compares all objects of this super cluster with the tenants' objects and the ledger.

    Attributes:
        rounds: number of completed rounds.
        found: number of items that were enqueued.
        cost: CPU time of the last completed round.

    Args:
        tenants: returns the tenants that are synced at present.
        caches: caches of the super cluster.
        ledger: the ledger's entries of the super cluster.
        enqueue: adds an item to the work queue.
        drain: starts the drain of a namespace that the ledger does not know.
        period: seconds between the end of a round and the start of the next.
    """

    def __init__(
        self,
        *,
        tenants: Callable[[], list[TenantSync]],
        caches: SuperCaches,
        ledger: Ledger,
        enqueue: Callable[[str, Item], None],
        drain: Callable[[str, str], None],
        period: float,
    ) -> None:
        self._tenants = tenants
        self._caches = caches
        self._ledger = ledger
        self._enqueue = enqueue
        self._drain = drain
        self._period = period
        self.rounds = 0
        self.found = 0
        self.cost = StepMeter()

    async def run(self) -> None:
        """Patrol until cancelled. The first round starts immediately."""
        while True:
            await self.round()
            await asyncio.sleep(self._period)

    async def round(self) -> None:
        """Compare everything once."""
        cost = StepMeter()
        await self._orphans(cost)
        for tenant in self._tenants():
            if tenant.ready:
                await self._compare(tenant, cost)
        self.cost = cost
        self.rounds += 1

    async def _orphans(self, cost: StepMeter) -> None:
        """Start drains of super namespaces without a ledger entry, whose deletion no event reported."""
        namespaces = self._caches.items(NAMESPACES)
        async for tenant, namespace in in_steps(map(owner_of, namespaces), meter=cost):
            if tenant and namespace and self._ledger.entry(tenant, namespace) is None:
                self._drain(tenant, namespace)

    async def _compare(self, tenant: TenantSync, cost: StepMeter) -> None:
        async for item in tenant.reconciler.unsettled(pause=STEP_PAUSE_SECONDS, meter=cost):
            self.found += 1
            self._enqueue(tenant.key, item)
