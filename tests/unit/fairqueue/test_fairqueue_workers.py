"""The worker pool, in virtual time."""

import asyncio
import contextvars
import math
from collections import Counter
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vcsync.fairqueue import Backoff, FairQueue, HandlerCancelledError, WorkerPool
from vcsync.fairqueue.workers import ITEM_SECONDS


def pool_of(handle, **options):
    """A pool on the clock of the running loop, with 1, 2, 4, .. seconds of backoff."""
    options.setdefault("queue", FairQueue(backoff=Backoff(base=1.0, cap=60.0, jitter=0.0)))
    return WorkerPool("test", handle, clock=asyncio.get_running_loop().time, **options)


@asynccontextmanager
async def running(pool):
    task = asyncio.create_task(pool.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def settled(pool):
    """Let (virtual) time pass until the pool has nothing left."""
    while pool.queue.statistics().groups:
        await asyncio.sleep(0.1)


class Recorder:
    """A handler that records items with their times, and takes `takes` seconds per item."""

    def __init__(self, takes=0.0):
        self.takes = takes
        self.handled = []
        self.at_once = 0
        self.most_at_once = 0

    async def __call__(self, group, item):
        self.handled.append((group, item))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(self.takes)
        finally:
            self.at_once -= 1


def pool_tasks():
    return [task for task in asyncio.all_tasks() if task.get_name() == "test-worker"]


def test_items_added_before_and_during_the_run_are_handled(in_virtual_time):
    async def scenario():
        handle = Recorder()
        pool = pool_of(handle)
        pool.add("t", "before")
        async with running(pool):
            await asyncio.sleep(1)
            pool.add("t", "during")
            await settled(pool)
        assert handle.handled == [("t", "before"), ("t", "during")]

    in_virtual_time(scenario())


def test_exactly_the_number_of_workers_items_are_handled_concurrently(in_virtual_time):
    async def scenario():
        handle = Recorder(takes=0.5)
        pool = pool_of(handle, workers=5)
        start = asyncio.get_running_loop().time()
        async with running(pool):
            for n in range(100):
                pool.add(f"t{n % 3}", n)
            await settled(pool)
        assert handle.most_at_once == 5
        assert asyncio.get_running_loop().time() - start == pytest.approx(10.0, abs=0.2)

    in_virtual_time(scenario())


def test_an_idle_pool_has_no_tasks_but_its_dispatcher(in_virtual_time):
    async def scenario():
        handle = Recorder(takes=1.0)
        pool = pool_of(handle)
        async with running(pool):
            await asyncio.sleep(1)
            assert pool_tasks() == []
            for n in range(10):
                pool.add("t", n)
            await asyncio.sleep(0.5)
            assert len(pool_tasks()) == 10
            await settled(pool)
            assert pool_tasks() == []

    in_virtual_time(scenario())


@pytest.mark.parametrize("count", [1, 3])
def test_an_item_is_handled_before_the_loop_looks_for_other_work(in_virtual_time, count):
    """At rest nothing is between an added item and its handler: no timer, no other task, no turn of the loop."""

    async def scenario():
        loop, order = asyncio.get_running_loop(), []

        async def handle(_group, item):
            order.append(item)
            await asyncio.sleep(1)

        pool = pool_of(handle, workers=count)
        async with running(pool):
            await asyncio.sleep(1)
            for item in range(count):
                pool.add("t", item)
            loop.call_soon(order.append, "what became ready afterwards")
            await asyncio.sleep(1)
        assert order == [*range(count), "what became ready afterwards"]

    in_virtual_time(scenario())


def test_changes_of_one_callback_are_handled_once(in_virtual_time):
    """A handler sees all events of a batch, since it does not begin before the batch is applied."""

    async def scenario():
        handle = Recorder()
        pool = pool_of(handle)
        async with running(pool):
            await asyncio.sleep(1)
            for _ in range(3):
                pool.add("t", "x")
            assert handle.handled == []
            await settled(pool)
        assert handle.handled == [("t", "x")]

    in_virtual_time(scenario())


def test_a_burst_starts_as_many_workers_as_it_has_items(in_virtual_time):
    async def scenario():
        pool = pool_of(Recorder(takes=1.0), workers=8)
        async with running(pool):
            await asyncio.sleep(1)
            for item in range(5):
                pool.add("t", item)
            assert len(pool_tasks()) == 5
            await asyncio.sleep(0.5)
            for item in range(5, 100):
                pool.add("t", item)
            assert len(pool_tasks()) == 8

    in_virtual_time(scenario())


@given(
    adds=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5)), max_size=40),
    weights=st.fixed_dictionaries({group: st.integers(1, 3) for group in "abc"}),
    limits=st.fixed_dictionaries({group: st.none() | st.integers(0, 3) for group in "abc"}),
    workers=st.integers(1, 6),
)
@settings(deadline=None, max_examples=60)
def test_workers_take_items_in_the_order_of_the_queue(in_virtual_time, adds, weights, limits, workers):
    """However items are added and workers started, the queue alone decides: weights, turns and limits hold."""

    def filled():
        queue = FairQueue()
        for group in "abc":
            queue.set_weight(group, weights[group])
            queue.set_limit(group, limits[group])
        return queue

    expected = filled()
    for group, item in adds:
        expected.add(group, item, now=0.0)
    firsts = [popped for _ in range(workers) if (popped := expected.pop(now=0.0)) is not None]

    async def scenario():
        handle = Recorder(takes=1.0)
        pool = pool_of(handle, workers=workers, queue=filled())
        async with running(pool):
            await asyncio.sleep(1)
            for group, item in adds:
                pool.add(group, item)
            await asyncio.sleep(0.5)
            assert handle.handled == firsts
            assert len(pool_tasks()) == len(firsts)

    in_virtual_time(scenario())


def test_a_worker_does_not_inherit_the_context_of_who_added_its_item(in_virtual_time):
    told = contextvars.ContextVar("told", default="nothing")

    async def scenario():
        found = []

        async def handle(_group, item):
            found.append((item, told.get()))
            if item == "first":
                told.set("a secret")
                pool.add("t", "second")
                await asyncio.sleep(1)  # so that another worker takes it

        pool = pool_of(handle)
        async with running(pool):
            pool.add("t", "first")
            await settled(pool)
        assert found == [("first", "nothing"), ("second", "nothing")]

    in_virtual_time(scenario())


def test_a_delayed_item_is_handled_at_its_deadline(in_virtual_time):
    async def scenario():
        loop = asyncio.get_running_loop()
        times = []

        async def handle(_group, item):
            times.append((item, round(loop.time() - start, 3)))

        pool = pool_of(handle)
        start = loop.time()
        async with running(pool):
            pool.add_after("t", "late", 30.0)
            await asyncio.sleep(1)
            pool.add_after("t", "soon", 1.0)
            await asyncio.sleep(1)
            await settled(pool)
        assert times == [("soon", 2.0), ("late", 30.0)]

    in_virtual_time(scenario())


def test_a_handler_may_request_another_run(in_virtual_time):
    async def scenario():
        loop = asyncio.get_running_loop()
        times = []

        async def handle(_group, _item):
            times.append(round(loop.time() - start, 3))
            return 10.0 if len(times) < 3 else None

        pool = pool_of(handle)
        start = loop.time()
        async with running(pool):
            pool.add("t", "x")
            await asyncio.sleep(0.1)
            await settled(pool)
        assert times == [0.0, 10.0, 20.0]
        assert pool.last_errors == {}

    in_virtual_time(scenario())


@pytest.mark.parametrize("workers", [1, 2])
def test_failing_items_are_retried_with_backoff_until_they_succeed(in_virtual_time, workers):
    async def scenario():
        loop = asyncio.get_running_loop()
        times, errors = [], []

        async def handle(_group, _item):
            times.append(round(loop.time() - start, 3))
            await asyncio.sleep(0)
            if len(times) < 4:
                raise ConnectionError("refused")

        def on_error(group, item, error, delay):
            errors.append((group, item, str(error), delay))

        pool = pool_of(handle, workers=workers, on_error=on_error)
        start = loop.time()
        async with running(pool):
            pool.add("t", "x")
            await asyncio.sleep(4)
            error = pool.last_errors["t", "x"]
            assert (error.message, error.time - start, error.attempts) == ("ConnectionError: refused", 3.0, 3)
            await settled(pool)
        assert times == [0.0, 1.0, 3.0, 7.0]
        assert errors == [("t", "x", "refused", delay) for delay in (1.0, 2.0, 4.0)]
        assert len(pool._errors) == 0  # not only left out of the copy
        assert pool.last_errors == {}

    in_virtual_time(scenario())


def test_a_requested_run_resets_the_backoff(in_virtual_time):
    async def scenario():
        outcomes = iter([OSError("1"), OSError("2"), 5.0, OSError("3"), None])
        delays = []

        async def handle(_group, _item):
            outcome = next(outcomes)
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        pool = pool_of(handle, on_error=lambda _group, _item, _error, delay: delays.append(delay))
        async with running(pool):
            pool.add("t", "x")
            await settled(pool)
        assert delays == [1.0, 2.0, 1.0]

    in_virtual_time(scenario())


@pytest.mark.parametrize("nonsense", [math.nan, math.inf, "soon"])
def test_an_invalid_result_of_a_handler_is_an_error_of_its_item_only(in_virtual_time, nonsense):
    async def scenario():
        answers = iter([nonsense, None])
        errors = []

        async def handle(_group, _item):
            return next(answers)

        pool = pool_of(handle, on_error=lambda *arguments: errors.append(type(arguments[2])))
        async with running(pool) as task:
            pool.add("t", "x")
            await settled(pool)
            assert not task.done()
        assert errors in ([ValueError], [TypeError])

    in_virtual_time(scenario())


def test_a_failing_on_error_loses_neither_the_item_nor_the_pool(in_virtual_time):
    async def scenario():
        answers = iter([OSError("x"), None])
        handled = []

        async def handle(_group, item):
            handled.append(item)
            if (answer := next(answers)) is not None:
                raise answer

        def on_error(*_):
            raise RuntimeError("broken observer")

        pool = pool_of(handle, on_error=on_error)
        async with running(pool) as task:
            pool.add("t", "x")
            await settled(pool)
            assert not task.done()
        assert handled == ["x", "x"]

    in_virtual_time(scenario())


def test_an_error_without_a_text_loses_neither_the_item_nor_the_pool(in_virtual_time):
    class UnprintableError(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    async def scenario():
        answers = iter([UnprintableError(), None])
        handled = []

        async def handle(_group, item):
            handled.append(item)
            if (answer := next(answers)) is not None:
                raise answer

        pool = pool_of(handle)
        async with running(pool) as task:
            pool.add("t", "x")
            await settled(pool)
            assert not task.done()
        assert handled == ["x", "x"]

    in_virtual_time(scenario())


def test_a_handler_whose_awaited_task_was_cancelled_is_retried(in_virtual_time):
    async def scenario():
        errors, handled = [], []

        async def handle(_group, item):
            handled.append(item)
            if len(handled) == 1:
                other = asyncio.create_task(asyncio.sleep(100))
                other.cancel()
                await other

        pool = pool_of(handle, workers=1, on_error=lambda *arguments: errors.append(arguments[2]))
        async with running(pool) as task:
            pool.add("t", "x")
            pool.add("t", "y")
            await settled(pool)
            assert not task.done()
        assert handled == ["x", "y", "x"]
        assert isinstance(errors[0], HandlerCancelledError)

    in_virtual_time(scenario())


def test_a_slow_tenant_cannot_take_all_workers(in_virtual_time):
    async def scenario():
        done_at = {}

        async def handle(group, item):
            await asyncio.sleep(100.0 if group == "slow" else 0.01)
            done_at[group, item] = asyncio.get_running_loop().time() - start

        pool = pool_of(handle, workers=4)
        pool.queue.set_limit("slow", 2)
        start = asyncio.get_running_loop().time()
        async with running(pool):
            for n in range(10):
                pool.add("slow", n)
            await asyncio.sleep(1)
            for n in range(10):
                pool.add("fast", n)
            await settled(pool)
        assert max(at for (group, _), at in done_at.items() if group == "fast") < 2
        assert len(done_at) == 20

    in_virtual_time(scenario())


def test_lifting_a_limit_on_the_queue_wakes_the_pool(in_virtual_time):
    async def scenario():
        handle = Recorder()
        pool = pool_of(handle)
        pool.queue.set_limit("t", 0)
        async with running(pool):
            pool.add("t", "x")
            await asyncio.sleep(10)
            assert handle.handled == []
            pool.queue.set_limit("t", None)
            await asyncio.sleep(0.1)
            assert handle.handled == [("t", "x")]

    in_virtual_time(scenario())


def test_a_deadline_set_while_all_workers_are_busy_is_kept(in_virtual_time):
    async def scenario():
        handle = Recorder(takes=1.0)
        pool = pool_of(handle, workers=1)
        async with running(pool):
            pool.add("t", "x")
            await asyncio.sleep(0.5)
            pool.add_after("t", "y", 5.0)
            await settled(pool)
        assert handle.handled == [("t", "x"), ("t", "y")]

    in_virtual_time(scenario())


def test_a_handler_that_never_suspends_lets_the_loop_run(in_virtual_time):
    async def scenario():
        handled = []

        async def handle(_group, item):
            handled.append(item)

        pool = pool_of(handle, workers=1)
        for n in range(1000):
            pool.add("t", n)
        async with running(pool):
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert 0 < len(handled) < 100
            await settled(pool)
        assert len(handled) == 1000

    in_virtual_time(scenario())


def test_a_worker_continues_with_the_next_item_in_the_same_task(in_virtual_time):
    async def scenario():
        tasks = []

        async def handle(_group, _item):
            tasks.append(asyncio.current_task())
            await asyncio.sleep(0.1)

        pool = pool_of(handle, workers=2)
        for n in range(20):
            pool.add("t", n)
        async with running(pool):
            await settled(pool)
        assert (len(tasks), len(set(tasks))) == (20, 2)

    in_virtual_time(scenario())


def test_an_item_whose_processing_is_cancelled_stays_in_the_queue(in_virtual_time):
    async def scenario():
        pool = pool_of(Recorder(takes=100.0))
        pool.add("t", "x")
        async with running(pool):
            await asyncio.sleep(1)
            assert pool.queue.statistics().in_process == 1
        statistics = pool.queue.statistics()
        assert (statistics.queued, statistics.in_process) == (1, 0)
        handle = Recorder()
        second = pool_of(handle, queue=pool.queue)
        async with running(second):
            await settled(second)
        assert handle.handled == [("t", "x")]

    in_virtual_time(scenario())


def test_an_item_whose_worker_is_cancelled_before_it_begins_stays_in_the_queue(in_virtual_time):
    async def scenario():
        handle = Recorder()
        pool = pool_of(handle)
        task = asyncio.create_task(pool.run())
        await asyncio.sleep(1)
        task.cancel()
        pool.add("t", "y")
        assert len(pool_tasks()) == 1
        await asyncio.gather(task, return_exceptions=True)
        assert handle.handled == []
        assert pool_tasks() == []
        assert pool.queue.pop(now=0.0) == ("t", "y")
        assert await pool.drain(1.0) is True

    in_virtual_time(scenario())


def test_a_pool_can_run_again_after_it_was_cancelled(in_virtual_time):
    async def scenario():
        handle = Recorder(takes=1.0)
        pool = pool_of(handle)
        pool.add("t", "x")
        async with running(pool):
            await asyncio.sleep(0.5)
        async with running(pool):
            await settled(pool)
        assert handle.handled == [("t", "x"), ("t", "x")]

    in_virtual_time(scenario())


def test_a_handler_that_ignores_cancellation_does_not_keep_the_pool_alive(in_virtual_time):
    async def scenario():
        handled = []

        async def handle(_group, item):
            handled.append(item)
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                await asyncio.sleep(1)

        pool = pool_of(handle, workers=1)
        pool.add("t", "x")
        pool.add("t", "y")
        task = asyncio.create_task(pool.run())
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert handled == ["x"]
        assert pool.queue.statistics().queued == 1

    in_virtual_time(scenario())


def test_two_pools_cannot_run_on_one_queue(in_virtual_time):
    async def scenario():
        pool = pool_of(Recorder())
        other = pool_of(Recorder(), queue=pool.queue)
        async with running(pool):
            await asyncio.sleep(0)
            for second in (pool, other):
                with pytest.raises(RuntimeError, match="served by a running pool"):
                    await second.run()
            pool.add("t", "x")
            await settled(pool)

    in_virtual_time(scenario())


def test_drain_waits_for_items_in_flight_and_takes_no_new_ones(in_virtual_time):
    async def scenario():
        handle = Recorder(takes=5.0)
        pool = pool_of(handle, workers=2)
        for n in range(4):
            pool.add("t", n)
        async with running(pool):
            await asyncio.sleep(1)
            assert await pool.drain(10.0) is True
            pool.add("t", "new")
            pool.add_after("t", "newer", 1.0)
            await asyncio.sleep(100)
        async with running(pool):  # a drained pool stays drained
            await asyncio.sleep(100)
        assert handle.handled == [("t", 0), ("t", 1)]
        statistics = pool.queue.statistics()
        assert (statistics.queued, statistics.delayed, statistics.in_process) == (3, 1, 0)

    in_virtual_time(scenario())


def test_drain_reports_a_timeout(in_virtual_time):
    async def scenario():
        pool = pool_of(Recorder(takes=100.0))
        start = asyncio.get_running_loop().time()
        assert await pool.drain(1.0) is True  # nothing in flight
        pool = pool_of(Recorder(takes=100.0))
        pool.add("t", "x")
        async with running(pool):
            await asyncio.sleep(1)
            assert await pool.drain(3.0) is False
            assert asyncio.get_running_loop().time() - start == pytest.approx(4.0)
            assert await pool.drain(1000.0) is True

    in_virtual_time(scenario())


def test_last_errors_are_bounded_and_forgotten_with_their_group(in_virtual_time):
    async def scenario():
        async def handle(_group, _item):
            raise OSError("down")

        pool = pool_of(handle)
        async with running(pool):
            pool.add("quiet", "x")
            for n in range(1000):
                pool.add("noisy", n)
            await asyncio.sleep(0.5)
            assert len(pool.last_errors) == 200
            assert ("quiet", "x") in pool.last_errors
            pool.queue.forget_group("noisy")
            assert list(pool.last_errors) == [("quiet", "x")]

    in_virtual_time(scenario())


def test_a_failure_after_its_group_was_forgotten_is_reported_once(in_virtual_time):
    async def scenario():
        delays = []

        async def handle(_group, _item):
            await asyncio.sleep(1)
            raise OSError("down")

        pool = pool_of(handle, on_error=lambda *arguments: delays.append(arguments[3]))
        async with running(pool):
            pool.add("t", "x")
            await asyncio.sleep(0.5)
            pool.queue.forget_group("t")
            await settled(pool)
        assert delays == [math.inf]
        assert pool.last_errors == {}

    in_virtual_time(scenario())


def test_a_pool_needs_a_worker():
    async def handle(_group, _item):
        return None

    with pytest.raises(ValueError, match="workers of pool 'p' must be at least 1"):
        WorkerPool("p", handle, workers=0)


STEPS = st.tuples(
    st.sampled_from(["add", "add", "add_after"]),
    st.sampled_from(["a", "b", "c"]),
    st.integers(0, 3),
    st.sampled_from([0.0, 0.0, 0.3, 1.0]),
)
RUNS = st.tuples(st.sampled_from([0.0, 0.2, 2.0]), st.sampled_from(["settle", "fail", "again"]))


@given(steps=st.lists(STEPS, max_size=40), runs=st.lists(RUNS, max_size=40), workers=st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_every_request_is_followed_by_a_run_and_no_item_runs_twice_at_once(
    in_virtual_time, steps, runs, workers
):
    async def scenario():
        asked, begun, busy = {}, {}, set()
        outcomes = iter(runs)
        events = iter(range(10**6))

        async def handle(group, item):
            key = group, item
            assert key not in busy
            busy.add(key)
            begun[key] = next(events)
            try:
                takes, outcome = next(outcomes, (0.0, "settle"))
                await asyncio.sleep(takes)
                if outcome == "fail":
                    raise OSError("x")
                return 0.5 if outcome == "again" else None
            finally:
                busy.remove(key)

        pool = pool_of(handle, workers=workers, on_error=lambda *arguments: errors.append(arguments[2]))
        errors = []
        async with running(pool) as task:
            for what, group, item, pause in steps:
                asked[group, item] = next(events)
                if what == "add":
                    pool.add(group, item)
                else:
                    pool.add_after(group, item, 0.7)
                await asyncio.sleep(pause)
            async with asyncio.timeout(10_000):
                await settled(pool)
            assert not task.done()
        assert all(isinstance(error, OSError) for error in errors)
        assert all(begun[key] > asked[key] for key in asked)

    in_virtual_time(scenario())


@pytest.mark.parametrize("hanging", [2, 100])
def test_groups_whose_servers_hang_take_no_workers_from_others(in_virtual_time, hanging):
    handled_at = {}
    at_once = most_at_once = 0

    async def scenario():
        clock = asyncio.get_running_loop().time

        async def handle(group, item):
            nonlocal at_once, most_at_once
            at_once += 1
            most_at_once = max(most_at_once, at_once)
            try:
                if int(group) < hanging:
                    await asyncio.sleep(30)
                    raise TimeoutError
                await asyncio.sleep(0.05)
                handled_at[group, item] = clock() - began
            finally:
                at_once -= 1

        pool = pool_of(
            handle, workers=64, queue=FairQueue(limit=32, backoff=Backoff(base=1.0, cap=5.0, jitter=0.0))
        )
        began = clock()
        for group in range(300):
            for item in range(50):
                pool.add(str(group), item)
        async with running(pool):
            await asyncio.sleep(100)  # over several rounds of retries
            later = clock() - began
            for group in range(hanging, 300):
                pool.add(str(group), "later")
            await asyncio.sleep(20)
        healthy = range(hanging, 300)
        slowest = max(handled_at[str(group), item] for group in healthy for item in range(50))
        assert slowest < 2.5 + 300 * 50 * 0.05 / 64, "at most two seconds longer than all the work takes"
        assert max(handled_at[str(group), "later"] for group in healthy) - later < 1.5
        assert most_at_once <= 64 + hanging * 32

    in_virtual_time(scenario())


def test_a_group_that_answers_again_counts_again(in_virtual_time):
    async def scenario():
        takes = 30.0
        at_once = most = 0

        async def handle(_group, _item):
            nonlocal at_once, most
            at_once += 1
            most = max(most, at_once)
            try:
                await asyncio.sleep(takes)
            finally:
                at_once -= 1

        pool = pool_of(handle, workers=16)
        for item in range(40):
            pool.add("slow", item)
        async with running(pool):
            await asyncio.sleep(29)
            assert most == 16, "one that hangs begins no more than it has at first"
            assert pool.queue.has_ceiling("slow")
            takes = 0.1
            await settled(pool)
            assert not pool.queue.has_ceiling("slow")
            most = 0
            for item in range(100):
                pool.add("slow", item)
            await settled(pool)
            assert most == 16

    in_virtual_time(scenario())


def test_a_restarted_pool_still_detects_servers_that_do_not_answer(in_virtual_time):
    async def scenario():
        handle = Recorder(takes=30.0)
        pool = pool_of(handle, workers=2)
        pool.add("slow", "x")
        async with running(pool):
            await asyncio.sleep(0.5)
        pool.add("slow", "y")
        async with running(pool):
            await asyncio.sleep(1.5)
            assert pool.queue.has_ceiling("slow")

    in_virtual_time(scenario())


def test_no_surplus_workers_remain_when_hanging_items_end(in_virtual_time):
    async def scenario():
        back = asyncio.Event()
        counted = 0
        most = 0

        async def handle(group, _item):
            nonlocal counted, most
            if group == "hung":
                await back.wait()
                return
            counted += 1
            most = max(most, counted)
            await asyncio.sleep(0.5)
            counted -= 1

        pool = pool_of(handle, workers=4)
        for item in range(4):
            pool.add("hung", item)
        async with running(pool):
            await asyncio.sleep(2)
            for item in range(100):
                pool.add("busy", item)
            await asyncio.sleep(1)
            back.set()
            await settled(pool)
            assert most == 4
            assert not pool_tasks()

    in_virtual_time(scenario())


# The time that handlers take


@pytest.mark.parametrize("fails", [False, True])
def test_a_group_is_charged_for_the_time_of_the_loop_that_its_items_take(in_virtual_time, fails):
    """An item of `dear` occupies the loop for ten times as long as one of `cheap`. Waiting costs nothing."""
    worked = 0.0
    order = []

    async def handle(group, _item):
        nonlocal worked
        order.append(group)
        worked += ITEM_SECONDS * (5 if group == "dear" else 0.5)
        await asyncio.sleep(30.0 if group == "cheap" else 0.0)
        worked += ITEM_SECONDS * (5 if group == "dear" else 0.5)
        if fails and len(order) < 40:
            raise ValueError("failed")

    async def scenario():
        pool = pool_of(handle, workers=1, meter=lambda: worked, patience=1e9)
        for n in range(20):
            pool.add("cheap", n)
            pool.add("dear", n)
        async with running(pool):
            await settled(pool)

    in_virtual_time(scenario())
    assert Counter(order[:12]) == {"cheap": 10, "dear": 2} or Counter(order[:12]) == {"cheap": 11, "dear": 1}


def test_a_measured_handler_can_be_cancelled_and_sees_what_it_awaits(in_virtual_time):
    seen = []

    async def handle(_group, item):
        try:
            seen.append(await asyncio.sleep(1.0, "value"))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1.0):
                    await asyncio.sleep(10.0)
            seen.append("timeout")
            await asyncio.sleep(1000.0)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async def scenario():
        pool = pool_of(handle, meter=lambda: 0.0)
        pool.add("a", 1)
        async with running(pool):
            await asyncio.sleep(5.0)
        assert pool.queue.depth("a") == 1

    in_virtual_time(scenario())
    assert seen == ["value", "timeout", "cancelled"]
