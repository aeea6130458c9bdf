"""Keeps the objects that TenantPolicies place in embedded tenants: creates, repairs and removes them.

Several processes may run it at once: they write by compare and swap, and all compute the same objects. A record at a key that
no request can reach, written in the transaction of a creation, tells which objects the operator made, so that no other is
ever removed.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from http import HTTPStatus
from typing import Any, Final

import msgspec
import structlog

from vcsync.api.names import PLACED_BY
from vcsync.apimachinery.copies import copied
from vcsync.apimachinery.errors import StatusError, not_found
from vcsync.apimachinery.resources import object_key
from vcsync.apimachinery.strategy import Context, Object, User
from vcsync.apiserver.admission.tenant_policies.following import POLICIES, TENANT_OBJECTS, TenantPolicies
from vcsync.apiserver.admission.tenant_policies.placed import Placed
from vcsync.apiserver.discovery.served import builtin_kinds
from vcsync.apiserver.registry.deletion import Deleter
from vcsync.apiserver.registry.field_managers import track
from vcsync.apiserver.registry.patch import defaulted
from vcsync.apiserver.registry.store import Registry
from vcsync.apiserver.request import stored
from vcsync.apiserver.request.claims import Reservation
from vcsync.apiserver.request.options import DeleteOptions, WriteOptions
from vcsync.apiserver.request.scope import Scope
from vcsync.apiserver.storage.interface import (
    Change,
    Compare,
    Delete,
    Put,
    Record,
    Store,
    StoreError,
    tenant_of,
)
from vcsync.apiserver.tenants.records import PREFIX, TENANTS, decode, record_key

MANAGER: Final = "vcsync-tenant-policies"
"""Field manager of these writes."""
RECORDS: Final = f"{PREFIX}placed/"
"""Prefix of the records of created objects. The key of the object follows."""
NAMESPACES: Final = "core/namespaces/"
SETTLE_SECONDS: Final = 0.2
"""Time for which changes are collected."""
RETRY_SECONDS: Final = 10.0
"""Time until a tenant whose objects could not be written is tried again."""
PAGE: Final = 200
_SELF: Final = User("system:apiserver", groups=("system:masters",))
_log = structlog.get_logger(__name__)


class _Made(msgspec.Struct):
    """The record of an object that was created here."""

    uid: str = ""


_made = msgspec.json.Decoder(_Made).decode


class _Labelled(msgspec.Struct):
    deletionTimestamp: str | None = None  # noqa: N815 - as JSON spells it


class _Namespace(msgspec.Struct):
    metadata: _Labelled


_namespace = msgspec.json.Decoder(_Namespace).decode


class PlacedObjects:
    """Keeps the placed objects of all tenants.

    Args:
        store: The store.
        policies: The policies. It must receive the changes of the store first.
        now: Returns the time in RFC 3339.
    """

    def __init__(self, store: Store, policies: TenantPolicies, now: Callable[[], str]) -> None:
        self._store, self._policies, self._now = store, policies, now
        # No webhook, policy or quota of a tenant keeps the operator's objects out.
        self._registry = Registry(store, claims=_Recording(store))
        self._deleter = Deleter(self._registry)
        self._queue: dict[str, None] = {}
        self._everything = True
        self._active = False
        self._wanted: dict[str, frozenset[str]] = {}
        self._sources: frozenset[str] = frozenset()
        self._verified: dict[str, tuple[int, Placed, int]] = {}
        self._retries: dict[str, asyncio.TimerHandle] = {}
        self._wake = asyncio.Event()
        self._wake.set()

    def changed(self, changes: Sequence[Change]) -> None:
        """Enqueue the tenants that changes of the store concern. Other changes cost little."""
        for change in changes:
            key = change.key
            if key.startswith(POLICIES) or key in self._sources:
                self._everything = True
                self._wake.set()
            elif not self._active:
                continue
            elif key.startswith(TENANT_OBJECTS):
                self._enqueue(key.removeprefix(TENANT_OBJECTS))
            elif key.startswith(TENANTS):
                self._enqueue(key.removeprefix(TENANTS))
            else:
                tenant = tenant_of(key)
                of_namespace = key.startswith(NAMESPACES, len(tenant) + 1)
                if of_namespace or key in self._wanted.get(tenant, ()):
                    self._enqueue(tenant)

    def reset(self) -> None:
        """Look at all tenants again, because changes were missed."""
        self._everything = True
        self._wake.set()

    def _enqueue(self, tenant: str) -> None:
        self._queue[tenant] = None
        self._wake.set()

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            while True:
                await self._wake.wait()
                await asyncio.sleep(SETTLE_SECONDS)
                self._wake.clear()
                await self._work()
        finally:
            for timer in self._retries.values():
                timer.cancel()

    async def _work(self) -> None:
        if self._everything:
            self._everything = False
            try:
                await self._look_at_everything()
            except StoreError as error:
                _log.warning("placed objects cannot be read", error=str(error))
                self._everything = True
                asyncio.get_running_loop().call_later(RETRY_SECONDS, self._wake.set)
                return
        while self._queue:
            tenant = next(iter(self._queue))
            del self._queue[tenant]
            if not await self._step(tenant) and tenant not in self._retries:
                loop = asyncio.get_running_loop()
                self._retries[tenant] = loop.call_later(RETRY_SECONDS, self._retry, tenant)

    def _retry(self, tenant: str) -> None:
        self._retries.pop(tenant, None)
        self._enqueue(tenant)

    async def _look_at_everything(self) -> None:
        """Enqueue all tenants that have placed objects or are to have some.

        Raises:
            StoreError: The store cannot be read.
        """
        snapshot = await self._policies.load()
        placed = [each for policy in snapshot.policies for each in policy.placed]
        self._sources = frozenset(each.source for each in placed if each.source)
        left = {tenant_of(each.key.removeprefix(RECORDS)) async for each in self._records(RECORDS)}
        self._active = bool(placed or left)
        for tenant in left | snapshot.embedded if placed else left:
            self._queue[tenant] = None

    async def _records(self, prefix: str) -> AsyncIterator[Record]:
        after, revision = "", 0
        while True:
            page = await self._store.range(prefix, after=after, limit=PAGE, revision=revision, counted=False)
            for each in page.records:
                yield each
            if not page.more:
                return
            after, revision = page.records[-1].key, page.revision

    async def _step(self, tenant: str) -> bool:
        """Reconcile a tenant and return whether everything is as it should be."""
        try:
            return await self.reconcile(tenant)
        except (StatusError, StoreError) as error:
            _log.warning("placed objects of a tenant cannot be written", tenant=tenant, error=str(error))
        except Exception:  # noqa: BLE001 - a defect over one tenant must not stop the others
            _log.exception("placed objects of a tenant cannot be written", tenant=tenant)
        return False

    async def reconcile(self, tenant: str) -> bool:
        """Bring the placed objects of a tenant in line with the policies.

        Returns:
            Whether all of them are as they should be.

        Raises:
            StatusError: An object cannot be removed.
            StoreError: The store cannot be read or written.
        """
        record = await _ready(self._store, tenant)
        policies = await self._policies.of(tenant) if record is not None else ()
        placed = [each for policy in policies for each in policy.placed]
        namespaces = await self._namespaces(tenant) if placed else []
        wanted: dict[str, tuple[Placed, str]] = {}
        for each in placed:
            for namespace in each.within(namespaces):
                wanted.setdefault(_key(tenant, each, namespace), (each, namespace))
        self._wanted[tenant] = frozenset(wanted)
        if not wanted:
            del self._wanted[tenant]
        complete = True
        for key, (each, namespace) in wanted.items():
            complete &= await self._place(tenant, key, each, namespace)
            await asyncio.sleep(0)  # there may be thousands
        async for made in self._records(f"{RECORDS}{tenant}/"):
            key = made.key.removeprefix(RECORDS)
            if key not in wanted:
                await self._remove(key, made)
        return complete

    async def _namespaces(self, tenant: str) -> list[str]:
        """Return the namespaces of a tenant that are not being deleted."""
        prefix = f"{tenant}/{NAMESPACES}"
        return [
            each.key.removeprefix(prefix)
            async for each in self._records(prefix)
            if _namespace(each.value).metadata.deletionTimestamp is None
        ]

    async def _place(self, tenant: str, key: str, placed: Placed, namespace: str) -> bool:
        """Create or repair one object. Returns whether it is as it should be."""
        body, version = await self._body(placed)
        if body is None:
            _log.warning(
                "the source of a placed object does not exist", policy=placed.policy, source=placed.source
            )
            return False
        live = await self._store.get_cached(key)
        if live is not None and self._verified.get(key) == (live.revision, placed, version):
            return True
        scope = self._scope(tenant, placed.kind, namespace, placed.name)
        try:
            try:
                written = await self._write(scope, placed, body)
            except StatusError as error:
                if error.code != HTTPStatus.UNPROCESSABLE_ENTITY or live is None:
                    raise
                # A field that cannot change is different: the object is deleted and created again.
                await self._deleter.delete(scope, DeleteOptions())
                written = await self._write(scope, placed, body)
        except StatusError as error:
            if error.code == HTTPStatus.CONFLICT:
                return False
            shown = error.reason if placed.kind.resource.plural == "secrets" else error.message
            _log.warning(
                "an object cannot be placed", policy=placed.policy, tenant=tenant, key=key, error=shown
            )
            return False
        self._verified[key] = (written.revision, placed, version)
        return True

    async def _write(self, scope: Scope, placed: Placed, body: Object) -> Any:
        async def change(live: Object | None) -> Object:
            new = copied(body)
            metadata = new["metadata"]
            metadata["annotations"] = {**(metadata.get("annotations") or {}), PLACED_BY: placed.policy}
            if scope.namespace:
                metadata["namespace"] = scope.namespace
            if live is not None:
                metadata["resourceVersion"] = live["metadata"].get("resourceVersion", "")
                if live["metadata"].get("finalizers"):
                    metadata["finalizers"] = live["metadata"]["finalizers"]
                if "status" in live:
                    new["status"] = live["status"]
            new = defaulted(scope, new)
            track(scope, live, new, MANAGER)
            return new

        return await self._registry.update(scope, change, WriteOptions(), may_create=True)

    async def _body(self, placed: Placed) -> tuple[Object | None, int]:
        """Return the object to place and, for a copy, the revision of its source."""
        if placed.body is not None:
            return placed.body, 0
        record, _ = await self._store.get(placed.source)
        if record is None:
            return None, 0
        resource = placed.kind.resource
        found = stored.unpack(record.value, record.revision, resource.kind, resource.api_version)
        found.pop("status", None)
        return {**found, "metadata": {"name": placed.name}}, record.revision

    async def _remove(self, key: str, made: Record) -> None:
        """Remove an object that was created here, and forget it. Another object of its name stays."""
        self._verified.pop(key, None)
        record, _ = await self._store.get(key)
        uid = _made(made.value).uid
        found = None if record is None else msgspec.json.decode(record.value)
        kind = _kind_of(key)
        if found is None or kind is None or found["metadata"].get("uid") != uid:
            await self._store.txn([Compare(made.key, made.revision)], [Delete(made.key)])
            return
        metadata = found["metadata"]
        scope = self._scope(tenant_of(key), kind, metadata.get("namespace", ""), metadata["name"])
        try:
            await self._deleter.delete(scope, DeleteOptions(uid=uid))
        except StatusError as error:
            if error.code not in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
                raise

    def _scope(self, tenant: str, kind: Any, namespace: str, name: str) -> Scope:
        return Scope(tenant, kind, Context(tenant, _SELF, self._now()), namespace, name)


class _Recording:
    """Claims that make each write conditional on its tenant being ready, and that record creations and removals.

    Args:
        store: The store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    async def __call__(
        self,
        scope: Scope,
        new: Object | None,
        old: Object | None,
        *,
        dry_run: bool = False,  # noqa: ARG002 - see the protocol
    ) -> Reservation:
        """See `claims.Claims`.

        Raises:
            StatusError: 404, the tenant is gone or being deleted.
        """
        key = RECORDS + scope.key((new or old or {})["metadata"]["name"])
        if new is None:
            return Reservation(operations=(Delete(key),))
        record = await _ready(self._store, scope.tenant)
        if record is None:
            raise not_found("tenants", "", scope.tenant)
        exists = Compare(record.key, record.revision)
        if old is not None:
            return Reservation((exists,))
        made = msgspec.json.encode(_Made(new["metadata"]["uid"]))
        return Reservation((exists,), (Put(key, made),))

    def turn(self, scope: Scope) -> AbstractAsyncContextManager[None]:  # noqa: ARG002 - see the protocol
        """See `claims.Claims`; does not wait."""
        return nullcontext()


def _key(tenant: str, placed: Placed, namespace: str) -> str:
    resource = placed.kind.resource
    return object_key(tenant, resource.key_group, resource.plural, namespace, placed.name)


def _kind_of(key: str) -> Any:
    """Return the kind of the object with a key, or None if there is no such kind."""
    _, group, plural, *_rest = key.split("/")
    for each in builtin_kinds().values():
        if (each.resource.key_group or "core", each.resource.plural) == (group, plural):
            return each
    return None


async def _ready(store: Store, tenant: str) -> Record | None:
    """Return the record of a tenant with an embedded control plane, or None if it is not in phase Ready."""
    record, _ = await store.get(record_key(tenant))
    if record is None:
        return None
    found = decode(record.value)
    return record if found.phase == "Ready" and found.upstream is None else None
