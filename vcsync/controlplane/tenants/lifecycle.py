"""How tenants come, go, and get new keys."""

import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec
import structlog

from vcsync.controlplane.errors import StatusError, already_exists, conflict, forbidden, not_found
from vcsync.controlplane.identity.caller import SYSTEM
from vcsync.controlplane.resources import object_key
from vcsync.controlplane.store.interface import MAX_OPERATIONS, Compare, Delete, Put, Store
from vcsync.controlplane.tenants import defaults, pki
from vcsync.controlplane.tenants.records import (
    SERVER,
    Authority,
    Phase,
    TenantRecord,
    decode,
    decode_authority,
    encode,
    name_problem,
    record_key,
)
from vcsync.controlplane.tenants.registry import TenantRegistry

_BUSY = "it is being created or deleted; try again"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the API is found. `url` by clients outside (`https://host:port`); `address`, `port` by Pods."""

    url: str
    address: str
    port: int


class Lifecycle:
    """Creates, deletes and rekeys tenants."""

    def __init__(  # noqa: PLR0917 - parts, each of its own type
        self,
        store: Store,
        registry: TenantRegistry,
        endpoint: Endpoint,
        clock: Callable[[], float],
        on_gone: Callable[[str], None],
        forget_keys: Callable[[str], Awaitable[None]],
    ) -> None:
        """Take the store, who must learn of changes, where the API is, the time, and what else forgets a tenant.

        `forget_keys`: drops what is kept of a tenant's certificates once its authority is gone.
        """
        self._store = store
        self._registry = registry
        self._endpoint = endpoint
        self._clock = clock
        self._on_gone = on_gone
        self._forget_keys = forget_keys

    async def ensure_server(self) -> Authority:
        """Return the authority that signs serving certificates; the first who asks makes it.

        Raises:
            StoreError: the store cannot be read or written.
        """
        found, _ = await self._store.get(SERVER)
        if found is None:
            made = encode(pki.new_authority(f"vcsync-server-{uuid.uuid4().hex[:12]}", self._clock()))
            await self._store.txn([Compare(SERVER, 0)], [Put(SERVER, made)])
            found, _ = await self._store.get(SERVER)
        assert found is not None  # noqa: S101  nothing deletes it
        return decode_authority(found.value)

    async def ensure_system(self) -> None:
        """Make the operator's own space, unless it is there.

        Raises:
            StoreError: the store cannot be read or written.
        """
        while not self._registry.exists(SYSTEM):
            found, _ = await self._store.get(record_key(SYSTEM))
            if found and decode(found.value).phase == "Ready":
                self._registry.learn(decode(found.value), found.revision)
                return
            try:
                await self._create(SYSTEM)
            except StatusError:
                _log.info("another process makes the system space")

    async def create(self, tenant: str) -> TenantRecord:
        """Make a tenant with everything that it begins with.

        Raises:
            StatusError: 409, there is one of that name; 422, the name will not do.
            StoreError: the store cannot be read or written.
        """
        problem = name_problem(tenant)
        if problem:
            raise StatusError(422, "Invalid", f'"{tenant}" is no tenant name: {problem}')
        return await self._create(tenant)

    async def _create(self, tenant: str) -> TenantRecord:
        key = record_key(tenant)
        found, _ = await self._store.get(key)
        if found and decode(found.value).phase != "Creating":
            raise already_exists("tenants", "", tenant)
        record = self._record(tenant)
        revision = found.revision if found else 0
        if (await self._store.range(f"{tenant}/", limit=1)).records:
            # Left by an earlier one, or being written by somebody else: only who has the record may sweep.
            revision = await self._write(record, "Creating", revision, [])
            await self._sweep(tenant)
        assert record.authority is not None  # noqa: S101  _record has just made it
        objects = defaults.default_puts(
            tenant,
            now=record.created,
            address=self._endpoint.address,
            port=self._endpoint.port,
            authority=record.authority.certificate,
        )
        room = MAX_OPERATIONS - 1
        for start in range(0, len(objects), room):
            phase: Phase = "Ready" if start + room >= len(objects) else "Creating"
            revision = await self._write(record, phase, revision, objects[start : start + room])
        self._registry.learn(record, revision)
        self._on_gone(tenant)
        return record

    async def _write(self, record: TenantRecord, phase: Phase, revision: int, objects: list[Put]) -> int:
        """Write a record that nobody wrote since `revision`, and objects with it; return the new revision.

        Raises:
            StatusError: 409, somebody did.
            StoreError: the store cannot be written.
        """
        key = record_key(record.name)
        written = encode(msgspec.structs.replace(record, phase=phase))
        outcome = await self._store.txn([Compare(key, revision)], [*objects, Put(key, written)])
        if not outcome.done:
            raise already_exists("tenants", "", record.name)
        return outcome.revision

    def _record(self, tenant: str, uid: str = "", created: str = "") -> TenantRecord:
        """Make a record with new keys."""
        now = self._clock()
        at = datetime.fromtimestamp(int(now), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        unique = uuid.uuid4().hex[:12]
        return TenantRecord(
            tenant,
            uid or str(uuid.uuid4()),
            created or at,
            authority=pki.new_authority(f"{unique}-{tenant}", now),
            signer=pki.new_signer(self.issuer(tenant)),
        )

    def issuer(self, tenant: str) -> str:
        """Return whom a tenant's tokens say they are from."""
        return self._endpoint.url if tenant == SYSTEM else f"{self._endpoint.url}/tenants/{tenant}"

    async def rotate(self, tenant: str) -> TenantRecord:
        """Give a tenant new keys: all certificates and tokens issued before are worthless at once.

        Raises:
            StatusError: 404, there is no such tenant; 403 for the operator's own space; 409, it changes just now.
            StoreError: the store cannot be read or written.
        """
        if tenant == SYSTEM:
            raise forbidden("tenants", "", tenant, "the operator's own space keeps its keys")
        key = record_key(tenant)
        found, _ = await self._store.get(key)
        if found is None:
            raise not_found("tenants", "", tenant)
        old = decode(found.value)
        if old.phase != "Ready":
            raise conflict("tenants", "", tenant, _BUSY)
        record = self._record(tenant, old.uid, old.created)
        compares, writes = await self._with_config(record)
        outcome = await self._store.txn(
            [Compare(key, found.revision), *compares], [Put(key, encode(record)), *writes]
        )
        if not outcome.done:
            raise conflict("tenants", "", tenant, _BUSY)
        self._registry.learn(record, outcome.revision)
        await self._forget_keys(tenant)
        return record

    async def _with_config(self, record: TenantRecord) -> tuple[list[Compare], list[Put]]:
        """Tell the new authority where extension API servers look for it, if that still stands there."""
        namespace, name = defaults.AUTHENTICATION_CONFIG
        key = object_key(record.name, "", "configmaps", namespace, name)
        found, _ = await self._store.get(key)
        if found is None or record.authority is None:
            return [], []
        body = msgspec.json.decode(found.value)
        body["data"] = {**(body.get("data") or {}), "client-ca-file": record.authority.certificate}
        return [Compare(key, found.revision)], [Put(key, msgspec.json.encode(body))]

    async def delete(self, tenant: str) -> None:
        """Delete a tenant: its credentials first, then everything it has. Cut off, `resume` goes on with it.

        Raises:
            StatusError: 404, there is no such tenant; 403 for the operator's own space; 409, it changes just now.
            StoreError: the store cannot be read or written.
        """
        if tenant == SYSTEM:
            raise forbidden("tenants", "", tenant, "this tenant may not be deleted")
        key = record_key(tenant)
        found, _ = await self._store.get(key)
        if found is None:
            raise not_found("tenants", "", tenant)
        old = decode(found.value)
        if old.phase != "Deleting":
            gone = TenantRecord(tenant, old.uid, old.created, "Deleting")
            outcome = await self._store.txn([Compare(key, found.revision)], [Put(key, encode(gone))])
            if not outcome.done:
                raise conflict("tenants", "", tenant, _BUSY)
            self._registry.learn(gone, outcome.revision)
        self._on_gone(tenant)
        await self._finish(tenant)

    async def _finish(self, tenant: str) -> None:
        await self._sweep(tenant)
        await self._forget_keys(tenant)
        key = record_key(tenant)
        found, _ = await self._store.get(key)
        if found and decode(found.value).phase == "Deleting":
            await self._store.txn([Compare(key, found.revision)], [Delete(key)])

    async def _sweep(self, tenant: str) -> None:
        """Delete all keys of a tenant, in batches."""
        while page := (await self._store.range(f"{tenant}/", limit=MAX_OPERATIONS)).records:
            await self._store.txn([], [Delete(record.key) for record in page])

    async def resume(self) -> None:
        """Go on with deletions that were cut off.

        Raises:
            StoreError: the store cannot be read or written.
        """
        unfinished = [
            record.name async for record, _ in self._registry.records() if record.phase == "Deleting"
        ]
        for tenant in unfinished:
            _log.info("deletion of a tenant goes on", tenant=tenant)
            await self._finish(tenant)
