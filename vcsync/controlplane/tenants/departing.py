"""How tenants go: their credentials at once, their objects as finalizers allow, then whatever is left."""

import asyncio
import time
from datetime import UTC, datetime

import structlog

from vcsync.controlplane.errors import StatusError, conflict, forbidden, not_found
from vcsync.controlplane.identity.caller import SYSTEM
from vcsync.controlplane.store.interface import Compare, Delete, Put, StoreError
from vcsync.controlplane.tenants import controllers as controllers_of
from vcsync.controlplane.tenants.draining import Left, drain, look, sweep
from vcsync.controlplane.tenants.means import Means
from vcsync.controlplane.tenants.records import LEAVING, TenantRecord, decode, encode, record_key

POLL_SECONDS = 1.0
"""Between two looks at what is held. Whoever let go may wait that long for the end."""
RETRY_SECONDS = 5.0
PAUSE_FACTOR, MAX_PAUSE_SECONDS = 20.0, 60.0
"""A look at very many objects that are held, which a hostile tenant may leave, takes a twentieth of the time at most."""
LOOK_OBJECTS = 100
BUSY = "it is being created or deleted; try again"

_log = structlog.get_logger(__name__)


class Departures:
    """Deletes tenants, and sees every deletion through that was begun by anybody."""

    def __init__(self, means: Means) -> None:
        """Take what it needs for that."""
        self._means = means

    async def delete(self, tenant: str, grace: float = 0) -> TenantRecord:
        """Delete a tenant: its credentials first, then everything it has.

        Without `grace` all of it is gone on return. Else that is `run`'s work, which waits for finalizers as long as
        `grace` seconds from now at most; asking again gives a new deadline.

        Raises:
            StatusError: 404, there is no such tenant; 403 for the operator's own space; 409, it changes just now.
            StoreError: the store cannot be read or written.
        """
        if tenant == SYSTEM:
            raise forbidden("tenants", "", tenant, "this tenant may not be deleted")
        found = await self._means.stored(tenant)
        old = decode(found.value)
        if old.phase == "Deleting":
            gone, revision = old, found.revision
        else:
            deadline = _time(self._means.clock() + grace)
            gone = TenantRecord(tenant, old.uid, old.created, "Draining", deadline=deadline)
            if not grace:
                gone = TenantRecord(tenant, old.uid, old.created, "Deleting")
            revision = await self._write(gone, found.revision)
        if gone.phase == "Deleting":
            await self._finish(tenant, revision)
        return gone

    async def look(self, tenant: str) -> tuple[TenantRecord, Left]:
        """Return the record of a tenant that is leaving, and what it still has.

        Raises:
            StatusError: 404, there is no such tenant, or it does not leave.
            StoreError: the store cannot be read.
        """
        record = decode((await self._means.stored(tenant)).value)
        if record.phase not in LEAVING:
            raise not_found("tenants", "", tenant)
        return record, await look(self._means.store, tenant, LOOK_OBJECTS)

    async def run(self) -> None:
        """See deletions through, also those that another process or an earlier start began; until cancelled."""
        while True:
            await self._means.registry.departure()
            pause, began = POLL_SECONDS, time.monotonic()
            for tenant in self._means.registry.leaving():
                try:
                    await self._go_on(tenant)
                except (StoreError, StatusError) as error:
                    _log.warning("deletion of a tenant waits", tenant=tenant, error=str(error))
                    pause = RETRY_SECONDS
                except Exception:  # noqa: BLE001 - a defect with one tenant must not end the service of all
                    _log.exception("deletion of a tenant failed", tenant=tenant)
                    pause = RETRY_SECONDS
            if self._means.registry.leaving():
                took = time.monotonic() - began
                await asyncio.sleep(max(pause, min(PAUSE_FACTOR * took, MAX_PAUSE_SECONDS)))

    async def _go_on(self, tenant: str) -> None:
        found, _ = await self._means.store.get(record_key(tenant))
        if found is None:
            return  # the store's watch is about to tell the registry
        record, revision = decode(found.value), found.revision
        if record.phase == "Draining":
            left = await drain(
                self._means.store, tenant, _time(self._means.clock()), Compare(found.key, revision)
            )
            if left.objects and _time(self._means.clock()) < record.deadline:
                return
            if left.objects:
                held = dict(left.held)
                _log.warning("finalizers are overruled", tenant=tenant, objects=left.objects, finalizers=held)
            gone = TenantRecord(tenant, record.uid, record.created, "Deleting")
            record, revision = gone, await self._write(gone, revision)
        if record.phase == "Deleting":
            await self._finish(tenant, revision)

    async def _write(self, record: TenantRecord, revision: int) -> int:
        """Write a record that nobody wrote since `revision`, with word to our controllers that they have no part in it."""
        key = record_key(record.name)
        told = controllers_of.publish(record.name, "external", record.created)
        outcome = await self._means.store.txn([Compare(key, revision)], [Put(key, encode(record)), told])
        if not outcome.done:
            raise conflict("tenants", "", record.name, BUSY)
        self._means.registry.learn(record, outcome.revision)
        self._means.on_gone(record.name)
        return outcome.revision

    async def _finish(self, tenant: str, revision: int) -> None:
        """Delete all that is left, as long as the record is the one of `revision`."""
        guard = Compare(record_key(tenant), revision)
        if not await sweep(self._means.store, tenant, guard):
            return
        await self._means.forget_keys(tenant)
        published = controllers_of.publish(tenant, "vcsync", "")
        outcome = await self._means.store.txn([guard], [Delete(guard.key), published])
        if outcome.done:
            self._means.registry.gone(tenant, outcome.revision)
            _log.info("tenant is deleted", tenant=tenant)


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
