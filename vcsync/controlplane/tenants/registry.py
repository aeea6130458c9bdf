"""All tenants that there are, by name and by their keys, as the store has them.

Little is held of each: its name and the ids of its keys. Records are read when they are needed and kept while they
are used. Authorities lie in a folder where TLS finds them, so that clients can show that they hold a certificate's key.
"""

import asyncio
import ssl
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from vcsync.controlplane.store.interface import Change, Store
from vcsync.controlplane.tenants.authorities import AuthorityFolder
from vcsync.controlplane.tenants.pki import private_key
from vcsync.controlplane.tenants.records import TENANTS, TenantRecord, decode, record_key

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


class TenantRegistry:
    """Finds tenants by name, by the id of an authority, by the id of a signing key."""

    def __init__(self, store: Store, *, capacity: int = MAX_RECORDS) -> None:
        """Take the store and how many records to keep; `load` fills it."""
        self._store = store
        self._capacity = capacity
        self._ids: dict[str, _Ids] = {}
        self._authorities: dict[str, str] = {}
        self._signers: dict[str, str] = {}
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

    def learn(self, record: TenantRecord, revision: int) -> None:
        """Know a tenant as its record of a revision says; one that is not ready is not there.

        Whoever wrote a record tells of it before the store's watch does, which then has nothing new to say.
        """
        if revision <= self._revisions.get(record.name, 0):
            return
        self._revisions[record.name] = revision
        self._forget(record.name)
        if record.phase != "Ready" or record.authority is None or record.signer is None:
            return
        if self._folder:
            self._folder.add(record.authority.certificate.encode())
        self._ids[record.name] = _Ids(record.authority.id, record.signer.id)
        self._authorities[record.authority.id] = record.name
        self._signers[record.signer.id] = record.name

    def _forget(self, tenant: str) -> None:
        """Know nothing of a tenant; its credentials are worthless from now on."""
        self._records.pop(tenant, None)
        ids = self._ids.pop(tenant, None)
        if ids:
            self._authorities.pop(ids.authority, None)
            self._signers.pop(ids.signer, None)

    def exists(self, tenant: str) -> bool:
        """Tell whether there is such a tenant."""
        return tenant in self._ids

    def names(self) -> list[str]:
        """Return the names of all tenants, `system` included, in order."""
        return sorted(self._ids)

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
        self._folder = await asyncio.to_thread(AuthorityFolder, authorities)
        found = [
            record.authority.certificate.encode() async for record, _ in self.records() if record.authority
        ]
        await asyncio.to_thread(self._folder.fill, found)
        context.load_verify_locations(capath=authorities)
        return context
