"""Counts what each tenant keeps in a store that does not count itself: once by reading, then change by change."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from vcsync.controlplane.store.interface import Change, Page, StoreUnavailable, Usage, tenant_of

Read = Callable[[str, str, int], Awaitable[Page]]
"""(prefix, after, revision): one page of what is there, at a revision or (0) now."""


def size_of(key: str, value: bytes | None) -> int:
    """Return the bytes that a key with this value counts for; None: it is not there."""
    return 0 if value is None else len(key.encode()) + len(value)


@dataclass(slots=True)
class _Count:
    """What one tenant has as of a revision; `waiting`: what came while that was still being found out."""

    found: asyncio.Event = field(default_factory=asyncio.Event)
    revision: int = 0
    objects: int = 0
    bytes: int = 0
    waiting: list[Change] = field(default_factory=list)

    def add(self, change: Change) -> None:
        if not self.found.is_set():
            self.waiting.append(change)
        elif change.revision > self.revision:
            self.objects += (change.value is not None) - (change.previous is not None)
            self.bytes += size_of(change.key, change.value) - size_of(change.key, change.previous)

    def settle(self, revision: int) -> None:
        self.revision = revision
        self.found.set()
        for change in self.waiting:
            self.add(change)
        self.waiting.clear()


class Meter:
    """What tenants use. A tenant is counted when somebody first asks for it."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._counts: dict[str, _Count] = {}

    def note(self, changes: Sequence[Change]) -> None:
        """Take every change into account, in order."""
        for change in changes:
            if count := self._counts.get(tenant_of(change.key)):
                count.add(change)

    def forget(self) -> None:
        """Count anew, as changes were missed."""
        for count in self._counts.values():
            count.found.set()
        self._counts.clear()

    async def usage(self, tenant: str) -> Usage:
        """Return what a tenant keeps, as far as changes have been noted.

        Raises:
            StoreError: it cannot be read.
        """
        count = self._counts.get(tenant)
        if count is None:
            count = self._counts[tenant] = _Count()
            try:
                await self._find(tenant, count)
            except BaseException:
                if self._counts.get(tenant) is count:
                    del self._counts[tenant]
                count.found.set()
                raise
        await count.found.wait()
        if self._counts.get(tenant) is not count:
            raise StoreUnavailable("what the tenant uses could not be counted; it will be when asked again")
        return Usage(count.objects, count.bytes)

    async def _find(self, tenant: str, count: _Count) -> None:
        after, revision, more = "", 0, True
        while more:
            page = await self._read(f"{tenant}/", after, revision)
            count.objects += len(page.records)
            count.bytes += sum(size_of(record.key, record.value) for record in page.records)
            revision, more = page.revision, page.more
            after = page.records[-1].key if page.records else after
        count.settle(revision)
