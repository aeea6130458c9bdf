"""Lets namespaces leave super clusters that have been lost for longer than their tenants' policies allow, in waves."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from random import Random

import structlog

from vcsync.api.specs import Failover
from vcsync.kube.errors import KubeError
from vcsync.scheduling.failover import Departures, may_leave, next_wave
from vcsync.scheduling.ledger import Key, Ledger
from vcsync.tenancy import Pool

LOOK_SECONDS = 2.0
"""Seconds between two looks at the lost super clusters."""
ANSWER_SECONDS = 10.0
"""Longest time that a tenant's control plane may take to say which Pods have claims."""
RETRY_SECONDS = 60.0
"""Seconds after which a tenant whose control plane refused or did not answer is asked again."""

_log = structlog.get_logger(__name__)


class Waves:
    """Releases the next wave of namespaces while super clusters are lost.

    Args:
        pool: the pool.
        ledger: the slices of all namespaces.
        policy: returns the policy of a tenant by its cluster key; None while the tenant is not connected.
        stateful: returns how many slices of a namespace on a super cluster the Pods with claims need.
        add: enqueues a namespace.
        chance: the source of the order.
        clock: monotonic seconds.
    """

    def __init__(  # noqa: PLR0917 - parts, each of its own type
        self,
        pool: Pool,
        ledger: Ledger,
        policy: Callable[[str], Failover | None],
        stateful: Callable[[Key, str], Awaitable[int]],
        add: Callable[[Key], None],
        chance: Random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pool = pool
        self._ledger = ledger
        self._policy = policy
        self._stateful = stateful
        self._add = add
        self._chance = chance
        self._clock = clock
        self._retry_at: dict[str, float] = {}
        """Tenant -> monotonic seconds until which it is not asked. With many namespaces it would fill every wave."""
        self.departures = Departures()

    async def run(self) -> None:
        """Release waves until cancelled. The first one waits, since an earlier leader may just have released one."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Release the next wave from every super cluster that is lost."""
        lost = self._pool.lost()
        self.departures.follow(lost, held=self._pool.held)
        self._retry_at = {tenant: at for tenant, at in self._retry_at.items() if at > self._clock()}
        for super_id in sorted(lost) if not self._pool.held else ():
            await self._release(super_id, lost[super_id])

    def follow(self) -> None:
        """Note at once which super clusters are lost, since the pool has changed, and enqueue the namespaces under way."""
        self.departures.follow(self._pool.lost(), held=self._pool.held)
        for key in self.departures.under_way(self._ledger):
            self._add(key)

    async def _release(self, super_id: str, lasts: float) -> None:
        there = {
            key: entry.placements[super_id]
            for key in self._ledger.on(super_id)
            if (entry := self._ledger.get(key)) is not None
        }
        now = self._clock()
        due = [
            key
            for key in there
            if (policy := self._policy(key[0])) is not None
            and may_leave(policy, lasts)
            and (policy.policy == "MoveAfter" or self._retry_at.get(key[0], now) <= now)
        ]
        departures = self.departures
        wave = next_wave(there, departures.released(super_id), departures.tried(super_id), due, self._chance)
        # Each leaves as soon as its tenant has answered. One that is slow delays the next wave by one time limit at most.
        await asyncio.gather(*(self._let_go(super_id, key) for key in wave))
        if wave:
            _log.info("namespaces leave a lost super cluster", super_cluster=super_id, namespaces=len(wave))

    async def _let_go(self, super_id: str, key: Key) -> None:
        stay = await self._stay(super_id, key)
        if stay is not None and super_id in self._pool.lost() and not self._pool.held:
            self.departures.release(super_id, key, stay)
            self._add(key)

    async def _stay(self, super_id: str, key: Key) -> int | None:
        """Return how many slices must stay; None if that is not known at present."""
        policy = self._policy(key[0])
        if policy is None:
            return None
        if policy.policy == "MoveAfter":
            return 0
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._stateful(key, super_id)
        except (KubeError, TimeoutError) as error:
            self._retry_at[key[0]] = self._clock() + RETRY_SECONDS
            _log.warning("claims cannot be read, so slices stay", tenant=key[0], error=str(error))
            return None
