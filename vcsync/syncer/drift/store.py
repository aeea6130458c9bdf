"""The store of the drift ledger: a ConfigMap of the meta cluster for each syncer, so that repairs survive restarts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import structlog

from vcsync.api import names
from vcsync.kube.client import Client
from vcsync.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from vcsync.kube.events import EventRecorder, ObjectRef
from vcsync.kube.resources import CONFIG_MAPS
from vcsync.objects.envelope import Envelope, decode
from vcsync.syncer.drift.ledger import DriftLedger
from vcsync.syncer.drift.repairs import Repair

WRITE_SECONDS: Final = 5.0
"""Seconds between two writes. Nothing is written while there are no repairs."""
MAX_BYTES: Final = 512 * 1024
"""Largest ConfigMap. The oldest repairs are left out."""
REPAIRS: Final = "repairs"
"""Key of the ConfigMap: a JSON array of `Repair`, oldest first."""
MANY_REPAIRS: Final = "ManyDriftRepairs"
"""Event reason: objects in the super cluster are changed again and again."""
_log = structlog.get_logger(__name__)


class _Data(msgspec.Struct):
    data: dict[str, str] | None = None


class DriftStore:
    """Reads the ledger at the start, writes it after repairs, and reports many repairs in an Event of the SuperCluster.

    Args:
        meta: Client of the meta cluster.
        ledger: The ledger.
        super_id: Id of the super cluster.
        shard: (number, count) of the shard of tenants.

    Attributes:
        trouble: Why the ledger cannot be stored; empty if it can.
    """

    def __init__(self, meta: Client, ledger: DriftLedger, super_id: str, shard: tuple[int, int]) -> None:
        self._meta = meta
        self._ledger = ledger
        self._super_id = super_id
        number, count = shard
        self._name = f"{super_id}.{number}-{count}"
        self._version: str | None = None
        self._written = 0
        self._events = EventRecorder(meta, f"vcsync-{names.ROLE_SYNCER}")
        self.trouble = ""

    async def run(self) -> None:
        """Store until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._events.run())
            while True:
                await self.step()
                await asyncio.sleep(WRITE_SECONDS)

    async def step(self) -> None:
        """Read the stored repairs unless this has happened, store new ones, and report many."""
        if alarm := self._ledger.alarm():
            about = ObjectRef(names.API_VERSION, "SuperCluster", self._super_id)
            self._events.emit(about, "Warning", MANY_REPAIRS, alarm, now=time.time())
        try:
            if self._version is None:
                self._version = await self._load()
            if self._written != self._ledger.total:
                await self._write(self._version)
        except (Conflict, AlreadyExists, NotFound):
            # Another process has written or removed it: the next step reads it again.
            self._version = None
        except (KubeError, msgspec.MsgspecError) as error:
            if not self.trouble:
                _log.warning("repairs cannot be stored", super_cluster=self._super_id, error=str(error))
            self.trouble = str(error)
        else:
            self.trouble = ""

    async def _load(self) -> str:
        """Restore what is stored, and return its version; empty if there is nothing."""
        try:
            found = await self._meta.get(CONFIG_MAPS, self._name, names.DRIFT_NAMESPACE)
        except NotFound:
            return ""
        self._ledger.restore(stored_repairs(found))
        return found.resource_version

    async def _write(self, version: str) -> None:
        total = self._ledger.total
        metadata: dict[str, Any] = {"name": self._name, "labels": {names.DRIFT_OF: self._super_id}}
        body = {"metadata": metadata, "data": {REPAIRS: encoded(self._ledger.repairs())}}
        if version:
            metadata["resourceVersion"] = version
            answer = await self._meta.patch(CONFIG_MAPS, self._name, body, names.DRIFT_NAMESPACE)
        else:
            answer = await self._meta.create(CONFIG_MAPS, body, names.DRIFT_NAMESPACE)
        self._version, self._written = answer.resource_version, total


def encoded(repairs: Sequence[Repair]) -> str:
    """Return the JSON array of the latest repairs that fit into a ConfigMap."""
    texts: list[bytes] = []
    size = 2
    for repair in reversed(repairs):
        text = msgspec.json.encode(repair)
        size += len(text) + 1
        if size > MAX_BYTES:
            break
        texts.append(text)
    return f"[{b','.join(reversed(texts)).decode()}]"


def stored_repairs(found: Envelope) -> list[Repair]:
    """Return the repairs in a ConfigMap, oldest first; none if it is malformed."""
    try:
        data = decode(found.rest, _Data).data or {}
        return msgspec.json.decode(data.get(REPAIRS, "[]"), type=list[Repair])
    except msgspec.MsgspecError as error:
        _log.warning("stored repairs are malformed", config_map=found.name, error=str(error))
        return []
