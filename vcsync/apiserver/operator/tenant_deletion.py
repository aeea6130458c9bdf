"""Deletes tenants: first their credentials, then their objects as finalizers allow, then all that is left."""

import asyncio
import time

import structlog

from vcsync.apimachinery.errors import StatusError, conflict, forbidden, not_found
from vcsync.apiserver.operator.context import OperatorContext
from vcsync.apiserver.operator.draining import Remaining, drain, remaining, sweep
from vcsync.apiserver.request.caller import SYSTEM
from vcsync.apiserver.storage.interface import Compare, Delete, Put, StoreError
from vcsync.apiserver.tenants import external_controllers as controllers_of
from vcsync.apiserver.tenants.quota_records import quota_key
from vcsync.apiserver.tenants.records import LEAVING, TenantRecord, decode, encode, record_key
from vcsync.objects.times import unix_time_text

POLL_SECONDS = 1.0
"""Time between two checks whether finalizers are gone."""
RETRY_SECONDS = 5.0
"""Time until a deletion that failed is retried."""
PAUSE_FACTOR, MAX_PAUSE_SECONDS = 20.0, 60.0
"""The pause is at least twenty times as long as a check took, so that many objects with finalizers, which a hostile tenant
may leave, take a twentieth of the time at most. It is never longer than the maximum."""
MAX_TRIES = 5
"""Attempts to begin a deletion while others change the tenant: the tenant controller and a command may delete it together."""
COUNTED_OBJECTS = 100
"""Most remaining objects that a status counts."""
CONFLICT = 409
BUSY = "it is being created or deleted; try again"

_log = structlog.get_logger(__name__)


class TenantDeletion:
    """Deletes tenants, and completes deletions that this or another process began.

    Args:
        context: What operations on tenants share.
    """

    def __init__(self, context: OperatorContext) -> None:
        self._context = context

    async def delete(self, tenant: str, grace: float = 0) -> TenantRecord:
        """Delete a tenant: its credentials first, then all of its objects.

        Args:
            tenant: Name of the tenant.
            grace: Seconds for which finalizers are respected. With 0, everything is gone on return; otherwise `run` deletes
                the objects. A repeated call sets a new deadline.

        Returns:
            The new record of the tenant.

        Raises:
            StatusError: 404, the tenant does not exist; 403, it is the system space; 409, it is being changed.
            StoreError: The store cannot be read or written.
        """
        if tenant == SYSTEM:
            raise forbidden("tenants", "", tenant, "this tenant may not be deleted")
        failures = 0
        while True:
            try:
                return await self._delete(tenant, grace)
            except StatusError as error:
                failures += 1
                if error.code != CONFLICT or failures == MAX_TRIES:
                    raise

    async def _delete(self, tenant: str, grace: float) -> TenantRecord:
        found = await self._context.stored(tenant)
        old = decode(found.value)
        if old.phase == "Deleting":
            gone, revision = old, found.revision
        else:
            deadline = _time(self._context.clock() + grace)
            gone = TenantRecord(tenant, old.uid, old.created, "Draining", deadline=deadline)
            if not grace:
                gone = TenantRecord(tenant, old.uid, old.created, "Deleting")
            revision = await self._write(gone, found.revision)
        if gone.phase == "Deleting":
            await self._finish(tenant, revision)
        return gone

    async def status(self, tenant: str) -> tuple[TenantRecord, Remaining]:
        """Return the record of a tenant that is being deleted, and its remaining objects.

        Raises:
            StatusError: 404, the tenant does not exist or is not being deleted.
            StoreError: The store cannot be read.
        """
        record = decode((await self._context.stored(tenant)).value)
        if record.phase not in LEAVING:
            raise not_found("tenants", "", tenant)
        return record, await remaining(self._context.store, tenant, COUNTED_OBJECTS)

    async def run(self) -> None:
        """Complete deletions, including those that another or an earlier process began, until cancelled."""
        while True:
            await self._context.registry.wait_for_deletion()
            pause, began = POLL_SECONDS, time.monotonic()
            for tenant in self._context.registry.deleting():
                try:
                    await self._continue(tenant)
                except (StoreError, StatusError) as error:
                    _log.warning("deletion of a tenant waits", tenant=tenant, error=str(error))
                    pause = RETRY_SECONDS
                except Exception:  # noqa: BLE001 - a defect over one tenant must not stop the others
                    _log.exception("deletion of a tenant failed", tenant=tenant)
                    pause = RETRY_SECONDS
            if self._context.registry.deleting():
                took = time.monotonic() - began
                await asyncio.sleep(max(pause, min(PAUSE_FACTOR * took, MAX_PAUSE_SECONDS)))

    async def _continue(self, tenant: str) -> None:
        found, _ = await self._context.store.get(record_key(tenant))
        if found is None:
            return  # the registry learns of the deletion from the watch of the store
        record, revision = decode(found.value), found.revision
        if record.phase == "Draining":
            left = await drain(
                self._context.store, tenant, _time(self._context.clock()), Compare(found.key, revision)
            )
            if left.objects and _time(self._context.clock()) < record.deadline:
                return
            if left.objects:
                held = dict(left.held)
                _log.warning(
                    "finalizers are ignored: the deadline has passed",
                    tenant=tenant,
                    objects=left.objects,
                    finalizers=held,
                )
            gone = TenantRecord(tenant, record.uid, record.created, "Deleting")
            record, revision = gone, await self._write(gone, revision)
        if record.phase == "Deleting":
            await self._finish(tenant, revision)

    async def _write(self, record: TenantRecord, revision: int) -> int:
        """Write a record that still has `revision`, and tell the controllers to leave the tenant alone."""
        key = record_key(record.name)
        published = controllers_of.publish(record.name, "external", record.created)
        outcome = await self._context.store.txn(
            [Compare(key, revision)], [Put(key, encode(record)), published]
        )
        if not outcome.done:
            raise conflict("tenants", "", record.name, BUSY)
        self._context.registry.learn(record, outcome.revision)
        self._context.on_replaced(record.name)
        return outcome.revision

    async def _finish(self, tenant: str, revision: int) -> None:
        """Delete all that is left while the record has `revision`."""
        guard = Compare(record_key(tenant), revision)
        if not await sweep(self._context.store, tenant, guard):
            return
        await self._context.forget_keys(tenant)
        published = controllers_of.publish(tenant, "vcsync", "")
        outcome = await self._context.store.txn(
            [guard], [Delete(guard.key), Delete(quota_key(tenant)), published]
        )
        if outcome.done:
            self._context.registry.gone(tenant, outcome.revision)
            _log.info("tenant is deleted", tenant=tenant)


def _time(seconds: float) -> str:
    return unix_time_text(int(seconds))
