"""The circuit breaker, the retry budget, backoff and the rate limiter."""

import pytest

from vcsync.kube.breaker import Breaker, BreakerState, RetryBudget, backoff
from vcsync.kube.transport import RateLimiter


def breaker() -> Breaker:
    return Breaker(threshold=3, window=10.0, first_pause=1.0, longest_pause=4.0, jitter=lambda: 0.5)


def test_the_breaker_opens_after_consecutive_failures() -> None:
    b = breaker()
    for now in (0.0, 1.0):
        b.failed(now)
        assert b.admit(now) == 0
    b.failed(2.0)
    assert b.admit(2.0) == 1.0


def test_a_success_resets_the_failures() -> None:
    b = breaker()
    for _ in range(5):
        b.failed(0.0)
        b.failed(0.0)
        b.succeeded()
    assert b.state is BreakerState.CLOSED


def test_failures_far_apart_are_not_consecutive() -> None:
    b = breaker()
    for now in range(0, 110, 11):
        b.failed(float(now))
    assert b.state is BreakerState.CLOSED


def test_one_probe_passes_after_the_pause_and_its_failure_doubles_the_pause() -> None:
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


def test_after_a_cancelled_probe_the_next_call_is_the_probe() -> None:
    b = breaker()
    for _ in range(3):
        b.failed(0.0)
    assert b.admit(1.0) == 0
    b.abandoned(1.0)
    assert b.admit(1.0) == 0


def test_the_retry_budget_grows_with_calls_and_with_time() -> None:
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


def test_the_rate_limiter_allows_a_burst_of_one_second_and_spreads_the_rest() -> None:
    pace = RateLimiter(10.0)
    delays = [round(pace.delay(100.0), 6) for _ in range(13)]
    assert delays[:10] == [0.0] * 10
    assert delays[10:] == [0.1, 0.2, 0.3]


def test_the_retry_budget_holds_at_most_ten_retries() -> None:
    budget = RetryBudget()
    for _ in range(1000):
        budget.call()
    assert [budget.take(0.0) for _ in range(11)] == [True] * 10 + [False]


def test_the_breaker_opens_after_five_failures_for_one_to_thirty_seconds() -> None:
    b = Breaker(jitter=lambda: 0.5)
    for _ in range(4):
        b.failed(30.0)
    assert b.admit(30.0) == 0
    b.failed(60.0)
    now, pauses = 60.0, []
    for _ in range(7):
        pauses.append(b.admit(now))
        now += pauses[-1]
        assert b.admit(now) == 0
        b.failed(now)
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


@pytest.mark.parametrize(("jitter", "pause"), [(0.0, 3.0), (0.5, 4.0), (1.0, 5.0)])
def test_probes_of_many_clients_are_spread_by_a_quarter_either_way(jitter: float, pause: float) -> None:
    b = Breaker(threshold=1, first_pause=4.0, jitter=lambda: jitter)
    b.failed(0.0)
    assert b.admit(0.0) == pause


def test_calls_during_a_probe_are_refused_with_a_short_wait() -> None:
    b = Breaker(threshold=1, first_pause=1.0, jitter=lambda: 0.5)
    b.failed(0.0)
    assert b.admit(1.0) == 0
    assert b.admit(1.0) == 0.1


def test_an_idle_rate_limiter_allows_at_most_one_second_of_burst() -> None:
    pace = RateLimiter(2.0)
    assert [pace.delay(100.0) for _ in range(4)] == [0.0, 0.0, 0.5, 1.0]
    assert [pace.delay(1000.0) for _ in range(4)] == [0.0, 0.0, 0.5, 1.0]
    assert RateLimiter(0.5).delay(0.0) == 0.0
