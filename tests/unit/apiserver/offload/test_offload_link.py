"""Remote calls over a link: results, errors, cancellation and lost connections."""

import asyncio
import socket

import pytest

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import Cause, StatusError
from vcsync.apiserver.egress.failure import CallFailed
from vcsync.apiserver.offload.link import Defect, Link, LinkLost
from vcsync.apiserver.storage.interface import StoreError, StoreFull


class Pair:
    """Both ends; the second has procedures."""

    def __init__(self, first, second, notified, tasks):
        self.first, self.second, self.notified, self.tasks = first, second, notified, tasks


@pytest.fixture
async def linked():
    made = []

    async def link(**procedures):
        ours, theirs = socket.socketpair()
        notified = []
        first = Link(*await asyncio.open_connection(sock=ours), {})
        second = Link(*await asyncio.open_connection(sock=theirs), procedures, notified.append)
        tasks = [asyncio.create_task(each.run()) for each in (first, second)]
        made.extend(tasks)
        return Pair(first, second, notified, tasks)

    yield link
    for task in made:
        task.cancel()
    await asyncio.gather(*made, return_exceptions=True)


async def test_concurrent_calls_get_their_own_results(linked):
    async def double(number):
        await asyncio.sleep(0)
        return 2 * number

    pair = await linked(double=double)
    assert await asyncio.gather(*(pair.first.call("double", n) for n in range(50))) == [
        2 * n for n in range(50)
    ]


async def test_both_ends_call_at_the_same_time(linked):
    async def back(text):
        return await pair.second.call("there", text)

    async def there(text):
        return text + "!"

    pair = await linked(back=back)
    pair.first._procedures = {"there": there}
    assert await pair.first.call("back", "x" * 1_000_000) == "x" * 1_000_000 + "!"


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
async def test_an_error_is_raised_at_the_calling_end(linked, error):
    async def fail():
        raise error

    pair = await linked(fail=fail)
    with pytest.raises(type(error)) as caught:
        await pair.first.call("fail")
    assert vars(caught.value) == vars(error)
    assert str(caught.value) == str(error)


async def test_an_unexpected_error_carries_its_traceback(linked):
    async def fail():
        return {}["missing"]

    pair = await linked(fail=fail)
    with pytest.raises(Defect, match="KeyError: 'missing'"):
        await pair.first.call("fail")


async def test_cancelling_a_call_cancels_it_at_the_other_end(linked):
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def last():
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    pair = await linked(last=last)
    asking = asyncio.create_task(pair.first.call("last"))
    async with asyncio.timeout(20):
        await begun.wait()
        asking.cancel()
        await stopped.wait()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_calls_fail_when_the_other_end_is_gone(linked):
    async def last():
        await asyncio.Event().wait()

    pair = await linked(last=last)
    asking = asyncio.create_task(pair.first.call("last"))
    await asyncio.sleep(0)
    pair.second.close()
    async with asyncio.timeout(20):
        with pytest.raises(LinkLost):
            await asking
        await asyncio.gather(*pair.tasks)
    with pytest.raises(LinkLost):
        await pair.first.call("last")


async def test_notifications_arrive_in_order_with_calls(linked):
    async def seen():
        return list(pair.notified)

    pair = await linked(seen=seen)
    pair.first.notify([1, 2])
    pair.first.notify([3])
    assert await pair.first.call("seen") == [[1, 2], [3]]
