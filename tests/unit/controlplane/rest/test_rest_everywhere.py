"""A list of all tenants is of a time at which all tenants are known: what came later comes by the watch."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from vcsync.controlplane.behaviour import Context, User
from vcsync.controlplane.identity.caller import ALL
from vcsync.controlplane.rest.options import ListOptions, list_options
from vcsync.controlplane.rest.reading import Reader
from vcsync.controlplane.rest.scope import Scope
from vcsync.controlplane.rest.selection import Selection
from vcsync.controlplane.rest.space import builtin_kinds
from vcsync.controlplane.store.interface import Put
from vcsync.controlplane.store.sqlite import SqliteStore, open_sqlite

EVERYWHERE = Scope(ALL, builtin_kinds()["", "v1", "namespaces"], Context(ALL, User("system"), "now"))


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    found = await open_sqlite(tmp_path / "store.db", sweep_seconds=None)
    yield found
    await found.close()


async def test_what_was_written_after_the_last_tenant_that_is_known_is_left_to_the_watch(
    store: SqliteStore,
) -> None:
    body = b'{"metadata":{"name":"default"}}'
    known = (await store.txn([], [Put("acme/core/namespaces/default", body)])).revision
    # The tenant b is being made: the registry has not been told of it yet.
    await store.txn([], [Put("b/core/namespaces/default", body)])
    reader = Reader(store, lambda: ["acme"], told=lambda: known)
    listed = await reader.collection(EVERYWHERE, ListOptions(), Selection())
    assert [record.key for record in listed.records] == ["acme/core/namespaces/default"]
    assert listed.revision == known


async def test_a_list_waits_for_tenants_that_are_about_to_be_known(store: SqliteStore) -> None:
    body = b'{"metadata":{"name":"default"}}'
    first = (await store.txn([], [Put("acme/core/namespaces/default", body)])).revision
    newest = (await store.txn([], [Put("b/core/namespaces/default", body)])).revision
    told = iter([first, first, first])
    reader = Reader(store, lambda: ["acme", "b"], told=lambda: next(told, newest))
    listed = await reader.collection(EVERYWHERE, list_options({}), Selection())
    assert len(listed.records) == 2
    assert listed.revision == newest
