"""The guarantees of the fair queue, one per test. The random operations are in test_fairqueue_model.py."""

import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vcsync.fairqueue import Backoff, FairQueue
from vcsync.fairqueue.queue import MOST_DEBT

NO_JITTER = Backoff(base=1.0, cap=60.0, jitter=0.0)


def queue_of(*pairs, **options):
    queue = FairQueue(**options)
    for group, item in pairs:
        queue.add(group, item, now=0.0)
    return queue


def pop_all(queue, now=0.0):
    """Pop all ready items, and leave them in process."""
    popped = []
    while (pair := queue.pop(now=now)) is not None:
        popped.append(pair)
    return popped


def fail(queue, now):
    """Pop an item and let it fail; returns its backoff."""
    group, item = queue.pop(now=now)
    delay = queue.retry(group, item, now=now)
    queue.done(group, item, now=now)
    return delay


# Order and shares


def test_a_group_is_first_in_first_out():
    queue = queue_of(("t", 1), ("t", 2), ("t", 3))
    assert pop_all(queue) == [("t", 1), ("t", 2), ("t", 3)]
    assert queue.pop(now=0.0) is None


def test_groups_take_turns_by_weight():
    queue = FairQueue()
    queue.set_weight("gold", 3)
    for n in range(6):
        queue.add("gold", n, now=0.0)
        queue.add("plain", n, now=0.0)
    order = "".join(group[0] for group, _ in pop_all(queue))
    assert order == "gggp" + "gggp" + "pppp"


def test_the_quantum_makes_turns_longer():
    queue = FairQueue(quantum=2)
    for n in range(4):
        queue.add("a", n, now=0.0)
        queue.add("b", n, now=0.0)
    assert "".join(group for group, _ in pop_all(queue)) == "aabbaabb"


def test_a_new_weight_counts_from_the_next_turn_on():
    queue = FairQueue()
    for n in range(9):
        queue.add("a", n, now=0.0)
        queue.add("b", n, now=0.0)
    queue.set_weight("a", 3)
    order = queue.pop(now=0.0)[0]
    queue.set_weight("a", 1)  # its turn of three continues
    order += "".join(group for group, _ in pop_all(queue))
    assert order.startswith("aaababab")


@given(
    weights=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    quantum=st.integers(1, 3),
    pops=st.integers(0, 150),
)
def test_backlogged_groups_get_their_weighted_share_within_one_turn(weights, quantum, pops):
    queue = FairQueue(quantum=quantum)
    for group, weight in enumerate(weights):
        queue.set_weight(f"t{group}", weight)
        for n in range(pops):
            queue.add(f"t{group}", n, now=0.0)
    served = Counter(queue.pop(now=0.0)[0] for _ in range(pops))
    for group, weight in enumerate(weights):
        ideal = pops * weight / sum(weights)
        assert abs(served[f"t{group}"] - ideal) <= quantum * weight


@given(outcome=st.lists(st.sampled_from(["settle", "fail", "again", "dirty"]), min_size=60, max_size=60))
def test_retries_and_repetitions_stay_within_the_share_of_their_group(outcome):
    """A backlogged tenant of the same weight gets every second turn, regardless of the outcomes of the other tenant."""
    queue = FairQueue(backoff=Backoff(base=1e-6, cap=1e-6, jitter=0.0))
    for n in range(30):
        queue.add("noisy", n, now=0.0)
        queue.add("steady", n, now=0.0)
    now, served = 0.0, []
    for step in outcome:
        now += 1.0
        popped = queue.pop(now=now)
        if popped is None:
            break
        group, item = popped
        served.append(group)
        if group == "noisy":
            if step == "fail":
                queue.retry(group, item, now=now)
            elif step == "again":
                queue.again(group, item, 0.5, now=now)
            elif step == "dirty":
                queue.add(group, item, now=now)
        queue.done(group, item, now=now)
    assert served.count("steady") == 30 or served.count("steady") >= len(served) // 2


def test_a_tenant_that_arrives_late_waits_for_one_round_not_for_the_backlog():
    queue = FairQueue()
    for group in "abc":
        for n in range(1000):
            queue.add(group, n, now=0.0)
    for _ in range(100):
        queue.pop(now=0.0)
    queue.add("late", 0, now=0.0)
    assert "late" in [queue.pop(now=0.0)[0] for _ in range(4)]


def test_an_empty_group_accumulates_no_credit():
    queue = FairQueue()
    queue.set_weight("a", 5)
    queue.add("a", "only", now=0.0)
    assert queue.pop(now=0.0) == ("a", "only")
    for n in range(20):
        queue.add("b", n, now=0.0)
        queue.add("a", n, now=0.0)
    assert "".join(queue.pop(now=0.0)[0] for _ in range(7)) == "baaaaab"


# Priority


def test_priority_items_go_first_within_their_group_only():
    queue = queue_of(("a", 1), ("a", 2), ("b", 1), ("b", 2))
    queue.add("b", "urgent", now=0.0, priority=True)
    assert pop_all(queue) == [("a", 1), ("b", "urgent"), ("a", 2), ("b", 1), ("b", 2)]


def test_a_queued_item_can_be_given_priority():
    queue = queue_of(("a", 1), ("a", 2), ("a", 3))
    queue.add("a", 3, now=0.0, priority=True)
    queue.add("a", 3, now=0.0)
    assert pop_all(queue) == [("a", 3), ("a", 1), ("a", 2)]


def test_priority_requested_while_in_process_applies_to_the_next_run():
    queue = queue_of(("a", 1), ("a", 2))
    queue.pop(now=0.0)
    queue.add("a", 1, now=0.0, priority=True)
    queue.done("a", 1, now=0.0)
    assert pop_all(queue) == [("a", 1), ("a", 2)]


def test_ordinary_items_do_not_starve_behind_priority_ones():
    queue = queue_of(("a", "first"), ("a", "second"))
    for n in range(100):
        queue.add("a", n, now=0.0, priority=True)
    order = [item for _, item in pop_all(queue)]
    assert (order.index("first"), order.index("second")) == (8, 17)


# De-duplication and processing


def test_an_item_added_twice_is_handled_once():
    queue = queue_of(("t", "x"), ("t", "x"), ("t", "x"))
    assert pop_all(queue) == [("t", "x")]


def test_the_same_item_of_two_groups_is_two_items():
    queue = queue_of(("a", "x"), ("b", "x"))
    assert pop_all(queue) == [("a", "x"), ("b", "x")]


def test_an_item_added_while_in_process_is_handled_exactly_once_more_after_done():
    queue = queue_of(("t", "x"))
    queue.pop(now=0.0)
    for _ in range(3):
        queue.add("t", "x", now=0.0)
    assert queue.pop(now=0.0) is None
    queue.done("t", "x", now=0.0)
    assert queue.pop(now=0.0) == ("t", "x")
    queue.done("t", "x", now=0.0)
    assert queue.pop(now=0.0) is None
    assert queue.statistics().groups == 0


@pytest.mark.parametrize("call", ["done", "retry", "again"])
@pytest.mark.parametrize("known", [True, False])
def test_retry_again_and_done_require_an_item_in_process(call, known):
    queue = queue_of(("t", "x")) if known else FairQueue()
    arguments = ("t", "x", 1.0) if call == "again" else ("t", "x")
    with pytest.raises(ValueError, match="not in process"):
        getattr(queue, call)(*arguments, now=0.0)


# Delays


def test_a_delayed_item_is_ready_at_its_deadline_and_not_before():
    queue = FairQueue()
    queue.add_after("t", "x", 5.0, now=10.0)
    assert queue.next_deadline() == 15.0
    assert queue.pop(now=14.999) is None
    assert queue.pop(now=15.0) == ("t", "x")
    assert queue.next_deadline() is None


@pytest.mark.parametrize("delays", [(5.0, 2.0, 9.0), (2.0, 5.0), (9.0, 5.0, 2.0)])
def test_the_earliest_deadline_wins(delays):
    queue = FairQueue()
    for delay in delays:
        queue.add_after("t", "x", delay, now=0.0)
    assert queue.next_deadline() == 2.0
    assert queue.pop(now=2.0) == ("t", "x")
    queue.done("t", "x", now=2.0)
    assert queue.pop(now=100.0) is None


def test_adding_a_delayed_item_makes_it_ready():
    queue = FairQueue()
    queue.add_after("t", "x", 5.0, now=0.0)
    queue.add("t", "x", now=1.0)
    assert queue.next_deadline() is None
    assert queue.pop(now=1.0) == ("t", "x")
    queue.done("t", "x", now=1.0)
    assert queue.pop(now=100.0) is None


def test_a_delay_does_not_postpone_a_queued_item():
    queue = queue_of(("t", "x"))
    queue.add_after("t", "x", 5.0, now=0.0)
    assert queue.next_deadline() is None
    assert queue.pop(now=0.0) == ("t", "x")


def test_a_delay_requested_while_in_process_starts_then_and_the_earliest_wins():
    queue = queue_of(("t", "x"))
    queue.pop(now=0.0)
    queue.add_after("t", "x", 7.0, now=0.0)
    queue.again("t", "x", 5.0, now=1.0)
    queue.done("t", "x", now=2.0)
    assert queue.next_deadline() == 6.0
    assert pop_all(queue, now=6.0) == [("t", "x")]


def test_a_deadline_that_passes_during_processing_makes_the_item_ready_at_done():
    queue = queue_of(("t", "x"))
    queue.pop(now=0.0)
    queue.add_after("t", "x", 1.0, now=0.0)
    assert queue.pop(now=5.0) is None
    queue.done("t", "x", now=5.0)
    assert queue.pop(now=5.0) == ("t", "x")


@pytest.mark.parametrize("delay", [0.0, -3.0])
def test_a_delay_that_is_not_positive_means_now(delay):
    queue = FairQueue()
    queue.add_after("t", "x", delay, now=10.0)
    assert queue.pop(now=10.0) == ("t", "x")


@pytest.mark.parametrize("delay", [math.nan, math.inf, -math.inf])
def test_a_delay_must_be_finite(delay):
    queue = queue_of(("t", "x"))
    queue.pop(now=0.0)
    with pytest.raises(ValueError, match="delay"):
        queue.again("t", "x", delay, now=0.0)
    with pytest.raises(ValueError, match="delay"):
        queue.add_after("t", "y", delay, now=0.0)
    queue.done("t", "x", now=0.0)
    assert queue.statistics().groups == 0


# Retries


def test_backoff_grows_per_item_and_ends_with_success():
    queue = queue_of(("t", "x"), backoff=NO_JITTER)
    now = 0.0
    for expected in (1.0, 2.0, 4.0):
        delay = fail(queue, now)
        assert delay == expected
        assert queue.pop(now=now + delay - 0.001) is None
        now += delay
    assert queue.pop(now=now) == ("t", "x")
    assert queue.attempts("t", "x") == 3
    queue.done("t", "x", now=now)
    assert queue.attempts("t", "x") == 0
    queue.add("t", "x", now=now)
    assert fail(queue, now) == 1.0


def test_backoff_of_an_item_is_independent_of_other_items_and_groups():
    queue = queue_of(("a", "x"), backoff=NO_JITTER)
    now = 0.0
    for _ in range(5):
        now += fail(queue, now)
    queue.pop(now=now)
    for other in (("a", "y"), ("b", "x")):
        queue.add(*other, now=now)
        assert fail(queue, now) == 1.0


def test_forget_resets_backoff_and_keeps_the_place_of_the_item():
    queue = queue_of(("t", "x"), backoff=NO_JITTER)
    fail(queue, 0.0)
    queue.forget("t", "x")
    queue.forget("t", "unknown")
    queue.forget("unknown", "x")
    assert queue.next_deadline() == 1.0
    assert queue.attempts("t", "x") == 0
    assert fail(queue, 1.0) == 1.0


def test_making_a_retry_earlier_keeps_its_backoff():
    queue = queue_of(("t", "x"), backoff=NO_JITTER)
    fail(queue, 0.0)
    queue.add("t", "x", now=0.1)
    assert fail(queue, 0.1) == 2.0


def test_a_failed_item_that_changed_meanwhile_is_retried_immediately_and_keeps_its_failures():
    queue = queue_of(("t", "x"), backoff=NO_JITTER)
    queue.pop(now=0.0)
    queue.add("t", "x", now=0.0)
    assert queue.retry("t", "x", now=0.0) == 1.0
    queue.done("t", "x", now=0.0)
    assert fail(queue, 0.0) == 2.0


@given(failures=st.integers(0, 500))
@settings(max_examples=20)
def test_regression_failures_of_a_tenant_do_not_postpone_retries_of_others(failures):
    """The retired fair queue drew all retries from one token bucket: n failures delayed all by n * 100 ms."""
    queue = FairQueue(backoff=NO_JITTER)
    for n in range(failures):
        queue.add("noisy", n, now=0.0)
    for _ in range(failures):
        fail(queue, 0.0)
    queue.add("quiet", "x", now=0.0)
    assert fail(queue, 0.0) == 1.0
    first_two = [queue.pop(now=1.0) for _ in range(2)]
    assert ("quiet", "x") in first_two


def test_regression_two_queues_share_no_state():
    """The retired fair queue's limiter and tickers were one object for all queues of the process."""
    one, other = FairQueue(backoff=NO_JITTER), FairQueue(backoff=NO_JITTER)
    for queue in (one, other):
        queue.add("t", "x", now=0.0)
    assert [fail(one, 0.0), fail(one, 1.0), fail(other, 0.0)] == [1.0, 2.0, 1.0]
    one.set_weight("t", 7)
    one.set_limit("t", 0)
    assert other.pop(now=1.0) == ("t", "x")


# Limits


def test_a_group_at_its_limit_is_skipped_until_one_of_its_items_is_done():
    queue = queue_of(("slow", 1), ("slow", 2), ("slow", 3), ("fast", 1), ("fast", 2), ("fast", 3))
    queue.set_limit("slow", 1)
    assert pop_all(queue) == [("slow", 1), ("fast", 1), ("fast", 2), ("fast", 3)]
    queue.done("slow", 1, now=0.0)
    assert pop_all(queue) == [("slow", 2)]


def test_limits_can_be_raised_lowered_and_lifted():
    queue = queue_of(*(("t", n) for n in range(6)))
    queue.set_limit("t", 0)
    assert pop_all(queue) == []
    queue.set_limit("t", 3)
    assert len(pop_all(queue)) == 3
    queue.set_limit("t", 1)
    queue.done("t", 0, now=0.0)
    queue.done("t", 1, now=0.0)
    assert pop_all(queue) == []
    queue.done("t", 2, now=0.0)
    assert pop_all(queue) == [("t", 3)]
    queue.set_limit("t", None)
    assert pop_all(queue) == [("t", 4), ("t", 5)]


def test_a_limit_outlives_the_groups_items():
    queue = FairQueue()
    queue.set_limit("t", 1)
    for _ in range(2):
        queue.add("t", 1, now=0.0)
        queue.add("t", 2, now=0.0)
        for item in (1, 2):
            assert pop_all(queue) == [("t", item)]
            queue.done("t", item, now=0.0)


def test_a_weight_has_no_effect_beyond_the_limit():
    queue = FairQueue()
    queue.set_weight("t", 1000)
    queue.set_limit("t", 2)
    for n in range(10):
        queue.add("t", n, now=0.0)
        queue.add("u", n, now=0.0)
    assert Counter(group for group, _ in pop_all(queue)) == {"t": 2, "u": 10}


# Forgetting groups


def test_forgetting_a_group_drops_only_its_waiting_items():
    queue = queue_of(("t", 1), ("t", 2), ("u", 1))
    queue.add("t", 3, now=0.0, priority=True)
    queue.add_after("t", 4, 1.0, now=0.0)
    queue.add_after("u", 2, 2.0, now=0.0)
    queue.forget_group("t")
    queue.forget_group("unknown")
    assert queue.next_deadline() == 2.0
    assert pop_all(queue, now=9.0) == [("u", 1), ("u", 2)]


@pytest.mark.parametrize("wish", ["none", "retry", "again", "added before"])
def test_items_in_process_of_a_forgotten_group_finish_and_are_not_repeated(wish):
    queue = queue_of(("t", "x"))
    queue.pop(now=0.0)
    if wish == "added before":
        queue.add("t", "x", now=0.0)
    queue.forget_group("t")
    if wish == "retry":
        assert queue.retry("t", "x", now=0.0) == math.inf
    if wish == "again":
        queue.again("t", "x", 1.0, now=0.0)
    queue.done("t", "x", now=0.0)
    assert queue.pop(now=1e9) is None
    assert queue.statistics().groups == 0


@pytest.mark.parametrize("how", ["add", "add_after"])
@pytest.mark.parametrize("outcome", ["settled", "failed"])
def test_regression_an_item_of_a_group_forgotten_and_added_during_processing_is_not_lost(how, outcome):
    """In the retired fair queue such an item was lost and blocked all later ones of its tenant forever."""
    queue = queue_of(("t", "x"))
    queue.pop(now=0.0)
    queue.forget_group("t")
    if how == "add":
        queue.add("t", "x", now=0.0)
    else:
        queue.add_after("t", "x", 1.0, now=0.0)
    queue.add("t", "later", now=0.0)
    assert pop_all(queue) == [
        ("t", "later")
    ]  # x is still in process: an item is never handled twice concurrently
    if outcome == "failed":
        assert queue.retry("t", "x", now=0.0) < 1.0
    queue.done("t", "x", now=0.0)
    assert pop_all(queue, now=1000.0) == [("t", "x")]
    for item in ("later", "x"):
        queue.done("t", item, now=1000.0)
    queue.add("t", "x", now=1000.0)
    assert pop_all(queue, now=1000.0) == [("t", "x")]


def test_a_forgotten_group_starts_again_without_weight_limit_and_backoff():
    queue = queue_of(("t", "x"), backoff=NO_JITTER)
    queue.set_weight("t", 10)
    queue.set_limit("t", 1)
    fail(queue, 0.0)
    queue.forget_group("t")
    for n in range(3):
        queue.add("t", n, now=0.0)
        queue.add("u", n, now=0.0)
    assert "".join(group for group, _ in pop_all(queue)) == "tututu"
    queue.add("t", "x", now=0.0)
    assert fail(queue, 0.0) == 1.0


def test_a_group_added_again_while_an_item_is_in_process_has_no_earlier_state():
    queue = queue_of(("t", "x"))
    queue.set_limit("t", 1)
    queue.pop(now=0.0)
    queue.add("t", "x", now=0.0, priority=True)
    queue.retry("t", "x", now=0.0)
    queue.forget_group("t")
    queue.add("t", "y", now=50.0)
    queue.add("t", "z", now=50.0)
    queue.add("t", "x", now=60.0)
    assert queue.pop(now=60.0) == ("t", "y")  # no limit any more
    queue.done("t", "y", now=60.0)
    queue.done("t", "x", now=60.0)
    assert queue.pop(now=60.0) == ("t", "z")  # no priority
    queue.done("t", "z", now=60.0)
    assert queue.oldest("t", now=60.0) == ("x", 0.0, 0)  # no failure, no age


# Observation


def test_statistics_depth_and_oldest():
    queue = FairQueue(backoff=NO_JITTER)
    queue.add("t", "failing", now=0.0)
    fail(queue, 1.0)
    queue.add("t", "running", now=3.0, priority=True)
    queue.pop(now=3.0)
    queue.add("t", "waiting", now=4.0)
    queue.add_after("t", "planned", 100.0, now=0.0)
    queue.add("u", "x", now=4.0)
    statistics = queue.statistics()
    assert (statistics.queued, statistics.delayed, statistics.in_process, statistics.groups) == (3, 1, 1, 2)
    assert (queue.depth("t"), queue.depth("u"), queue.depth("unknown")) == (3, 1, 0)
    assert (queue.ready("t"), queue.ready("u"), queue.ready("unknown")) == (
        2,
        1,
        0,
    )  # delayed items do not count
    assert queue.oldest("t", now=10.0) == ("failing", 10.0, 1)
    assert queue.oldest("u", now=10.0) == ("x", 6.0, 0)
    assert queue.oldest("unknown", now=10.0) is None


def test_a_delayed_item_has_no_age():
    queue = FairQueue()
    queue.add_after("t", "x", 100.0, now=0.0)
    assert queue.oldest("t", now=99.0) is None
    assert queue.oldest("t", now=130.0) == ("x", 30.0, 0)


def test_age_counts_from_the_request_that_is_not_settled_yet():
    queue = queue_of(("t", "x"))
    queue.pop(now=50.0)
    queue.add("t", "x", now=60.0)
    assert queue.oldest("t", now=70.0) == ("x", 70.0, 0)
    queue.done("t", "x", now=80.0)
    assert queue.oldest("t", now=90.0) == ("x", 30.0, 0)


def test_on_ready_reports_ready_items_and_earlier_deadlines():
    queue = FairQueue()
    calls = []
    queue.on_ready = queue.on_deadline = lambda: calls.append(True)

    def notified(action, *arguments, **named):
        calls.clear()
        action(*arguments, **named)
        return bool(calls)

    assert notified(queue.add, "t", 1, now=0.0)
    assert notified(queue.add, "t", 2, now=0.0)
    assert not notified(queue.add, "t", 2, now=0.0)
    assert notified(queue.add_after, "t", 3, 10.0, now=0.0)
    assert not notified(queue.add_after, "t", 4, 20.0, now=0.0)
    assert notified(queue.add_after, "t", 4, 5.0, now=0.0)
    queue.set_limit("t", 1)
    queue.pop(now=0.0)
    assert not notified(queue.add, "t", 5, now=0.0)
    assert notified(queue.done, "t", 1, now=0.0)
    queue.set_limit("t", 0)
    assert notified(queue.set_limit, "t", None)


# Bad input


@pytest.mark.parametrize("weight", [0, -1, 1001])
def test_a_weight_out_of_range_is_refused(weight):
    with pytest.raises(ValueError, match=r"weight of group 't' must be between 1 and 1000"):
        FairQueue().set_weight("t", weight)


def test_a_negative_limit_is_refused():
    with pytest.raises(ValueError, match=r"in_flight of group 't' must be 0 or more"):
        FairQueue().set_limit("t", -1)


def test_a_quantum_below_one_is_refused():
    with pytest.raises(ValueError, match="quantum"):
        FairQueue(quantum=0)


def test_groups_without_their_own_limit_have_the_default_limit():
    queue = FairQueue(limit=2)
    queue.set_limit("limited", 1)
    for n in range(3):
        queue.add("a", n, now=0.0)
        queue.add("limited", n, now=0.0)
    assert Counter(group for group, _ in pop_all(queue)) == {"a": 2, "limited": 1}
    queue.set_limit("limited", None)
    assert [group for group, _ in pop_all(queue)] == ["limited"]
    queue.forget_group("a")
    queue.add("a", 7, now=0.0)
    assert pop_all(queue) == []


@pytest.mark.parametrize("limit", [0, -1])
def test_a_default_limit_must_be_at_least_one(limit):
    with pytest.raises(ValueError, match="limit must be at least 1 item"):
        FairQueue(limit=limit)


# Costs of items


def served(queue, pops, costs):
    """Pop items that stay queued, charge each by its group, and return the cost that each group caused."""
    spent = Counter()
    for _ in range(pops):
        group, item = queue.pop(now=0.0)
        spent[group] += costs[group]
        queue.charge(group, item, costs[group] - 1)
        queue.add(group, item, now=0.0)
        queue.done(group, item, now=0.0)
    return spent


@given(
    weights=st.lists(st.integers(1, 9), min_size=2, max_size=4),
    costs=st.lists(st.integers(1, 40) | st.floats(1, 40), min_size=4, max_size=4),
    rounds=st.integers(1, 100),
)
def test_groups_share_the_cost_of_their_items_by_weight(weights, costs, rounds):
    """However much items cost, no group gets more than its share but for one item and one turn."""
    queue = FairQueue()
    named = {f"t{group}": cost for group, cost in zip(range(len(weights)), costs, strict=False)}
    for (group, _), weight in zip(named.items(), weights, strict=True):
        queue.set_weight(group, weight)
        for n in range(10):
            queue.add(group, n, now=0.0)
    spent = served(queue, 20 * rounds, named)
    per_weight = {group: spent[group] / weight for group, weight in zip(named, weights, strict=True)}
    for group, weight in zip(named, weights, strict=True):
        allowance = (
            named[group]  # a turn has as many items as the weight
            + (named[group] + 1) / weight
            + 2
            + max((cost + 1) / other for cost, other in zip(named.values(), weights, strict=True))
        )
        assert per_weight[group] <= min(per_weight.values()) + allowance


def test_an_expensive_item_costs_its_group_turns_and_delays_others_by_none():
    queue = FairQueue()
    for n in range(40):
        queue.add("cheap", n, now=0.0)
        queue.add("dear", n, now=0.0)
    order = ""
    for _ in range(24):
        group, item = queue.pop(now=0.0)
        order += group[0]
        queue.charge(group, item, 9.0 if group == "dear" else 0.0)
        queue.done(group, item, now=0.0)
    assert order == "cd" + "c" * 10 + "d" + "c" * 10 + "d"


def test_an_expensive_item_ends_the_turn_of_its_group():
    queue = FairQueue()
    queue.set_weight("dear", 5)
    for n in range(20):
        queue.add("dear", n, now=0.0)
        queue.add("cheap", n, now=0.0)
    order = ""
    for _ in range(9):
        group, item = queue.pop(now=0.0)
        order += group[0]
        queue.charge(group, item, 9.0 if group == "dear" else 0.0)
        queue.done(group, item, now=0.0)
    assert order == "dccdccdcc"


def test_a_debt_outlasts_the_last_item_of_a_group():
    queue = FairQueue()
    queue.add("dear", 0, now=0.0)
    queue.pop(now=0.0)
    queue.charge("dear", 0, 5.0)
    queue.done("dear", 0, now=0.0)
    for n in range(9):
        queue.add("dear", n, now=0.0)
        queue.add("cheap", n, now=0.0)
    assert "".join(queue.pop(now=0.0)[0][0] for _ in range(8)) == "cccccdcd"


def test_without_others_a_debt_delays_nothing_and_is_forgotten():
    queue = FairQueue()
    for n in range(9):
        queue.add("dear", n, now=0.0)
    for n in range(3):
        assert queue.pop(now=0.0) == ("dear", n)
        queue.charge("dear", n, 500.0)
        queue.done("dear", n, now=0.0)
    assert queue.pop(now=0.0) == ("dear", 3)
    queue.add("cheap", 0, now=0.0)
    queue.add("cheap", 1, now=0.0)
    assert [queue.pop(now=0.0)[0] for _ in range(3)] == ["dear", "cheap", "dear"]


def test_a_debt_is_bounded():
    queue = FairQueue()
    queue.add("dear", 0, now=0.0)
    queue.pop(now=0.0)
    queue.charge("dear", 0, 1e12)
    queue.done("dear", 0, now=0.0)
    queue.add("dear", 0, now=0.0)
    for n in range(2 * int(MOST_DEBT)):
        queue.add("cheap", n, now=0.0)
    pops = 0
    while queue.pop(now=0.0)[0] == "cheap":
        pops += 1
    assert pops == MOST_DEBT


def test_a_group_that_is_forgotten_owes_nothing():
    queue = FairQueue()
    queue.add("dear", 0, now=0.0)
    queue.pop(now=0.0)
    queue.charge("dear", 0, 5.0)
    queue.forget_group("dear")
    queue.charge("dear", 0, 5.0)
    queue.done("dear", 0, now=0.0)
    queue.add("dear", 1, now=0.0)
    queue.add("cheap", 1, now=0.0)
    assert queue.pop(now=0.0) == ("dear", 1)


@pytest.mark.parametrize("items", [-1.0, math.inf, math.nan])
def test_a_charge_is_a_number(items):
    queue = FairQueue()
    queue.add("a", 0, now=0.0)
    with pytest.raises(ValueError, match="not in process"):
        queue.charge("a", 0, 1.0)
    queue.pop(now=0.0)
    with pytest.raises(ValueError, match="items must be a finite number"):
        queue.charge("a", 0, items)
