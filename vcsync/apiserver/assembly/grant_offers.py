"""Controller of TenantGrants: shows each grant to its home tenant as a TenantGrantOffer, and the answer in both statuses.

What it writes only informs. `grants.index` decides by the grant and by the answer in the offer's spec, so that nothing
that anybody writes into a status admits a caller. Several processes may run it at once: they write by compare and swap,
and all compute the same objects.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
import structlog

from vcsync.api import grants as api
from vcsync.api.conditions import Condition, set_condition
from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.resources import collection_key
from vcsync.apimachinery.strategy import Context, Object, User
from vcsync.apiserver.apiextensions.catalogue import Catalogue, Served
from vcsync.apiserver.assembly.tenant_exists import TenantExists
from vcsync.apiserver.grants.grant import STORED_GROUP, Grant, grant_key, offer_key
from vcsync.apiserver.grants.index import (
    GrantIndex,
    Pair,
    concerned,
    grant_of,
    tenant_of_record,
)
from vcsync.apiserver.registry.deletion import Deleter
from vcsync.apiserver.registry.store import Registry
from vcsync.apiserver.request import stored
from vcsync.apiserver.request.claims import AllClaims
from vcsync.apiserver.request.options import DeleteOptions, WriteOptions
from vcsync.apiserver.request.scope import Scope
from vcsync.apiserver.storage.interface import Change, Store, StoreError
from vcsync.objects.times import unix_time_text

SETTLE_SECONDS = 0.1
"""Time for which changes are collected before pairs are reconciled."""
RETRY_SECONDS = 5.0
"""Time until a pair that failed is reconciled again."""
IDLE_SECONDS = 3600.0
"""Longest time between two looks at the clock."""
MAX_OFFERS_OF_TENANT = 20
"""Offers of one granting tenant that a tenant is shown."""
MAX_OFFERS = 1000
"""Offers that a tenant is shown, so that other tenants cannot fill its control plane."""
MESSAGES: Mapping[str, str] = {
    "Accepted": "the home tenant has accepted the grant",
    "OperatorPolicy": "the operator accepts grants of the granting tenant for the home tenant",
    "Rejected": "the home tenant has rejected the grant",
    "Expired": "the grant has expired: set spec.expires to a later time, or delete the grant",
    "Pending": "the home tenant has not accepted this version of the grant: its administrator copies status.digest of the "
    "TenantGrantOffer to spec.accept",
}
_SELF = User("system:apiserver", groups=("system:masters",))
_log = structlog.get_logger(__name__)


class GrantOffers:
    """The controller.

    Args:
        store: The store.
        index: All grants and offers.
        catalogue: Has the two kinds.
    """

    def __init__(self, store: Store, index: GrantIndex, catalogue: Catalogue) -> None:
        self._store, self._index, self._catalogue = store, index, catalogue
        # Writes of the server pass no webhook or policy of a tenant.
        self._registry = Registry(store, claims=AllClaims(TenantExists(store)))
        self._deleter = Deleter(self._registry)
        self._queue: dict[Pair, None] = {}
        self._wake = asyncio.Event()

    def changed(self, changes: Sequence[Change]) -> None:
        """Apply changes of the store to the index, and enqueue the pairs that they concern. Other changes cost little."""
        self._index.changed(changes)
        for change in changes:
            if tenant := tenant_of_record(change):
                self.enqueue(self._index.pairs(tenant))
            else:
                self.enqueue(concerned(change))

    async def reload(self, tenant: str = "") -> None:
        """Read all grants again, because changes may have been missed, and reconcile them, or those of a tenant.

        Raises:
            StoreError: The store cannot be read.
        """
        await self._index.load()
        self.enqueue(self._index.pairs(tenant))

    def enqueue(self, pairs: Iterable[Pair]) -> None:
        """Reconcile pairs soon."""
        for pair in pairs:
            self._queue[pair] = None
            self._wake.set()

    async def run(self) -> None:
        """Read all grants, and reconcile pairs, until cancelled."""
        while True:
            try:
                await self.reload()
            except StoreError as error:
                _log.warning("the grants of tenants cannot be read; trying again", error=str(error))
                await asyncio.sleep(RETRY_SECONDS)
            else:
                break
        seen = self._index.clock()
        while True:
            end = self._index.next_end(seen)
            await self._wait(IDLE_SECONDS if end is None else min(end - self._index.clock(), IDLE_SECONDS))
            await asyncio.sleep(SETTLE_SECONDS)
            self._wake.clear()
            now = self._index.clock()
            self.enqueue(self._index.ended(seen, now))
            seen = now
            queue, self._queue = self._queue, {}
            for pair in queue:
                await self._step(pair)

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(max(seconds, 0)):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _step(self, pair: Pair) -> None:
        try:
            await self.reconcile(pair)
        except (StatusError, StoreError) as error:
            code = error.code if isinstance(error, StatusError) else 0
            if code not in (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):
                _log.warning(
                    "an offer of a grant cannot be written; trying again", tenant=pair.home, error=str(error)
                )
            # Another process wrote first; or a tenant is being deleted, which may take long.
            seconds = SETTLE_SECONDS if code == HTTPStatus.CONFLICT else RETRY_SECONDS
            asyncio.get_running_loop().call_later(seconds, self.enqueue, [pair])
        except Exception:  # noqa: BLE001 - a defect over one grant must not stop the others
            _log.exception("an offer of a grant cannot be written", tenant=pair.home)

    async def reconcile(self, pair: Pair) -> None:
        """Write the offer of a grant, and the status of both; delete the offer of a grant that does not exist.

        Raises:
            StatusError: An object cannot be written, for example because another process wrote first.
            StoreError: The store cannot be read or written.
        """
        for tenant, plural in ((pair.tenant, api.GRANTS.plural), (pair.home, api.OFFERS.plural)):
            await self._kind(tenant, plural).compiled()
        key = grant_key(pair.tenant, pair.name)
        record, _ = await self._store.get(key)
        grant = grant_of(key, record.value if record is not None else None)
        if grant is None or grant.home != pair.home or not self._index.offered(grant):
            await self._withdraw(pair)
        else:
            await self._offer(pair, grant)
        if grant is not None and grant.home == pair.home:
            await self._write_status(pair.tenant, api.GRANTS.plural, pair.name, grant, {})

    async def _withdraw(self, pair: Pair) -> None:
        name = f"{pair.tenant}.{pair.name}"
        record, _ = await self._store.get(offer_key(pair.home, name))
        if record is not None and not stored.deleting(record.value):
            await self._deleter.delete(self._scope(pair.home, api.OFFERS.plural, name), DeleteOptions())

    async def _offer(self, pair: Pair, grant: Grant) -> None:
        record, _ = await self._store.get(offer_key(pair.home, grant.offer))
        if record is None:
            offers = collection_key(pair.home, STORED_GROUP, api.OFFERS.plural)
            of_tenant = await self._store.count(f"{offers}{pair.tenant}.")
            if of_tenant >= MAX_OFFERS_OF_TENANT or await self._store.count(offers) >= MAX_OFFERS:
                _log.warning("a tenant is shown no more offers", tenant=pair.home, granting=pair.tenant)
                return
            offer = {
                "kind": api.OFFERS.kind,
                "apiVersion": api.OFFERS.api_version,
                "metadata": {"name": grant.offer},
                "spec": {"accept": "", "reject": False},
            }
            await self._registry.create(
                self._scope(pair.home, api.OFFERS.plural, grant.offer), offer, WriteOptions()
            )
        fields = ("subjects", "roles", "namespaces", "clusterWide", "expires")
        spec = _plain(grant.spec)
        copied = {field: spec[field] for field in fields if field in spec}
        status = {"tenant": grant.tenant, "grant": grant.name, **copied, "digest": self._index.digest(grant)}
        await self._write_status(pair.home, api.OFFERS.plural, grant.offer, grant, status)

    async def _write_status(self, tenant: str, plural: str, name: str, grant: Grant, fields: Object) -> None:
        """Write the status of a grant or of its offer unless it is there already."""
        verdict = self._index.verdict(grant)
        now = unix_time_text(int(self._index.clock()))
        key = (grant_key if plural == api.GRANTS.plural else offer_key)(tenant, name)
        record, _ = await self._store.get(key)
        if record is None:
            return
        current = stored.unpack(record.value, record.revision, "", "")
        generation = current["metadata"].get("generation", 0)
        if plural == api.GRANTS.plural and generation != grant.generation:
            return  # The grant has changed meanwhile, and is reconciled again.
        before = current.get("status") or {}
        conditions = set_condition(
            _conditions(before),
            "Accepted",
            status=verdict.accepted,
            reason=verdict.reason,
            message=MESSAGES[verdict.reason],
            now=now,
            # kubectl wait compares it with the generation of the same object.
            observed_generation=generation,
        )
        status = {**fields, "conditions": _plain(conditions)}
        if status == before:
            return

        async def change(_: Object | None) -> Object:
            kind = self._kind(tenant, plural).resource
            return {**current, "kind": kind.kind, "apiVersion": kind.api_version, "status": status}

        scope = self._scope(tenant, plural, name, "status")
        await self._registry.update(scope, change, WriteOptions())

    def _kind(self, tenant: str, plural: str) -> Served:
        kind = self._catalogue.shared_kind(tenant, api.GRANTS.group, api.GRANTS.version, plural)
        if kind is None:
            raise AssertionError(f"{plural} are not served")
        return kind

    def _scope(self, tenant: str, plural: str, name: str, subresource: str = "") -> Scope:
        context = Context(tenant, _SELF, unix_time_text(int(self._index.clock())))
        return Scope(tenant, self._kind(tenant, plural), context, name=name, subresource=subresource)


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: without tuples."""
    return msgspec.json.decode(msgspec.json.encode(value))


def _conditions(status: Mapping[str, Any]) -> tuple[Condition, ...]:
    """Return the conditions of a status; a malformed one, which somebody else wrote, counts as empty."""
    try:
        return msgspec.convert(status.get("conditions") or (), tuple[Condition, ...])
    except msgspec.ValidationError:
        return ()
