"""Lets namespaces leave super clusters that drain, in waves: the next ones go as those before them have been cleared."""

import asyncio
import time
from collections.abc import Callable
from random import Random

import structlog

from vcsync.scheduling.drain_waves import DrainWaves, Standing
from vcsync.scheduling.ledger import Key, Ledger
from vcsync.scheduling.snapshot import Health
from vcsync.tenancy import Pool

LOOK_SECONDS = 2.0
"""Seconds between two looks at the super clusters that drain. Changes of the pool and of the ledger continue drains at once."""

_log = structlog.get_logger(__name__)


class Drains:
    """Releases the next wave of namespaces while super clusters drain.

    Attributes:
        waves: which namespaces may leave which super clusters.

    Args:
        pool: the pool.
        ledger: the slices of all namespaces.
        add: enqueues a namespace.
        chance: the source of the order.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        pool: Pool,
        ledger: Ledger,
        add: Callable[[Key], None],
        chance: Random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pool = pool
        self._ledger = ledger
        self._add = add
        self._chance = chance
        self._clock = clock
        self.waves = DrainWaves()

    async def run(self) -> None:
        """Release waves until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(LOOK_SECONDS)

    def look(self) -> None:
        """Release the next wave from every super cluster that drains."""
        for key in self._release():
            self._add(key)

    def follow(self) -> None:
        """Release the next wave, since the pool has changed, and enqueue the namespaces that have found no room before."""
        self._release()
        for super_id, view in self._pool.views.items():
            if view.draining:
                released = self.waves.released(super_id)
                for key in self._ledger.on(super_id):
                    if key in released:
                        self._add(key)

    def _release(self) -> list[Key]:
        found = []
        draining = [view for view in self._pool.views.values() if view.draining]
        self.waves.follow([view.id for view in draining])
        for view in draining:
            # Nobody clears a lost super cluster.
            clearing = self._ledger.clearing_on(view.id) if view.health is not Health.LOST else []
            standing = Standing(self._ledger.on(view.id), clearing)
            wave = self.waves.release(view.id, standing, self._clock(), self._chance)
            found += wave
            if wave:
                _log.info("namespaces leave a super cluster", super_cluster=view.id, namespaces=len(wave))
        return found
