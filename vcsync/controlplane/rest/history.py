"""How much history each tenant makes: what it overwrites and deletes stays in the store for a while, beside what it keeps.

Counted from the changes of the store, whoever made them; writes of tenants beyond the bound are refused until history has been
forgotten. Deletions and the operator's own programs always go on.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from vcsync.controlplane import errors
from vcsync.controlplane.identity.caller import SYSTEM
from vcsync.controlplane.store.interface import Change, tenant_of
from vcsync.controlplane.store.window import WINDOW_SECONDS

MOST_BYTES = 2**29
"""Bytes of history that a tenant may make while it is kept: a quarter of what a tenant may keep, as a rule."""
BUCKET_SECONDS = 30.0
KEPT_SECONDS = 2 * WINDOW_SECONDS
"""How long what was overwritten may stay; see `store.window`."""
MAX_TENANTS = 10_000
"""Tenants that are counted at once; those who have been silent longest are forgotten first."""


@dataclass(slots=True)
class _Made:
    """Bytes by the number of the bucket of time in which they became history."""

    buckets: OrderedDict[int, int] = field(default_factory=OrderedDict)
    whole: int = 0

    def add(self, bucket: int, size: int) -> None:
        self.buckets[bucket] = self.buckets.get(bucket, 0) + size
        self.whole += size

    def forget(self, oldest: int) -> None:
        while self.buckets and next(iter(self.buckets)) < oldest:
            self.whole -= self.buckets.popitem(last=False)[1]


class History:
    """What tenants have made of it lately, each.

    Args:
        clock: monotonic seconds.
        most: bytes of a tenant; 0: any number.
    """

    def __init__(self, clock: Callable[[], float], most: int = MOST_BYTES) -> None:
        self._clock = clock
        self._most = most
        self._tenants: OrderedDict[str, _Made] = OrderedDict()

    def changed(self, changes: Sequence[Change]) -> None:
        """Count what changes of the store leave behind."""
        bucket = int(self._clock() // BUCKET_SECONDS)
        for change in changes:
            if change.previous is None:
                continue
            tenant = tenant_of(change.key)
            made = self._tenants.get(tenant)
            if made is None:
                made = self._tenants[tenant] = _Made()
                if len(self._tenants) > MAX_TENANTS:
                    self._tenants.popitem(last=False)
            made.add(bucket, len(change.key) + len(change.previous))
            self._tenants.move_to_end(tenant)

    def of(self, tenant: str) -> int:
        """Return the bytes of a tenant's history that may still be kept."""
        made = self._tenants.get(tenant)
        if made is None:
            return 0
        made.forget(int((self._clock() - KEPT_SECONDS) // BUCKET_SECONDS))
        return made.whole

    def require(self, tenant: str) -> None:
        """Make sure that a tenant may write.

        Raises:
            StatusError: 429, it has overwritten and deleted too much lately.
        """
        if not self._most or tenant == SYSTEM:
            return
        made = self.of(tenant)
        if made >= self._most:
            raise errors.too_many_requests(
                f"{made} of {self._most} bytes of history are used: objects of this control plane are overwritten or "
                f"deleted faster than history is forgotten ({KEPT_SECONDS:g} seconds); write less often, or smaller objects",
                int(BUCKET_SECONDS),
            )

    def text(self, tenant: str) -> bytes:
        """Write a tenant's, as a metric; of the system space everybody's."""
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
