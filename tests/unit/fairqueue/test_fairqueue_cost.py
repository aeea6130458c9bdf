"""Cost of the queue, counted in executed lines and in objects, not in seconds."""

import gc
import sys

import pytest

from vcsync.fairqueue import Backoff, FairQueue


def lines_executed(action):
    """Number of lines of the package that `action` runs; a scan over groups shows up as a line per group."""
    count = 0

    def trace(frame, event, _argument):
        nonlocal count
        if not frame.f_globals.get("__name__", "").startswith("vcsync.fairqueue"):
            return None  # for example, code that runs during a garbage collection
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
    return count


class CountedName(str):
    """A group name that counts how often any group name is compared or hashed."""

    looks = 0
    __slots__ = ()

    def __hash__(self):
        CountedName.looks += 1
        return super().__hash__()

    def __eq__(self, other):
        CountedName.looks += 1
        return super().__eq__(other)


def most_expensive_pop_and_done(queue, rounds):
    """Return the largest numbers of lines, and of uses of group names, of one pop and done."""
    most_lines = most_looks = 0

    def pop_and_done():
        queue.done(*queue.pop(now=0.0), now=0.0)

    for _ in range(rounds):
        CountedName.looks = 0
        most_lines = max(most_lines, lines_executed(pop_and_done))
        most_looks = max(most_looks, CountedName.looks)
    return most_lines, most_looks


def backlog(groups, *, parked=0, delayed=0):
    """A queue with `groups` groups that have work, `parked` ones at their limit, `delayed` ones that wait."""
    queue = FairQueue()
    for n in range(parked):
        name = CountedName(f"parked-{n}")
        queue.set_limit(name, 0)
        queue.add(name, "x", now=0.0)
    for n in range(delayed):
        queue.add_after(CountedName(f"delayed-{n}"), "x", 100.0, now=0.0)
    for n in range(groups):
        for item in range(2):
            queue.add(CountedName(f"t{n}"), item, now=0.0)
    return queue


@pytest.mark.parametrize(
    "many",
    [{"groups": 10_000}, {"groups": 10, "parked": 10_000}, {"groups": 10, "delayed": 10_000}],
    ids=["ready", "parked", "delayed"],
)
def test_a_pop_costs_the_same_with_ten_thousand_groups_as_with_ten(many):
    few = most_expensive_pop_and_done(backlog(10), 20)
    assert few[0] > 5  # the counter counts
    assert few[1] > 1
    lines, looks = most_expensive_pop_and_done(backlog(**many), 20)
    assert lines <= few[0]
    assert looks <= few[1]


def test_an_idle_group_costs_nothing():
    queue = FairQueue(backoff=Backoff(base=1.0, cap=1.0, jitter=0.0))
    gc.collect()
    before = len(gc.get_objects())
    for n in range(1000):
        group = f"t{n}"
        queue.set_weight(group, 5)
        queue.set_weight(group, 1)
        queue.set_limit(group, 3)
        queue.set_limit(group, None)
        queue.add(group, "x", now=0.0)
        queue.pop(now=0.0)
        queue.retry(group, "x", now=0.0)
        queue.done(group, "x", now=0.0)
        queue.pop(now=1.0)
        queue.done(group, "x", now=1.0)
    gc.collect()
    assert len(gc.get_objects()) - before < 50
    assert not queue._groups
    assert not queue._weights
    assert not queue._limits
    assert not queue._active


def test_removed_tenants_leave_no_state():
    queue = FairQueue()
    for n in range(1000):
        group = f"t{n}"
        queue.set_weight(group, 5)
        queue.set_limit(group, 3)
        queue.add(group, "ready", now=0.0)
        queue.add_after(group, "delayed", 1e6, now=0.0)
        queue.forget_group(group)
    assert queue.statistics() == FairQueue().statistics()
    assert not queue._weights
    assert not queue._limits
    assert not queue._active
    assert len(queue._deadlines._heap) < 100


def test_an_item_rescheduled_many_times_leaves_no_state():
    queue = FairQueue()
    for n in range(10_000):
        queue.add_after("t", "x", 1e6, now=float(n))
        queue.add("t", "x", now=float(n))
        queue.done(*queue.pop(now=float(n)), now=float(n))
    assert len(queue._deadlines._heap) < 100
