"""Long work yields: each event-loop iteration resumes one waiter, in order, and skips cancelled ones."""

import asyncio

import pytest

from vcsync.objects.budget import PIECE_STEPS, Budget
from vcsync.process.loop_turns import rest, turn


async def worker(name: str, order: list[str], pieces: int = 3) -> None:
    for _ in range(pieces):
        await turn()
        order.append(name)


async def test_each_event_loop_iteration_resumes_one_waiter():
    order: list[str] = []
    tasks = [asyncio.create_task(worker(str(number), order)) for number in range(20)]
    most = 0
    while not all(each.done() for each in tasks):
        before = len(order)
        await asyncio.sleep(0)
        most = max(most, len(order) - before)
    assert most == 1
    assert order == [str(number) for number in range(20)] * 3


async def test_cancelled_waiters_are_skipped():
    order: list[str] = []
    tasks = [asyncio.create_task(worker(name, order)) for name in "abc"]
    await asyncio.sleep(0)
    tasks[0].cancel()
    tasks[1].cancel()
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]
    async with asyncio.timeout(60):
        await tasks[2]
        await turn()
    assert order == ["c"] * 3


async def test_long_work_rests_after_each_piece_of_its_budget():
    others = 0

    async def count() -> None:
        nonlocal others
        while True:
            await asyncio.sleep(0)
            others += 1

    budget = Budget("the work")
    counter = asyncio.create_task(count())
    for _ in range(3 * PIECE_STEPS):
        budget.spend()
        await rest(budget)
    counter.cancel()
    assert others >= 3
