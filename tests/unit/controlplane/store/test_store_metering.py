"""What a tenant uses is counted once and kept up with every change, also while it is being counted."""

from __future__ import annotations

import asyncio

import pytest

from vcsync.controlplane.store.interface import Change, Page, Record, StoreUnavailable, Usage
from vcsync.controlplane.store.metering import Meter


class Pages:
    """A tenant with two objects, read one at a time; each page waits until it is let through."""

    def __init__(self) -> None:
        self.reads = 0
        self.gate = asyncio.Semaphore(0)
        self.broken = False

    async def read(self, prefix: str, after: str, revision: int) -> Page:
        assert prefix == "t/"
        self.reads += 1
        await self.gate.acquire()
        if self.broken:
            raise StoreUnavailable("away")
        key = "t/b" if after else "t/a"
        return Page([Record(key, b"12345", 1, 1)], 10, more=not after, remaining=0 if after else 1)


async def test_changes_count_from_the_revision_that_was_read() -> None:
    pages = Pages()
    meter = Meter(pages.read)
    asking = [asyncio.create_task(meter.usage("t")) for _ in range(3)]
    await asyncio.sleep(0)
    meter.note([Change(9, "t/b", b"12345", None, 9), Change(10, "t/gone", None, b"1", 2)])
    meter.note([Change(11, "t/c", b"1", None, 11), Change(12, "t/a", b"1", b"12345", 1)])
    pages.gate.release()
    pages.gate.release()
    assert await asyncio.gather(*asking) == [Usage(3, 3 + 1 + 3 + 5 + 3 + 1)] * 3
    meter.note([Change(13, "t/b", None, b"12345", 9), Change(13, "other/b", b"1", None, 13)])
    assert await meter.usage("t") == Usage(2, 8)
    assert pages.reads == 2


async def test_after_a_failure_it_is_counted_anew() -> None:
    pages = Pages()
    meter = Meter(pages.read)
    pages.broken = True
    asking = [asyncio.create_task(meter.usage("t")) for _ in range(2)]
    await asyncio.sleep(0)
    pages.gate.release()
    results = await asyncio.gather(*asking, return_exceptions=True)
    assert [type(result) for result in results] == [StoreUnavailable] * 2
    pages.broken = False
    pages.gate.release()
    pages.gate.release()
    assert await meter.usage("t") == Usage(2, 16)


async def test_after_changes_were_missed_it_is_counted_anew() -> None:
    pages = Pages()
    meter = Meter(pages.read)
    for _ in range(4):
        pages.gate.release()
    await meter.usage("t")
    meter.forget()
    assert await meter.usage("t") == Usage(2, 16)
    assert pages.reads == 4


async def test_who_asks_while_changes_are_missed_is_told_to_ask_again() -> None:
    pages = Pages()
    meter = Meter(pages.read)
    asking = asyncio.create_task(meter.usage("t"))
    await asyncio.sleep(0)
    meter.forget()
    pages.gate.release()
    pages.gate.release()
    with pytest.raises(StoreUnavailable):
        await asking
