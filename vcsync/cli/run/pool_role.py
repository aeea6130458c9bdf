"""Follows the pool: a syncer for every super cluster, started and stopped as the list changes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from prometheus_client.metrics_core import Metric

from vcsync.api.names import ROLE_SYNCER
from vcsync.api.resources import SUPER_CLUSTERS
from vcsync.cli.run.roles import Settings, make_syncer, open_meta
from vcsync.cli.run.supervision import Keeper, MakeRole, Role
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.reflector import Reflector

NAME = "pool"


class PoolRole:
    """Runs a syncer for every SuperCluster.

    Args:
        meta: client of the meta cluster, with the permissions of a syncer.
        keeper: supervises the syncers.
        make: creates the syncer of a super cluster.
        served: id -> UID of the SuperClusters that have a syncer; stays valid when another instance of
            this role takes over. A super cluster that was registered again under its id is another one.
    """

    def __init__(
        self, meta: Client, keeper: Keeper, make: Callable[[str], MakeRole], served: dict[str, str]
    ) -> None:
        self._keeper = keeper
        self._make = make
        self._served = served
        self._followed = False
        self._changed = asyncio.Event()
        self._reflector = Reflector(meta, SUPER_CLUSTERS, sink=self._on_change)

    async def run(self) -> None:
        """Follow the SuperClusters until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._reflector.run())
            await self._reflector.wait_synced()
            while True:
                self._changed.clear()
                wanted = {envelope.name: envelope.uid for envelope in self._reflector.cache.items()}
                await adjust(self._keeper, self._served, wanted, self._make)
                self._followed = True
                await self._changed.wait()

    def ready(self) -> tuple[bool, str]:
        """Report whether every super cluster has its syncer."""
        return (True, "") if self._followed else (False, "reading the list of super clusters")

    def status(self) -> dict[str, Any]:
        """Return the super clusters that have a syncer here."""
        return {"superClusters": sorted(self._served)}

    def metrics(self) -> Iterable[Metric]:
        """Return no metrics of its own."""
        return ()

    def _on_change(self, _change: Change) -> None:
        self._changed.set()


def make_pool(settings: Settings, keeper: Keeper) -> MakeRole:
    """Return the factory of the role that runs a syncer for every super cluster."""
    served: dict[str, str] = {}

    @asynccontextmanager
    async def make() -> AsyncIterator[Role]:
        async with open_meta(settings, ROLE_SYNCER) as meta:
            yield PoolRole(meta, keeper, lambda super_id: make_syncer(settings, super_id), served)

    return make


async def adjust(
    keeper: Keeper, served: dict[str, str], wanted: dict[str, str], make: Callable[[str], MakeRole]
) -> None:
    """Start and stop syncers so that `served` becomes `wanted`."""
    gone = [super_id for super_id, uid in served.items() if wanted.get(super_id) != uid]
    for super_id in gone:
        del served[super_id]
    stops: list[Awaitable[None]] = [keeper.stop(f"{ROLE_SYNCER}/{super_id}") for super_id in gone]
    await asyncio.gather(*stops)
    for super_id, uid in wanted.items():
        if super_id not in served:
            served[super_id] = uid
            keeper.start(f"{ROLE_SYNCER}/{super_id}", make(super_id))
