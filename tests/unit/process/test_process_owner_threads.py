"""Each owner has one piece of work at a time, whatever it asks for."""

import asyncio
import threading

import pytest

from vcsync.process.owner_threads import OwnerThreads


async def test_the_work_of_one_owner_waits_for_its_own_and_not_for_that_of_others() -> None:
    threads = OwnerThreads("test")
    free = threading.Event()
    began: list[str] = []

    def long(name: str) -> str:
        began.append(name)
        free.wait(20)
        return name

    waiting = [asyncio.ensure_future(threads.run("greedy", lambda at=at: long(f"g{at}"))) for at in range(5)]
    while not began:
        await asyncio.sleep(0.001)
    assert await threads.run("other", lambda: 7) == 7
    assert began == ["g0"]
    free.set()
    assert await asyncio.gather(*waiting) == ["g0", "g1", "g2", "g3", "g4"]


async def test_a_cancelled_caller_waits_for_its_thread() -> None:
    threads = OwnerThreads("test")
    free, began = threading.Event(), threading.Event()
    done: list[str] = []

    def long() -> None:
        began.set()
        free.wait(20)
        done.append("first")

    task = asyncio.ensure_future(threads.run("a", long))
    while not began.is_set():
        await asyncio.sleep(0.001)
    task.cancel()
    after = asyncio.ensure_future(threads.run("a", lambda: done.append("second")))
    await asyncio.sleep(0)
    free.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    await after
    assert done == ["first", "second"]


async def test_an_error_reaches_the_caller_and_frees_the_owner() -> None:
    threads = OwnerThreads("test")

    def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await threads.run("a", fails)
    assert await threads.run("a", lambda: 1) == 1
