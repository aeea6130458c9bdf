"""The etcd store behaves like the model, and recovers from every failure of a connection."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, aclosing
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from hypothesis import settings

from tests.unit.apiserver.storage import wide_writes
from tests.unit.apiserver.storage.etcd_standin import COMPACT, NO_LEASE, PUT, RANGE, TXN, WATCH, StandIn
from tests.unit.apiserver.storage.store_model import StoreMachine
from vcsync.apiserver.storage import broadcaster, etcd_transactions
from vcsync.apiserver.storage import etcd as etcd_module
from vcsync.apiserver.storage.etcd import EtcdStore, open_etcd
from vcsync.apiserver.storage.etcd_client import EtcdError
from vcsync.apiserver.storage.interface import (
    NARROW,
    Batch,
    Change,
    Compacted,
    Compare,
    Delete,
    FutureRevision,
    Put,
    Record,
    Store,
    StoreError,
    StoreFull,
    StoreUnavailable,
    Usage,
)

SILENT = 3600.0
"""Seconds between pulses in tests without pulses."""
NO_SPACE = (grpc.StatusCode.RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded")
BUSY = (grpc.StatusCode.UNAVAILABLE, "etcdserver: no leader")
ODD = (grpc.StatusCode.INVALID_ARGUMENT, "odd")


class EtcdMachine(StoreMachine):
    TTL = False

    async def open(self) -> Store:
        self.etcd = StandIn()
        await self.etcd.start()
        return await self.reopen()

    async def reopen(self) -> Store:
        return await open_etcd([self.etcd.url], pulse_seconds=SILENT)

    async def settled(self) -> None:
        # A compacted revision cannot be watched. A watch without new changes reports its revision, too.
        after = max(self.model.revision - 1, self.model.compacted)
        async with aclosing(self.store.watch("", after, progress=0.001)) as batches:
            async for batch in batches:
                if batch.revision >= self.model.revision:
                    return

    def teardown(self) -> None:
        async def end() -> None:
            for watching in self.watching:
                await watching.batches.aclose()
            self.watching.clear()
            await self.store.close()
            await self.etcd.stop()

        self.run(end())
        self.runner.close()


class NarrowMachine(EtcdMachine):
    """The same with small pages and buffers, so that every way to continue a read is taken."""

    def __init__(self) -> None:
        self.kept = (broadcaster.MAX_PENDING, etcd_module.PAGE_RECORDS)
        broadcaster.MAX_PENDING, etcd_module.PAGE_RECORDS = 1, 2
        super().__init__()

    def teardown(self) -> None:
        broadcaster.MAX_PENDING, etcd_module.PAGE_RECORDS = self.kept
        super().teardown()


TestEtcd = EtcdMachine.TestCase
TestEtcdNarrow = NarrowMachine.TestCase
TestEtcd.settings = settings(max_examples=15, stateful_step_count=30)
TestEtcdNarrow.settings = settings(max_examples=15, stateful_step_count=30)


@pytest.fixture
async def etcd() -> AsyncIterator[StandIn]:
    standin = StandIn()
    await standin.start()
    yield standin
    await standin.stop()


Open = Callable[..., Coroutine[Any, Any, EtcdStore]]


@pytest.fixture
async def opened(etcd: StandIn, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Open]:
    """Open stores that reopen lost connections immediately."""
    monkeypatch.setattr(random, "uniform", lambda _low, _high: 0.0)
    async with AsyncExitStack() as stack:

        async def make(*urls: str, **options: Any) -> EtcdStore:
            store = await open_etcd(urls or [etcd.url], **{"pulse_seconds": SILENT, **options})
            stack.push_async_callback(store.close)
            return store

        yield make


@pytest.fixture
async def store(opened: Open) -> EtcdStore:
    return await opened()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


async def changes_of(watch: AsyncGenerator[Batch, None], count: int) -> list[Change]:
    """Return the next changes, in this number."""
    found: list[Change] = []
    async with asyncio.timeout(20):
        while len(found) < count:
            found += await anext(watch)
    return found


# ---- several processes ----------------------------------------------------------


async def test_two_processes_on_one_etcd_serve_the_same_data(opened: Open) -> None:
    one, other = await opened(), await opened()
    watches = [store.watch("t/", await store.revision()) for store in (one, other)]
    first = await one.txn([Compare("t/a", 0)], [Put("t/a", b"1")])
    second = await other.txn([Compare("t/a", first.revision)], [Put("t/a", b"2"), Put("t/b", b"\xff\x00")])
    third = await one.txn([], [Delete("t/a")])
    assert await one.range("") == await other.range("")
    for watch in watches:
        assert await changes_of(watch, 4) == [
            Change(first.revision, "t/a", b"1", None, first.revision),
            Change(second.revision, "t/a", b"2", b"1", first.revision),
            Change(second.revision, "t/b", b"\xff\x00", None, second.revision),
            Change(third.revision, "t/a", None, b"2", first.revision),
        ]
        await watch.aclose()


@pytest.mark.parametrize(("prefix", "root"), [("/ours", b"/ours/"), ("/ours/", b"/ours/"), ("", b"/")])
async def test_keys_are_below_the_prefix_of_the_installation(
    opened: Open, etcd: StandIn, prefix: str, root: bytes
) -> None:
    store = await opened(prefix=prefix)
    await store.txn([], [Put("t/a", b"1")])
    assert set(etcd.objects) == {root + b"pulse", root + b"data/t/a"}


async def test_installations_that_share_an_etcd_do_not_see_each_others_keys(opened: Open) -> None:
    ours, theirs = await opened(prefix="/x"), await opened(prefix="/xx")
    watch = ours.watch("", await ours.revision())
    await theirs.txn([], [Put("t/a", b"theirs")])
    await ours.txn([Compare("t/a", 0)], [Put("t/a", b"ours")])
    assert [change.value for change in await changes_of(watch, 1)] == [b"ours"]
    assert (await theirs.count(""), await ours.count("")) == (1, 1)
    await watch.aclose()


async def test_get_cached_sees_writes_of_other_processes_immediately(opened: Open) -> None:
    one, other = await opened(), await opened()
    written = await other.txn([], [Put("t/a", b"1"), Put("t/b", b"2")])
    records = [Record(f"t/{name}", value, written.revision, written.revision) for name, value in
               (("a", b"1"), ("b", b"2"))]  # fmt: skip
    assert await one.get_cached("t/a") == records[0]
    assert await one.get_cached("t/c") is None
    assert await one.range_cached("t/") == records


async def test_a_key_without_a_tenant_counts_for_no_tenant(store: EtcdStore) -> None:
    await store.txn([], [Put("t", b"before it is counted")])
    assert await store.usage("t") == Usage(0, 0)
    written = await store.txn([], [Put("t", b"after"), Put("t/a", b"1")])
    watch = store.watch("t/", written.revision - 1)
    await changes_of(watch, 1)
    await watch.aclose()
    assert await store.usage("t") == Usage(1, 4)


async def test_the_usage_of_a_tenant_is_counted_on_one_snapshot(
    store: EtcdStore, etcd: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(etcd_module, "PAGE_RECORDS", 2)
    await store.txn([], [Put(f"t/{number}", b"12345") for number in range(5)])
    await until(lambda: store._broadcaster.published == etcd.revision)
    begun = etcd.asked[RANGE]

    def meanwhile(path: str, _: Any) -> None:
        if etcd.asked[path] == begun + 2:
            for number in (0, 4):  # one that was read and one that was not
                etcd.put(f"/vcsync/data/t/{number}".encode(), b"1")

    etcd.before = meanwhile
    await store.usage("t")
    await until(lambda: store._broadcaster.published == etcd.revision)
    assert await store.usage("t") == Usage(5, 5 * 3 + 3 * 5 + 2 * 1)


async def test_a_store_that_is_served_by_others_is_sound(store: EtcdStore) -> None:
    await store.wait_until_checked()


# ---- transactions ------------------------------------------------------------------------


async def test_wide_transactions_take_effect_completely(store: EtcdStore) -> None:
    await wide_writes.check_that_wide_writes_are_done_whole(store)


async def test_wide_transactions_are_atomic(store: EtcdStore) -> None:
    await wide_writes.check_that_wide_writes_are_done_or_not_at_all(store)


async def test_concurrent_wide_transactions_never_claim_the_same_key(opened: Open) -> None:
    await wide_writes.check_that_no_two_wide_writes_take_the_same(await opened(), await opened())


async def test_a_transaction_too_wide_for_every_store_is_refused(store: EtcdStore) -> None:
    await wide_writes.check_that_what_no_store_takes_is_refused(store)


@pytest.mark.parametrize(("times", "done"), [(1, True), (15, True), (16, False)])
async def test_a_wide_transaction_is_retried_if_others_change_its_folders(
    store: EtcdStore, etcd: StandIn, times: int, done: bool
) -> None:
    ports = [f"a/~claims/port/{number}" for number in range(NARROW + 1)]
    left = times

    def interfere(path: str, _: Any) -> None:
        nonlocal left
        if path == TXN and left:
            left -= 1
            etcd.put(b"/vcsync/data/a/~claims/port/x")

    etcd.before = interfere
    asked = store.txn([Compare(each, 0) for each in ports], [Put(each, b"") for each in ports])
    if done:
        assert (await asked).done
        assert await store.count("a/") == len(ports) + 1
    else:
        with pytest.raises(StoreUnavailable, match=r"^other writers kept changing the folders"):
            await asked
        assert await store.count("a/") == 1
    assert etcd.asked[TXN] == min(times + 1, 16)


async def test_a_refusal_without_a_failed_condition_is_an_error(store: EtcdStore, etcd: StandIn) -> None:
    etcd.answers[TXN] = [{"header": {"revision": 9}, "responses": [{}]}]
    with pytest.raises(StoreUnavailable, match="without a reason"):
        await store.txn([Compare("t/a", 0)], [Put("t/a", b"1")])


# ---- times to live -------------------------------------------------------------


@pytest.mark.parametrize(
    ("ttl", "granted"), [(1, 1), (19, 19), (20, 21), (100, 105), (1200, 1260), (7200, 7260)]
)
async def test_a_lease_lives_slightly_longer_than_requested(
    store: EtcdStore, etcd: StandIn, ttl: int, granted: int
) -> None:
    await store.txn([], [Put("t/a", b"1", ttl=ttl), Put("t/b", b"1")])
    assert etcd.grants == [granted]


async def test_keys_with_the_same_time_to_live_share_a_lease_for_a_while(
    store: EtcdStore, etcd: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(etcd_transactions, "time", SimpleNamespace(monotonic=lambda: now))
    await asyncio.gather(*(store.txn([], [Put(f"t/{n}", b"", ttl=100)]) for n in range(5)))
    assert etcd.grants == [105]
    await store.txn([], [Put("t/other", b"", ttl=200)])
    now += 4.9
    await store.txn([], [Put("t/late", b"", ttl=100)])
    assert etcd.grants == [105, 210]
    now += 0.1
    await store.txn([], [Put("t/later", b"", ttl=100)])
    assert etcd.grants == [105, 210, 105]


async def test_a_revoked_lease_is_replaced_once(store: EtcdStore, etcd: StandIn) -> None:
    await store.txn([], [Put("t/a", b"", ttl=100)])
    etcd.leases.clear()
    assert (await store.txn([], [Put("t/b", b"", ttl=100)])).done
    assert etcd.grants == [105, 105]
    etcd.answers[TXN] = [NO_LEASE, NO_LEASE]
    with pytest.raises(EtcdError, match="lease not found"):
        await store.txn([], [Put("t/c", b"", ttl=100)])
    etcd.answers[TXN] = [(grpc.StatusCode.INVALID_ARGUMENT, "duplicate key")]
    with pytest.raises(EtcdError, match=r"^etcd: duplicate key$"):
        await store.txn([], [Put("t/c", b"", ttl=100)])
    assert not etcd.answers[TXN]


# ---- history -----------------------------------------------------------------------------


async def test_errors_about_compacted_and_future_revisions_name_the_bounds(store: EtcdStore) -> None:
    for number in range(3):
        last = await store.txn([], [Put("t/a", b"%d" % number)])
    for _ in range(2):  # the second compaction has no effect
        await store.compact(last.revision)
    for act in (
        store.get("t/a", revision=last.revision - 1),
        store.range("t/", revision=last.revision - 1),
        anext(store.watch("t/", last.revision - 2)),
    ):
        with pytest.raises(Compacted) as compacted:
            await act
        assert compacted.value.oldest == last.revision
    later: tuple[Coroutine[Any, Any, object], ...] = (
        store.get("t/a", revision=last.revision + 1),
        store.range("t/", revision=last.revision + 7),
        store.compact(last.revision + 1),
    )
    for each in later:
        with pytest.raises(FutureRevision) as future:
            await each
        assert future.value.current == last.revision


async def test_a_change_whose_previous_value_is_compacted_is_not_sent_without_it(store: EtcdStore) -> None:
    await store.txn([], [Put("t/a", b"1")])
    second = await store.txn([], [Put("t/a", b"2")])
    await store.compact(second.revision)
    with pytest.raises(Compacted):
        await anext(store.watch("t/", second.revision - 1))


async def test_pages_beyond_one_request_are_one_snapshot(
    store: EtcdStore, etcd: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(etcd_module, "PAGE_RECORDS", 4)
    names = [f"t/{number:02}" for number in range(10)]
    await store.txn([], [Put(name, b"") for name in names])
    etcd.asked.clear()

    def meanwhile(path: str, _: Any) -> None:
        if etcd.asked[path] == 2:
            etcd.delete(b"/vcsync/data/t/09")

    etcd.before = meanwhile
    whole = await store.range("t/")
    assert [one.key for one in whole.records] == names
    assert etcd.asked[RANGE] == 3
    part = await store.range("t/", after=names[1], limit=6, revision=whole.revision)
    assert [one.key for one in part.records] == names[2:8]
    assert (part.more, part.remaining, part.revision) == (True, 2, whole.revision)
    assert (await store.range("t/", after="t/z")).records == []
    assert (await store.range("t/", after="u", revision=whole.revision)).revision == whole.revision


# ---- connections -------------------------------------------------------------------------


async def test_a_watch_survives_the_loss_of_its_connection(opened: Open, etcd: StandIn) -> None:
    store, direct = await opened(), await opened()
    watch = store.watch("t/", await store.revision(), progress=0.001)
    await anext(watch)
    for number in range(3):
        etcd.cut()
        await direct.txn([], [Put(f"t/{number}", b"")])
        assert [one.key for one in await changes_of(watch, 1)] == [f"t/{number}"]
    await watch.aclose()


async def test_a_watch_whose_history_was_compacted_while_disconnected_gets_an_error(
    opened: Open, etcd: StandIn
) -> None:
    store = await opened()
    assert await store.usage("t") == Usage(0, 0)
    watch = store.watch("t/", await store.revision(), progress=0.001)
    await anext(watch)
    await until(lambda: etcd.watches)
    etcd.answers[WATCH] = [BUSY] * 1000
    etcd.cut()
    await until(lambda: not etcd.watches)
    await store.txn([], [Put("t/a", b"1")])
    last = await store.txn([], [Put("t/a", b"2")])
    await store.compact(last.revision)
    etcd.answers[WATCH].clear()
    with pytest.raises(Compacted):
        await changes_of(watch, 1)
    # Clients that list again continue from there, and usage is counted again.
    page = await store.range("t/")
    async with aclosing(store.watch("t/", page.revision)) as again:
        await store.txn([], [Put("t/b", b"new")])
        assert [one.value for one in await changes_of(again, 1)] == [b"new"]
    assert await store.usage("t") == Usage(2, 3 + 1 + 3 + 3)


async def test_watches_get_the_compaction_error_once_etcd_accepts_writes_again(
    opened: Open, etcd: StandIn
) -> None:
    store = await opened()
    watch = store.watch("t/", await store.revision(), progress=0.001)
    await anext(watch)
    await until(lambda: etcd.watches)
    etcd.answers |= {WATCH: [BUSY] * 1000, PUT: [BUSY] * 2}
    etcd.cut()
    last = await store.txn([], [Put("t/a", b"1")])
    last = await store.txn([], [Put("t/a", b"2")])
    await store.compact(last.revision)
    etcd.answers[WATCH].clear()
    with pytest.raises(Compacted):
        await changes_of(watch, 1)
    assert not etcd.answers[PUT]


async def test_a_silently_dead_connection_is_replaced_by_one_to_another_member(
    opened: Open, etcd: StandIn
) -> None:
    other = StandIn()
    await other.start()
    try:
        other.mute = True
        # Both members have the same state. Watches of the first member deliver nothing.
        other.states, other.events = etcd.states, etcd.events
        store = await opened(other.url, etcd.url, pulse_seconds=0.02)
        await until(lambda: etcd.watches)
        assert other.asked[WATCH] >= 1
        written = await store.txn([], [Put("t/a", b"")])
        async with aclosing(store.watch("t/", written.revision - 1)) as watch:
            assert [one.key for one in await changes_of(watch, 1)] == ["t/a"]
    finally:
        await other.stop()


async def test_unreachable_members_are_skipped(opened: Open, etcd: StandIn) -> None:
    gone = StandIn()
    await gone.start()
    await gone.stop()
    store = await opened(gone.url, etcd.url + "/")
    assert (await store.txn([], [Put("t/a", b"1")])).done
    with pytest.raises(StoreUnavailable, match="etcd does not answer"):
        await open_etcd([gone.url])


async def test_a_pulse_advances_progress_if_only_others_write(opened: Open, etcd: StandIn) -> None:
    ours, theirs = await opened(pulse_seconds=0.02), await opened(prefix="/others")
    async with aclosing(ours.watch("", await ours.revision(), progress=0.001)) as watch:
        written = (await theirs.txn([], [Put("t/a", b"")])).revision
        async with asyncio.timeout(20):
            while (batch := await anext(watch)).revision < written:
                assert not batch


async def test_no_pulse_is_written_while_events_arrive(
    opened: Open, etcd: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns, sleep = 0, asyncio.sleep

    async def turn(seconds: float) -> None:
        nonlocal turns
        turns += seconds == SILENT
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", turn)
    store = await opened()
    await until(lambda: turns > 10)
    assert etcd.asked[PUT] == 1, "that of the opening"
    store._heard -= SILENT
    await until(lambda: etcd.asked[PUT] == 2)
    await until(lambda: store._heard > 0 and turns > 20)
    assert etcd.objects[b"/vcsync/pulse"].value == b""


async def test_a_refused_pulse_is_repeated(opened: Open, etcd: StandIn) -> None:
    await opened(pulse_seconds=0.01)
    etcd.answers[PUT] = [NO_SPACE, BUSY]
    begun = etcd.asked[PUT]
    await until(lambda: etcd.asked[PUT] > begun + 3)


async def test_pauses_between_retries_grow_and_are_reset_by_an_event(
    etcd: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def noted(seconds: float) -> None:
        if seconds == SILENT:
            await sleep(seconds)
        if seconds:
            pauses.append(seconds)
        await sleep(0)

    monkeypatch.setattr(random, "uniform", lambda _low, high: high)
    store = await open_etcd([etcd.url], pulse_seconds=SILENT)
    monkeypatch.setattr(asyncio, "sleep", noted)
    try:
        etcd.answers[WATCH] = [BUSY] * 8
        etcd.cut()
        await until(lambda: not etcd.answers[WATCH] and etcd.watches)
        first, *others = [each for each in pauses if each >= 0.1]
        assert [first, *others][-8:] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    finally:
        monkeypatch.undo()
        await store.close()


# ---- errors ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (NO_SPACE, StoreFull),
        (BUSY, StoreUnavailable),
        (b"\xff", StoreUnavailable),
        (ODD, EtcdError),
    ],
)
async def test_errors_of_etcd_are_passed_on_unchanged(
    store: EtcdStore, etcd: StandIn, answer: Any, kind: type[StoreError]
) -> None:
    for path, act in (
        (TXN, lambda: store.txn([], [Put("t/a", b"")])),
        (RANGE, lambda: store.get("t/a")),
        (RANGE, lambda: store.range("t/")),
        (RANGE, lambda: store.count("t/")),
        (COMPACT, lambda: store.compact(1)),
    ):
        etcd.answers[path] = [answer]
        with pytest.raises(StoreError) as caught:
            await act()
        assert type(caught.value) is kind


async def test_opening_fails_if_etcd_refuses_the_first_write(etcd: StandIn) -> None:
    etcd.answers[PUT] = [NO_SPACE]
    with pytest.raises(StoreFull):
        await open_etcd([etcd.url])


async def test_a_closed_store_ends_its_watches(opened: Open) -> None:
    store = await opened()
    watch = store.watch("t/", await store.revision(), progress=0.001)
    await anext(watch)
    await store.close()
    with pytest.raises(StoreUnavailable, match=r"^the store is closed$"):
        await anext(watch)
