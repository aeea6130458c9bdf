"""Counts the usage of each tenant in a store that does not count itself: once by reading, then change by change."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from vcsync.apiserver.storage.interface import Change, Page, StoreUnavailable, Usage, tenant_of

Read = Callable[[str, str, int], Awaitable[Page]]
"""(prefix, after, revision) -> one page of records as of the revision (0: now)."""


def size_of(key: str, value: bytes | None) -> int:
    """Return the bytes that a key with this value counts for. None: the key does not exist."""
    return 0 if value is None else len(key.encode()) + len(value)


@dataclass(slots=True)
class _Count:
    """The usage of one tenant as of a revision. `waiting` holds the changes that arrive during the first count."""

    counted: asyncio.Event = field(default_factory=asyncio.Event)
    revision: int = 0
    objects: int = 0
    bytes: int = 0
    waiting: list[Change] = field(default_factory=list)

    def add(self, change: Change) -> None:
        if not self.counted.is_set():
            self.waiting.append(change)
        elif change.revision > self.revision:
            self.objects += (change.value is not None) - (change.previous is not None)
            self.bytes += size_of(change.key, change.value) - size_of(change.key, change.previous)

    def settle(self, revision: int) -> None:
        self.revision = revision
        self.counted.set()
        for change in self.waiting:
            self.add(change)
        self.waiting.clear()


class UsageCounter:
    """The usage of tenants. A tenant is counted at the first call of `usage`.

    Args:
        read: Reads one page of the store.
    """

    def __init__(self, read: Read) -> None:
        self._read = read
        self._counts: dict[str, _Count] = {}

    def note(self, changes: Sequence[Change]) -> None:
        """Apply changes. It must be called with every change, in order."""
        for change in changes:
            if count := self._counts.get(tenant_of(change.key)):
                count.add(change)

    def forget(self) -> None:
        """Drop all counts, because changes were missed."""
        for count in self._counts.values():
            count.counted.set()
        self._counts.clear()

    async def usage(self, tenant: str) -> Usage:
        """Return the usage of a tenant as of the last noted change.

        Raises:
            StoreError: The store cannot be read.
        """
        count = self._counts.get(tenant)
        if count is None:
            count = self._counts[tenant] = _Count()
            try:
                await self._count(tenant, count)
            except BaseException:
                if self._counts.get(tenant) is count:
                    del self._counts[tenant]
                count.counted.set()
                raise
        await count.counted.wait()
        if self._counts.get(tenant) is not count:
            raise StoreUnavailable(
                "the count of the tenant's usage was interrupted; the next request counts again"
            )
        return Usage(count.objects, count.bytes)

    async def _count(self, tenant: str, count: _Count) -> None:
        after, revision, more = "", 0, True
        while more:
            page = await self._read(f"{tenant}/", after, revision)
            count.objects += len(page.records)
            count.bytes += sum(size_of(record.key, record.value) for record in page.records)
            revision, more = page.revision, page.more
            after = page.records[-1].key if page.records else after
        count.settle(revision)
