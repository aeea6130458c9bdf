"""Reads the usage of all Pods of a super cluster, on demand, and keeps it for seconds."""

import asyncio
import time
from collections.abc import Callable, Mapping

import msgspec
import structlog

from vcsync.kube.client import Client
from vcsync.kube.errors import KubeError
from vcsync.resourcemetrics.documents import Usage, usages_by_namespace
from vcsync.resourcemetrics.version import GROUP, VERSION

FRESH_SECONDS = 10.0
"""Seconds for which an answer, or its absence, is used. metrics-server measures every 15 s."""
TIMEOUT_SECONDS = 5.0
Usages = Mapping[str, Mapping[str, Usage]]
"""Namespace -> name of the Pod -> usage."""
_log = structlog.get_logger(__name__)


class SuperUsage:
    """Usage of the Pods of one super cluster.

    Args:
        client: Client of the super cluster.
        super_id: Its id.
        clock: Monotonic seconds.
    """

    def __init__(self, client: Client, super_id: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._super_id = super_id
        self._clock = clock
        self._lock = asyncio.Lock()
        self._until = 0.0
        self._usages: Usages = {}

    async def read(self) -> Usages:
        """Return the usage of all Pods. Empty: it is not known."""
        async with self._lock:
            if self._clock() >= self._until:
                self._usages = await self._read()
                self._until = self._clock() + FRESH_SECONDS
            return self._usages

    async def _read(self) -> Usages:
        try:
            answer = await self._client.request(
                "GET", f"/apis/{GROUP}/{VERSION}/pods", timeout=TIMEOUT_SECONDS
            )
            # A long list takes tens of milliseconds.
            return await asyncio.to_thread(usages_by_namespace, answer)
        except (KubeError, msgspec.MsgspecError) as error:
            _log.info("a super cluster does not tell usage", super_cluster=self._super_id, error=str(error))
            return {}
