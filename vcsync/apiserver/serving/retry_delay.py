"""Delays the refusals of a connection whose client does not wait for Retry-After. Pure.

A client that repeats refused requests at once would cost as much as one whose requests are served. Its refusals wait
instead, so that each of its connections gets one in the time of a Retry-After. Clients that wait notice nothing.
"""

MOST_SECONDS = 2.0
"""Longest delay of one refusal, so that a server that ends does not wait for it."""


class RetryDelay:
    """The refusals of one connection."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = 0.0

    def next(self, retry_after: float, now: float) -> float:
        """Return the seconds for which a refusal waits, and begin the time of its own Retry-After.

        Args:
            retry_after: Seconds that the refusal tells the client to wait.
            now: Seconds of a clock that never goes back.
        """
        delay = min(max(0.0, self._until - now), MOST_SECONDS)
        self._until = now + delay + retry_after
        return delay
