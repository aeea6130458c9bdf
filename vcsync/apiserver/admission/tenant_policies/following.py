"""Follows the TenantPolicies of the operator's space, and tells which of them apply to a tenant.

Policies are read at the first write and followed by the changes of the store. Without policies, a write costs one look at
an attribute. Until policies have been read again after a change, writes wait.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, Final

import msgspec

from vcsync.api.resources import TENANT_POLICIES, TENANTS
from vcsync.apimachinery.resources import collection_key, custom_group
from vcsync.apiserver.admission.tenant_policies.compiled import TenantPolicy, read_policy
from vcsync.apiserver.request.caller import ALL, SYSTEM
from vcsync.apiserver.storage.interface import Change, Record, Store
from vcsync.apiserver.tenants import records

POLICIES: Final = collection_key(SYSTEM, custom_group(TENANT_POLICIES.group), TENANT_POLICIES.plural)
TENANT_OBJECTS: Final = collection_key(SYSTEM, custom_group(TENANTS.group), TENANTS.plural)
FOLLOWED: Final = (POLICIES, TENANT_OBJECTS, records.TENANTS)
"""Prefixes of the keys whose changes matter here."""
PAGE: Final = 200
"""Records that are read from the store at once."""
_NO_LABELS: Final[Mapping[str, str]] = {}


class _Metadata(msgspec.Struct):
    uid: str = ""
    labels: dict[str, str] = {}


class _Labelled(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _Stored(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: msgspec.Raw = msgspec.Raw(b"null")


class _Tenant(msgspec.Struct):
    nodes: str = "virtual"
    upstream: dict[str, Any] | None = None


_labelled = msgspec.json.Decoder(_Labelled).decode
_stored = msgspec.json.Decoder(_Stored).decode
_tenant = msgspec.json.Decoder(_Tenant).decode


class Snapshot:
    """The policies, and what selects the tenants to which they apply.

    Attributes:
        policies: The compiled policies, by name.
        embedded: The tenants with embedded control planes. They are read only if there are policies.
    """

    def __init__(self) -> None:
        self.policies: list[TenantPolicy] = []
        self._specs: dict[str, bytes] = {}
        self.embedded: set[str] = set()
        self._labels: dict[str, Mapping[str, str]] = {}
        self._own_nodes: set[str] = set()
        self._revisions: dict[str, int] = {}
        self._selected: dict[str, tuple[TenantPolicy, ...]] = {}

    def of(self, tenant: str) -> tuple[TenantPolicy, ...]:
        """Return the policies that apply to a tenant."""
        found = self._selected.get(tenant)
        if found is None:
            labels, own = self._labels.get(tenant, _NO_LABELS), tenant in self._own_nodes
            found = tuple(
                each for each in self.policies if each.selection.selects(tenant, labels, own_nodes=own)
            )
            self._selected[tenant] = found
        return found

    def add(self, record: Record) -> None:
        """Add a stored policy."""
        name = record.key.removeprefix(POLICIES)
        try:
            stored = _stored(record.value)
        except msgspec.MsgspecError:
            self.policies.append(TenantPolicy(name, broken="it cannot be read"))
            return
        self._specs[name] = bytes(stored.spec)
        key = (f"tenantpolicies/{stored.metadata.uid}", record.revision)
        self.policies.append(read_policy(name, key, msgspec.json.decode(stored.spec)))

    def knows(self, change: Change) -> bool:
        """Return whether a change of a policy leaves its spec as it is known, as the change of a status does."""
        known = self._specs.get(change.key.removeprefix(POLICIES))
        return known is not None and change.value is not None and bytes(_stored(change.value).spec) == known

    def count(self, policy: TenantPolicy) -> int:
        """Return how many tenants with embedded control planes a policy selects."""
        return sum(policy in self.of(tenant) for tenant in self.embedded)

    def take(self, key: str, revision: int, value: bytes | None) -> None:
        """Apply a change of a Tenant object or of the record of a tenant. Older ones than the known one are ignored."""
        if revision <= self._revisions.get(key, 0):
            return
        self._revisions[key] = revision
        if key.startswith(TENANT_OBJECTS):
            tenant = key.removeprefix(TENANT_OBJECTS)
            labels = _labelled(value).metadata.labels if value is not None else _NO_LABELS
            if labels == self._labels.get(tenant, _NO_LABELS):
                return
            self._labels[tenant] = labels
        else:
            tenant = key.removeprefix(records.TENANTS)
            record = None if value is None else _tenant(value)
            embedded = record is not None and record.upstream is None and tenant != SYSTEM
            (self.embedded.add if embedded else self.embedded.discard)(tenant)
            own = record is not None and record.nodes == "own"
            if own == (tenant in self._own_nodes):
                return
            (self._own_nodes.add if own else self._own_nodes.discard)(tenant)
        self._selected.pop(tenant, None)


class TenantPolicies:
    """The policies of the operator's space.

    Args:
        store: The store.

    Attributes:
        idle: Whether there are no policies, so that there is nothing to enforce.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._snapshot: Snapshot | None = None
        self._loading: list[Snapshot] = []
        self._lock = asyncio.Lock()
        self._missed = 0
        self.idle = False

    async def of(self, tenant: str) -> tuple[TenantPolicy, ...]:
        """Return the policies that apply to the writes of a tenant. None apply to the operator's space.

        Raises:
            StoreError: The store cannot be read.
        """
        if tenant in (SYSTEM, ALL):
            return ()
        return (self._snapshot or await self.load()).of(tenant)

    async def load(self) -> Snapshot:
        """Read the policies, unless they are known.

        Raises:
            StoreError: The store cannot be read.
        """
        async with self._lock:
            return self._snapshot or await self._load()

    async def _load(self) -> Snapshot:
        missed = self._missed
        found = Snapshot()
        async for each in self._records(POLICIES):
            found.add(each)
        if found.policies:
            self._loading.append(found)
            try:
                for prefix in (TENANT_OBJECTS, records.TENANTS):
                    async for each in self._records(prefix):
                        found.take(each.key, each.revision, each.value)
            finally:
                self._loading.remove(found)
        if missed == self._missed:
            self._snapshot, self.idle = found, not found.policies
        return found

    async def _records(self, prefix: str) -> AsyncIterator[Record]:
        after, revision = "", 0
        while True:
            page = await self._store.range(prefix, after=after, limit=PAGE, revision=revision, counted=False)
            for each in page.records:
                yield each
            if not page.more:
                return
            after, revision = page.records[-1].key, page.revision

    def changed(self, changes: Iterable[Change]) -> None:
        """Apply changes of the store."""
        for change in changes:
            if not change.key.startswith(FOLLOWED):
                continue
            if change.key.startswith(POLICIES):
                if self._snapshot is None or not self._snapshot.knows(change):
                    self.forget()
            elif not self.idle:
                for each in (self._snapshot, *self._loading):
                    if each is not None:
                        each.take(change.key, change.revision, change.value)

    def forget(self) -> None:
        """Drop everything, because policies changed or changes were missed. The next write reads it again."""
        self._missed += 1
        self._snapshot, self.idle = None, False
