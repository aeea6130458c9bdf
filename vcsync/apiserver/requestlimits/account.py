"""Account of one tenant or user: use of its limits in this process. Pure; callers pass the time."""

from typing import NamedTuple

from vcsync.apiserver.requestlimits.shares import Share
from vcsync.apiserver.requestlimits.token_bucket import TokenBucket
from vcsync.apiserver.tenants.request_limits import BURST_SECONDS, RequestLimits

READS, WRITES = "readsPerSecond", "writesPerSecond"
CONCURRENT, WATCHES, BYTES = "concurrentRequests", "watches", "bytesPerSecond"
NAMES = (READS, WRITES, CONCURRENT, WATCHES, BYTES)
"""The limits, by their fields in `Tenant.spec.limits`."""

RETRY_SECONDS = 1.0
"""Time after which a request may be repeated that found too many others: nobody knows when one of these ends."""


class Kind(NamedTuple):
    """Class of a request, for its limit.

    Attributes:
        read: Whether it reads.
        watch: Whether it is a watch.
    """

    read: bool
    watch: bool


class Refusal(NamedTuple):
    """Refusal of a request, with its reason.

    Attributes:
        limit: The limit, one of `NAMES`.
        most: Its value, for all processes together.
        seconds: Time until a request like this one would be let through if no other one came.
    """

    limit: str
    most: int
    seconds: float


class Account:
    """Counts against the limits of one holder.

    Args:
        limits: The limits in force. None means that there is no such limit.
        share: The part of them that this process takes.
        now: Seconds of a clock that never goes back, as in all other methods.

    Attributes:
        bytes: Bucket of bytes, or None if they are not limited.
    """

    __slots__ = ("_concurrent", "_limits", "_reads", "_share", "_watches", "_writes", "bytes")

    def __init__(self, limits: RequestLimits, share: Share, now: float) -> None:
        self._concurrent = 0
        self._watches = 0
        self._reads: TokenBucket | None = None
        self._writes: TokenBucket | None = None
        self.bytes: TokenBucket | None = None
        self.configure(limits, share, now)

    def configure(self, limits: RequestLimits, share: Share, now: float) -> None:
        """Apply other limits, or another share of them. Requests and watches that run are not affected, and count."""
        self._limits, self._share = limits, share
        self._reads = _bucket(self._reads, limits.reads_per_second, limits.read_burst, share, now)
        self._writes = _bucket(self._writes, limits.writes_per_second, limits.write_burst, share, now)
        burst = limits.bytes_per_second and limits.bytes_per_second * BURST_SECONDS
        self.bytes = _bucket(self.bytes, limits.bytes_per_second, burst, share, now)

    def refusal(self, kind: Kind, now: float) -> Refusal | None:
        """Return why a request cannot be let through now, or None if it can. Nothing is counted."""
        limits, share = self._limits, self._share
        bucket = self._reads if kind.read else self._writes
        if bucket is not None and (seconds := bucket.wait(now)):
            most = limits.reads_per_second if kind.read else limits.writes_per_second
            return Refusal(READS if kind.read else WRITES, most or 0, seconds)
        most = limits.watches if kind.watch else limits.concurrent_requests
        if most is not None and (self._watches if kind.watch else self._concurrent) >= share.count(most):
            return Refusal(WATCHES if kind.watch else CONCURRENT, most, RETRY_SECONDS)
        if self.bytes is not None and (seconds := self.bytes.wait(now, 0.0)):
            return Refusal(BYTES, limits.bytes_per_second or 0, seconds)
        return None

    def begin(self, kind: Kind, now: float) -> None:
        """Count a request that begins."""
        bucket = self._reads if kind.read else self._writes
        if bucket is not None:
            bucket.take(now)
        if kind.watch:
            self._watches += 1
        else:
            self._concurrent += 1

    def end(self, kind: Kind) -> None:
        """Count a request that ends."""
        if kind.watch:
            self._watches -= 1
        else:
            self._concurrent -= 1

    def spend(self, size: int, now: float) -> None:
        """Count bytes."""
        if self.bytes is not None:
            self.bytes.take(now, size)

    def debt(self, now: float) -> float:
        """Return the seconds until the bytes that were counted are within the limit, or 0 if they are."""
        return self.bytes.wait(now, 0.0) if self.bytes is not None else 0.0

    def is_idle(self, now: float) -> bool:
        """Tell whether the account is in the state of a new one, so that it can be forgotten."""
        buckets = (self._reads, self._writes, self.bytes)
        return not (self._concurrent or self._watches) and all(
            each is None or each.is_full(now) for each in buckets
        )


def _bucket(
    old: TokenBucket | None, rate: int | None, burst: int | None, share: Share, now: float
) -> TokenBucket | None:
    if not rate:
        return None
    part, capacity = share.rate(rate), share.rate(burst or rate)
    if old is None:
        return TokenBucket(part, capacity, now)
    old.configure(part, capacity, now)
    return old
