"""Memory that requests take is shared between tenants."""

import asyncio

import pytest

from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.flow.budget import Budget


async def test_a_tenant_never_has_more_than_it_leaves():
    budget = Budget(100)
    await budget.wait("a", 40)
    assert not budget.room("a", 30)
    assert budget.room("a", 20)
    assert budget.room("b", 60)


async def test_more_than_half_is_never_taken_at_once():
    budget = Budget(100)
    assert await budget.wait("a", 1000) == 50


async def test_who_waits_is_served_in_turns_when_there_is_room():
    budget, order = Budget(100), []
    await budget.wait("a", 50)
    await budget.wait("b", 50)

    async def wait(tenant, name):
        await budget.wait(tenant, 40)
        order.append(name)
        await asyncio.sleep(0)
        budget.give(tenant, 40)

    tasks = [
        asyncio.create_task(wait(tenant, name)) for tenant, name in (("a", "a1"), ("a", "a2"), ("b", "b1"))
    ]
    await asyncio.sleep(0)
    budget.give("a", 50)
    budget.give("b", 50)
    await asyncio.gather(*tasks)
    assert order.index("b1") < order.index("a2")
    assert budget.used == 0


async def test_who_waits_too_long_is_refused_and_forgotten():
    budget = Budget(100, wait_seconds=0.0)
    await budget.wait("a", 50)
    with pytest.raises(StatusError) as refused:
        await budget.wait("a", 50)
    assert refused.value.code == 429
    budget.give("a", 50)
    assert budget.used == 0
    await budget.wait("a", 50)


async def test_who_leaves_while_it_waits_takes_nothing():
    budget = Budget(100)
    await budget.wait("a", 50)
    waiting = asyncio.create_task(budget.wait("a", 50))
    await asyncio.sleep(0)
    budget.give("a", 50)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert budget.used == 0


async def test_who_leaves_in_the_same_moment_as_there_is_room_takes_nothing():
    budget = Budget(100)
    await budget.wait("a", 50)
    await budget.wait("b", 50)
    first, second = (asyncio.create_task(budget.wait("a", 40)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()  # it has not heard of it when the next lines run
    budget.give("a", 50)
    budget.give("b", 50)
    assert await second == 40
    await asyncio.gather(first, return_exceptions=True)
    budget.give("a", 40)
    assert budget.used == 0
