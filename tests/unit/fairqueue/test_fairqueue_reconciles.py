"""Reconciles have ids in log lines, are counted by controller and result, and leave a timeline of limited size."""

import asyncio
import random
import sys

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from vcsync.fairqueue import ObjectName, Timeline, WorkerPool
from vcsync.fairqueue.reconciles import BUCKETS, Durations, Reconciles
from vcsync.fairqueue.timeline import MOST_TRANSITIONS

WEB = ObjectName("pods", "default", "web-0")


async def _handled(pool, count, seen):
    task = asyncio.create_task(pool.run())
    while len(seen) < count:
        await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.wait([task])


def test_log_lines_of_a_reconcile_have_its_id(in_virtual_time):
    seen = []

    async def main():
        async def handle(_group, item):
            seen.append((item, structlog.contextvars.get_contextvars()["reconcile"]))

        pool = WorkerPool("pods", handle, workers=1)
        for item in ("a", "b"):
            pool.add("acme", item)
        await _handled(pool, 2, seen)

    in_virtual_time(main())

    ids = dict(seen)
    assert set(ids) == {"a", "b"}
    assert ids["a"] != ids["b"]


def test_reconciles_are_counted_by_controller_and_result(in_virtual_time):
    seen = []

    async def main():
        async def handle(_group, item):
            seen.append(item)
            if item == "deployment/broken" and seen.count(item) == 1:
                raise ValueError("no")
            return 60.0 if item == "job/later" else None

        pool = WorkerPool("all", handle, controller_of=lambda item: item.partition("/")[0])
        for item in ("deployment/web", "deployment/broken", "job/later"):
            pool.add("acme", item)
        await _handled(pool, 4, seen)
        return pool.reconciles

    reconciles = in_virtual_time(main())

    assert reconciles.results == {
        ("deployment", "success"): 2,
        ("deployment", "error"): 1,
        ("job", "requeue_after"): 1,
    }
    assert sum(reconciles.durations["deployment"].counts) == 3


def test_an_error_names_its_reconcile(in_virtual_time):
    seen = []

    async def main():
        async def handle(_group, _item):
            seen.append(structlog.contextvars.get_contextvars()["reconcile"])
            raise ValueError("no")

        pool = WorkerPool("all", handle)
        pool.add("acme", "web")
        await _handled(pool, 1, seen)
        return pool.last_errors["acme", "web"].reconcile

    assert in_virtual_time(main()) == seen[0]


@given(st.lists(st.floats(0, 100), max_size=30))
def test_a_histogram_counts_each_duration_in_the_first_bucket_that_fits(durations):
    histogram = Durations()
    for seconds in durations:
        histogram.add(seconds)

    cumulative = dict(histogram.cumulative())

    for bound in BUCKETS:
        assert cumulative[str(bound)] == sum(seconds <= bound for seconds in durations)
    assert cumulative["+Inf"] == len(durations)


def test_ids_of_two_pools_differ():
    first, second = Reconciles("aa"), Reconciles("bb")

    assert first.begin("x").id != second.begin("x").id


def test_the_timeline_names_controller_action_and_version(in_virtual_time):
    seen = []

    async def main():
        async def handle(group, _item):
            pool.timeline.add(group, WEB, "created", now=5.0, version="17")
            seen.append(structlog.contextvars.get_contextvars()["reconcile"])

        pool = WorkerPool("pool", handle, controller_of=lambda _item: "replicaset-controller")
        pool.add("acme", "web")
        await _handled(pool, 1, seen)
        return pool.timeline.of("acme", WEB)

    (transition,) = in_virtual_time(main())

    assert transition == (5.0, "replicaset-controller", seen[0], "created", "17")


def test_repeated_actions_are_one_transition():
    timeline = Timeline("podscheduler")
    for now in (1.0, 2.0, 3.0):
        timeline.add("acme", WEB, "has to wait", now=now)

    assert [(each.time, each.what) for each in timeline.of("acme", WEB)] == [(3.0, "has to wait")]


def test_the_oldest_transitions_of_an_object_are_dropped_first():
    timeline = Timeline("x")
    for number in range(MOST_TRANSITIONS + 3):
        timeline.add("acme", WEB, f"step {number}", now=float(number))

    assert [each.what for each in timeline.of("acme", WEB)] == [
        f"step {number}" for number in range(3, MOST_TRANSITIONS + 3)
    ]


def test_a_tenant_that_floods_the_timeline_loses_only_its_own():
    timeline = Timeline("x", objects=10)
    timeline.add("quiet", WEB, "created", now=0.0)
    for number in range(100):
        timeline.add("greedy", ObjectName("pods", "default", f"p{number}"), "created", now=float(number))

    assert timeline.of("quiet", WEB)
    assert not timeline.of("greedy", ObjectName("pods", "default", "p0"))
    assert len(timeline) == 10


def test_a_tenant_that_is_no_longer_served_leaves_no_transitions():
    timeline = Timeline("x")
    timeline.add("acme", WEB, "created", now=0.0)
    timeline.forget("acme")

    assert len(timeline) == 0
    assert timeline.of("acme", WEB) == ()


@pytest.mark.parametrize("seed", range(20))
def test_the_oldest_object_of_the_largest_tenant_is_dropped(seed):
    choose = random.Random(seed)
    timeline = Timeline("x", objects=12)
    expected: dict[str, list[ObjectName]] = {}
    for step in range(300):
        tenant = choose.choice("abcd")
        if choose.random() < 0.05:
            timeline.forget(tenant)
            expected.pop(tenant, None)
            continue
        name = ObjectName("pods", "default", str(choose.randrange(12)))
        known = expected.setdefault(tenant, [])
        if name in known:
            known.remove(name)
        known.append(name)
        sizes = {each: len(names) for each, names in expected.items()}
        timeline.add(tenant, name, f"step {step}", now=float(step))
        if sum(sizes.values()) > 12:
            dropped = [
                each for each, names in expected.items() if any(not timeline.of(each, one) for one in names)
            ]
            assert len(dropped) == 1
            assert sizes[dropped[0]] == max(sizes.values())
            oldest = expected[dropped[0]].pop(0)
            assert not timeline.of(dropped[0], oldest)
        assert all(timeline.of(each, one) for each, names in expected.items() for one in names)
        assert len(timeline) == sum(map(len, expected.values()))


def test_the_cost_of_dropping_an_object_is_independent_of_the_number_of_tenants():
    assert _calls_while_full(tenants=2000) == _calls_while_full(tenants=20)


def _calls_while_full(tenants: int) -> int:
    """Count the calls of Python and C functions for one more object in a full timeline."""
    timeline = Timeline("x", objects=tenants)
    for number in range(tenants):
        timeline.add(f"tenant-{number}", WEB, "created", now=0.0)
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        timeline.add("one-more", WEB, "created", now=1.0)
    finally:
        sys.setprofile(None)
    return calls
