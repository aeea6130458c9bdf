"""Pieces of long work: one in each round of the event loop, in order, and none for who waits no longer."""

import asyncio

import pytest

from vcsync.controlplane.rest.turns import turn


async def worker(name: str, told: list[str], pieces: int = 3) -> None:
    for _ in range(pieces):
        await turn()
        told.append(name)


async def test_however_many_there_are_one_goes_on_in_each_round():
    told: list[str] = []
    tasks = [asyncio.create_task(worker(str(number), told)) for number in range(20)]
    most = 0
    while not all(each.done() for each in tasks):
        before = len(told)
        await asyncio.sleep(0)
        most = max(most, len(told) - before)
    assert most == 1
    assert told == [str(number) for number in range(20)] * 3


async def test_who_waits_no_longer_is_left_out():
    told: list[str] = []
    tasks = [asyncio.create_task(worker(name, told)) for name in "abc"]
    await asyncio.sleep(0)
    tasks[0].cancel()
    tasks[1].cancel()
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]
    async with asyncio.timeout(60):
        await tasks[2]
        await turn()
    assert told == ["c"] * 3
