"""A token bucket: at most a rate on average, and a burst after a pause. Pure; callers pass the time."""

TOLERANCE = 1e-9
"""Part of a token that may be missing, because sums of fractions are not exact."""


class TokenBucket:
    """Holds tokens, which are added at a steady rate until the bucket is full. A new bucket is full.

    Args:
        rate: Tokens added per second; greater than zero.
        capacity: Most tokens that the bucket holds. A bucket always has room for one token.
        now: Seconds of a clock that never goes back, as in all other methods.
    """

    __slots__ = ("_at", "_tokens", "capacity", "rate")

    def __init__(self, rate: float, capacity: float, now: float) -> None:
        self.rate = rate
        self.capacity = max(1.0, capacity)
        self._tokens = self.capacity
        self._at = now

    def configure(self, rate: float, capacity: float, now: float) -> None:
        """Change the rate and the capacity. A larger bucket gets no tokens at once, and a smaller one loses the surplus."""
        self._fill(now)
        self.rate = rate
        self.capacity = max(1.0, capacity)
        self._tokens = min(self._tokens, self.capacity)

    def wait(self, now: float, tokens: float = 1.0) -> float:
        """Return the seconds until the bucket holds `tokens`, or 0 if it does."""
        self._fill(now)
        missing = tokens - self._tokens
        return missing / self.rate if missing > TOLERANCE else 0.0

    def take(self, now: float, tokens: float = 1.0) -> None:
        """Remove tokens, even if there are fewer: the bucket then owes them, and `wait` gets longer."""
        self._fill(now)
        self._tokens -= tokens

    def is_full(self, now: float) -> bool:
        """Tell whether the bucket is in the state of a new one."""
        self._fill(now)
        return self._tokens >= self.capacity

    def _fill(self, now: float) -> None:
        if now > self._at:
            self._tokens = min(self.capacity, self._tokens + (now - self._at) * self.rate)
            self._at = now
