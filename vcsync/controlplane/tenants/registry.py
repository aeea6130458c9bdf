"""All tenants that there are, by name and by their keys, as the store has them.

Little is held of each: its name and the ids of its keys. Records are read when they are needed and kept while they
are used. Authorities lie in a folder where TLS finds them, so that clients can show that they hold a certificate's key.
"""

import asyncio
import ssl
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from vcsync.controlplane.store.interface import Change, Store
from vcsync.controlplane.tenants.authorities import AuthorityFolder
from vcsync.controlplane.tenants.pki import private_key
from vcsync.controlplane.tenants.records import LEAVING, TENANTS, TenantRecord, decode, record_key

MAX_RECORDS = 1000
"""Tenants whose record and keys are kept in memory."""
PAGE = 200


class Credentials:
    """A tenant's record with its certificate and key parsed."""

    def __init__(self, record: TenantRecord) -> None:
        """Parse the record's keys; a tenant that is being deleted has none."""
        self.record = record
        self.authority: x509.Certificate | None = None
        self.signing_key: ec.EllipticCurvePrivateKey | None = None
        self.verification_key: ec.EllipticCurvePublicKey | None = None
        if record.authority:
            self.authority = x509.load_pem_x509_certificate(record.authority.certificate.encode())
        if record.signer:
            self.signing_key = private_key(record.signer)
            self.verification_key = self.signing_key.public_key()


class _Ids(msgspec.Struct, frozen=True, gc=False):
    authority: str
    signer: str


_NO_IDS = _Ids("", "")
"""Of a tenant whose credentials count no more."""


class TenantRegistry:
    """Finds tenants by name, by the id of an authority, by the id of a signing key."""

    def __init__(self, store: Store, *, capacity: int = MAX_RECORDS) -> None:
        """Take the store and how many records to keep; `load` fills it."""
        self._store = store
        self._capacity = capacity
        self._ids: dict[str, _Ids] = {}
        self._authorities: dict[str, str] = {}
        self._signers: dict[str, str] = {}
        self._external: set[str] = set()
        self._coming: set[str] = set()
        self._leaving: set[str] = set()
        self._departure = asyncio.Event()
        self._revisions: dict[str, int] = {}
        self._records: OrderedDict[str, Credentials] = OrderedDict()
        self._folder: AuthorityFolder | None = None

    async def load(self) -> None:
        """Read all tenants; those that are not there any more are forgotten.

        Raises:
            StoreError: the store cannot be read.
        """
        as_of = await self._store.revision()
        found = set()
        async for record, revision in self.records():
            found.add(record.name)
            self.learn(record, revision)
        for tenant in self._revisions.keys() - found:
            if self._revisions[tenant] <= as_of:
                self._forget(tenant)
                del self._revisions[tenant]

    async def records(self) -> AsyncIterator[tuple[TenantRecord, int]]:
        """Yield every tenant's record with the revision of its last change."""
        after, revision = "", 0
        while True:
            page = await self._store.range(TENANTS, after=after, limit=PAGE, revision=revision)
            for found in page.records:
                yield decode(found.value), found.revision
            if not page.more:
                return
            after, revision = page.records[-1].key, page.revision

    def changed(self, changes: Iterable[Change]) -> None:
        """Take note of what another part, or another process, did to tenants."""
        for change in changes:
            if not change.key.startswith(TENANTS):
                continue
            tenant = change.key.removeprefix(TENANTS)
            if change.value is not None:
                self.learn(decode(change.value), change.revision)
            elif change.revision >= self._revisions.get(tenant, 0):
                self._forget(tenant)
                self._revisions.pop(tenant, None)

    def gone(self, tenant: str, revision: int) -> None:
        """Forget a tenant whose record was deleted at a revision; `changed` will be told later."""
        self._forget(tenant)
        self._revisions[tenant] = max(revision, self._revisions.get(tenant, 0))

    def learn(self, record: TenantRecord, revision: int) -> None:
        """Know a tenant as its record of a revision says: one that is ready, or whose objects are still to go.

        Whoever wrote a record tells of it before the store's watch does, which then has nothing new to say.
        """
        if revision <= self._revisions.get(record.name, 0):
            return
        self._revisions[record.name] = revision
        self._forget(record.name)
        if record.phase == "Creating":
            self._coming.add(record.name)
        if record.phase in LEAVING:
            self._leaving.add(record.name)
            self._departure.set()
        if record.phase == "Draining":
            self._ids[record.name] = _NO_IDS
        if record.phase != "Ready" or record.authority is None or record.signer is None:
            return
        if self._folder:
            self._folder.add(record.authority.certificate.encode())
        if record.controllers == "external":
            self._external.add(record.name)
        self._ids[record.name] = _Ids(record.authority.id, record.signer.id)
        self._authorities[record.authority.id] = record.name
        self._signers[record.signer.id] = record.name

    def _forget(self, tenant: str) -> None:
        """Know nothing of a tenant; its credentials are worthless from now on."""
        self._records.pop(tenant, None)
        self._external.discard(tenant)
        self._coming.discard(tenant)
        self._leaving.discard(tenant)
        ids = self._ids.pop(tenant, None)
        if ids:
            self._authorities.pop(ids.authority, None)
            self._signers.pop(ids.signer, None)

    def exists(self, tenant: str) -> bool:
        """Tell whether there is such a tenant, though it may be leaving."""
        return tenant in self._ids

    def admits(self, tenant: str) -> bool:
        """Tell whether there is such a tenant and anybody may come in as one of it."""
        return tenant in self._ids and tenant not in self._leaving

    def leaving(self) -> Sequence[str]:
        """Return the tenants that are being deleted, in order."""
        return sorted(self._leaving)

    async def departure(self) -> None:
        """Wait until a tenant is being deleted."""
        while not self._leaving:
            self._departure.clear()
            await self._departure.wait()

    def has_external_controllers(self, tenant: str) -> bool:
        """Tell whether a tenant brings its own controllers, so that none of ours run for it."""
        return tenant in self._external

    def names(self) -> list[str]:
        """Return the names of all tenants, `system` and those that are leaving included, in order."""
        return sorted(self._ids)

    def places(self) -> list[str]:
        """Return the names of all who have objects, in order: also of those that are being made or deleted."""
        return sorted(self._ids.keys() | self._coming | self._leaving)

    def of_authority(self, identifier: str) -> str | None:
        """Return the tenant whose authority has this subject key identifier (hex)."""
        return self._authorities.get(identifier)

    def of_signer(self, identifier: str) -> str | None:
        """Return the tenant whose tokens name this key."""
        return self._signers.get(identifier)

    async def credentials(self, tenant: str) -> Credentials | None:
        """Return a tenant's record and keys; None: there is no such tenant.

        Raises:
            StoreError: the store cannot be read.
        """
        found = self._records.get(tenant)
        if found is not None:
            self._records.move_to_end(tenant)
            return found
        ids = self._ids.get(tenant)
        if ids is None:
            return None
        stored, _ = await self._store.get(record_key(tenant))
        if stored is None or self._ids.get(tenant) is not ids:
            return None
        found = Credentials(decode(stored.value))
        if found.record.phase != "Ready":
            return None
        self._records[tenant] = found
        while len(self._records) > self._capacity:
            self._records.popitem(last=False)
        return found

    async def ssl_context(self, certificate: Path, key: Path, authorities: Path) -> ssl.SSLContext:
        """Return a server's TLS context that asks clients for certificates of any tenant's authority, now or later.

        Which tenant a certificate is good for is decided per request, by who issued it. `authorities` is a folder of
        its own for them, which this fills.

        Raises:
            OSError: the files cannot be read or written.
            StoreError: the store cannot be read.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        context.load_cert_chain(certificate, key)
        context.verify_mode = ssl.CERT_OPTIONAL
        context.num_tickets = (
            0  # nobody could resume with one; packing client certificates into them takes long
        )
        context.options |= ssl.OP_NO_TICKET
        self._folder = await asyncio.to_thread(AuthorityFolder, authorities)
        found = [
            record.authority.certificate.encode() async for record, _ in self.records() if record.authority
        ]
        await asyncio.to_thread(self._folder.fill, found)
        context.load_verify_locations(capath=authorities)
        return context
