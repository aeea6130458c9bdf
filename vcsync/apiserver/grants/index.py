"""All grants of a control plane and the answers to them, in memory: which of them admit a caller to another tenant.

It is read once and follows the changes of the store. Requests for the caller's own tenant never look into it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from typing import NamedTuple, TypeVar

import msgspec
import structlog

from vcsync.api.grants import GRANTS, OFFERS
from vcsync.apimachinery.resources import collection_key
from vcsync.apiserver.grants.grant import STORED_GROUP, Grant, Offer, place_of, read_grant, read_offer
from vcsync.apiserver.request.caller import SYSTEM, UNAUTHENTICATED, Caller, Granted, guest
from vcsync.apiserver.storage.interface import Change, Record, Store, StoreUnavailable
from vcsync.apiserver.tenants.records import TENANTS
from vcsync.apiserver.tenants.registry import TenantRegistry

READY_SECONDS = 10.0
"""Time for which a request waits until the grants have been read."""
MARK = f"/{STORED_GROUP}/"
PAGE = 200
"""Records that are read from the store at once."""
NO_OFFER = Offer()
_Known = TypeVar("_Known")
_log = structlog.get_logger(__name__)


class Pair(NamedTuple):
    """A grant and its offer: the home tenant, the granting tenant, and the grant's name."""

    home: str
    tenant: str
    name: str


class Verdict(NamedTuple):
    """Whether a grant admits callers. `reason` is that of the condition Accepted."""

    accepted: bool
    reason: str


class GrantIndex:
    """The grants and offers of all tenants.

    Args:
        store: The store.
        tenants: All tenants.
        clock: Returns seconds since the epoch.
        accepts: Pairs of granting tenant and home tenant whose grants the operator accepts for the home tenant.
    """

    def __init__(
        self,
        store: Store,
        tenants: TenantRegistry,
        clock: Callable[[], float],
        accepts: Collection[tuple[str, str]] = (),
    ) -> None:
        self._store = store
        self._tenants = tenants
        self._accepts = frozenset(accepts)
        self._grants: dict[str, dict[str, Grant]] = {}
        self._offers: dict[str, dict[str, Offer]] = {}
        self._revisions: dict[str, int] = {}
        self._as_of = 0
        self._loading: list[list[Change]] = []
        self._loaded = asyncio.Event()
        self.clock = clock

    async def load(self) -> None:
        """Read all grants and offers. The changes that arrive meanwhile are applied after it.

        Raises:
            StoreError: The store cannot be read.
        """
        changes: list[Change] = []
        self._loading.append(changes)
        try:
            as_of = await self._store.revision()
            records = [each async for each in self._records()]
        finally:
            self._loading.remove(changes)
        self._grants, self._offers, self._as_of = {}, {}, as_of
        self._revisions = {each.key: each.revision for each in records}
        for record in records:
            self._learn(record.key, record.value)
        self.changed(changes)
        self._loaded.set()

    async def _records(self) -> AsyncIterator[Record]:
        for tenant in self._tenants.spaces():
            if tenant == SYSTEM:
                continue
            for plural in (GRANTS.plural, OFFERS.plural):
                after, prefix = "", collection_key(tenant, STORED_GROUP, plural)
                while True:
                    page = await self._store.range(prefix, after=after, limit=PAGE, counted=False)
                    for record in page.records:
                        yield record
                    if not page.more:
                        break
                    after = page.records[-1].key

    def changed(self, changes: Iterable[Change]) -> None:
        """Apply changes of the store, which this or another process made."""
        for change in changes:
            if MARK in change.key and place_of(change.key) is not None:
                for loading in self._loading:
                    loading.append(change)
                if change.revision > self._revisions.get(change.key, self._as_of):
                    self._note(change)

    def _note(self, change: Change) -> None:
        if change.value is None:
            self._revisions.pop(change.key, None)
        else:
            self._revisions[change.key] = change.revision
        self._learn(change.key, change.value)

    def _learn(self, key: str, value: bytes | None) -> None:
        place = place_of(key)
        if place is None:
            return
        tenant, plural, name = place
        if plural == GRANTS.plural:
            _set(self._grants, tenant, name, grant_of(key, value))
        else:
            _set(self._offers, tenant, name, offer_of(key, value))

    async def guest(self, caller: Caller, tenant: str) -> Caller:
        """Return a caller of another tenant as a guest of `tenant` if grants admit it; otherwise the caller unchanged.

        Raises:
            StoreUnavailable: The grants could not be read so far.
        """
        if caller.system or not caller.tenant or UNAUTHENTICATED in caller.user.groups:
            return caller
        if not self._loaded.is_set():
            try:
                async with asyncio.timeout(READY_SECONDS):
                    await self._loaded.wait()
            except TimeoutError:
                raise StoreUnavailable("the grants of tenants cannot be read") from None
        grants = tuple(self._admitting(caller, tenant))
        return guest(caller, tenant, grants) if grants else caller

    def _admitting(self, caller: Caller, tenant: str) -> Iterator[Granted]:
        for _, grant in sorted(self._grants.get(tenant, {}).items()):
            if grant.home == caller.tenant and grant.means(caller.user) and self.verdict(grant).accepted:
                yield grant.granted(self.digest(grant))

    def verdict(self, grant: Grant) -> Verdict:
        """Return whether a grant admits callers, and the reason.

        The reason does not depend on whether the home tenant exists, unless it answered.
        """
        digest, offer = self.digest(grant), self._offers.get(grant.home, {}).get(grant.offer, NO_OFFER)
        embedded = self._tenants.authorizes(grant.tenant) and self._tenants.authorizes(grant.home)
        if grant.expired(self.clock()):
            return Verdict(False, "Expired")
        if not digest or not embedded:
            return Verdict(False, "Pending")
        if offer.reject:
            return Verdict(False, "Rejected")
        if offer.accept == digest:
            return Verdict(True, "Accepted")
        if (grant.tenant, grant.home) in self._accepts:
            return Verdict(True, "OperatorPolicy")
        return Verdict(False, "Pending")

    def digest(self, grant: Grant) -> str:
        """Return the digest of a grant that its home tenant accepts; empty if one of the tenants does not exist."""
        return grant.digest(self._tenants.uid)

    def offered(self, grant: Grant) -> bool:
        """Tell whether the home tenant sees a grant: it has an embedded control plane."""
        return self._tenants.authorizes(grant.home)

    def pairs(self, tenant: str = "") -> list[Pair]:
        """Return the pairs of all grants and offers, or those that involve a tenant, in order."""
        found = {
            Pair(grant.home, grant.tenant, name)
            for grants in self._grants.values()
            for name, grant in grants.items()
        }
        found |= {
            pair
            for home, offers in self._offers.items()
            for name in offers
            if (pair := pair_of_offer(home, name))
        }
        return sorted(each for each in found if not tenant or tenant in (each.home, each.tenant))

    def ended(self, after: float, until: float) -> list[Pair]:
        """Return the pairs of the grants that expire after one time and until another, in seconds since the epoch."""
        return [
            Pair(grant.home, grant.tenant, name)
            for grants in self._grants.values()
            for name, grant in grants.items()
            if grant.expires is not None and after < grant.expires <= until
        ]

    def next_end(self, after: float) -> float | None:
        """Return when the first grant after a time expires, in seconds since the epoch, or None."""
        ends = (grant.expires for grants in self._grants.values() for grant in grants.values())
        return min((each for each in ends if each is not None and each > after), default=None)


def concerned(change: Change) -> list[Pair]:
    """Return the pairs whose grant or answer a change of the store changed. A change of a status changes neither."""
    place = place_of(change.key) if MARK in change.key else None
    if place is None:
        return []
    tenant, plural, name = place
    updated = change.value is not None and change.previous is not None
    if plural == OFFERS.plural:
        pair = pair_of_offer(tenant, name)
        same = updated and offer_of(change.key, change.value) == offer_of(change.key, change.previous)
        return [pair] if pair and not same else []
    both = [grant_of(change.key, value) for value in (change.value, change.previous)]
    if updated and both[0] == both[1]:
        return []
    return list(dict.fromkeys(Pair(each.home, tenant, name) for each in both if each is not None))


def tenant_of_record(change: Change) -> str:
    """Return the tenant whose record a change concerns, or an empty text."""
    return change.key.removeprefix(TENANTS) if change.key.startswith(TENANTS) else ""


def pair_of_offer(home: str, name: str) -> Pair | None:
    """Return the pair of an offer of a home tenant, or None if no grant has such an offer."""
    tenant, dot, grant = name.partition(".")
    return Pair(home, tenant, grant) if dot and grant else None


def grant_of(key: str, value: bytes | None) -> Grant | None:
    """Return a stored grant, or None if it grants nothing."""
    if value is None:
        return None
    try:
        return read_grant(key.partition("/")[0], value)
    except msgspec.MsgspecError as error:
        _log.error("a stored grant cannot be read and grants nothing", key=key, error=str(error))
        return None


def offer_of(key: str, value: bytes | None) -> Offer | None:
    """Return a stored offer, or None if it accepts nothing."""
    if value is None:
        return None
    try:
        return read_offer(value)
    except msgspec.MsgspecError as error:
        _log.error("a stored offer cannot be read and accepts nothing", key=key, error=str(error))
        return None


def _set(known: dict[str, dict[str, _Known]], tenant: str, name: str, found: _Known | None) -> None:
    if found is not None:
        known.setdefault(tenant, {})[name] = found
        return
    of_tenant = known.get(tenant, {})
    of_tenant.pop(name, None)
    if not of_tenant:
        known.pop(tenant, None)
