"""A circuit breaker for an endpoint, and a budget of retries. Pure. Times are in seconds."""

import random
from collections.abc import Callable
from enum import Enum


class BreakerState(Enum):
    """Closed: all calls pass. Open: no call passes. Half open: one call passes, as a probe of the endpoint."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


class Breaker:
    """A circuit breaker that opens after consecutive failures to reach an endpoint, and probes it after each pause.

    Args:
        threshold: Number of consecutive failures that open it.
        window: Longest time between two consecutive failures, in seconds.
        first_pause: Seconds until the first probe. Each failed probe doubles the pause.
        longest_pause: Longest pause, in seconds.
        on_state: Called with each new state.
        jitter: Returns a random number in [0, 1), which spreads the probes of many clients.
    """

    def __init__(
        self,
        *,
        threshold: int = 5,
        window: float = 30.0,
        first_pause: float = 1.0,
        longest_pause: float = 30.0,
        on_state: Callable[[BreakerState], None] | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._threshold = threshold
        self._window = window
        self._first_pause = first_pause
        self._longest_pause = longest_pause
        self._on_state = on_state
        self._jitter = jitter
        self._failures = 0
        self._last_failure = 0.0
        self._pause = first_pause
        self._opens_until = 0.0
        self._state = BreakerState.CLOSED

    @property
    def state(self) -> BreakerState:
        """The current state."""
        return self._state

    def admit(self, now: float) -> float:
        """Return 0.0 if a call may be sent, otherwise the seconds until the next attempt.

        The caller must report the outcome of a call that is sent: `succeeded`, `failed` or `abandoned`.
        """
        if self._state is BreakerState.CLOSED:
            return 0.0
        if self._state is BreakerState.OPEN and now >= self._opens_until:
            self._change(BreakerState.HALF_OPEN)
            return 0.0
        return max(self._opens_until - now, 0.1)

    def succeeded(self) -> None:
        """Record that the endpoint responded, successfully or not."""
        self._failures = 0
        if self._state is not BreakerState.CLOSED:
            self._pause = self._first_pause
            self._change(BreakerState.CLOSED)

    def failed(self, now: float) -> None:
        """Record that the endpoint did not respond."""
        if self._state is BreakerState.HALF_OPEN:
            self._pause = min(self._pause * 2, self._longest_pause)
            self._open(now)
            return
        self._failures = self._failures + 1 if now - self._last_failure <= self._window else 1
        self._last_failure = now
        if self._state is BreakerState.CLOSED and self._failures >= self._threshold:
            self._open(now)

    def abandoned(self, now: float) -> None:
        """Record that a call ended without information about the endpoint, for example because it was cancelled."""
        if self._state is BreakerState.HALF_OPEN:
            self._opens_until = now
            self._change(BreakerState.OPEN)

    def _open(self, now: float) -> None:
        self._opens_until = now + self._pause * (0.75 + self._jitter() / 2)
        self._change(BreakerState.OPEN)

    def _change(self, state: BreakerState) -> None:
        self._state = state
        if self._on_state is not None:
            self._on_state(state)


class RetryBudget:
    """Limits retries to a share of all calls plus a small rate, so that retries do not increase an overload.

    Args:
        share: Retries that each call adds to the budget.
        floor: Retries that each second adds to the budget.
        capacity: Most retries in the budget.
    """

    def __init__(self, *, share: float = 0.1, floor: float = 0.2, capacity: float = 10.0) -> None:
        self._share = share
        self._floor = floor
        self._capacity = capacity
        self._tokens = capacity
        self._filled_at: float | None = None

    def call(self) -> None:
        """Count a first attempt."""
        self._tokens = min(self._capacity, self._tokens + self._share)

    def take(self, now: float) -> bool:
        """Take a retry from the budget. Return False if it is empty."""
        if self._filled_at is not None:
            self._tokens = min(self._capacity, self._tokens + (now - self._filled_at) * self._floor)
        self._filled_at = now
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True


def backoff(attempt: int, *, base: float, cap: float, jitter: float) -> float:
    """Return the seconds to wait before a retry: exponential, half of it random.

    Args:
        attempt: Number of earlier retries.
        base: Seconds before the first retry.
        cap: Most seconds.
        jitter: A random number in [0, 1).
    """
    return min(base * 2.0 ** min(attempt, 32), cap) * (0.5 + jitter / 2)
