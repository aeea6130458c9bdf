"""The store on a real etcd behaves like the model, and several processes on one etcd share one store."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from hack.etcd import Etcd
from hack.testbed.faultproxy import FaultProxy
from hack.testbed.faults import Stall
from hack.testbed.processes import free_ports
from tests.unit.apiserver.storage import wide_writes
from tests.unit.apiserver.storage.store_model import StoreMachine
from vcsync.apiserver.storage.etcd import EtcdStore, open_etcd
from vcsync.apiserver.storage.interface import (
    Batch,
    Change,
    Compacted,
    Compare,
    Delete,
    Put,
    Store,
    StoreFull,
    StoreUnavailable,
    Usage,
)


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    etcd = Etcd(tmp_path_factory.mktemp("etcd"))
    etcd.start()
    EtcdMachine.url = etcd.url
    yield etcd
    etcd.close()


class EtcdMachine(StoreMachine):
    TTL = False
    url = ""

    async def open(self) -> Store:
        self.prefix = f"/{uuid.uuid4()}"
        return await self.reopen()

    async def reopen(self) -> Store:
        return await open_etcd([self.url], prefix=self.prefix, pulse_seconds=3600)

    async def settled(self) -> None:
        # A compacted revision cannot be watched. A watch without events reports its revision, too.
        after = max(self.model.revision - 1, self.model.compacted)
        async with aclosing(self.store.watch("", after, progress=0.001)) as batches:
            async for batch in batches:
                if batch.revision >= self.model.revision:
                    return


@pytest.mark.usefixtures("etcd")
class TestEtcdModel(EtcdMachine.TestCase):
    settings = settings(
        max_examples=20,
        stateful_step_count=30,
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow],
    )


Open = Callable[..., Coroutine[Any, Any, EtcdStore]]


@pytest.fixture
async def open_store(etcd: Etcd) -> AsyncIterator[Open]:
    """Open a store on the etcd under this test's own prefix: `await open_store(prefix=..., url=...)`."""
    own = f"/{uuid.uuid4()}"
    async with AsyncExitStack() as stack:

        async def opened(*, prefix: str = own, url: str = etcd.url, pulse_seconds: float = 3600) -> EtcdStore:
            store = await open_etcd([url], prefix=prefix, pulse_seconds=pulse_seconds)
            stack.push_async_callback(store.close)
            return store

        yield opened


async def changes_of(watch: AsyncGenerator[Batch, None], count: int) -> list[Change]:
    """Return the next `count` changes."""
    found: list[Change] = []
    async with asyncio.timeout(60):
        while len(found) < count:
            found += await anext(watch)
    return found


async def test_two_processes_on_one_etcd_serve_the_same_data(open_store: Open) -> None:
    one, other = await open_store(), await open_store()
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


async def test_a_key_without_a_tenant_counts_for_no_tenant(open_store: Open) -> None:
    store = await open_store()
    await store.txn([], [Put("t", b"before it is counted")])
    assert await store.usage("t") == Usage(0, 0)
    written = await store.txn([], [Put("t", b"after"), Put("t/a", b"1")])
    watch = store.watch("t/", written.revision - 1)
    await changes_of(watch, 1)
    assert await store.usage("t") == Usage(1, 4)


async def test_writes_wider_than_a_transaction_of_etcd(open_store: Open) -> None:
    await wide_writes.check_that_wide_writes_are_done_whole(await open_store(prefix=f"/{uuid.uuid4()}"))
    await wide_writes.check_that_wide_writes_are_done_or_not_at_all(
        await open_store(prefix=f"/{uuid.uuid4()}")
    )
    await wide_writes.check_that_what_no_store_takes_is_refused(await open_store())
    await wide_writes.check_that_no_two_wide_writes_take_the_same(await open_store(), await open_store())


async def test_many_writers_in_two_processes_see_each_others_writes(open_store: Open) -> None:
    stores = [await open_store(), await open_store()]

    async def add_one(store: Store) -> None:
        while True:
            record, _ = await store.get("t/counter")
            value = int(record.value) + 1 if record else 1
            expected = Compare("t/counter", record.revision if record else 0)
            if (await store.txn([expected], [Put("t/counter", b"%d" % value)])).done:
                return

    await asyncio.gather(*(add_one(stores[n % 2]) for n in range(20)))
    record, _ = await stores[0].get("t/counter")
    assert record is not None
    assert record.value == b"20"


async def test_installations_that_share_an_etcd_do_not_see_each_others_keys(open_store: Open) -> None:
    name = f"/{uuid.uuid4()}"
    ours, theirs = await open_store(prefix=name), await open_store(prefix=name + "x")
    watch = ours.watch("", await ours.revision())
    await theirs.txn([], [Put("t/a", b"theirs")])
    await ours.txn([Compare("t/a", 0)], [Put("t/a", b"ours")])
    assert [change.value for change in await changes_of(watch, 1)] == [b"ours"]
    assert (await theirs.count(""), await ours.count("")) == (1, 1)


async def test_expired_objects_are_deleted_and_watches_report_it(open_store: Open) -> None:
    store = await open_store()
    watch = store.watch("t/", await store.revision())
    await store.txn(
        [], [Put("t/short", b"1", ttl=1), Put("t/long", b"2", ttl=3600), Put("t/kept", b"3", ttl=1)]
    )
    await store.txn([], [Put("t/kept", b"4")])
    *_, last = await changes_of(watch, 5)
    assert (last.key, last.value, last.previous) == ("t/short", None, b"1")
    assert [one.key for one in (await store.range("t/")).records] == ["t/kept", "t/long"]


async def test_a_watch_survives_the_loss_of_its_connection(open_store: Open, etcd: Etcd) -> None:
    direct = await open_store()
    async with FaultProxy.tcp("127.0.0.1", etcd.port) as proxy:
        store = await open_store(url=f"http://127.0.0.1:{proxy.port}")
        watch = store.watch("t/", await store.revision(), progress=0.05)
        await direct.txn([], [Put("t/before", b"")])
        assert [one.key for one in await changes_of(watch, 1)] == ["t/before"]
        proxy.refuse()
        proxy.cut()
        await direct.txn([], [Put("t/meanwhile", b"")])
        with pytest.raises(StoreUnavailable):
            await store.get("t/before")
        with pytest.raises(StoreUnavailable):
            await store.txn([], [Put("t/lost", b"")])
        await proxy.accept()
        await direct.txn([], [Put("t/after", b"")])
        assert [one.key for one in await changes_of(watch, 2)] == ["t/meanwhile", "t/after"]
        await store.close()


async def test_a_watch_whose_history_was_compacted_while_disconnected_gets_an_error(
    open_store: Open, etcd: Etcd
) -> None:
    direct = await open_store()
    async with FaultProxy.tcp("127.0.0.1", etcd.port) as proxy:
        store = await open_store(url=f"http://127.0.0.1:{proxy.port}")
        watch = store.watch("t/", await store.revision(), progress=0.05)
        await anext(watch)
        proxy.refuse()
        proxy.cut()
        for n in range(3):
            await direct.txn([], [Put("t/a", b"%d" % n)])
        await direct.compact(await direct.revision())
        await proxy.accept()
        with pytest.raises(Compacted):
            await changes_of(watch, 1)
        # A client that lists again continues from there.
        page = await store.range("t/")
        watch = store.watch("t/", page.revision)
        await direct.txn([], [Put("t/a", b"new")])
        assert [one.value for one in await changes_of(watch, 1)] == [b"new"]
        await store.close()


async def test_a_silently_dead_connection_is_replaced_by_one_to_another_member(
    open_store: Open, etcd: Etcd
) -> None:
    direct = await open_store(prefix="/silent")
    async with FaultProxy.tcp("127.0.0.1", etcd.port) as proxy:
        members = [f"http://127.0.0.1:{proxy.port}", etcd.url]
        store = await open_etcd(members, prefix="/silent", pulse_seconds=0.2)
        watch = store.watch("t/", await store.revision(), progress=0.05)
        await anext(watch)
        with proxy.fault(Stall()):
            await direct.txn([], [Put("t/a", b"")])
            assert [one.key for one in await changes_of(watch, 1)] == ["t/a"]
            await store.close()


async def test_etcd_may_be_restarted(open_store: Open, etcd: Etcd) -> None:
    store = await open_store()
    await store.txn([], [Put("t/a", b"1")])
    watch = store.watch("t/", await store.revision(), progress=0.05)
    await anext(watch)
    await asyncio.to_thread(etcd.stop)
    with pytest.raises(StoreUnavailable):
        await store.get("t/a")
    await asyncio.to_thread(etcd.start)
    await store.txn([], [Put("t/b", b"2")])
    assert [one.key for one in await changes_of(watch, 1)] == ["t/b"]


async def test_a_pulse_advances_progress_if_only_others_write(open_store: Open) -> None:
    ours, theirs = await open_store(pulse_seconds=0.1), await open_store(prefix="/others")
    watch = ours.watch("", await ours.revision(), progress=0.05)
    written = (await theirs.txn([], [Put("t/a", b"")])).revision
    async with asyncio.timeout(60):
        while (await anext(watch)).revision < written:
            continue


async def test_pages_beyond_one_request_are_one_snapshot(open_store: Open) -> None:
    store = await open_store()
    names = [f"t/{n:05}" for n in range(2300)]
    for start in range(0, len(names), 100):
        await store.txn([], [Put(name, b"") for name in names[start : start + 100]])
    whole, _ = await asyncio.gather(store.range("t/"), store.txn([], [Delete(names[-1])]))
    assert [one.key for one in whole.records] in (names, names[:-1])
    part = await store.range("t/", after=names[99], limit=2000, revision=whole.revision)
    assert [one.key for one in part.records] == names[100:2100]
    assert (part.more, part.remaining) == (True, len(whole.records) - 2100)


async def write_many(store: Store, count: int) -> None:
    for n in range(count):
        await store.txn([], [Put(f"t/{n}", bytes(500_000))])


async def test_a_full_etcd_refuses_writes_and_still_serves_reads(tmp_path: Path) -> None:
    etcd = await asyncio.to_thread(Etcd, tmp_path)
    await asyncio.to_thread(etcd.start, "--quota-backend-bytes=2000000")
    try:
        store = await open_etcd([etcd.url])
        try:
            with pytest.raises(StoreFull):
                # etcd checks its size only ten times a second.
                await write_many(store, 200)
            assert (await store.range("t/")).records
        finally:
            await store.close()
    finally:
        await asyncio.to_thread(etcd.close)


async def test_a_missing_etcd_is_reported() -> None:
    (port,) = free_ports(1)
    with pytest.raises(StoreUnavailable, match="does not answer"):
        await open_etcd([f"http://127.0.0.1:{port}"])


async def test_a_server_that_is_not_an_etcd_is_reported() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 5\r\n\r\nhello")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(StoreUnavailable, match=f"does not answer at http://127.0.0.1:{port}"):
            await open_etcd([f"http://127.0.0.1:{port}"])


async def test_unreachable_members_are_skipped(etcd: Etcd) -> None:
    (port,) = free_ports(1)
    store = await open_etcd([f"http://127.0.0.1:{port}", etcd.url], prefix=f"/{uuid.uuid4()}")
    assert (await store.txn([], [Put("t/a", b"1")])).done
    await store.close()
