"""Memory that requests take is shared between tenants."""

import asyncio

import pytest

from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.flow.memory_budget import Budget


async def test_a_tenant_never_takes_more_than_it_leaves_free():
    budget = Budget(100)
    await budget.acquire("a", 40)
    assert not budget.has_room("a", 30)
    assert budget.has_room("a", 20)
    assert budget.has_room("b", 60)


async def test_a_request_never_takes_more_than_half():
    budget = Budget(100)
    assert await budget.acquire("a", 1000) == 50


async def test_waiting_tenants_take_turns():
    budget, order = Budget(100), []
    await budget.acquire("a", 50)
    await budget.acquire("b", 50)

    async def wait(tenant, name):
        await budget.acquire(tenant, 40)
        order.append(name)
        await asyncio.sleep(0)
        budget.release(tenant, 40)

    tasks = [
        asyncio.create_task(wait(tenant, name)) for tenant, name in (("a", "a1"), ("a", "a2"), ("b", "b1"))
    ]
    await asyncio.sleep(0)
    budget.release("a", 50)
    budget.release("b", 50)
    await asyncio.gather(*tasks)
    assert order.index("b1") < order.index("a2")
    assert budget.used == 0


async def test_a_wait_that_takes_too_long_is_refused():
    budget = Budget(100, wait_seconds=0.0)
    await budget.acquire("a", 50)
    with pytest.raises(StatusError) as refused:
        await budget.acquire("a", 50)
    assert refused.value.code == 429
    budget.release("a", 50)
    assert budget.used == 0
    await budget.acquire("a", 50)


async def test_a_cancelled_wait_takes_nothing():
    budget = Budget(100)
    await budget.acquire("a", 50)
    waiting = asyncio.create_task(budget.acquire("a", 50))
    await asyncio.sleep(0)
    budget.release("a", 50)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert budget.used == 0


async def test_a_wait_cancelled_as_it_succeeds_gives_the_memory_back():
    budget = Budget(100)
    await budget.acquire("a", 50)
    await budget.acquire("b", 50)
    first, second = (asyncio.create_task(budget.acquire("a", 40)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()  # it has not heard of it when the next lines run
    budget.release("a", 50)
    budget.release("b", 50)
    assert await second == 40
    await asyncio.gather(first, return_exceptions=True)
    budget.release("a", 40)
    assert budget.used == 0
