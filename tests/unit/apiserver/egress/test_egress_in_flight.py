"""The bytes of calls are limited, shared fairly and released."""

import asyncio

import pytest

from vcsync.apiserver.egress.failure import CallFailed
from vcsync.apiserver.egress.in_flight import SMALL, Bounds, ByteBudget, InFlight

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


async def test_large_responses_fail_calls_when_no_bytes_are_left():
    flight = InFlight(Bounds(tenant_bytes=BIG, total_bytes=10 * BIG))
    async with flight.turn("a", 0) as first, flight.turn("a", 0) as second:
        first.add_response(BIG)
        second.add_response(SMALL)
        with pytest.raises(CallFailed, match="too many large answers"):
            second.add_response(1)
        async with flight.turn("b", 0) as other:
            other.add_response(BIG)
    async with flight.turn("a", 0) as again:
        again.add_response(BIG)


async def test_a_cancelled_waiter_holds_no_bytes():
    budget = ByteBudget(10)
    assert await budget.acquire(10) == 10
    waiting = [asyncio.create_task(budget.acquire(size)) for size in (8, 2)]
    await settle()
    waiting[0].cancel()
    await settle()
    budget.release(10)
    assert await waiting[1] == 2
    assert await budget.acquire(8) == 8


async def test_a_request_beyond_the_limit_acquires_the_whole_limit():
    budget = ByteBudget(10)
    assert await budget.acquire(100) == 10
    assert not budget.take(1)


async def test_bytes_granted_to_a_cancelled_waiter_are_released_once():
    budget = ByteBudget(10)
    assert await budget.acquire(10) == 10
    waiting = asyncio.create_task(budget.acquire(8))
    await settle()
    # The waiter is cancelled, but has not run when the bytes are released.
    waiting.cancel()
    budget.release(10)
    await settle()
    assert budget.take(10)
    assert not budget.take(1)
