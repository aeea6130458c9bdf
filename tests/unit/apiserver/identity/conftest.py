"""An Identity on a real store in a temporary folder, with a clock that stands still."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from vcsync.apimachinery.resources import object_key
from vcsync.apiserver.assembly.identity import Identity
from vcsync.apiserver.operator.lifecycle import Endpoint
from vcsync.apiserver.storage.interface import Batch, Change, Delete, Put, Store
from vcsync.apiserver.storage.sqlite import open_sqlite
from vcsync.apiserver.tenants.records import Authority, Signer

NOW = 1_800_000_000.0


class Clock:
    """A time that moves when told."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


class House:
    """A store with tenants `acme` and `umbrella`, and an Identity that learns of every write made here."""

    def __init__(self, store: Store, identity: Identity, clock: Clock) -> None:
        self.store, self.identity, self.clock = store, identity, clock

    async def keys(self, tenant: str) -> tuple[Authority, Signer, ec.EllipticCurvePrivateKey]:
        """Return a tenant's authority, the record of its signing key, and that key."""
        found = await self.identity.tenants.credentials(tenant)
        assert found
        assert found.record.authority
        assert found.record.signer
        assert found.signing_key
        return found.record.authority, found.record.signer, found.signing_key

    async def put(self, tenant: str, group: str, plural: str, body: dict[str, Any]) -> str:
        """Write an object as the REST server would; return its key."""
        metadata = body["metadata"]
        metadata.setdefault("uid", f"uid-of-{metadata['name']}")
        key = object_key(tenant, group, plural, metadata.get("namespace", ""), metadata["name"])
        await self._write(Put(key, msgspec.json.encode(body)))
        return key

    async def delete(self, key: str) -> None:
        """Delete an object."""
        await self._write(Delete(key))

    async def _write(self, operation: Put | Delete) -> None:
        outcome = await self.store.txn([], [operation])
        value = operation.value if isinstance(operation, Put) else None
        self.identity.changed(
            Batch([Change(outcome.revision, operation.key, value, None, 0)], outcome.revision)
        )


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    """A house with two tenants."""
    clock = Clock()
    store = await open_sqlite(tmp_path / "store.db", sweep_seconds=None)
    identity = await Identity.open(store, Endpoint("https://cp.example:6443", "192.0.2.1", 6443), clock=clock)
    for tenant in ("acme", "umbrella"):
        await identity.lifecycle.create(tenant)
    yield House(store, identity, clock)
    await store.close()
