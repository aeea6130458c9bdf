"""A list of all tenants has a revision at which all tenants are known. A watch delivers later changes."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from vcsync.apimachinery.strategy import Context, User
from vcsync.apiserver.discovery.served import builtin_kinds
from vcsync.apiserver.registry.reading import Reader
from vcsync.apiserver.registry.selection import Selection
from vcsync.apiserver.request.caller import ALL
from vcsync.apiserver.request.options import ListOptions, list_options
from vcsync.apiserver.request.scope import Scope
from vcsync.apiserver.storage.interface import Put
from vcsync.apiserver.storage.sqlite import SqliteStore, open_sqlite

EVERYWHERE = Scope(ALL, builtin_kinds()["", "v1", "namespaces"], Context(ALL, User("system"), "now"))


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    found = await open_sqlite(tmp_path / "store.db", sweep_seconds=None)
    yield found
    await found.close()


async def test_a_list_leaves_out_changes_that_are_newer_than_the_known_tenants(store: SqliteStore) -> None:
    body = b'{"metadata":{"name":"default"}}'
    known = (await store.txn([], [Put("acme/core/namespaces/default", body)])).revision
    # Tenant b is being created. The registry of tenants does not know it yet.
    await store.txn([], [Put("b/core/namespaces/default", body)])
    reader = Reader(store, lambda: ["acme"], known_revision=lambda: known)
    listed = await reader.collection(EVERYWHERE, ListOptions(), Selection())
    assert [record.key for record in listed.records] == ["acme/core/namespaces/default"]
    assert listed.revision == known


async def test_a_list_waits_until_the_newest_tenants_are_known(store: SqliteStore) -> None:
    body = b'{"metadata":{"name":"default"}}'
    first = (await store.txn([], [Put("acme/core/namespaces/default", body)])).revision
    newest = (await store.txn([], [Put("b/core/namespaces/default", body)])).revision
    revisions = iter([first, first, first])
    reader = Reader(store, lambda: ["acme", "b"], known_revision=lambda: next(revisions, newest))
    listed = await reader.collection(EVERYWHERE, list_options({}), Selection())
    assert len(listed.records) == 2
    assert listed.revision == newest
