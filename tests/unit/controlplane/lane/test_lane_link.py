"""Two ends of a link ask each other: answers and failures come back as they were, and nobody waits for ever."""

import asyncio
import socket

import pytest

from vcsync.controlplane import errors
from vcsync.controlplane.egress.failure import CallFailed
from vcsync.controlplane.errors import Cause, StatusError
from vcsync.controlplane.lane.link import Defect, Link, LinkLost
from vcsync.controlplane.store.interface import StoreError, StoreFull


class Pair:
    """Both ends, of which the second answers."""

    def __init__(self, first, second, told, tasks):
        self.first, self.second, self.told, self.tasks = first, second, told, tasks


@pytest.fixture
async def linked():
    made = []

    async def link(**answers):
        ours, theirs = socket.socketpair()
        told = []
        first = Link(*await asyncio.open_connection(sock=ours), {})
        second = Link(*await asyncio.open_connection(sock=theirs), answers, told.append)
        tasks = [asyncio.create_task(each.run()) for each in (first, second)]
        made.extend(tasks)
        return Pair(first, second, told, tasks)

    yield link
    for task in made:
        task.cancel()
    await asyncio.gather(*made, return_exceptions=True)


async def test_many_questions_are_answered_each_with_its_own_answer(linked):
    async def double(number):
        await asyncio.sleep(0)
        return 2 * number

    pair = await linked(double=double)
    assert await asyncio.gather(*(pair.first.ask("double", n) for n in range(50))) == [
        2 * n for n in range(50)
    ]


async def test_both_ends_ask_at_the_same_time(linked):
    async def back(text):
        return await pair.second.ask("there", text)

    async def there(text):
        return text + "!"

    pair = await linked(back=back)
    pair.first._answers = {"there": there}
    assert await pair.first.ask("back", "x" * 1_000_000) == "x" * 1_000_000 + "!"


@pytest.mark.parametrize(
    "error",
    [
        errors.invalid("pods", "", "p", [errors.required("spec.a")]),
        StatusError(429, "TooManyRequests", "later", {"kind": "x"}, [Cause("a", "b", "c")], retry_after=3),
        StoreFull("no room"),
        StoreError("broken"),
        CallFailed("no answer", 503),
    ],
)
async def test_a_failure_comes_back_as_it_was(linked, error):
    async def fail():
        raise error

    pair = await linked(fail=fail)
    with pytest.raises(type(error)) as caught:
        await pair.first.ask("fail")
    assert vars(caught.value) == vars(error)
    assert str(caught.value) == str(error)


async def test_a_defect_comes_back_with_its_traceback(linked):
    async def fail():
        return {}["missing"]

    pair = await linked(fail=fail)
    with pytest.raises(Defect, match="KeyError: 'missing'"):
        await pair.first.ask("fail")


async def test_who_waits_no_longer_stops_the_work(linked):
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def last():
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    pair = await linked(last=last)
    asking = asyncio.create_task(pair.first.ask("last"))
    async with asyncio.timeout(20):
        await begun.wait()
        asking.cancel()
        await stopped.wait()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_when_an_end_is_gone_nobody_waits_for_it(linked):
    async def last():
        await asyncio.Event().wait()

    pair = await linked(last=last)
    asking = asyncio.create_task(pair.first.ask("last"))
    await asyncio.sleep(0)
    pair.second.close()
    async with asyncio.timeout(20):
        with pytest.raises(LinkLost):
            await asking
        await asyncio.gather(*pair.tasks)
    with pytest.raises(LinkLost):
        await pair.first.ask("last")


async def test_what_is_told_arrives_before_what_is_asked_later(linked):
    async def seen():
        return list(pair.told)

    pair = await linked(seen=seen)
    pair.first.tell([1, 2])
    pair.first.tell([3])
    assert await pair.first.ask("seen") == [[1, 2], [3]]
