"""Limits the memory that one tenant's objects take in a role.

An external control plane may have any number of objects of any size, so each role needs its own limit.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import NoReturn

from vcsync.kube.cache import Change
from vcsync.kube.resources import Resource
from vcsync.objects.envelope import Envelope
from vcsync.tenancy.registry import TenantTooLarge

TENANT_MEMORY_BYTES = 256 << 20
"""Bytes of a role's memory that one tenant's objects may take by default."""
OVERHEAD_BYTES = 512
"""Bytes that a cached object takes in addition to its texts. Names, UIDs and owners of usual length are among them."""
LISTED_TIMES = 2
"""Multiple of the limit that the objects of one list may take.

A list is kept in memory together with the cache that it replaces until it is complete.
"""


class MemoryLimit:
    """Counts the bytes of one tenant's objects in the caches. Pure.

    Attributes:
        kept: bytes of the objects that are cached.

    Args:
        limit: the largest number of bytes that the cached objects may take.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._listed: Counter[Resource] = Counter()
        self.kept = 0

    def count_listed(self, resource: Resource, envelope: Envelope) -> bool:
        """Count an object of a list or a watch before it is cached.

        Returns:
            Whether the objects of the list take at most `LISTED_TIMES` the limit.
        """
        self._listed[resource] += size(envelope)
        return self._listed[resource] <= LISTED_TIMES * self._limit

    def count_change(self, resource: Resource, change: Change) -> bool:
        """Count a change of the cached objects. Return whether they are within the limit."""
        self._listed.pop(resource, None)
        self.kept += size(change.new) - size(change.old)
        return self.kept <= self._limit


class TenantMemory:
    """Counts the objects of the reflectors of one session, and ends the session when they take too much memory.

    Each reflector has a `projection` and a `counted` sink.

    Args:
        limit: the largest number of bytes that the cached objects may take.
        role: the role in words, for the message.
        effect: what becomes of a tenant that exceeds the limit, for the message.
    """

    def __init__(self, limit: int, role: str, effect: str) -> None:
        self._memory = MemoryLimit(limit)
        self._exceeded = asyncio.Event()
        self._message = (
            f"the tenant's objects take more than the {limit >> 20} MiB of a {role}'s memory that a tenant may have: {effect}; "
            f"remove objects, or start the {role} with a larger --memory-per-tenant"
        )

    def projection(
        self, resource: Resource, project: Callable[[Envelope], Envelope] | None = None
    ) -> Callable[[Envelope], Envelope]:
        """Return a projection that counts what `project` keeps; None keeps all.

        The projection raises TenantTooLarge for the objects of a list that is too large, so that they are not kept.
        """

        def kept(envelope: Envelope) -> Envelope:
            found = project(envelope) if project is not None else envelope
            if not self._memory.count_listed(resource, found):
                self._exceeded.set()
                raise TenantTooLarge(self._message)
            return found

        return kept

    def counted(self, resource: Resource, sink: Callable[[Change], None]) -> Callable[[Change], None]:
        """Return a sink that counts each change before it passes it on."""

        def count(change: Change) -> None:
            self.count(resource, change)
            sink(change)

        return count

    def count(self, resource: Resource, change: Change) -> None:
        """Count a change of the cached objects."""
        if not self._memory.count_change(resource, change):
            self._exceeded.set()

    async def exceeded(self) -> NoReturn:
        """Wait until the objects take too much memory.

        Raises:
            TenantTooLarge: they do. The text names the limit, its effect and the remedy.
        """
        await self._exceeded.wait()
        raise TenantTooLarge(self._message)


def size(envelope: Envelope | None) -> int:
    """Return the bytes that an object takes in a cache; 0 for None."""
    if envelope is None:
        return 0
    texts = sum(
        len(key) + len(text) for part in (envelope.labels, envelope.annotations) for key, text in part.items()
    )
    body = len(envelope.spec) + len(envelope.status) + len(envelope.rest)
    return max(OVERHEAD_BYTES, _identity(envelope)) + body + texts


def _identity(envelope: Envelope) -> int:
    """Return the bytes of what identifies an object. No limit of Kubernetes holds for what a hostile server answers."""
    own = (envelope.name, envelope.namespace, envelope.uid, envelope.resource_version, envelope.generate_name)
    owners = sum(
        len(each.apiVersion) + len(each.kind) + len(each.name) + len(each.uid) for each in envelope.owners
    )
    return sum(map(len, own)) + sum(map(len, envelope.finalizers)) + owners
