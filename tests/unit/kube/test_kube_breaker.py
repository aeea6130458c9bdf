"""When an endpoint is left alone."""

import pytest

from vcsync.kube.breaker import Breaker, BreakerState, RetryBudget, backoff
from vcsync.kube.transport import Pace


def breaker() -> Breaker:
    return Breaker(threshold=3, window=10.0, first_pause=1.0, longest_pause=4.0, jitter=lambda: 0.5)


def test_it_opens_after_a_run_of_failures() -> None:
    b = breaker()
    for now in (0.0, 1.0):
        b.failed(now)
        assert b.admit(now) == 0
    b.failed(2.0)
    assert b.admit(2.0) == 1.0


def test_an_answer_in_between_ends_the_run() -> None:
    b = breaker()
    for _ in range(5):
        b.failed(0.0)
        b.failed(0.0)
        b.succeeded()
    assert b.state is BreakerState.CLOSED


def test_failures_far_apart_are_no_run() -> None:
    b = breaker()
    for now in range(0, 110, 11):
        b.failed(float(now))
    assert b.state is BreakerState.CLOSED


def test_one_probe_goes_through_after_the_pause_and_its_failure_doubles_it() -> None:
    b = breaker()
    for _ in range(3):
        b.failed(0.0)
    now, pauses = 0.0, []
    for _ in range(4):
        wait = b.admit(now)
        pauses.append(wait)
        now += wait
        assert b.admit(now) == 0
        assert b.admit(now) > 0  # the others wait for the probe
        b.failed(now)
    assert pauses == [1.0, 2.0, 4.0, 4.0]
    now += b.admit(now)
    assert b.admit(now) == 0
    b.succeeded()
    assert b.state is BreakerState.CLOSED


def test_a_cancelled_probe_leaves_the_turn_to_the_next() -> None:
    b = breaker()
    for _ in range(3):
        b.failed(0.0)
    assert b.admit(1.0) == 0
    b.abandoned(1.0)
    assert b.admit(1.0) == 0


def test_retries_are_a_share_of_the_calls_and_a_floor() -> None:
    budget = RetryBudget(share=0.1, floor=0.5, capacity=2.0)
    assert [budget.take(0.0) for _ in range(3)] == [True, True, False]
    for _ in range(11):
        budget.call()
    assert [budget.take(0.0) for _ in range(2)] == [True, False]
    assert budget.take(2.0)
    assert [budget.take(1000.0) for _ in range(3)] == [True, True, False]


@pytest.mark.parametrize(("attempt", "pause"), [(0, 1.0), (1, 2.0), (3, 8.0), (10, 10.0), (10**6, 10.0)])
def test_backoff_doubles_up_to_its_cap(attempt: int, pause: float) -> None:
    assert backoff(attempt, base=1.0, cap=10.0, jitter=1.0) == pause
    assert backoff(attempt, base=1.0, cap=10.0, jitter=0.0) == pause / 2


def test_a_pace_lets_a_seconds_worth_burst_and_spreads_the_rest() -> None:
    pace = Pace(10.0)
    delays = [round(pace.delay(100.0), 6) for _ in range(13)]
    assert delays[:10] == [0.0] * 10
    assert delays[10:] == [0.1, 0.2, 0.3]
