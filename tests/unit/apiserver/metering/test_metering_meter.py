"""The meter: hours, restarts, several processes, failures of the store, and reports of all of it."""

import asyncio

import pytest

from vcsync.apimachinery.strategy import User
from vcsync.apiserver.metering import report
from vcsync.apiserver.metering.counters import UNMETERED
from vcsync.apiserver.metering.meter import Meter
from vcsync.apiserver.metering.metrics import TenantUsage
from vcsync.apiserver.metering.report import remove_old, tenants_with_rows, used
from vcsync.apiserver.metering.rows import USAGE
from vcsync.apiserver.request.caller import Caller
from vcsync.apiserver.storage.interface import Put, StoreUnavailable

ALICE = Caller(User("alice", groups=("system:authenticated",)), "acme")
NOON = 1_700_000_000 // 3600 * 3600
"""2023-11-14T22:00:00Z."""
FIRST, LAST = "2000-01-01T00", "2100-01-01T00"


class Clock:
    """Seconds since the epoch, and the same in milliseconds."""

    def __init__(self):
        self.now = NOON + 1800.0

    def __call__(self):
        return self.now

    def milliseconds(self):
        return int(self.now * 1000)


class Tenants:
    """Tenants with UIDs."""

    def __init__(self, **uids):
        self.uids = uids

    def uid(self, tenant):
        return self.uids.get(tenant, "")

    def names(self):
        return sorted(self.uids)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def tenants():
    return Tenants(acme="u1")


@pytest.fixture
def start(store, tenants, clock):
    """Start a process."""

    def started():
        return Meter(store, tenants, clock, clock.milliseconds)

    return started


async def all_of(store, tenant="acme"):
    return [each async for each in used(store, tenant, FIRST, LAST)]


async def test_requests_are_read_from_the_store_by_hour(store, start, clock):
    meter = start()
    counters = meter.counters("acme", ALICE)
    counters.request("GET", 200)
    counters.bytes_out += 100
    await meter.flush()
    clock.now = NOON + 3600
    counters.request("POST", 201)
    await meter.flush()
    clock.now += 10
    counters.request("GET", 200)
    await meter.flush()
    before, after = await all_of(store)
    # What is counted between two flushes belongs to the hour of the first one.
    assert (before.key.hour, before.row.reads, before.row.writes) == ("2023-11-14T22", 1, 1)
    assert before.row.bytes_out == 100
    assert (after.key.hour, after.row.reads, after.row.writes) == ("2023-11-14T23", 1, 0)


async def test_a_restart_neither_loses_nor_repeats_what_was_written(store, start):
    for _ in range(3):
        meter = start()
        counters = meter.counters("acme", ALICE)
        for _ in range(5):
            counters.request("GET", 200)
            await meter.flush()
        await meter.flush()
    [hour] = await all_of(store)
    assert hour.row.reads == 15


async def test_a_killed_process_loses_only_what_it_counted_since_the_last_flush(store, start):
    killed = start()
    killed.counters("acme", ALICE).request("GET", 200)
    await killed.flush()
    killed.counters("acme", ALICE).request("GET", 200)
    following = start()
    following.counters("acme", ALICE).request("GET", 200)
    await following.flush()
    [hour] = await all_of(store)
    assert hour.row.reads == 2


async def test_several_processes_write_rows_of_their_own(store, start):
    meters = [start(), start()]

    async def serve(meter, requests):
        for _ in range(requests):
            meter.counters("acme", ALICE).request("PATCH", 200)
            await meter.flush()

    async with asyncio.TaskGroup() as tasks:
        for meter, requests in zip(meters, (7, 11), strict=True):
            tasks.create_task(serve(meter, requests))
    [hour] = await all_of(store)
    assert hour.row.writes == 18


class Unsure:
    """A store that does not answer some writes, which take effect or not."""

    def __init__(self, store):
        self._store = store
        self.lost = []

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def txn(self, compares, operations):
        if self.lost:
            if self.lost.pop(0):
                await self._store.txn(compares, operations)
            raise StoreUnavailable("no answer")
        return await self._store.txn(compares, operations)


@pytest.mark.parametrize("took_effect", [True, False])
async def test_a_write_without_an_answer_is_neither_lost_nor_counted_twice(
    store, tenants, clock, took_effect
):
    unsure = Unsure(store)
    meter = Meter(unsure, tenants, clock, clock.milliseconds)
    meter.counters("acme", ALICE).request("GET", 200)
    unsure.lost = [took_effect]
    await meter.flush()
    assert not unsure.lost
    clock.now = NOON + 3605
    meter.counters("acme", ALICE).request("GET", 200)
    await meter.flush()
    await meter.flush()
    assert sum(each.row.reads for each in await all_of(store)) == 2


async def test_a_clock_that_is_set_back_loses_nothing(store, start, clock):
    meter = start()
    clock.now = NOON + 3600 + 5
    await meter.flush()
    for back in (-7200, 100, 3600):
        meter.counters("acme", ALICE).request("GET", 200)
        clock.now += back
        await meter.flush()
    assert sum(each.row.reads for each in await all_of(store)) == 3


async def test_an_open_watch_counts_in_each_hour(store, start, clock):
    meter = start()
    await meter.flush()
    counters = meter.counters("acme", ALICE)
    clock.now = NOON + 3000
    counters.watch_opened(clock.milliseconds())
    for clock.now in (NOON + 3590, NOON + 3600, NOON + 3610, NOON + 3900):
        await meter.flush()
    counters.watch_closed(clock.milliseconds())
    clock.now += 50
    await meter.flush()
    assert [each.row.watch_milliseconds for each in await all_of(store)] == [600_000, 300_000]


async def test_a_later_tenant_of_the_same_name_does_not_pay_for_the_earlier_one(store, start, tenants):
    meter = start()
    meter.counters("acme", ALICE).request("GET", 200)
    await meter.flush()
    tenants.uids = {"acme": "u2"}
    for _ in range(2):
        meter.counters("acme", ALICE).request("POST", 201)
        await meter.flush()
    assert {(each.key.uid, each.row.reads, each.row.writes) for each in await all_of(store)} == {
        ("u1", 1, 0),
        ("u2", 0, 2),
    }


async def test_rows_of_a_deleted_tenant_stay_and_its_counters_go(store, start, tenants):
    meter = start()
    meter.counters("acme", ALICE).request("GET", 200)
    tenants.uids = {}
    assert meter.counters("acme", ALICE) is UNMETERED
    for _ in range(2):
        await meter.flush()
    assert not list(meter.totals())
    [hour] = await all_of(store)
    assert hour.row.reads == 1


async def test_nothing_counts_for_tenants_that_do_not_exist(store, start):
    meter = start()
    assert meter.counters("no-such", ALICE) is UNMETERED
    await meter.flush()
    assert [each async for each in tenants_with_rows(store)] == ["acme"]


async def test_the_peak_of_the_storage_is_kept(store, start):
    meter = start()
    keys = [f"acme/core/configmaps/default/c{number}" for number in range(5)]
    await store.txn((), [Put(key, b"x" * 100) for key in keys])
    counters = meter.counters("acme", ALICE)
    counters.request("POST", 201)
    await meter.flush()
    await store.txn((), [Put(key, b"x") for key in keys])
    counters.request("POST", 201)
    await meter.flush()
    [hour] = await all_of(store)
    assert hour.row.objects == 5
    assert hour.row.storage_bytes == 500 + sum(map(len, keys))


async def test_a_tenant_without_requests_gets_one_row_an_hour_from_one_of_the_processes(
    store, start, tenants, clock
):
    tenants.uids = {"acme": "u1", "idle": "u2", "system": "u3"}
    await store.txn((), [Put("idle/core/configmaps/default/c", b"x" * 100)])
    clock.now = NOON
    meters = [start(), start()]
    for clock.now in (NOON, NOON + 10, NOON + 3600):
        for meter in meters:
            await meter.flush()
    hours = await all_of(store, "idle")
    assert [(each.key.uid, each.row.objects) for each in hours] == [("u2", 1), ("u2", 1)]
    assert len((await store.range(f"{USAGE}idle/")).records) == 2
    assert await all_of(store, "system") == []


async def test_a_long_report_has_each_hour_once(store, start, clock, monkeypatch):
    monkeypatch.setattr(report, "PAGE", 3)
    for _ in range(4):
        clock.now = NOON
        meter = start()
        for _ in range(6):
            meter.counters("acme", ALICE).request("GET", 200)
            clock.now += 3600
            await meter.flush()
    hours = await all_of(store)
    # The last flush begins one more hour, which has no requests.
    assert [each.row.reads for each in hours] == [4] * 6 + [0]
    part = [each async for each in used(store, "acme", hours[1].key.hour, hours[3].key.hour)]
    assert part == hours[1:3]


async def test_rows_older_than_the_retention_are_removed(store, start, tenants, clock):
    tenants.uids = {"acme": "u1", "acme-2": "u2", "beta": "u3"}
    clock.now = NOON
    meter = start()
    for clock.now in range(NOON, NOON + 4 * 3600, 3600):
        await meter.flush()
    kept = (await all_of(store))[2].key.hour
    assert await remove_old(store, kept) == 6
    for tenant in tenants.uids:
        assert [each.key.hour >= kept for each in await all_of(store, tenant)] == [True, True]
    assert sorted([each async for each in tenants_with_rows(store)]) == ["acme", "acme-2", "beta"]


async def test_metrics_have_a_label_for_a_bounded_number_of_tenants(start, tenants):
    tenants.uids = {f"t{number}": f"u{number}" for number in range(5)}
    meter = start()
    metrics = TenantUsage(meter.totals, most=2)
    for number in range(5):
        meter.counters(f"t{number}", ALICE).request("GET", 200)

    def reads():
        return {each.labels["tenant"]: each.value for each in next(iter(metrics.collect())).samples}

    assert reads() == {"t0": 1, "t1": 1, "other": 3}
    await meter.flush()
    tenants.uids = {"t4": "u4"}
    await meter.flush()
    assert [counters.tenant for counters, _ in meter.totals()] == ["t4"]
    meter.counters("t4", ALICE).request("GET", 200)
    assert reads() == {"t0": 1, "t1": 1, "other": 4}
