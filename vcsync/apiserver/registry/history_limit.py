"""Limits the history of each tenant: old values, which stay in the store until it is compacted.

History is counted from the changes of the store. Writes of tenants beyond the limit are refused until history has been
compacted. Deletions and writes of the operator's programs are always allowed.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from vcsync.apimachinery import errors
from vcsync.apiserver.request.caller import SYSTEM
from vcsync.apiserver.storage.compaction import WINDOW_SECONDS
from vcsync.apiserver.storage.interface import Change, tenant_of

MAX_HISTORY_BYTES = 2**29
"""Default limit of the history of one tenant: a quarter of the default limit of its objects."""
BUCKET_SECONDS = 30.0
"""Length of the intervals in which history is counted."""
KEPT_SECONDS = 2 * WINDOW_SECONDS
"""Longest time for which an old value stays in the store; see `storage.compaction`."""
MAX_TENANTS = 10_000
"""Tenants that are counted. Beyond that, those that have not written for the longest time are forgotten."""


@dataclass(slots=True)
class _TenantHistory:
    """History of one tenant.

    Attributes:
        buckets: Bytes by the number of the interval in which they became history.
        total: Sum of all buckets.
    """

    buckets: OrderedDict[int, int] = field(default_factory=OrderedDict)
    total: int = 0

    def add(self, bucket: int, size: int) -> None:
        self.buckets[bucket] = self.buckets.get(bucket, 0) + size
        self.total += size

    def forget(self, oldest: int) -> None:
        while self.buckets and next(iter(self.buckets)) < oldest:
            self.total -= self.buckets.popitem(last=False)[1]


class History:
    """The recent history of all tenants.

    Args:
        clock: Returns monotonic seconds.
        limit: Bytes of history that a tenant may have. 0: unlimited.
    """

    def __init__(self, clock: Callable[[], float], limit: int = MAX_HISTORY_BYTES) -> None:
        self._clock = clock
        self._limit = limit
        self._tenants: OrderedDict[str, _TenantHistory] = OrderedDict()

    def changed(self, changes: Sequence[Change]) -> None:
        """Count the old values of changes of the store."""
        bucket = int(self._clock() // BUCKET_SECONDS)
        for change in changes:
            if change.previous is None:
                continue
            tenant = tenant_of(change.key)
            history = self._tenants.get(tenant)
            if history is None:
                history = self._tenants[tenant] = _TenantHistory()
                if len(self._tenants) > MAX_TENANTS:
                    self._tenants.popitem(last=False)
            history.add(bucket, len(change.key) + len(change.previous))
            self._tenants.move_to_end(tenant)

    def of(self, tenant: str) -> int:
        """Return the bytes of a tenant's history that may still be in the store."""
        history = self._tenants.get(tenant)
        if history is None:
            return 0
        history.forget(int((self._clock() - KEPT_SECONDS) // BUCKET_SECONDS))
        return history.total

    def require(self, tenant: str) -> None:
        """Refuse a write of a tenant that has too much history.

        Raises:
            StatusError: 429, the tenant has overwritten and deleted too much recently.
        """
        if not self._limit or tenant == SYSTEM:
            return
        used = self.of(tenant)
        if used >= self._limit:
            raise errors.too_many_requests(
                f"{used} of {self._limit} bytes of history are used: objects of this control plane are overwritten or "
                f"deleted faster than history is forgotten ({KEPT_SECONDS:g} seconds); write less often, or smaller objects",
                int(BUCKET_SECONDS),
            )

    def text(self, tenant: str) -> bytes:
        """Return the history of a tenant as a metric; for the system space, that of all tenants."""
        named = sorted(self._tenants) if tenant == SYSTEM else [tenant]
        lines = [
            "# HELP vcsync_storage_history_bytes Bytes that a tenant has overwritten or deleted and that are still kept.",
            "# TYPE vcsync_storage_history_bytes gauge",
            *(
                f'vcsync_storage_history_bytes{{tenant="{each}"}} {self.of(each)}'
                for each in named
                if "~" not in each
            ),
        ]
        return "\n".join([*lines, ""]).encode()
