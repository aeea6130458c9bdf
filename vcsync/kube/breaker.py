"""When to leave an endpoint alone: a circuit breaker and a budget for retries. Pure; times in seconds."""

import random
from collections.abc import Callable
from enum import Enum


class BreakerState(Enum):
    """Closed: calls go through. Open: none do. Half open: one does, to see whether the endpoint is back."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


class Breaker:
    """Opens after a run of failures to reach an endpoint, and lets one probe through after each pause.

    Args:
        threshold: failures in a row, each within `window` seconds of the one before, that open it.
        window: seconds after which a failure no longer counts as one in a row.
        first_pause: seconds it stays open the first time; doubles with every failed probe.
        longest_pause: seconds it stays open at most.
        on_state: called with each new state.
        jitter: returns a random number in [0, 1); spreads the probes of many clients.
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
        """What it does with calls."""
        return self._state

    def admit(self, now: float) -> float:
        """Ask for one call: 0.0 lets it through, anything else is the seconds to wait before asking again.

        Whoever is let through must report `succeeded`, `failed` or `abandoned`.
        """
        if self._state is BreakerState.CLOSED:
            return 0.0
        if self._state is BreakerState.OPEN and now >= self._opens_until:
            self._change(BreakerState.HALF_OPEN)
            return 0.0
        return max(self._opens_until - now, 0.1)

    def succeeded(self) -> None:
        """The endpoint answered (whatever it said)."""
        self._failures = 0
        if self._state is not BreakerState.CLOSED:
            self._pause = self._first_pause
            self._change(BreakerState.CLOSED)

    def failed(self, now: float) -> None:
        """The endpoint did not answer."""
        if self._state is BreakerState.HALF_OPEN:
            self._pause = min(self._pause * 2, self._longest_pause)
            self._open(now)
            return
        self._failures = self._failures + 1 if now - self._last_failure <= self._window else 1
        self._last_failure = now
        if self._state is BreakerState.CLOSED and self._failures >= self._threshold:
            self._open(now)

    def abandoned(self, now: float) -> None:
        """A call that was let through has told nothing about the endpoint (it was cancelled)."""
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
    """Bounds retries to a share of all calls plus a small floor, so that retries cannot feed an overload.

    Args:
        share: retries earned by each call.
        floor: retries earned per second without any call.
        capacity: retries that can be saved up.
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
        """Take a retry out of the budget; False if there is none left."""
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
        attempt: number of retries before this one.
        base: seconds before the first retry.
        cap: seconds at most.
        jitter: a random number in [0, 1).
    """
    return min(base * 2.0 ** min(attempt, 32), cap) * (0.5 + jitter / 2)
