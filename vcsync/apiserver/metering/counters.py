"""Counts what one tenant uses of this process. Requests add to the counters; a background task reads them."""

import time
from typing import NamedTuple

from vcsync.apiserver.request.caller import UNAUTHENTICATED, Caller

READS = frozenset({"GET", "HEAD", "OPTIONS"})
"""HTTP methods of reads. All other methods are writes."""

THROTTLED = 429
"""Status of requests that did not run. They are not counted."""


class Amounts(NamedTuple):
    """Amounts of usage.

    Attributes:
        reads: Number of requests that read.
        writes: Number of other requests.
        bytes_in: Bytes of the bodies of requests.
        bytes_out: Bytes of the bodies of answers.
        watch_milliseconds: Time during which watches were open, added up over all watches.
    """

    reads: int = 0
    writes: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    watch_milliseconds: int = 0

    def plus(self, other: "Amounts") -> "Amounts":
        """Return the sums."""
        return Amounts(*(one + more for one, more in zip(self, other, strict=True)))

    def minus(self, other: "Amounts") -> "Amounts":
        """Return the differences."""
        return Amounts(*(one - less for one, less in zip(self, other, strict=True)))


class Counters:
    """Counters of one tenant since the process started. They only grow.

    Args:
        tenant: Name of the tenant.
        uid: UID of the tenant, which differs for a later tenant of the same name.

    Attributes:
        bytes_in: Bytes of the bodies of requests.
        bytes_out: Bytes of the bodies of answers.
        open_watches: Number of open watches.
    """

    __slots__ = ("_reads", "_watch_time", "_writes", "bytes_in", "bytes_out", "open_watches", "tenant", "uid")

    def __init__(self, tenant: str, uid: str) -> None:
        self.tenant = tenant
        self.uid = uid
        self.bytes_in = 0
        self.bytes_out = 0
        self.open_watches = 0
        self._reads = 0
        self._writes = 0
        self._watch_time = 0

    def request(self, method: str, status: int) -> None:
        """Count a request by its HTTP method and the status of its answer."""
        if status == THROTTLED:
            return
        if method in READS:
            self._reads += 1
        else:
            self._writes += 1

    def watch_opened(self, now: int) -> None:
        """Count an open watch from `now` on, in milliseconds of a monotonic clock."""
        self.open_watches += 1
        self._watch_time -= now

    def watch_closed(self, now: int) -> None:
        """Count a watch until `now`."""
        self.open_watches -= 1
        self._watch_time += now

    def amounts(self, now: int) -> Amounts:
        """Return what was used until `now`, in milliseconds of the same clock. Open watches count until then."""
        watched = self._watch_time + self.open_watches * now
        return Amounts(self._reads, self._writes, self.bytes_in, self.bytes_out, watched)


UNMETERED = Counters("", "")
"""Counters of requests that count for no tenant. Nobody reads them."""


def milliseconds() -> int:
    """Return the time of a clock that never goes back, in milliseconds."""
    return time.monotonic_ns() // 1_000_000


def is_metered(caller: Caller) -> bool:
    """Tell whether the requests of a caller count for the tenant that they are about.

    Requests of the operator and of its programs do not. Neither do those of unauthenticated callers, because anybody
    could run up a tenant's bill with them.
    """
    return not caller.system and UNAUTHENTICATED not in caller.user.groups
