"""The usage of a tenant is counted once, and updated by every change, including those during the count."""

from __future__ import annotations

import asyncio

import pytest

from vcsync.apiserver.storage.interface import Change, Page, Record, StoreUnavailable, Usage
from vcsync.apiserver.storage.usage import UsageCounter


class Pages:
    """A tenant with two objects, which are read one by one. Each page waits until the test releases it."""

    def __init__(self) -> None:
        self.reads = 0
        self.revisions: list[int] = []
        self.gate = asyncio.Semaphore(0)
        self.broken = False

    async def read(self, prefix: str, after: str, revision: int) -> Page:
        assert prefix == "t/"
        self.reads += 1
        self.revisions.append(revision)
        await self.gate.acquire()
        if self.broken:
            raise StoreUnavailable("away")
        key = "t/b" if after else "t/a"
        return Page([Record(key, b"12345", 1, 1)], 10, more=not after, remaining=0 if after else 1)


async def test_changes_count_from_the_revision_that_was_read() -> None:
    pages = Pages()
    counter = UsageCounter(pages.read)
    asking = [asyncio.create_task(counter.usage("t")) for _ in range(3)]
    await asyncio.sleep(0)
    counter.note([Change(9, "t/b", b"12345", None, 9), Change(10, "t/gone", None, b"1", 2)])
    counter.note([Change(11, "t/c", b"1", None, 11), Change(12, "t/a", b"1", b"12345", 1)])
    pages.gate.release()
    pages.gate.release()
    assert await asyncio.gather(*asking) == [Usage(3, 3 + 1 + 3 + 5 + 3 + 1)] * 3
    counter.note([Change(13, "t/b", None, b"12345", 9), Change(13, "other/b", b"1", None, 13)])
    assert await counter.usage("t") == Usage(2, 8)
    assert pages.revisions == [0, 10], "all pages are read at the revision of the first"


async def test_usage_is_counted_again_after_a_failure() -> None:
    pages = Pages()
    counter = UsageCounter(pages.read)
    pages.broken = True
    asking = [asyncio.create_task(counter.usage("t")) for _ in range(2)]
    await asyncio.sleep(0)
    pages.gate.release()
    results = await asyncio.gather(*asking, return_exceptions=True)
    assert [type(result) for result in results] == [StoreUnavailable] * 2
    pages.broken = False
    pages.gate.release()
    pages.gate.release()
    assert await counter.usage("t") == Usage(2, 16)


async def test_usage_is_counted_again_after_changes_were_missed() -> None:
    pages = Pages()
    counter = UsageCounter(pages.read)
    for _ in range(4):
        pages.gate.release()
    await counter.usage("t")
    counter.forget()
    assert await counter.usage("t") == Usage(2, 16)
    assert pages.reads == 4


async def test_a_count_that_missed_changes_is_an_error() -> None:
    pages = Pages()
    counter = UsageCounter(pages.read)
    asking = asyncio.create_task(counter.usage("t"))
    await asyncio.sleep(0)
    counter.forget()
    pages.gate.release()
    pages.gate.release()
    with pytest.raises(StoreUnavailable):
        await asking
