"""What calls hold is bounded, shared fairly, and given back."""

import asyncio

import pytest

from vcsync.controlplane.egress.failure import CallFailed
from vcsync.controlplane.egress.in_flight import SMALL, Bounds, Budget, InFlight

BIG = SMALL * 10


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


async def test_large_requests_wait_for_room_and_small_ones_do_not():
    flight = InFlight(Bounds(tenant_bytes=BIG, total_bytes=BIG))
    done = []

    async def call(tenant, size, gate):
        async with flight.turn(tenant, size):
            done.append((tenant, size))
            await gate.wait()

    gate = asyncio.Event()
    tasks = [asyncio.create_task(call("a", BIG, gate)) for _ in range(2)]
    tasks.append(asyncio.create_task(call("b", SMALL, gate)))
    await settle()
    assert done == [("a", BIG), ("b", SMALL)]
    gate.set()
    await asyncio.gather(*tasks)
    assert len(done) == 3
    assert flight._tenants == {}


async def test_large_answers_end_calls_once_there_is_no_room():
    flight = InFlight(Bounds(tenant_bytes=BIG, total_bytes=10 * BIG))
    async with flight.turn("a", 0) as first, flight.turn("a", 0) as second:
        first.answer(BIG)
        second.answer(SMALL)
        with pytest.raises(CallFailed, match="too many large answers"):
            second.answer(1)
        async with flight.turn("b", 0) as other:
            other.answer(BIG)
    async with flight.turn("a", 0) as again:
        again.answer(BIG)


async def test_who_gives_up_waiting_holds_nothing():
    budget = Budget(10)
    assert await budget.acquire(10) == 10
    waiting = [asyncio.create_task(budget.acquire(size)) for size in (8, 2)]
    await settle()
    waiting[0].cancel()
    await settle()
    budget.release(10)
    assert await waiting[1] == 2
    assert await budget.acquire(8) == 8


async def test_more_than_there_is_gets_all_there_is():
    budget = Budget(10)
    assert await budget.acquire(100) == 10
    assert not budget.take(1)


async def test_who_gives_up_in_the_same_moment_as_there_is_room_gives_back_nothing():
    budget = Budget(10)
    assert await budget.acquire(10) == 10
    waiting = asyncio.create_task(budget.acquire(8))
    await settle()
    waiting.cancel()  # it has not heard of it when the next line runs
    budget.release(10)
    await settle()
    assert budget.take(10)
    assert not budget.take(1)
