"""The read cache of a store is never older than a write that the store has acknowledged."""

import asyncio

import pytest

from vcsync.apiserver.storage.interface import Change, Compare, Delete, Put, Record
from vcsync.apiserver.storage.read_cache import (
    FEW,
    MOST_BYTES,
    MOST_BYTES_IN_ALL,
    MOST_PLACES,
    MOST_WRITTEN_BYTES,
    RecordCache,
)
from vcsync.apiserver.storage.sqlite import open_sqlite


def record(key: str, size: int = 1) -> Record:
    return Record(key, b"x" * size, 1, 1)


def change(key: str, value: bytes | None, revision: int = 2) -> Change:
    return Change(revision, key, value, b"x", 1)


def cached(cache: RecordCache, place: str) -> list[tuple[str, bytes]] | None:
    found = cache.get(place)
    return None if found is None else [(each.key, each.value) for each in found]


def test_a_change_updates_its_key_and_every_prefix_above_it():
    cache = RecordCache()
    above = ("", "a/", "a/core/", "a/core/pods/", "a/core/pods/n/")
    for place in (*above, "a/core/pods/other/", "b/core/pods/n/"):
        cache.put(place, [record("a/core/pods/n/p")])
    cache.note([change("a/core/pods/n/p", b"y")])
    for place in (*above, "a/core/pods/n/p"):
        assert cached(cache, place) == [("a/core/pods/n/p", b"y")]
    for place in ("a/core/pods/other/", "b/core/pods/n/"):
        assert cached(cache, place) == [("a/core/pods/n/p", b"x")]
    cache.note([change("a/core/pods/n/a", b"1"), change("a/core/pods/n/z", b"2")])
    assert cached(cache, "a/core/pods/n/") == [
        ("a/core/pods/n/a", b"1"),
        ("a/core/pods/n/p", b"y"),
        ("a/core/pods/n/z", b"2"),
    ]
    cache.note([change("a/core/pods/n/p", None)])
    assert cached(cache, "a/core/pods/n/") == [("a/core/pods/n/a", b"1"), ("a/core/pods/n/z", b"2")]
    assert cache.get("a/core/pods/n/p") is None


def test_a_large_entry_is_dropped_by_a_change():
    cache = RecordCache()
    cache.put("many/", [record(f"many/{number:02}") for number in range(FEW)])
    cache.note([change("many/03", b"y")])
    assert cache.get("many/") is None


def test_a_change_replaces_the_cached_record():
    cache = RecordCache()
    cache.put("a", [record("a")])
    cache.put("gone", ())
    cache.note([change("a", None), change("gone", b"back"), change("large", b"x" * (MOST_BYTES + 1))])
    assert cache.get("a") is None
    assert cached(cache, "gone") == [("gone", b"back")]
    assert cache.get("large") is None
    cache.note([change("gone", b"x" * (MOST_BYTES + 1))])
    assert cache.get("gone") is None


def test_the_oldest_written_record_is_dropped_first():
    cache = RecordCache()
    number = MOST_WRITTEN_BYTES // MOST_BYTES
    for each in range(number + 1):
        cache.note([change(f"{each}", b"x" * MOST_BYTES)])
    assert [each for each in range(number + 1) if cache.get(f"{each}") is None] == [0]
    for each in range(2 * MOST_PLACES):
        cache.note([change(f"small/{each}", b"x")])
    assert cache.get("small/0") is None
    assert len(cache._written) == MOST_PLACES
    assert cache._written_bytes == sum(len(each.value) for each in cache._written.values())


def test_the_absence_of_records_is_cached_too():
    cache = RecordCache()
    cache.put("a/core/limitranges/n/", [])
    assert cache.get("a/core/limitranges/n/") == ()
    assert cache.get("a/core/limitranges/") is None


def test_memory_is_bounded():
    cache = RecordCache()
    cache.put("large", [record("large", MOST_BYTES + 1)])
    assert cache.get("large") is None
    for number in range(2 * MOST_BYTES_IN_ALL // MOST_BYTES):
        cache.put(f"{number}", [record(f"{number}", MOST_BYTES)])
    assert cache._bytes <= MOST_BYTES_IN_ALL


@pytest.fixture
async def store(tmp_path):
    opened = await open_sqlite(tmp_path / "store.db", sweep_seconds=None)
    yield opened
    await opened.close()


async def test_a_writer_reads_its_own_writes(store):
    async def writer(name: str) -> None:
        key = f"a/core/things/{name}"
        for number in range(30):
            before = await store.get_cached(key)
            revision = before.revision if before else 0
            outcome = await store.txn([Compare(key, revision)], [Put(key, b"%d" % number)])
            assert outcome.done
            assert (await store.get_cached(key)).value == b"%d" % number
            below = {each.key: each.value for each in await store.range_cached("a/core/things/")}
            assert below[key] == b"%d" % number
        await store.txn([], [Delete(key)])
        assert await store.get_cached(key) is None

    async with asyncio.timeout(60):
        await asyncio.gather(*(writer(f"w{number}") for number in range(8)))
    assert not await store.range_cached("a/core/things/")


def test_the_size_of_the_cache_is_exact_after_every_change():
    cache = RecordCache()
    for number in range(20):
        place, size = f"a/{number % 5}", 10 * number
        cache.put("a/", [record(f"a/{each}", each + 1) for each in range(5)])
        cache.put(place, [record(place, size)])
        cache.note([change(place, b"y" * size), change(f"a/{(number + 1) % 5}", None)])
        assert cache._bytes == sum(len(each.value) for found in cache._places.values() for each in found)
        assert cache._written_bytes == sum(len(each.value) for each in cache._written.values())
