"""Few writes of one namespace are in hand at once; nobody waits for one that does not come to an end."""

import asyncio
import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.controlplane.flow.hands import Hands, gripping, put_down

HERE, THERE = ("a", "here"), ("a", "there")
LONG = 3600.0


def crowded(most, seconds=LONG):
    """Hands with somebody who writes elsewhere."""
    hands = Hands(most, seconds, alone=LONG)
    hands._latest = (("other", "place"), time.monotonic())
    return hands


async def begun(hands, key, count):
    """Begin so many writes; return the tasks of those that got in, and of those that wait, in order."""
    tasks = [asyncio.create_task(hands.take(key)) for _ in range(count)]
    await settle()
    return [each for each in tasks if each.done()], [each for each in tasks if not each.done()]


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


async def test_two_writes_of_a_namespace_begin_and_the_others_wait_in_order():
    hands = crowded(2)
    inside, outside = await begun(hands, HERE, 5)
    assert (len(inside), len(outside)) == (2, 3)
    assert hands.waiting("a") == 3
    inside[1].result().release()
    await settle()
    assert [each.done() for each in outside] == [True, False, False]
    for each in (inside[0], outside[0]):
        each.result().release()
    await settle()
    assert all(each.done() for each in outside)
    assert hands.waiting("a") == 0


async def test_who_writes_alone_waits_for_nobody():
    now = [100.0]
    hands = Hands(2, LONG, alone=1.0, clock=lambda: now[0])
    inside, outside = await begun(hands, HERE, 9)
    assert (len(inside), len(outside)) == (9, 0)
    there, _ = await begun(hands, THERE, 1)
    _, outside = await begun(hands, HERE, 3)
    assert len(outside) == 3
    now[0] += 1.1
    inside[0].result().release()
    await settle()
    assert all(each.done() for each in outside)
    assert there[0].done()


async def test_another_namespace_and_another_tenant_wait_for_nobody_here():
    hands = crowded(2)
    await begun(hands, HERE, 9)
    for key in (THERE, ("b", "here")):
        inside, _ = await begun(hands, key, 1)
        assert inside
    assert hands.waiting("b") == 0


async def test_a_place_is_given_back_once_however_often_it_is_released():
    hands = crowded(1)
    (first,), (second, third) = await begun(hands, HERE, 3)
    for _ in range(3):
        first.result().release()
    await settle()
    assert second.done()
    assert not third.done()


async def test_who_is_cancelled_while_waiting_keeps_nobody():
    hands = crowded(1)
    (first,), (second, third) = await begun(hands, HERE, 3)
    second.cancel()
    await settle()
    first.result().release()
    await settle()
    assert third.done()


async def test_who_is_cancelled_just_when_its_turn_has_come_hands_it_on():
    hands = crowded(1)
    (first,), (second, third) = await begun(hands, HERE, 3)
    first.result().release()
    second.cancel()
    await settle()
    assert second.cancelled()
    assert third.done()


async def test_nobody_waits_long_for_writes_that_do_not_end():
    hands = crowded(2, 0.01)
    _, outside = await begun(hands, HERE, 6)
    async with asyncio.timeout(10):
        await asyncio.gather(*outside)
    assert hands.waiting("a") == 0


async def test_of_all_that_wait_one_begins_in_each_round_of_the_loop():
    hands = crowded(2)
    places = [await begun(hands, ("a", f"n{number}"), 4) for number in range(3)]
    for inside, _ in places:
        for each in inside:
            each.result().release()
    begun_by_round = []
    for _ in range(8):
        await asyncio.sleep(0)
        begun_by_round.append(6 - hands.waiting("a"))
    assert begun_by_round == sorted(begun_by_round)
    assert begun_by_round[-1] == 6
    assert all(after - before <= 1 for before, after in itertools.pairwise([0, *begun_by_round]))


async def test_what_asks_elsewhere_lets_the_next_begin():
    hands = crowded(1)

    async def calls_back():
        with gripping(hands, HERE) as grip:
            await grip.take()
            put_down()  # it asks a webhook, which writes in this namespace
            with gripping(hands, HERE) as another:
                await another.take()
                return "done"

    async with asyncio.timeout(10):
        assert await asyncio.gather(*(calls_back() for _ in range(3))) == ["done"] * 3


def test_who_has_no_place_puts_nothing_down():
    put_down()


async def test_a_place_ends_with_its_block_also_when_that_fails():
    hands = crowded(1)

    async def fails():
        with gripping(hands, HERE) as grip:
            await grip.take()
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await fails()
    inside, _ = await begun(hands, HERE, 1)
    assert inside


async def test_nothing_is_kept_of_namespaces_without_writes():
    hands = crowded(1)
    for number in range(100):
        with gripping(hands, ("a", f"n{number}")) as grip:
            await grip.take()
            await grip.take()
    assert not hands._places


@given(st.lists(st.tuples(st.sampled_from(["take", "release", "cancel"]), st.integers(0, 20)), max_size=60))
def test_never_more_than_may_be_and_never_fewer_than_could_be(steps):
    async def play():
        hands, tasks = crowded(2), []
        for step, number in steps:
            if step == "take":
                tasks.append(asyncio.create_task(hands.take(HERE)))
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
            assert hands.waiting("a") == len(tasks) - having
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(play())
