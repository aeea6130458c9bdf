"""Reads that the etcd store serves from its watch, and their check by the commit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.unit.apiserver.storage.etcd_standin import RANGE, TXN, StandIn
from vcsync.apiserver.storage import assumptions as module
from vcsync.apiserver.storage import watched_cache
from vcsync.apiserver.storage.assumptions import AssumingStore, AssumptionFailed, Assumptions, assuming
from vcsync.apiserver.storage.etcd import EtcdStore, open_etcd
from vcsync.apiserver.storage.interface import NARROW, Batch, Change, Compare, Delete, Put, Record
from vcsync.apiserver.storage.sqlite import SqliteStore
from vcsync.apiserver.storage.watched_cache import WatchedCache


@pytest.fixture
async def etcd() -> AsyncIterator[StandIn]:
    standin = StandIn()
    await standin.start()
    yield standin
    await standin.stop()


@pytest.fixture
async def store(etcd: StandIn) -> AsyncIterator[EtcdStore]:
    opened = await open_etcd([etcd.url], pulse_seconds=3600)
    yield opened
    await opened.close()


@pytest.fixture
async def other(etcd: StandIn) -> AsyncIterator[EtcdStore]:
    opened = await open_etcd([etcd.url], pulse_seconds=3600)
    yield opened
    await opened.close()


async def caught_up(store: EtcdStore, etcd: StandIn) -> None:
    async with asyncio.timeout(20):
        while store._cache.revision < etcd.revision:
            await asyncio.sleep(0.001)


async def read_all(store: EtcdStore, *, fresh: bool = False) -> Assumptions:
    """Read a key, a missing key and a folder as a write does."""
    assumed = Assumptions(fresh=fresh)
    with assuming(assumed):
        for key in ("t/space/a", "t/space/none"):
            await store.get_cached(key)
        await store.range_cached("t/quotas/")
    return assumed


@pytest.fixture
async def known(store: EtcdStore, etcd: StandIn) -> Assumptions:
    """What a write has read of objects that the store knows from its watch."""
    await store.txn([], [Put("t/space/a", b"1"), Put("t/quotas/q", b"1"), Put("t/quotas/r", b"1")])
    await caught_up(store, etcd)
    await read_all(store)
    return await read_all(store)


def test_only_a_store_with_other_writers_assumes() -> None:
    assert issubclass(EtcdStore, AssumingStore)
    assert not issubclass(SqliteStore, AssumingStore)


async def test_what_was_read_once_is_known_from_the_watch(
    store: EtcdStore, other: EtcdStore, etcd: StandIn, known: Assumptions
) -> None:
    await other.txn([], [Put("t/space/a", b"2"), Put("t/space/none", b"2"), Put("t/quotas/new", b"2")])
    await caught_up(store, etcd)
    begun = etcd.asked[RANGE]
    with assuming(Assumptions()):
        values = [(await store.get_cached(key)) for key in ("t/space/a", "t/space/none")]
        quotas = await store.range_cached("t/quotas/")
    assert [each and each.value for each in values] == [b"2", b"2"]
    assert [each.key for each in quotas] == ["t/quotas/new", "t/quotas/q", "t/quotas/r"]
    assert etcd.asked[RANGE] == begun
    assert (await store.get_cached("t/space/a")) == values[0]
    assert etcd.asked[RANGE] == begun + 1, "outside of a write, nothing may be outdated"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(Put("t/space/a", b"2"), id="a key is changed"),
        pytest.param(Delete("t/space/a"), id="a key is deleted"),
        pytest.param(Put("t/space/none", b"2"), id="a key is created"),
        pytest.param(Put("t/quotas/q", b"2"), id="a key of a folder is changed"),
        pytest.param(Delete("t/quotas/r"), id="a key of a folder is deleted"),
        pytest.param(Put("t/quotas/new", b"2"), id="a key of a folder is created"),
    ],
)
@pytest.mark.parametrize("lost", [True, False])
async def test_a_commit_fails_if_another_process_changed_what_was_read(
    store: EtcdStore, other: EtcdStore, etcd: StandIn, known: Assumptions, change: Put | Delete, lost: bool
) -> None:
    etcd.mute = lost
    await other.txn([], [change])
    if not lost:
        await caught_up(store, etcd)
    assumed = await read_all(store) if lost else known
    assert not await store.holds(assumed)
    with assuming(assumed), pytest.raises(AssumptionFailed):
        await store.txn([Compare("t/new", 0)], [Put("t/new", b"1")])
    assert (await store.get("t/new"))[0] is None
    assert not assumed.committed
    again = await read_all(store, fresh=True)
    assert await store.holds(again)
    with assuming(again):
        assert (await store.txn([Compare("t/new", 0)], [Put("t/new", b"1")])).done
    assert again.committed


async def test_a_commit_succeeds_if_only_others_were_changed(
    store: EtcdStore, other: EtcdStore, known: Assumptions
) -> None:
    await other.txn([], [Put("t/space/b", b"1"), Put("t/quotasx/q", b"1")])
    assert await store.holds(known)
    with assuming(known):
        assert (await store.txn([], [Put("t/new", b"1")])).done


async def test_failed_conditions_are_reported_although_assumptions_fail_too(
    store: EtcdStore, other: EtcdStore, known: Assumptions
) -> None:
    await other.txn([], [Put("t/space/a", b"2"), Put("t/new", b"2")])
    with assuming(known):
        outcome = await store.txn([Compare("t/new", 0)], [Put("t/new", b"1")])
    assert [(key, record and record.value) for key, record in outcome.failed] == [("t/new", b"2")]


async def test_a_process_sees_its_own_commits_and_what_made_them_fail(
    store: EtcdStore, other: EtcdStore, etcd: StandIn, known: Assumptions
) -> None:
    etcd.mute = True
    own = await store.txn([], [Put("t/space/a", b"own")])
    with assuming(Assumptions()):
        found = await store.get_cached("t/space/a")
        assert found is not None
        assert (found.value, found.revision) == (b"own", own.revision)
    await other.txn([], [Put("t/quotas/q", b"other's")])
    with assuming(Assumptions()):
        (quota, _) = await store.range_cached("t/quotas/")
        assert quota.value == b"1"
        assert not (await store.txn([Compare(quota.key, quota.revision)], [Put(quota.key, b"own")])).done
        assert [each.value for each in await store.range_cached("t/quotas/")] == [b"other's", b"1"]


async def test_a_commit_keeps_what_was_read_valid_for_the_next_one(
    store: EtcdStore, known: Assumptions
) -> None:
    with assuming(known):
        first = [Put("t/quotas/q", b"2"), Delete("t/quotas/r"), Put("t/space/a", b"2")]
        assert (await store.txn([], first)).done
        assert (await store.txn([], [Put("t/new", b"1")])).done


async def test_the_own_object_is_not_assumed(store: EtcdStore, other: EtcdStore, known: Assumptions) -> None:
    assumed = Assumptions("t/space/a")
    with assuming(assumed):
        await store.get_cached("t/space/a")
    assert not assumed.keys
    assert await store.holds(assumed)


async def test_more_reads_than_conditions_are_read_again_and_the_first_ones_are_checked(
    store: EtcdStore, other: EtcdStore, etcd: StandIn
) -> None:
    names = [f"t/many/{number:03}" for number in range(NARROW + 1)]
    await store.txn([], [Put(name, b"") for name in names])

    async def read(*, fresh: bool) -> Assumptions:
        assumed = Assumptions(fresh=fresh)
        with assuming(assumed):
            for name in names:
                await store.get_cached(name)
        return assumed

    outdated = await read(fresh=False)
    assert not await store.holds(outdated)
    with assuming(outdated), pytest.raises(AssumptionFailed):
        await store.txn([Compare("t/new", 0)], [Put("t/new", b"1")])
    with assuming(await read(fresh=True)):
        assert (await store.txn([Compare("t/new", 0)], [Put("t/new", b"1")])).done
    changed = await read(fresh=True)
    await other.txn([], [Put(names[0], b"2")])
    with assuming(changed), pytest.raises(AssumptionFailed):
        await store.txn([Compare("t/newer", 0)], [Put("t/newer", b"1")])


async def test_wide_transactions_check_assumptions(
    store: EtcdStore, other: EtcdStore, etcd: StandIn, known: Assumptions
) -> None:
    ports = [f"a/~claims/port/{number}" for number in range(NARROW + 1)]
    wide = [Compare(each, 0) for each in ports], [Put(each, b"") for each in ports]
    await other.txn([], [Put("t/space/a", b"2")])
    begun = etcd.asked[TXN]
    with assuming(known), pytest.raises(AssumptionFailed):
        await store.txn(*wide)
    assert etcd.asked[TXN] == begun + 1
    with assuming(await read_all(store, fresh=True)):
        assert (await store.txn(*wide)).done


async def test_nothing_is_known_while_the_watch_is_interrupted_or_after_history_was_lost(
    store: EtcdStore, etcd: StandIn, known: Assumptions
) -> None:
    store._cache.interrupt()
    begun = etcd.asked[RANGE]
    await read_all(store)
    assert etcd.asked[RANGE] == begun + 3
    store._cache.forget()
    await store.txn([], [Put("t/x", b"")])
    await caught_up(store, etcd)
    begun = etcd.asked[RANGE]
    await read_all(store)
    assert etcd.asked[RANGE] == begun + 3
    await read_all(store)
    assert etcd.asked[RANGE] == begun + 3


async def test_reads_outside_are_not_noted(store: EtcdStore, known: Assumptions) -> None:
    assert module.current() is None
    with assuming(known):
        assert module.current() is known
    await store.get_cached("t/space/zzz")
    assert "t/space/zzz" not in known.keys


# ---- the cache alone ---------------------------------------------------------------------


def record(key: str, revision: int) -> Record:
    return Record(key, b"", revision, revision)


def batch(*keys: str, revision: int) -> Batch:
    return Batch([Change(revision, key, b"", None, revision) for key in keys], revision)


def test_a_read_that_the_watch_has_overtaken_is_not_remembered() -> None:
    cache = WatchedCache()
    cache.put("a", (record("a", 1),), 9)
    assert cache.get("a") is None, "the watch has not begun"
    cache.note(batch("x", revision=5))
    cache.put("a", (record("a", 1),), 4)
    assert cache.get("a") is None
    cache.put("a", (record("a", 1),), 5)
    assert cache.get("a") == (record("a", 1),)


def test_outdated_keys_are_returned_again_once_the_watch_has_reported_them() -> None:
    cache = WatchedCache()
    cache.note(batch("f/a", revision=5))
    cache.put("f/", (record("f/a", 5),), 5)
    cache.outdated(["f/a"], 5)
    assert cache.get("f/a") == (record("f/a", 5),), "it has been reported"
    cache.outdated(["f/a"], 7)
    assert (cache.get("f/a"), cache.get("f/")) == (None, None)
    cache.note(batch("x", revision=6))
    assert cache.get("f/a") is None
    cache.note(batch("f/a", revision=7))
    assert (cache.get("f/a"), cache.get("f/")) == ((record("f/a", 7),), (Record("f/a", b"", 7, 7),))


def test_a_watch_that_is_far_behind_makes_the_store_be_asked() -> None:
    cache = WatchedCache()
    cache.note(batch("a", revision=1))
    cache.outdated([f"k{number}" for number in range(watched_cache.MOST_UNSEEN)], 2)
    assert cache.get("a") is not None
    cache.outdated(["one more"], 2)
    assert cache.get("a") is None
