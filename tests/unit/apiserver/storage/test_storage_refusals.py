"""The errors of a store, the end of a batch of changes, and reads that are cached."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

from vcsync.apiserver.storage import read_cache
from vcsync.apiserver.storage.interface import FutureRevision, Page, Put, Record, StoreUnavailable
from vcsync.apiserver.storage.read_cache import RecordCache
from vcsync.apiserver.storage.sqlite import SqliteStore, open_sqlite
from vcsync.apiserver.storage.sqlite_reads import Reader


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await open_sqlite(tmp_path / "store.db", sweep_seconds=None)
    yield opened
    await opened.close()


def record(key: str, size: int) -> Record:
    return Record(key, b"x" * size, 1, 1)


def snapshot(reader: Reader) -> None:
    with reader.snapshot():
        raise AssertionError("it was read")


def test_the_error_about_a_future_revision_names_the_newest_one() -> None:
    error = FutureRevision(7)
    assert (str(error), error.current) == ("revision is in the future; the newest is 7", 7)


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(lambda reader: reader.get("a/core/pods/n/p"), id="one key"),
        pytest.param(snapshot, id="a snapshot"),
    ],
)
def test_the_error_about_an_unreadable_database_names_the_reason(read: Callable[[Reader], Any]) -> None:
    with pytest.raises(StoreUnavailable) as caught:
        read(Reader(apsw.Connection(":memory:")))
    assert str(caught.value).startswith("the database cannot be read: ")
    assert "no such table" in str(caught.value)


async def test_a_batch_of_changes_ends_with_the_revision_of_its_last_one(store: SqliteStore) -> None:
    revisions = [(await store.txn([], [Put(f"a/core/pods/n/{name}", b"1")])).revision for name in "pqrs"]
    for limit in (1, 2, 3):
        batch = store._reader.changes("", revisions[0] - 1, revisions[-1], limit)
        assert [each.revision for each in batch] == revisions[:limit]
        assert batch.revision == revisions[limit - 1]
    whole = store._reader.changes("", revisions[0] - 1, revisions[-1], 10)
    assert (len(list(whole)), whole.revision) == (4, revisions[-1])


async def test_changes_of_one_transaction_are_in_one_batch(store: SqliteStore) -> None:
    names = [f"a/core/pods/n/{name}" for name in "pqr"]
    first = await store.txn([], [Put(name, b"1") for name in names])
    await store.txn([], [Put(names[0], b"2")])
    batch = store._reader.changes("", first.revision - 1, first.revision + 1, 2)
    assert [each.key for each in batch] == names
    assert batch.revision == first.revision


async def test_range_cached_reads_a_prefix_once(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    await store.txn([], [Put("a/core/pods/n/p", b"1")])
    before: Sequence[Record] = await store.range_cached("a/core/pods/n/")

    async def read(*_: object, **__: object) -> Page:
        raise AssertionError("it was read again")

    monkeypatch.setattr(store, "range", read)
    assert await store.range_cached("a/core/pods/n/") == before
    assert [each.key for each in before] == ["a/core/pods/n/p"]


def test_the_read_cache_is_cleared_when_it_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_cache, "MOST_BYTES_IN_ALL", 100)
    cache = RecordCache()
    cache.put("a", [record("a", 60)])
    cache.put("b", [record("b", 40)])
    assert cache.get("a") is not None, "it fits"
    cache.put("c", [record("c", 1)])
    assert (cache.get("a"), cache.get("b")) == (None, None)
    assert cache.get("c") is not None
