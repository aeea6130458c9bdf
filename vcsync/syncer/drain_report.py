"""Reports the progress of a drain of the super cluster into the status of its SuperCluster."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

import structlog

from vcsync.api.objects import NamespacePlacement, SuperCluster
from vcsync.api.resources import SUPER_CLUSTERS
from vcsync.api.specs import DrainProgress
from vcsync.kube.client import Client
from vcsync.kube.errors import KubeError
from vcsync.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from vcsync.objects.times import time_text
from vcsync.syncer.caches import SuperCaches, owner_of
from vcsync.syncer.drain import has_ended, is_bound
from vcsync.syncer.drain_progress import Contents, Key, Rate, drain_patch, progress, why_slices_stay
from vcsync.syncer.ledger import Entry, Holding, Ledger
from vcsync.syncer.steps import in_steps

LOOK_SECONDS: Final = 3.0
"""Seconds between two reports."""

log = structlog.get_logger(__name__)


class DrainReport:
    """Writes the progress of this shard while the super cluster drains, and removes it afterwards.

    A syncer that starts continues the progress that it finds.

    Args:
        meta: client of the meta cluster.
        super_id: id of the super cluster.
        shard: (number, count) of the shard of tenants.
        caches: caches of the super cluster.
        ledger: the ledger's entries of the super cluster.
        blocked: returns the namespaces whose Pods or data cannot leave, with the reasons.
        owns: returns whether a tenant belongs to this shard.
        found: returns the SuperCluster as it was last seen; None if it cannot be read.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        *,
        meta: Client,
        super_id: str,
        shard: tuple[int, int],
        caches: SuperCaches,
        ledger: Ledger,
        blocked: Callable[[], Mapping[Key, str]],
        owns: Callable[[str], bool],
        found: Callable[[], SuperCluster | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._meta = meta
        self._super_id = super_id
        self._shard = shard
        self._caches = caches
        self._ledger = ledger
        self._blocked = blocked
        self._owns = owns
        self._found = found
        self._clock = clock
        self._rate = Rate()
        self._changed = asyncio.Event()
        self._draining = False

    def super_cluster_changed(self) -> None:
        """Report at once if a drain has begun or ended."""
        found = self._found()
        if found is not None and found.spec.drain != self._draining:
            self._changed.set()

    async def run(self) -> None:
        """Report until cancelled."""
        while True:
            try:
                await self.look()
            except KubeError as error:
                log.info("progress of the drain not written", super_cluster=self._super_id, error=str(error))
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._changed.wait()
            except TimeoutError:
                continue
            self._changed.clear()

    async def look(self) -> None:
        """Write the progress once, if it has changed.

        Raises:
            KubeError: it could not be written.
        """
        found = self._found()
        if found is None:
            return
        self._draining = found.spec.drain
        reached: DrainProgress | None = None
        if self._draining:
            there = await self._contents()
            self._rate.note(self._clock(), there.pods)
            before = found.status.drain.get("/".join(map(str, self._shard)))
            reached = progress(before, there, self._rate.per_hour, time_text(datetime.now(UTC)))
        else:
            self._rate = Rate()
        if (patch := drain_patch(found.status.drain, reached, self._shard)) is not None:
            await self._meta.patch(
                SUPER_CLUSTERS, self._super_id, {"status": {"drain": patch}}, subresource="status"
            )

    async def _contents(self) -> Contents:
        blocked = {key: reason for key, reason in self._blocked().items() if self._owns(key[0])}
        namespaces = pods = claims = 0
        async for entry in in_steps(self._ledger.entries()):
            if not self._owns(entry.tenant) or entry.holding is Holding.NAME_SERVER:
                continue
            namespaces += 1
            if entry.holding is Holding.PLACED and (reason := self._why_placed(entry)):
                blocked[entry.tenant, entry.namespace] = reason
        async for pod in in_steps(self._caches.items(PODS)):
            pods += self._owns(owner_of(pod)[0]) and not has_ended(pod)
        async for claim in in_steps(self._caches.items(PERSISTENT_VOLUME_CLAIMS)):
            claims += self._owns(owner_of(claim)[0]) and is_bound(claim)
        return Contents(namespaces, pods, claims, blocked)

    def _why_placed(self, entry: Entry) -> str:
        placement = self._ledger.reflector.cache.get(entry.tenant, entry.namespace)
        try:
            return (
                why_slices_stay(NamespacePlacement.from_envelope(placement), self._super_id)
                if placement is not None
                else ""
            )
        except ValueError:  # the ledger reports entries that cannot be read
            return ""
