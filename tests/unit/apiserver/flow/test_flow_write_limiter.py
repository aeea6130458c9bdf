"""The limit of concurrent writes in a namespace: order, release, cancellation and overdue slots."""

import asyncio
import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.apiserver.flow.write_limiter import NamespaceWriteLimiter, limited_write, release_current_slot

HERE, THERE = ("a", "here"), ("a", "there")
LONG = 3600.0


def crowded(limit, slot_seconds=LONG):
    """Return a limiter that has just seen a write of another namespace."""
    limiter = NamespaceWriteLimiter(limit, slot_seconds, alone_seconds=LONG)
    limiter._latest = (("other", "namespace"), time.monotonic())
    return limiter


async def begun(limiter, key, count):
    """Begin `count` writes; return the tasks that have a slot, and those that wait, in order."""
    tasks = [asyncio.create_task(limiter.acquire(key)) for _ in range(count)]
    await settle()
    return [each for each in tasks if each.done()], [each for each in tasks if not each.done()]


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


async def test_two_writes_of_a_namespace_begin_and_the_others_wait_in_order():
    limiter = crowded(2)
    inside, outside = await begun(limiter, HERE, 5)
    assert (len(inside), len(outside)) == (2, 3)
    assert limiter.waiting("a") == 3
    inside[1].result().release()
    await settle()
    assert [each.done() for each in outside] == [True, False, False]
    for each in (inside[0], outside[0]):
        each.result().release()
    await settle()
    assert all(each.done() for each in outside)
    assert limiter.waiting("a") == 0


async def test_the_limit_is_lifted_while_no_other_namespace_writes():
    now = [100.0]
    limiter = NamespaceWriteLimiter(2, LONG, alone_seconds=1.0, clock=lambda: now[0])
    inside, outside = await begun(limiter, HERE, 9)
    assert (len(inside), len(outside)) == (9, 0)
    there, _ = await begun(limiter, THERE, 1)
    _, outside = await begun(limiter, HERE, 3)
    assert len(outside) == 3
    now[0] += 1.1
    inside[0].result().release()
    await settle()
    assert all(each.done() for each in outside)
    assert there[0].done()


async def test_other_namespaces_and_tenants_have_limits_of_their_own():
    limiter = crowded(2)
    await begun(limiter, HERE, 9)
    for key in (THERE, ("b", "here")):
        inside, _ = await begun(limiter, key, 1)
        assert inside
    assert limiter.waiting("b") == 0


async def test_releasing_a_slot_twice_admits_one_write():
    limiter = crowded(1)
    (first,), (second, third) = await begun(limiter, HERE, 3)
    for _ in range(3):
        first.result().release()
    await settle()
    assert second.done()
    assert not third.done()


async def test_a_write_cancelled_while_it_waits_is_skipped():
    limiter = crowded(1)
    (first,), (second, third) = await begun(limiter, HERE, 3)
    second.cancel()
    await settle()
    first.result().release()
    await settle()
    assert third.done()


async def test_a_write_cancelled_as_it_is_admitted_passes_its_slot_on():
    limiter = crowded(1)
    (first,), (second, third) = await begun(limiter, HERE, 3)
    first.result().release()
    second.cancel()
    await settle()
    assert second.cancelled()
    assert third.done()


async def test_overdue_writes_lose_their_slots():
    limiter = crowded(2, 0.01)
    _, outside = await begun(limiter, HERE, 6)
    async with asyncio.timeout(10):
        await asyncio.gather(*outside)
    assert limiter.waiting("a") == 0


async def test_each_event_loop_iteration_admits_one_write():
    limiter = crowded(2)
    begun_writes = [await begun(limiter, ("a", f"n{number}"), 4) for number in range(3)]
    for inside, _ in begun_writes:
        for each in inside:
            each.result().release()
    begun_by_iteration = []
    for _ in range(8):
        await asyncio.sleep(0)
        begun_by_iteration.append(6 - limiter.waiting("a"))
    assert begun_by_iteration == sorted(begun_by_iteration)
    assert begun_by_iteration[-1] == 6
    assert all(after - before <= 1 for before, after in itertools.pairwise([0, *begun_by_iteration]))


async def test_a_write_that_waits_for_a_webhook_releases_its_slot():
    limiter = crowded(1)

    async def calls_back():
        with limited_write(limiter, HERE) as write:
            await write.acquire()
            release_current_slot()  # it asks a webhook, which writes in this namespace
            with limited_write(limiter, HERE) as another:
                await another.acquire()
                return "done"

    async with asyncio.timeout(10):
        assert await asyncio.gather(*(calls_back() for _ in range(3))) == ["done"] * 3


def test_releasing_without_a_slot_does_nothing():
    release_current_slot()


async def test_a_failing_block_releases_its_slot():
    limiter = crowded(1)

    async def fails():
        with limited_write(limiter, HERE) as write:
            await write.acquire()
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await fails()
    inside, _ = await begun(limiter, HERE, 1)
    assert inside


async def test_namespaces_without_writes_are_forgotten():
    limiter = crowded(1)
    for number in range(100):
        with limited_write(limiter, ("a", f"n{number}")) as write:
            await write.acquire()
            await write.acquire()
    assert not limiter._namespaces


@given(st.lists(st.tuples(st.sampled_from(["take", "release", "cancel"]), st.integers(0, 20)), max_size=60))
def test_the_limit_is_used_fully_and_never_exceeded(steps):
    async def play():
        limiter, tasks = crowded(2), []
        for step, number in steps:
            if step == "take":
                tasks.append(asyncio.create_task(limiter.acquire(HERE)))
            elif tasks:
                each = tasks[number % len(tasks)]
                if step == "cancel":
                    each.cancel()
                elif each.done() and not each.cancelled():
                    tasks.remove(each)
                    each.result().release()
            await settle()
            tasks = [each for each in tasks if not each.cancelled()]
            having = sum(each.done() for each in tasks)
            assert having == min(2, len(tasks))
            assert limiter.waiting("a") == len(tasks) - having
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(play())
