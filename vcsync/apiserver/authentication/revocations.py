"""Revoked client certificates: single ones by serial number, or all certificates of a user up to a time.

Revocations are stored beside the records of tenants and cached. A tenant without revocations costs one look-up in a dict.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import quote

import msgspec

from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.authentication.certificates import Certified
from vcsync.apiserver.storage.interface import Change, Delete, Put, Store
from vcsync.apiserver.tenants.records import PREFIX as OWN

PREFIX = f"{OWN}revoked/"
"""Prefix of the keys of revocations."""
MAX_OF_TENANT = 1000
"""Revocations of one tenant."""
PAGE = 500
"""Records that are read from the store at once."""


class Revocation(msgspec.Struct, frozen=True, omit_defaults=True):
    """One revocation.

    Attributes:
        serial: Serial number of a certificate in lower case hex without leading zeros. Empty: `user` is revoked.
        user: User whose certificates are revoked. Empty: `serial` is revoked.
        at: Time in seconds since the epoch. Certificates of the user that begin later stay valid.
    """

    serial: str = ""
    user: str = ""
    at: int = 0


@dataclass(slots=True)
class _OfTenant:
    serials: set[str] = field(default_factory=set)
    users: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.serials) + len(self.users)


_decoder = msgspec.json.Decoder(Revocation)


class Revocations:
    """The revocations of all tenants.

    Args:
        store: The store. `load` reads the revocations from it.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, _OfTenant] = {}

    async def load(self) -> None:
        """Read all revocations.

        Raises:
            StoreError: The store cannot be read.
        """
        found: dict[str, _OfTenant] = {}
        after, revision = "", 0
        while True:
            page = await self._store.range(PREFIX, after=after, limit=PAGE, revision=revision)
            for record in page.records:
                _learn(found, record.key, record.value)
            if not page.more:
                break
            after, revision = page.records[-1].key, page.revision
        self._known = found

    def changed(self, changes: Iterable[Change]) -> None:
        """Apply changes of the store, which this or another process made."""
        for change in changes:
            if change.key.startswith(PREFIX):
                _learn(self._known, change.key, change.value, change.previous)

    def revoked(self, tenant: str, certificate: Certified) -> bool:
        """Tell whether a certificate of a tenant's authority was revoked."""
        known = self._known.get(tenant)
        if known is None:
            return False
        at = known.users.get(certificate.user.name)
        return certificate.serial in known.serials or (at is not None and certificate.not_before <= at)

    def issue_after(self, tenant: str, user: str) -> float:
        """Return the time after which new certificates of a user must begin, in seconds since the epoch. 0: any time."""
        known = self._known.get(tenant)
        return float(known.users.get(user, 0)) if known else 0.0

    def of(self, tenant: str) -> list[Revocation]:
        """Return all revocations of a tenant."""
        known = self._known.get(tenant, _OfTenant())
        return [
            *(Revocation(serial=each) for each in sorted(known.serials)),
            *(Revocation(user=user, at=at) for user, at in sorted(known.users.items())),
        ]

    async def revoke(self, tenant: str, revocation: Revocation) -> None:
        """Revoke certificates of a tenant at once.

        Raises:
            StatusError: 422, the tenant has too many revocations and should rotate its keys instead.
            StoreError: The store cannot be written.
        """
        if len(self._known.get(tenant, _OfTenant())) >= MAX_OF_TENANT:
            told = f"more than {MAX_OF_TENANT} revocations: rotate the tenant's keys instead"
            raise StatusError(422, "Invalid", told)
        key, value = _key(tenant, revocation), msgspec.json.encode(revocation)
        await self._store.txn([], [Put(key, value)])
        _learn(self._known, key, value)

    async def forget(self, tenant: str) -> None:
        """Delete all revocations of a tenant whose authority is gone.

        Raises:
            StoreError: The store cannot be written.
        """
        while page := (await self._store.range(f"{PREFIX}{tenant}/", limit=100)).records:
            await self._store.txn([], [Delete(record.key) for record in page])
        self._known.pop(tenant, None)


def _key(tenant: str, revocation: Revocation) -> str:
    if revocation.serial:
        return f"{PREFIX}{tenant}/serial/{revocation.serial}"
    return f"{PREFIX}{tenant}/user/{quote(revocation.user, safe='')}"


def _learn(known: dict[str, _OfTenant], key: str, value: bytes | None, previous: bytes | None = None) -> None:
    tenant = key.removeprefix(PREFIX).partition("/")[0]
    if value is not None:
        told = _decoder.decode(value)
        of = known.setdefault(tenant, _OfTenant())
        if told.serial:
            of.serials.add(told.serial)
        else:
            of.users[told.user] = max(told.at, of.users.get(told.user, 0))
        return
    gone, of_tenant = _decoder.decode(previous) if previous else None, known.get(tenant)
    if gone is None or of_tenant is None:
        return
    of_tenant.serials.discard(gone.serial)
    of_tenant.users.pop(gone.user, None)
    if not len(of_tenant):
        del known[tenant]
