"""The patrol: compares the two sides' caches in small steps, and has repaired what no event told of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from vcsync.kube.resources import NAMESPACES
from vcsync.syncer.caches import SuperCaches, owner_of
from vcsync.syncer.ledger import Ledger
from vcsync.syncer.steps import in_steps
from vcsync.syncer.tenant import TenantSync
from vcsync.syncer.waiting import Item

STEP_PAUSE_SECONDS = 0.05
"""Rest after each step of pairs that are compared."""


class Patrol:
    """Walks over everything this super cluster holds and should hold, for ever.

    Args:
        tenants: the tenants that are synced at present.
        caches: what the super cluster holds.
        ledger: what it should hold.
        enqueue: hands an item to the workers.
        drain: hands a namespace that the ledger does not know to the drain.
        period: seconds between the starts of two rounds.
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

    async def run(self) -> None:
        """Patrol until cancelled; the first round starts at once."""
        while True:
            await self.round()
            await asyncio.sleep(self._period)

    async def round(self) -> None:
        """Compare everything once."""
        await self._orphans()
        for tenant in self._tenants():
            if tenant.ready:
                await self._compare(tenant)
        self.rounds += 1

    async def _orphans(self) -> None:
        """Super namespaces that the ledger does not know: their tenant or placement went while nobody watched."""
        async for tenant, namespace in in_steps(map(owner_of, self._caches.items(NAMESPACES))):
            if tenant and namespace and self._ledger.entry(tenant, namespace) is None:
                self._drain(tenant, namespace)

    async def _compare(self, tenant: TenantSync) -> None:
        async for item in tenant.reconciler.unsettled(pause=STEP_PAUSE_SECONDS):
            self.found += 1
            self._enqueue(tenant.key, item)
