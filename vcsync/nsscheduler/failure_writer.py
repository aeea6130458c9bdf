"""Writes what is known of the failures of super clusters into their status, for the next term and for commands."""

import asyncio
import time
from collections.abc import Callable

import structlog

from vcsync.api.objects import SuperCluster, to_wire
from vcsync.api.resources import SUPER_CLUSTERS
from vcsync.api.specs import FailureRecord
from vcsync.kube.client import Client
from vcsync.kube.errors import Conflict, Forbidden, KubeError, NotFound
from vcsync.tenancy import Pool
from vcsync.tenancy.terms import UNCONTESTED, TermLease

LOOK_SECONDS = 1.0
"""Seconds between two comparisons of what is stored with what is known."""
RETRY_SECONDS = 60.0
"""Seconds without a write after the meta cluster has refused one, or has dropped the field."""

_FORGOTTEN = (
    "cannot be recorded, so the next leader counts their times again: outdated permissions or definitions; run "
    "'vcsync install' again"
)

_log = structlog.get_logger(__name__)


class FailureWriter:
    """Keeps `status.failure` of SuperClusters equal to what the pool knows. At rest it writes nothing.

    Args:
        meta: client of the meta cluster.
        pool: the pool.
        lease: the leader's lease. Nothing is written while another process may hold it.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        meta: Client,
        pool: Pool,
        lease: TermLease = UNCONTESTED,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._meta = meta
        self._pool = pool
        self._lease = lease
        self._clock = clock
        self._rests_until = float("-inf")
        self.problem = ""
        """Reason why failures cannot be recorded; empty if they can, as far as that is known."""

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Write the records that are outdated."""
        if self._clock() < self._rests_until:
            return
        for found, record in self._pool.outdated():
            if not self._lease.still_held():
                return
            try:
                await self._write(found, record)
            except (Conflict, NotFound):  # the next comparison uses the newer object
                continue
            except Forbidden as error:
                self._rest(str(error))
                return
            except KubeError as error:
                _log.info("record of failures not written", super_cluster=found.name, error=str(error))

    async def _write(self, found: SuperCluster, record: FailureRecord) -> None:
        # Fields that are absent are removed, also those of a record that cannot be read.
        change = dict.fromkeys(record.__struct_encode_fields__) | to_wire(record)
        patch = {"metadata": {"resourceVersion": found.resource_version}, "status": {"failure": change}}
        answer = await self._meta.patch(SUPER_CLUSTERS, found.name, patch, subresource="status")
        if SuperCluster.from_envelope(answer).status.failure is None:
            self._rest("the SuperCluster has no field status.failure")
        else:
            self.problem = ""
        self._pool.reflector.observe(answer)

    def _rest(self, why: str) -> None:
        self._rests_until = self._clock() + RETRY_SECONDS
        if not self.problem:
            _log.warning(f"failures of super clusters {_FORGOTTEN}", error=why)
        self.problem = f"{_FORGOTTEN}: {why}"
