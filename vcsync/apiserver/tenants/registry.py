"""The registry of tenants: finds them by name and by the ids of their keys.

It holds the name and the key ids of every tenant. Records are read on demand and cached. The certificate authorities
are files of a folder from which TLS loads them, so that it can verify client certificates.
"""

import asyncio
import hashlib
import ssl
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from vcsync.apiserver.request.caller import SYSTEM
from vcsync.apiserver.storage.interface import Change, Store
from vcsync.apiserver.tenants.authorities import AuthorityFolder
from vcsync.apiserver.tenants.pki import private_key
from vcsync.apiserver.tenants.records import LEAVING, TENANTS, TenantRecord, Upstream, decode, record_key
from vcsync.apiserver.tenants.request_limits import TenantLimits
from vcsync.process.handshakes import BoundedContext

MAX_RECORDS = 1000
"""Tenants whose record and parsed keys are cached."""
READABLE_ID_BYTES = 5
"""Length of the id of a readable control plane. It is short, because each resume token has one for each of them."""
PAGE = 200
"""Records that are read from the store at once."""


class Credentials:
    """A tenant's record with its parsed certificate and keys.

    Args:
        record: The record. One of a tenant that is being deleted has no keys.
    """

    def __init__(self, record: TenantRecord) -> None:
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
    uid: str = ""


_NO_IDS = _Ids("", "")
"""Ids of a tenant whose credentials are no longer valid."""


class Readable(NamedTuple):
    """An external control plane that lists and watches over all tenants include.

    Attributes:
        tenant: Name of the tenant.
        id: Identifies the tenant and the address of its API server, whose versions say nothing about those of another.
        resources: As in `records.Upstream`.
    """

    tenant: str
    id: bytes
    resources: tuple[str, ...]


class TenantRegistry:
    """Finds tenants by name, by the id of their authority, and by the id of their signing key.

    Args:
        store: The store. `load` reads the tenants from it.
        capacity: Records that are cached.

    Attributes:
        external_changes: Number of changes of tenants with external control planes.
    """

    def __init__(self, store: Store, *, capacity: int = MAX_RECORDS) -> None:
        self._store = store
        self._capacity = capacity
        self._ids: dict[str, _Ids] = {}
        self._authorities: dict[str, str] = {}
        self._signers: dict[str, str] = {}
        self._external: set[str] = set()
        self._own_nodes: set[str] = set()
        self._upstreams: set[str] = set()
        self._readable: dict[str, Readable] = {}
        self.external_changes = 0
        self._limits: dict[str, TenantLimits] = {}
        self._weights: dict[str, int] = {}
        self._suspended: set[str] = set()
        self._aside: dict[str, str] = {}
        self._creating: set[str] = set()
        self._deleting: set[str] = set()
        self._deletion_started = asyncio.Event()
        self._revisions: dict[str, int] = {}
        self._records: OrderedDict[str, Credentials] = OrderedDict()
        self._folder: AuthorityFolder | None = None

    async def load(self) -> None:
        """Read all tenants, and forget those that no longer exist.

        Raises:
            StoreError: The store cannot be read.
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
        """Yield the record of every tenant with the revision of its last change."""
        after, revision = "", 0
        while True:
            page = await self._store.range(TENANTS, after=after, limit=PAGE, revision=revision)
            for found in page.records:
                yield decode(found.value), found.revision
            if not page.more:
                return
            after, revision = page.records[-1].key, page.revision

    def changed(self, changes: Iterable[Change]) -> None:
        """Apply changes of the store, which this or another process made."""
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
        """Forget a tenant whose record was deleted at a revision, before `changed` is called with the deletion."""
        self._forget(tenant)
        self._revisions[tenant] = max(revision, self._revisions.get(tenant, 0))

    def learn(self, record: TenantRecord, revision: int) -> None:
        """Apply the record of a tenant as of a revision. Older revisions than the known one are ignored.

        The writer of a record calls this before the watch of the store does.
        """
        if revision <= self._revisions.get(record.name, 0):
            return
        self._revisions[record.name] = revision
        self._forget(record.name)
        if record.phase == "Creating":
            self._creating.add(record.name)
        if record.phase in LEAVING:
            self._deleting.add(record.name)
            self._deletion_started.set()
        if record.phase == "Draining":
            self._ids[record.name] = _NO_IDS
        if record.phase != "Ready" or record.authority is None or record.signer is None:
            return
        if self._folder:
            self._folder.add(record.authority.certificate.encode())
        self._learn_settings(record)
        self._ids[record.name] = _Ids(record.authority.id, record.signer.id, record.uid)
        self._authorities[record.authority.id] = record.name
        self._signers[record.signer.id] = record.name

    def _learn_settings(self, record: TenantRecord) -> None:
        """Apply the settings of a tenant whose credentials are valid."""
        if record.controllers == "external":
            self._external.add(record.name)
        if record.nodes == "own":
            self._own_nodes.add(record.name)
        if record.upstream is not None:
            self._upstreams.add(record.name)
            self.external_changes += 1
            if record.upstream.readable:
                self._readable[record.name] = readable_of(record.name, record.uid, record.upstream)
        if record.request_limits is not None:
            self._limits[record.name] = record.request_limits
        if record.weight != 1:
            self._weights[record.name] = record.weight
        if record.suspended:
            self._suspended.add(record.name)
        if record.aside:
            self._aside[record.name] = record.aside

    def _forget(self, tenant: str) -> None:
        """Forget a tenant, so that its credentials are no longer valid."""
        self._records.pop(tenant, None)
        self._external.discard(tenant)
        self._own_nodes.discard(tenant)
        if tenant in self._upstreams:
            self.external_changes += 1
        self._upstreams.discard(tenant)
        self._readable.pop(tenant, None)
        self._limits.pop(tenant, None)
        self._weights.pop(tenant, None)
        self._suspended.discard(tenant)
        self._aside.pop(tenant, None)
        self._creating.discard(tenant)
        self._deleting.discard(tenant)
        ids = self._ids.pop(tenant, None)
        if ids:
            self._authorities.pop(ids.authority, None)
            self._signers.pop(ids.signer, None)

    def exists(self, tenant: str) -> bool:
        """Tell whether a tenant exists. A tenant that is being deleted still exists."""
        return tenant in self._ids

    def admits(self, tenant: str) -> bool:
        """Tell whether a tenant exists and is not being deleted, so that its users are authenticated."""
        return tenant in self._ids and tenant not in self._deleting

    def authorizes(self, tenant: str) -> bool:
        """Tell whether requests of a tenant's users are authorized by its objects in the store."""
        return self.admits(tenant) and not self.is_external(tenant)

    def uid(self, tenant: str) -> str:
        """Return the UID of a tenant, or an empty text if it does not exist or is being deleted."""
        ids = self._ids.get(tenant)
        return ids.uid if ids is not None else ""

    def limits(self, tenant: str) -> TenantLimits | None:
        """Return the limits of a tenant's requests that its record has, or None if the defaults apply."""
        return self._limits.get(tenant)

    def weight(self, tenant: str) -> int:
        """Return the weight of a tenant among all tenants."""
        return self._weights.get(tenant, 1)

    def deleting(self) -> Sequence[str]:
        """Return the tenants that are being deleted, in order."""
        return sorted(self._deleting)

    async def wait_for_deletion(self) -> None:
        """Wait until a tenant is being deleted."""
        while not self._deleting:
            self._deletion_started.clear()
            await self._deletion_started.wait()

    def has_external_controllers(self, tenant: str) -> bool:
        """Tell whether a tenant runs its own controllers, so that vcsync runs none for it."""
        return tenant in self._external

    def has_only_virtual_nodes(self, tenant: str) -> bool:
        """Tell whether vcsync's roles write all nodes of a tenant, and its controllers are vcsync's.

        Users of such a tenant do not have all built-in resources; see `tenants.builtin_resources`.
        """
        own = tenant in self._own_nodes or tenant in self._external or tenant in self._upstreams
        return tenant != SYSTEM and not own

    def is_external(self, tenant: str) -> bool:
        """Tell whether a tenant's control plane is external, so that its requests are forwarded."""
        return tenant in self._upstreams

    def external_names(self) -> list[str]:
        """Return the names of all tenants with external control planes in order."""
        return sorted(self._upstreams)

    def readable(self) -> list[Readable]:
        """Return the external control planes that lists and watches over all tenants include, in the order of names."""
        return [self._readable[name] for name in sorted(self._readable)]

    def is_suspended(self, tenant: str) -> bool:
        """Tell whether a tenant is suspended, so that its users may only read."""
        return tenant in self._suspended

    def why_aside(self, tenant: str) -> str:
        """Return why a tenant is set aside, or an empty text if it is not."""
        return self._aside.get(tenant, "")

    def aside(self) -> int:
        """Return the number of tenants that are set aside."""
        return len(self._aside)

    def embedded_names(self) -> list[str]:
        """Return the names of all tenants with embedded control planes in order, like `names`."""
        return sorted(self._ids.keys() - self._upstreams)

    def names(self) -> list[str]:
        """Return the names of all tenants in order, including `system` and those that are being deleted."""
        return sorted(self._ids)

    def spaces(self) -> list[str]:
        """Return the names of all tenants in order, including those that are being created or deleted."""
        return sorted(self._ids.keys() | self._creating | self._deleting)

    def by_authority(self, identifier: str) -> str | None:
        """Return the tenant whose authority has this subject key identifier (hex)."""
        return self._authorities.get(identifier)

    def by_signer(self, identifier: str) -> str | None:
        """Return the tenant whose tokens have this key id."""
        return self._signers.get(identifier)

    async def credentials(self, tenant: str) -> Credentials | None:
        """Return the record and keys of a tenant, or None if it does not exist.

        Raises:
            StoreError: The store cannot be read.
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
        """Return a TLS context for a server that accepts client certificates of every tenant, including later ones.

        The issuer of a certificate decides in each request which tenant it belongs to.

        Args:
            certificate: File of the serving certificate.
            key: File of its key.
            authorities: Folder for the certificate authorities of the tenants, which this method fills.

        Raises:
            OSError: The files cannot be read or written.
            StoreError: The store cannot be read.
        """
        context = BoundedContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        context.load_cert_chain(certificate, key)
        context.verify_mode = ssl.CERT_OPTIONAL
        # No client could resume a session, and packing client certificates into tickets is expensive.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
        self._folder = await asyncio.to_thread(AuthorityFolder, authorities)
        found = [
            record.authority.certificate.encode() async for record, _ in self.records() if record.authority
        ]
        await asyncio.to_thread(self._folder.fill, found)
        context.load_verify_locations(capath=authorities)
        return context


def readable_of(tenant: str, uid: str, upstream: Upstream) -> Readable:
    """Return what lists and watches over all tenants know of an external control plane."""
    digest = hashlib.blake2b(f"{uid}\0{upstream.server}".encode(), digest_size=READABLE_ID_BYTES)
    return Readable(tenant, digest.digest(), upstream.readable)
