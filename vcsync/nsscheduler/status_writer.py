"""Writes the status of VirtualClusters: conditions that report troubles, and the UID of the control plane.

Troubles come from the reports of syncers and from this scheduler itself.
"""

import asyncio
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import structlog

from vcsync.api.objects import SuperCluster, VirtualCluster, cluster_key, to_wire
from vcsync.api.resources import VIRTUAL_CLUSTERS
from vcsync.api.specs import Trouble, TroubleType
from vcsync.kube.client import Client
from vcsync.kube.errors import Conflict, Forbidden, KubeError, NotFound
from vcsync.kube.reflector import Reflector
from vcsync.objects.envelope import Envelope
from vcsync.objects.times import time_text
from vcsync.tenancy.proof import recorded_uid
from vcsync.tenancy.terms import UNCONTESTED, TermLease
from vcsync.tenancy.troubles import merged, problems, updated_conditions

LOOK_SECONDS = 2.0
"""Seconds between two comparisons with the reports."""

_log = structlog.get_logger(__name__)


class _Known(NamedTuple):
    """The relevant parts of one version of a VirtualCluster; `key` is "" if it is not served."""

    version: str
    key: str
    has_problems: bool
    uid: str


class StatusWriter:
    """Keeps the conditions of VirtualClusters equal to the reports (see `troubles`), and records control planes' UIDs.

    Args:
        meta: client of the meta cluster.
        virtual_clusters: reflector of all VirtualClusters.
        supers: returns the SuperClusters.
        own: returns the caller's own troubles.
        found: returns the present UID of a tenant's control plane, by cluster key; "" if it is not known.
        lease: the leader's lease. Nothing is written while another process may hold it.
    """

    def __init__(
        self,
        meta: Client,
        virtual_clusters: Reflector,
        *,
        supers: Callable[[], Iterable[SuperCluster]],
        own: Callable[[], Iterable[Trouble]],
        found: Callable[[str], str],
        lease: TermLease = UNCONTESTED,
    ) -> None:
        self._meta = meta
        self._virtual_clusters = virtual_clusters
        self._supers = supers
        self._own = own
        self._found = found
        self._lease = lease
        self._forbidden = False
        self._known: dict[tuple[str, str], _Known] = {}
        self._refused: dict[str, str] = {}

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Compare all VirtualClusters with the reports once, and write those that differ."""
        messages = merged(self._supers(), self._own())
        for name in self._known.keys() - set(self._virtual_clusters.cache.keys()):
            del self._known[name]
        for envelope, known in [(each, self._read(each)) for each in self._virtual_clusters.cache.items()]:
            if envelope.deleting or not known.key:
                continue
            uid = "" if known.uid else self._unclaimed(known.key, self._found(known.key))
            if known.has_problems or uid or known.key in messages:
                await self._write(VirtualCluster.from_envelope(envelope), messages.get(known.key, {}), uid)

    def _read(self, envelope: Envelope) -> _Known:
        """Return the relevant parts of a VirtualCluster. Each version is decoded once."""
        known = self._known.get(envelope.key)
        if known is None or known.version != envelope.resource_version:
            version = envelope.resource_version
            try:
                found = VirtualCluster.from_envelope(envelope)
                has_problems = bool(problems(found.status.conditions))
                known = _Known(version, cluster_key(found), has_problems, recorded_uid(found))
            except ValueError:
                known = _Known(version, "", has_problems=False, uid="")
            self._known[envelope.key] = known
        return known

    def _unclaimed(self, key: str, uid: str) -> str:
        """Return the UID of a control plane to record; "" if another tenant has it already.

        The owner of an external control plane can choose its UID.
        """
        if not uid:
            return ""
        owner = next((known.key for known in self._known.values() if known.uid == uid), None)
        if owner is None:
            return uid
        if self._refused.get(key) != uid:
            self._refused[key] = uid
            _log.warning(
                "control plane is another tenant's; its UID is not recorded", tenant=key, other=owner
            )
        return ""

    async def _write(
        self, virtual_cluster: VirtualCluster, messages: dict[TroubleType, str], uid: str
    ) -> None:
        now = time_text(datetime.now(UTC))
        status: dict[str, Any] = {"controlPlaneUID": uid} if uid else {}
        conditions = updated_conditions(virtual_cluster.status.conditions, messages, now)
        if conditions is not None:
            status["conditions"] = [to_wire(condition) for condition in conditions]
        if not status or not self._lease.still_held():
            return
        patch = {"metadata": {"resourceVersion": virtual_cluster.resource_version}, "status": status}
        try:
            answer = await self._meta.patch(
                VIRTUAL_CLUSTERS, virtual_cluster.name, patch, virtual_cluster.namespace, subresource="status"
            )
        except (Conflict, NotFound):  # the next comparison uses the newer object
            return
        except Forbidden as error:
            if not self._forbidden:
                self._forbidden = True
                _log.warning(
                    "the status of VirtualClusters cannot be written: outdated permissions; run 'vcsync install' again",
                    error=str(error),
                )
            return
        except KubeError as error:
            _log.info("status not written", virtual_cluster=virtual_cluster.name, error=str(error))
            return
        self._virtual_clusters.observe(answer)
        self._read(answer)
