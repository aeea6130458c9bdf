"""Processes over one store know how many they are."""

import asyncio
from contextlib import aclosing

import pytest

from vcsync.apiserver.requestlimits import processes as module
from vcsync.apiserver.requestlimits.processes import PROCESSES, Processes
from vcsync.apiserver.requestlimits.reports import REPORTED, Reports, encode
from vcsync.apiserver.requestlimits.shares import Share
from vcsync.apiserver.storage.interface import Change, Delete, StoreError


class Process:
    """A process that follows the store."""

    def __init__(self, store, name):
        self.shares = []
        self.refused = {}
        self.reports = Reports()
        self.processes = Processes(store, self.shares.append, lambda: self.refused, self.reports, name)
        self._store = store
        self._tasks = []

    async def start(self):
        after = await self._store.revision()
        self._tasks.append(asyncio.create_task(self._follow(after)))
        await self.processes.join()
        self._tasks.append(asyncio.create_task(self.processes.run()))
        await asyncio.sleep(0)

    async def _follow(self, after):
        async with aclosing(self._store.watch("", after)) as batches:
            async for batch in batches:
                self.processes.changed(batch)

    async def stop(self):
        for task in reversed(self._tasks):
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def has(self, share):
        async with asyncio.timeout(20):
            while self.shares[-1:] != [share]:
                await asyncio.sleep(0.01)


async def test_processes_take_shares_as_others_come_and_go(store):
    one, other = Process(store, "a"), Process(store, "b")
    await one.start()
    assert one.shares == [Share(0, 1)]
    await other.start()
    assert other.shares[-1] == Share(1, 2)
    await one.has(Share(0, 2))
    await other.stop()
    await one.has(Share(0, 1))
    await one.stop()
    assert not (await store.range(PROCESSES)).records


async def test_a_process_whose_entry_is_lost_writes_it_again(store, monkeypatch):
    monkeypatch.setattr(module, "RENEWAL_SECONDS", 0.05)
    one = Process(store, "a")
    await one.start()
    await store.txn((), (Delete(f"{PROCESSES}a"),))
    async with asyncio.timeout(20):
        while not (await store.range(PROCESSES)).records:
            await asyncio.sleep(0.01)
    assert one.shares == [Share(0, 1)]
    await one.stop()


async def test_a_store_that_fails_does_not_end_the_process(store, monkeypatch):
    monkeypatch.setattr(module, "RENEWAL_SECONDS", 0.01)
    one = Process(store, "a")
    await one.start()
    failed = asyncio.Event()
    txn = store.txn

    async def fail(*_):
        failed.set()
        raise StoreError("no")

    monkeypatch.setattr(store, "txn", fail)
    async with asyncio.timeout(20):
        await failed.wait()
    monkeypatch.setattr(store, "txn", txn)
    await Process(store, "b").processes.join()
    await one.has(Share(0, 2))
    await one.stop()


async def test_a_page_that_is_older_than_a_change_is_read_again(store):
    one = Process(store, "a")
    await one.processes.join()
    pages, read = [], store.range

    async def late(prefix, **options):
        page = await read(prefix, **options)
        if not pages:
            other = Process(store, "b").processes
            await other._renew()
            one.processes.changed(await _changes(store))
        pages.append(page)
        return page

    async def _changes(of):
        async with aclosing(of.watch(PROCESSES, (await of.revision()) - 1)) as batches:
            return await anext(batches)

    store.range = late
    await one.processes.read()
    assert len(pages) == 2
    assert one.shares[-1] == Share(0, 2)


@pytest.mark.parametrize("key", ["~vcsync/tenants/acme", "acme//configmaps/default/x"])
def test_other_changes_are_ignored(key):
    shares = []
    one = Processes(None, shares.append, dict, Reports(), "a")
    one.changed([Change(7, key, b"{}", None, 7)])
    assert shares == []


async def test_processes_report_whose_requests_were_refused(store):
    one, other = Process(store, "a"), Process(store, "b")
    await one.start()
    one.refused = {"acme": ["user/watches"]}
    other.refused = {"acme": ["tenant/watches", "user/watches"], "x": ["roles/watches"]}
    await one.processes.join()
    await other.start()
    async with asyncio.timeout(20):
        while one.reports.refused("acme") != ["tenant/watches", "user/watches"]:
            await asyncio.sleep(0.01)
    assert other.reports.refused("acme") == ["tenant/watches", "user/watches"]
    assert other.reports.refused("unknown") == []
    await other.stop()
    await one.has(Share(0, 1))
    assert one.reports.refused("acme") == ["user/watches"]
    await one.stop()


def test_a_report_is_bounded_and_another_form_is_empty():
    reports = Reports()
    reports.learn("a", encode({f"t{number}": ["tenant/watches"] for number in range(REPORTED + 50)}))
    assert len(reports._reports["a"].refused) == REPORTED
    reports.learn("a", b"[1]")
    assert reports.refused("t1") == []
