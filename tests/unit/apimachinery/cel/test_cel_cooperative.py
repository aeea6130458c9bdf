import asyncio
import threading
import time

import pytest

from vcsync.apimachinery.cel import cooperative
from vcsync.apimachinery.cel.authorizing import Answers, Authorizer, Check, Decision, Pending
from vcsync.apimachinery.cel.cooperative import (
    SHORT_STEPS,
    evaluate_cooperatively,
    work,
)
from vcsync.apimachinery.cel.values import CostExceeded
from vcsync.objects.loop_steps import TooLong, charge_steps


def run(coroutine):
    return asyncio.run(coroutine)


def spending(steps, limit=10_000_000):
    """Return an evaluation of so many steps that tells on which thread it ended."""

    def evaluate():
        left = work(limit)
        for _ in range(steps):
            left.spend()
        return threading.current_thread().name

    return evaluate


@pytest.mark.parametrize(
    ("steps", "where"), [(1, "MainThread"), (SHORT_STEPS, "MainThread"), (SHORT_STEPS + 1, "cel")]
)
def test_only_long_evaluations_leave_the_event_loop(steps, where):
    assert run(evaluate_cooperatively("a", spending(steps))).startswith(where)


def test_what_takes_long_without_steps_leaves_the_event_loop_as_well():
    def evaluate():
        charge_steps(SHORT_STEPS + 1)
        return threading.current_thread().name

    assert run(evaluate_cooperatively("a", evaluate)).startswith("cel")
    assert evaluate() == "MainThread"


def test_where_it_can_be_done_elsewhere_a_long_evaluation_says_so():
    async def ask(steps):
        with cooperative.raising_too_long():
            return await evaluate_cooperatively("a", spending(steps))

    assert run(ask(SHORT_STEPS)) == "MainThread"
    with pytest.raises(TooLong):
        run(ask(SHORT_STEPS + 1))
    assert not cooperative.raises_too_long()


def test_several_works_of_one_evaluation_share_the_steps_on_the_event_loop():
    def evaluate():
        for _ in range(2):
            work(SHORT_STEPS).spend(SHORT_STEPS)
        return threading.current_thread().name

    assert run(evaluate_cooperatively("a", evaluate)).startswith("cel")


@pytest.mark.parametrize("steps", [100, 20_000])
def test_the_limit_of_steps_holds_on_the_loop_and_beside_it(steps):
    with pytest.raises(CostExceeded):
        run(evaluate_cooperatively("a", spending(steps, limit=steps - 1)))


def test_others_are_served_while_a_long_evaluation_runs():
    begun, end = threading.Event(), threading.Event()

    def evaluate():
        work(10_000_000).spend(SHORT_STEPS + 1)
        begun.set()
        assert end.wait(10)
        return "late"

    async def both():
        long = asyncio.create_task(evaluate_cooperatively("a", evaluate))
        while not begun.is_set():
            await asyncio.sleep(0)
        assert await evaluate_cooperatively("b", lambda: "early") == "early"
        end.set()
        return await long

    assert run(both()) == "late"


def test_one_tenant_has_one_long_evaluation_at_a_time():
    running, most = [0], [0]

    def evaluate():
        work(10_000_000).spend(SHORT_STEPS + 1)
        running[0] += 1
        most[0] = max(most[0], running[0])
        time.sleep(0.002)
        running[0] -= 1

    async def all_of_them():
        await asyncio.gather(*(evaluate_cooperatively("a", evaluate) for _ in range(5)))

    run(all_of_them())
    assert most == [1]
    assert not cooperative._gates


def test_a_caller_that_is_gone_leaves_no_turn_behind():
    def evaluate():
        work(10_000_000).spend(SHORT_STEPS + 1)
        time.sleep(0.01)

    async def cancelled():
        task = asyncio.create_task(evaluate_cooperatively("a", evaluate))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await evaluate_cooperatively("a", lambda: 1) == 1

    run(cancelled())
    assert not cooperative._gates


def test_an_evaluation_ends_soon_when_nobody_waits_for_it():
    begun, ended = threading.Event(), []

    def evaluate():
        left = work(10**12)
        left.spend(SHORT_STEPS + 1)
        begun.set()
        try:
            while True:
                left.spend(1000)
        except CostExceeded:
            ended.append(left.left > 0)
            raise

    async def cancelled():
        task = asyncio.create_task(evaluate_cooperatively("a", evaluate))
        while not begun.is_set():
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(cancelled())
    assert ended == [True]


def test_answers_of_the_authorizer_are_awaited_once_each():
    asked = []

    async def ask(account, check):
        asked.append((account, check.verb))
        return Decision(check.verb == "get")

    authorizer = Authorizer(Answers(ask))

    def evaluate():
        return [authorizer.decision(Check(verb)).allowed for verb in ("get", "list", "get")]

    assert run(evaluate_cooperatively("a", evaluate)) == [True, False, True]
    assert asked == [(None, "get"), (None, "list")]


def test_on_a_thread_answers_are_awaited_without_beginning_anew():
    begun = []

    async def ask(account, check):
        return Decision(check.verb == "get")

    authorizer = Authorizer(Answers(ask))

    def evaluate():
        begun.append(threading.current_thread().name)
        work(10_000_000).spend(SHORT_STEPS + 1)
        return [authorizer.decision(Check(verb)).allowed for verb in ("get", "list", "watch")]

    assert run(evaluate_cooperatively("a", evaluate)) == [True, False, False]
    assert len(begun) == 2


def test_an_evaluation_that_asks_without_end_is_given_up():
    async def ask(account, check):
        return Decision(True)

    authorizer = Authorizer(Answers(ask))
    numbers = iter(range(10_000))

    def evaluate():
        return authorizer.decision(Check(str(next(numbers))))

    with pytest.raises(Pending):
        run(evaluate_cooperatively("a", evaluate))


def test_nothing_is_too_long_where_nobody_waits():
    assert spending(SHORT_STEPS * 2)() == "MainThread"
    with pytest.raises(TooLong):
        raise TooLong
