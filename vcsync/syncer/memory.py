"""Limits the memory that one tenant's objects take in a syncer. Pure.

An external control plane may have any number of objects of any size, so the syncer needs its own limit.
"""

from __future__ import annotations

from collections import Counter

from vcsync.kube.cache import Change
from vcsync.kube.resources import Resource
from vcsync.objects.envelope import Envelope
from vcsync.tenancy.registry import TenantTooLarge

OVERHEAD_BYTES = 512
"""Bytes that a cached object takes in addition to its texts."""
LISTED_TIMES = 2
"""Multiple of the limit that the objects of one list may take.

A list is kept in memory together with the cache that it replaces until it is complete.
"""


class MemoryLimit:
    """Counts the bytes of one tenant's objects in the caches.

    Attributes:
        kept: bytes of the objects that are cached.

    Args:
        limit: the largest number of bytes that the cached objects may take.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._listed: Counter[Resource] = Counter()
        self.kept = 0

    def count_listed(self, resource: Resource, envelope: Envelope) -> None:
        """Count an object of a list or a watch before it is cached.

        Raises:
            TenantTooLarge: the objects of one list take more than `LISTED_TIMES` the limit.
        """
        self._listed[resource] += size(envelope)
        if self._listed[resource] > LISTED_TIMES * self._limit:
            raise self.too_large()

    def count_change(self, resource: Resource, change: Change) -> bool:
        """Count a change of the cached objects. Return whether they are within the limit."""
        self._listed.pop(resource, None)
        self.kept += size(change.new) - size(change.old)
        return self.kept <= self._limit

    def too_large(self) -> TenantTooLarge:
        """Return an error that names the limit, its effect and the remedy."""
        return TenantTooLarge(
            f"the tenant's objects take more than the {self._limit >> 20} MiB of a syncer's memory that a tenant may "
            "have: they are not synced, running Pods continue; remove objects, or start syncers with a larger --memory-per-tenant"
        )


def size(envelope: Envelope | None) -> int:
    """Return the bytes that an object takes in a cache; 0 for None."""
    if envelope is None:
        return 0
    texts = sum(
        len(key) + len(text) for part in (envelope.labels, envelope.annotations) for key, text in part.items()
    )
    return OVERHEAD_BYTES + len(envelope.spec) + len(envelope.status) + len(envelope.rest) + texts
