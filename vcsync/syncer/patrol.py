"""The patrol: compares the two sides' caches in small steps, repairs what no event told of, and brakes before a massacre."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

import structlog
from msgspec import Struct

from vcsync.api import names
from vcsync.kube.envelope import Envelope
from vcsync.kube.resources import NAMESPACES
from vcsync.syncer.caches import SuperCaches
from vcsync.syncer.ledger import Ledger
from vcsync.syncer.steps import in_steps
from vcsync.syncer.tenant import TenantSync
from vcsync.syncer.waiting import Item

STEP_PAUSE_SECONDS = 0.05
"""Rest after each step of pairs that are compared."""
SMALL = 20
"""So few deletions at once never brake a patrol."""

log = structlog.get_logger(__name__)


class Brake(Struct, frozen=True):
    """A patrol that wanted to delete too much and was stopped; shown until a later round wants less."""

    since: datetime
    tenant: str
    """Cluster key; "" for orphaned namespaces of all tenants."""
    wanted: int
    of: int
    remedy: str = (
        "check that the tenant's control plane (or the meta cluster) holds what it should; if the deletions are "
        "right, start the syncer once with --brake-share 1"
    )


def brakes(wanted: int, of: int, share: float) -> bool:
    """Whether deleting `wanted` of `of` objects at once is too much to be believed.

    Args:
        wanted: objects the other side no longer has.
        of: objects that stand.
        share: the largest share that is believed, 0 to 1.
    """
    return wanted > SMALL and wanted > of * share


class Patrol:
    """Walks over everything this super cluster holds and should hold, for ever.

    Args:
        tenants: the tenants that are synced at present.
        caches: what the super cluster holds.
        ledger: what it should hold.
        enqueue: hands an item to the workers.
        drain: hands a namespace that the ledger does not know to the drain.
        period: seconds between the starts of two rounds.
        share: see `brakes`.
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
        share: float,
    ) -> None:
        self._tenants = tenants
        self._caches = caches
        self._ledger = ledger
        self._enqueue = enqueue
        self._drain = drain
        self._period = period
        self._share = share
        self.rounds = 0
        self.found = 0
        self.braked: dict[str, Brake] = {}

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
        unknown = []
        held = 0
        async for tenant, namespace in in_steps(map(_owner, self._caches.items(NAMESPACES))):
            held += 1
            if tenant and namespace and self._ledger.entry(tenant, namespace) is None:
                unknown.append((tenant, namespace))
        if self._brake("", len(unknown), held):
            return
        for tenant, namespace in unknown:
            self._drain(tenant, namespace)

    async def _compare(self, tenant: TenantSync) -> None:
        lost, standing = await tenant.lost_pods()
        skip = set(lost) if self._brake(tenant.key, len(lost), standing) else set()
        async for item in tenant.reconciler.unsettled(pause=STEP_PAUSE_SECONDS):
            if item not in skip:
                self.found += 1
                self._enqueue(tenant.key, item)

    def _brake(self, tenant: str, wanted: int, of: int) -> bool:
        if not brakes(wanted, of, self._share):
            self.braked.pop(tenant, None)
            return False
        if tenant not in self.braked:
            self.braked[tenant] = Brake(datetime.now(UTC), tenant, wanted, of)
            log.error("patrol braked", tenant=tenant, wanted=wanted, of=of, remedy=self.braked[tenant].remedy)
        return True


def _owner(namespace: Envelope) -> tuple[str, str]:
    return namespace.annotations.get(names.CLUSTER, ""), namespace.annotations.get(names.NAMESPACE, "")
