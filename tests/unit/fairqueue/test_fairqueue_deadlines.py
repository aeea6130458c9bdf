from random import Random

from hypothesis import given
from hypothesis import strategies as st

from vcsync.fairqueue.deadlines import Deadlines


def take_all(deadlines, now):
    taken = []
    while (value := deadlines.take_due(now)) is not None:
        taken.append(value)
    return taken


def test_values_are_in_the_order_of_their_deadlines_then_of_setting():
    deadlines = Deadlines()
    for due, value in ((3.0, "c"), (1.0, "a"), (2.0, "b1"), (2.0, "b2"), (9.0, "z")):
        deadlines.set(due, value)
    assert take_all(deadlines, 3.0) == ["a", "b1", "b2", "c"]
    assert deadlines.next() == 9.0
    assert len(deadlines) == 1


def test_a_cancelled_deadline_is_neither_next_nor_taken():
    deadlines = Deadlines()
    ticket = deadlines.set(1.0, "cancelled")
    deadlines.set(2.0, "kept")
    deadlines.cancel(ticket)
    assert deadlines.next() == 2.0
    assert take_all(deadlines, 5.0) == ["kept"]
    assert deadlines.next() is None
    assert len(deadlines) == 0


def test_cancelled_deadlines_in_the_far_future_are_removed():
    deadlines = Deadlines()
    kept = [deadlines.set(1000.0 + n, n) for n in range(10)]
    for n in range(10_000):
        deadlines.cancel(deadlines.set(2000.0 + n, n))
    assert len(deadlines._heap) < 200
    assert len(deadlines) == len(kept)
    assert take_all(deadlines, 1e9) == list(range(10))


@given(seed=st.integers(0, 2**32), survivors=st.integers(0, 40))
def test_removing_cancelled_deadlines_keeps_the_order_of_the_others(seed, survivors):
    random = Random(seed)
    deadlines = Deadlines()
    tickets = {due: deadlines.set(float(due), due) for due in random.sample(range(300), 300)}
    kept = sorted(random.sample(range(300), survivors))
    for due, ticket in tickets.items():
        if due not in kept:
            deadlines.cancel(ticket)
    assert take_all(deadlines, 300.0) == kept
