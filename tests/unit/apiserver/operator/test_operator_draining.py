"""Remains of a tenant that is being deleted."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vcsync.apiserver.operator.draining import BUILT_IN, Remaining, drain, remaining, sweep
from vcsync.apiserver.storage.interface import Compare, Put
from vcsync.apiserver.storage.sqlite import SqliteStore, open_sqlite

NOW = "2026-01-01T00:00:00Z"
CRD = "acme/apiextensions.k8s.io/customresourcedefinitions/widgets.example.com"
NAMESPACE = "acme/core/namespaces/shop"
WIDGET = "acme/example.com/widgets/shop/one"
POD = "acme/core/pods/shop/web"
OTHERS = "acme2/core/pods/shop/web"
GUARD = Compare("~vcsync/tenants/acme", 0)


@pytest.fixture
async def store(tmp_path: Path) -> Any:
    found = await open_sqlite(tmp_path / "store.db", sweep_seconds=None)
    yield found
    await found.close()


async def put(store: SqliteStore, key: str, *finalizers: str) -> None:
    metadata = {"name": key.rsplit("/", 1)[1], **({"finalizers": finalizers} if finalizers else {})}
    await store.txn([], [Put(key, msgspec.json.encode({"metadata": metadata}))])


async def keys(store: SqliteStore) -> list[str]:
    return [record.key for record in (await store.range("")).records]


async def test_what_nobody_holds_goes_and_other_tenants_keep_theirs(store: SqliteStore) -> None:
    for key in (CRD, NAMESPACE, WIDGET, POD, OTHERS):
        await put(store, key)
    assert await drain(store, "acme", NOW, GUARD) == Remaining()
    assert await keys(store) == [OTHERS]


async def test_what_is_held_is_marked_and_stays_with_what_it_is_reached_by(store: SqliteStore) -> None:
    await put(store, CRD)
    await put(store, NAMESPACE)
    await put(store, POD)
    await put(store, WIDGET, "example.com/keep", "orphan")
    left = await drain(store, "acme", NOW, GUARD)
    assert left == Remaining(1, (("example.com/keep", 1),))
    assert await keys(store) == [CRD, NAMESPACE, WIDGET]
    found, _ = await store.get(WIDGET)
    assert found is not None
    metadata = msgspec.json.decode(found.value)["metadata"]
    assert metadata["deletionTimestamp"] == NOW
    assert metadata["finalizers"] == ["example.com/keep", "orphan"]


async def test_it_is_marked_once(store: SqliteStore) -> None:
    await put(store, WIDGET, "example.com/keep")
    await drain(store, "acme", NOW, GUARD)
    first, _ = await store.get(WIDGET)
    await drain(store, "acme", "2026-01-01T00:00:05Z", GUARD)
    second, _ = await store.get(WIDGET)
    assert first == second


async def test_what_was_let_go_goes_with_all_that_waited_for_it(store: SqliteStore) -> None:
    await put(store, CRD, "customresourcecleanup.apiextensions.k8s.io")
    await put(store, NAMESPACE)
    await put(store, WIDGET, "example.com/keep")
    await drain(store, "acme", NOW, GUARD)
    await put(store, WIDGET)
    assert await drain(store, "acme", NOW, GUARD) == Remaining()
    assert await keys(store) == []


async def test_a_namespace_or_definition_that_is_held_is_waited_for_too(store: SqliteStore) -> None:
    await put(store, NAMESPACE, "example.com/audit")
    await put(store, CRD)
    assert await drain(store, "acme", NOW, GUARD) == Remaining(1, (("example.com/audit", 1),))
    assert await keys(store) == [NAMESPACE]


class Racing:
    """A store in which somebody changes an object while it is being drained."""

    def __init__(self, store: SqliteStore, key: str) -> None:
        self._store, self._key = store, key

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def txn(self, compare: Any, writes: Any) -> Any:
        if self._key:
            key, self._key = self._key, ""
            await put(self._store, key, "example.com/late")
        return await self._store.txn(compare, writes)


async def test_what_changes_meanwhile_is_looked_at_again(store: SqliteStore) -> None:
    await put(store, NAMESPACE)
    await put(store, POD)
    await put(store, WIDGET)
    racing: Any = Racing(store, WIDGET)
    assert (await drain(racing, "acme", NOW, GUARD)).objects == 1
    assert await keys(store) == [NAMESPACE, WIDGET]
    assert await drain(store, "acme", NOW, GUARD) == Remaining(1, (("example.com/late", 1),))


async def test_a_look_counts_what_is_held_without_touching_it(store: SqliteStore) -> None:
    await put(store, NAMESPACE)
    await put(store, POD)
    await put(store, WIDGET, "example.com/keep")
    assert await remaining(store, "acme", 100) == Remaining(2, (("example.com/keep", 1),))
    assert (await remaining(store, "acme", 1)).more
    assert len(await keys(store)) == 3


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
@given(st.lists(st.sampled_from(["", "example.com/a", *sorted(BUILT_IN)]), max_size=300))
async def test_only_foreign_finalizers_hold(store: SqliteStore, finalizers: list[str]) -> None:
    for number, finalizer in enumerate(finalizers):
        await put(store, f"acme/core/configmaps/shop/c{number}", *([finalizer] if finalizer else []))
    held = finalizers.count("example.com/a")
    left = await drain(store, "acme", NOW, GUARD)
    assert left.objects == held
    assert len(await keys(store)) == held
    for key in await keys(store):
        await put(store, key)
    assert await drain(store, "acme", NOW, GUARD) == Remaining()


async def test_nothing_is_written_once_the_record_is_another(store: SqliteStore) -> None:
    await put(store, POD)
    await put(store, GUARD.key)
    assert (await drain(store, "acme", NOW, GUARD)).objects == 1
    assert not await sweep(store, "acme", GUARD)
    assert await keys(store) == [POD, GUARD.key]


async def test_a_sweep_asks_nobody(store: SqliteStore) -> None:
    await put(store, WIDGET, "example.com/keep")
    assert await sweep(store, "acme", GUARD)
    assert await keys(store) == []
