"""Reads the usage of tenants' Pods from the super clusters that run them, on demand, and keeps it for seconds."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from weakref import WeakValueDictionary

import msgspec
import structlog

from vcsync.apiserver.kubelets.pool import NotInPool
from vcsync.apiserver.kubelets.super_clusters import NotMeasured, SuperClusters, TenantPods
from vcsync.resourcemetrics.documents import Usage, usages

FRESH_SECONDS = 10.0
"""Seconds for which an answer, or its absence, is used. metrics-server measures every 15 s."""
AT_ONCE = 4
"""Concurrent reads for one tenant, and of one super cluster."""
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Answer:
    at: float
    usages: Mapping[str, Usage]


class PodUsage:
    """Usage of Pods on super clusters.

    Args:
        pool: The super clusters.
        clock: Monotonic seconds.
    """

    def __init__(self, pool: SuperClusters, clock: Callable[[], float] = time.monotonic) -> None:
        self._pool = pool
        self._clock = clock
        self._answers: dict[tuple[TenantPods, str], _Answer] = {}
        self._silent: dict[str, float] = {}
        self._pruned = clock()
        # Tenants choose the ids that are asked about, so that nothing of an id may stay.
        self._turns: WeakValueDictionary[tuple[str, str], asyncio.Semaphore] = WeakValueDictionary()

    async def of(self, pods: TenantPods, super_id: str) -> Mapping[str, Usage]:
        """Return the usage of the Pods of a namespace on one super cluster, by name. Empty: it is not known.

        Raises:
            StatusError: 503, the meta cluster cannot be read.
        """
        key = (pods, super_id)
        async with self._turn("tenant", pods.control_plane), self._turn("super", super_id):
            self._prune()
            since = self._clock() - FRESH_SECONDS
            found = self._answers.get(key)
            if found is None or found.at <= since:
                if self._silent.get(super_id, since) > since:
                    return {}
                found = self._answers[key] = _Answer(self._clock(), await self._read(pods, super_id))
            return found.usages

    def _turn(self, what: str, name: str) -> asyncio.Semaphore:
        turn = self._turns.get((what, name))
        if turn is None:
            turn = self._turns[what, name] = asyncio.Semaphore(AT_ONCE)
        return turn

    def _prune(self) -> None:
        since = self._clock() - FRESH_SECONDS
        if self._pruned <= since:
            self._answers = {each: answer for each, answer in self._answers.items() if answer.at > since}
            self._pruned = self._clock()

    async def _read(self, pods: TenantPods, super_id: str) -> Mapping[str, Usage]:
        try:
            return usages(await self._pool.usage(pods, super_id))
        except (NotInPool, NotMeasured, msgspec.MsgspecError) as error:
            _log.info(
                "a super cluster does not tell usage",
                tenant=pods.tenant,
                super_cluster=super_id,
                error=str(error),
            )
            if isinstance(error, NotMeasured) and error.anybody:
                self._silent[super_id] = self._clock()
            return {}
