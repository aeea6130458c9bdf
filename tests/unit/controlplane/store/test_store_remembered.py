"""What the store remembers of what was read: never less new than what it has answered."""

import asyncio

import pytest

from vcsync.controlplane.store.interface import Change, Compare, Delete, Put, Record
from vcsync.controlplane.store.remembered import (
    FEW,
    MOST_BYTES,
    MOST_BYTES_IN_ALL,
    MOST_PLACES,
    MOST_WRITTEN_BYTES,
    Remembered,
)
from vcsync.controlplane.store.sqlite import open_sqlite


def record(key: str, size: int = 1) -> Record:
    return Record(key, b"x" * size, 1, 1)


def change(key: str, value: bytes | None, revision: int = 2) -> Change:
    return Change(revision, key, value, b"x", 1)


def told(remembered: Remembered, place: str) -> list[tuple[str, bytes]] | None:
    found = remembered.get(place)
    return None if found is None else [(each.key, each.value) for each in found]


def test_a_change_is_seen_at_its_key_and_at_every_place_above():
    remembered = Remembered()
    above = ("", "a/", "a/core/", "a/core/pods/", "a/core/pods/n/")
    for place in (*above, "a/core/pods/other/", "b/core/pods/n/"):
        remembered.put(place, [record("a/core/pods/n/p")])
    remembered.note([change("a/core/pods/n/p", b"y")])
    for place in (*above, "a/core/pods/n/p"):
        assert told(remembered, place) == [("a/core/pods/n/p", b"y")]
    for place in ("a/core/pods/other/", "b/core/pods/n/"):
        assert told(remembered, place) == [("a/core/pods/n/p", b"x")]
    remembered.note([change("a/core/pods/n/a", b"1"), change("a/core/pods/n/z", b"2")])
    assert told(remembered, "a/core/pods/n/") == [
        ("a/core/pods/n/a", b"1"),
        ("a/core/pods/n/p", b"y"),
        ("a/core/pods/n/z", b"2"),
    ]
    remembered.note([change("a/core/pods/n/p", None)])
    assert told(remembered, "a/core/pods/n/") == [("a/core/pods/n/a", b"1"), ("a/core/pods/n/z", b"2")]
    assert remembered.get("a/core/pods/n/p") is None


def test_many_records_are_read_anew_after_a_change():
    remembered = Remembered()
    remembered.put("many/", [record(f"many/{number:02}") for number in range(FEW)])
    remembered.note([change("many/03", b"y")])
    assert remembered.get("many/") is None


def test_what_was_read_is_forgotten_with_the_first_change():
    remembered = Remembered()
    remembered.put("a", [record("a")])
    remembered.put("gone", ())
    remembered.note([change("a", None), change("gone", b"back"), change("large", b"x" * (MOST_BYTES + 1))])
    assert remembered.get("a") is None
    assert told(remembered, "gone") == [("gone", b"back")]
    assert remembered.get("large") is None
    remembered.note([change("gone", b"x" * (MOST_BYTES + 1))])
    assert remembered.get("gone") is None


def test_what_was_written_first_is_forgotten_first():
    remembered = Remembered()
    number = MOST_WRITTEN_BYTES // MOST_BYTES
    for each in range(number + 1):
        remembered.note([change(f"{each}", b"x" * MOST_BYTES)])
    assert [each for each in range(number + 1) if remembered.get(f"{each}") is None] == [0]
    for each in range(2 * MOST_PLACES):
        remembered.note([change(f"small/{each}", b"x")])
    assert remembered.get("small/0") is None
    assert len(remembered._written) == MOST_PLACES
    assert remembered._written_bytes == sum(len(each.value) for each in remembered._written.values())


def test_that_there_is_nothing_is_remembered_too():
    remembered = Remembered()
    remembered.put("a/core/limitranges/n/", [])
    assert remembered.get("a/core/limitranges/n/") == ()
    assert remembered.get("a/core/limitranges/") is None


def test_memory_is_bounded():
    remembered = Remembered()
    remembered.put("large", [record("large", MOST_BYTES + 1)])
    assert remembered.get("large") is None
    for number in range(2 * MOST_BYTES_IN_ALL // MOST_BYTES):
        remembered.put(f"{number}", [record(f"{number}", MOST_BYTES)])
    assert remembered._bytes <= MOST_BYTES_IN_ALL


@pytest.fixture
async def store(tmp_path):
    opened = await open_sqlite(tmp_path / "store.db", sweep_seconds=None)
    yield opened
    await opened.close()


async def test_whoever_was_answered_finds_what_it_wrote(store):
    async def writer(name: str) -> None:
        key = f"a/core/things/{name}"
        for number in range(30):
            before = await store.known(key)
            revision = before.revision if before else 0
            outcome = await store.txn([Compare(key, revision)], [Put(key, b"%d" % number)])
            assert outcome.done
            assert (await store.known(key)).value == b"%d" % number
            below = {each.key: each.value for each in await store.known_below("a/core/things/")}
            assert below[key] == b"%d" % number
        await store.txn([], [Delete(key)])
        assert await store.known(key) is None

    async with asyncio.timeout(60):
        await asyncio.gather(*(writer(f"w{number}") for number in range(8)))
    assert not await store.known_below("a/core/things/")
