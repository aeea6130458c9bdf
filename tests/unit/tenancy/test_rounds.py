"""Rounds of work that tenants get."""

from hypothesis import given
from hypothesis import strategies as st

from vcsync.tenancy.rounds import Rounds


def test_rounds_at_once_and_then_at_a_rate() -> None:
    rounds, now = Rounds(3, 10.0), 1000.0
    taken = [rounds.take("acme", now) for _ in range(4)]
    assert taken[:3] == [0.0, 0.0, 0.0]
    assert 0.09 < taken[3] <= 0.1001
    assert rounds.take("umbrella", now) == 0.0, "others have rounds of their own"
    assert [rounds.take("acme", now + taken[3]) > 0 for _ in range(2)] == [False, True]


@given(st.lists(st.floats(0, 2), max_size=60), st.integers(1, 5), st.integers(1, 20))
def test_no_more_rounds_than_the_rate_allows(pauses: list[float], at_once: int, per_second: int) -> None:
    rounds, now, taken = Rounds(at_once, per_second), 1000.0, 0
    for pause in pauses:
        now += pause
        taken += rounds.take("acme", now) == 0.0
    assert taken <= at_once + sum(pauses) * per_second + 1e-3


def test_tenants_that_rest_are_forgotten() -> None:
    rounds = Rounds(1, 10.0)
    for number in range(1000):
        assert rounds.take(f"t{number}", 1000.0 + number) == 0.0
    assert len(rounds._due) < 300
