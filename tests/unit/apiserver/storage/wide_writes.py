"""Checks of transactions wider than etcd's limit, for any store."""

import asyncio

import pytest

from vcsync.apiserver.storage.interface import (
    MAX_OPERATIONS,
    NARROW,
    Compare,
    Delete,
    Put,
    Store,
)

PORTS = [f"a/~claims/port/{number}" for number in range(1000)]


def reserving(ports: list[str]) -> tuple[list[Compare], list[Put | Delete]]:
    """A Service that claims ports."""
    key = "a/core/services/ns/" + ports[0].rpartition("/")[2]
    return [Compare(key, 0), *(Compare(each, 0) for each in ports)], [
        Put(key, b"s"),
        *(Put(each, b"p") for each in ports),
    ]


async def check_that_wide_writes_are_done_whole(store: Store) -> None:
    before = await store.revision()
    ports = PORTS[: 3 * NARROW]
    done = await store.txn(*reserving(ports))
    assert done.done
    page = await store.range("a/")
    assert len(page.records) == len(ports) + 1
    assert {each.revision for each in page.records} == {done.revision}
    changes = []
    watch = store.watch("a/", before)
    async with asyncio.timeout(30):
        while len(changes) < len(ports) + 1:
            changes += await anext(watch)
    await watch.aclose()
    assert {each.revision for each in changes} == {done.revision}
    gone = await store.txn(
        [Compare("a/core/services/ns/0", done.revision)],
        [Delete("a/core/services/ns/0"), *(Delete(each) for each in ports)],
    )
    assert gone.done
    assert (await store.range("a/")).records == []


async def check_that_wide_writes_are_done_or_not_at_all(store: Store) -> None:
    taken = await store.txn([], [Put(PORTS[200], b"somebody's")])
    refused = await store.txn(*reserving(PORTS[:300]))
    assert [key for key, _ in refused.failed] == [PORTS[200]]
    record = refused.failed[0][1]
    assert record is not None
    assert (record.value, record.revision) == (b"somebody's", taken.revision)
    assert len((await store.range("a/")).records) == 1
    there = await store.txn([], [Put("a/core/services/ns/300", b"other")])
    refused = await store.txn(*reserving(PORTS[300:600]))
    assert [key for key, _ in refused.failed] == ["a/core/services/ns/300"]
    assert (await store.revision()) == there.revision
    compares, operations = reserving(PORTS[600:900])
    refused = await store.txn([*compares, Compare("a/quota", 5)], operations)
    assert [key for key, _ in refused.failed] == ["a/quota"]
    assert len((await store.range("a/")).records) == 2


async def check_that_no_two_wide_writes_take_the_same(*stores: Store) -> None:
    """Writers in several processes claim overlapping ports, while others write in the same folder."""

    async def one(number: int) -> bool:
        ports = PORTS[50 * number : 50 * number + 200]
        return (await stores[number % len(stores)].txn(*reserving(ports))).done

    async def other(number: int) -> bool:
        return (await stores[number % len(stores)].txn([], [Put(f"a/~claims/port/x{number}", b"o")])).done

    done = await asyncio.gather(
        *(one(number) for number in range(12)), *(other(number) for number in range(20))
    )
    records = {each.key: each for each in (await stores[0].range("a/")).records}
    winners = [number for number in range(12) if done[number]]
    assert winners
    for number in winners:
        key = f"a/core/services/ns/{50 * number}"
        for port in PORTS[50 * number : 50 * number + 200]:
            assert records[port].revision == records[key].revision
    assert sum("~claims/port/x" not in key for key in records) == 201 * len(winners)
    assert all(done[12:])


async def check_that_what_no_store_takes_is_refused(store: Store) -> None:
    many = [Compare(f"a/q/{number}", 1) for number in range(NARROW + 1)]
    scattered = [Compare(f"a/{number}/x", 0) for number in range(NARROW + 1)]
    for compares, operations in (
        (many, []),
        (scattered, []),
        ([], [Delete(str(number)) for number in range(MAX_OPERATIONS + 1)]),
    ):
        with pytest.raises(ValueError, match="too many"):
            await store.txn(compares, operations)
