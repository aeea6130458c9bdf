"""How much of a syncer's memory one tenant's objects may take: nothing else bounds what an external control plane holds. Pure."""

from __future__ import annotations

from collections import Counter

from vcsync.kube.cache import Change
from vcsync.kube.envelope import Envelope
from vcsync.kube.resources import Resource
from vcsync.tenancy.registry import TenantTooLarge

OVERHEAD = 512
"""Bytes that an object takes besides its texts."""
ARRIVING = 2
"""So many times the limit may arrive in one list: it replaces what is kept, and stands beside it until it is complete."""


class Memory:
    """Counts the bytes of one tenant's objects in the caches.

    Args:
        limit: bytes they may take.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._arriving: Counter[Resource] = Counter()
        self.kept = 0

    def arrives(self, resource: Resource, envelope: Envelope) -> None:
        """Count an object of a list or a watch before it is kept.

        Raises:
            TenantTooLarge: there are too many.
        """
        self._arriving[resource] += size(envelope)
        if self._arriving[resource] > ARRIVING * self._limit:
            raise self.too_large()

    def changed(self, resource: Resource, change: Change) -> bool:
        """Count a change of what is kept; False if that is too much now."""
        self._arriving.pop(resource, None)
        self.kept += size(change.new) - size(change.old)
        return self.kept <= self._limit

    def too_large(self) -> TenantTooLarge:
        """Say what is wrong, and what helps."""
        return TenantTooLarge(
            f"the tenant's objects take more than the {self._limit >> 20} MiB of a syncer's memory that a tenant may "
            "have: nothing of it is synced, what runs goes on; remove objects, or start syncers with a larger --memory-per-tenant"
        )


def size(envelope: Envelope | None) -> int:
    """Bytes an object takes in a cache."""
    if envelope is None:
        return 0
    texts = sum(
        len(key) + len(text) for part in (envelope.labels, envelope.annotations) for key, text in part.items()
    )
    return OVERHEAD + len(envelope.spec) + len(envelope.status) + len(envelope.rest) + texts
