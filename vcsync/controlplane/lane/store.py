"""The store as the other process sees it: every call is a question to the first."""

from collections.abc import AsyncGenerator, Mapping, Sequence

from vcsync.controlplane.lane.link import Answer, Link
from vcsync.controlplane.store.interface import (
    Batch,
    Compare,
    Delete,
    Outcome,
    Page,
    Put,
    Record,
    Store,
    StoreError,
    Usage,
)


def answers(store: Store) -> Mapping[str, Answer]:
    """Return what answers a `LinkedStore`."""

    async def get(key: str, revision: int) -> tuple[Record | None, int]:
        return await store.get(key, revision=revision)

    async def page(prefix: str, after: str, limit: int, revision: int, counted: bool) -> Page:
        return await store.range(prefix, after=after, limit=limit, revision=revision, counted=counted)

    return {
        "get": get,
        "range": page,
        "count": store.count,
        "txn": store.txn,
        "revision": store.revision,
        "usage": store.usage,
    }


class LinkedStore:
    """See `Store`; what writes do not need is not there."""

    def __init__(self, link: Link) -> None:
        """Take the link to whoever has the store."""
        self._link = link

    async def get(self, key: str, *, revision: int = 0) -> tuple[Record | None, int]:
        """Read one key."""
        found: tuple[Record | None, int] = await self._link.ask("get", key, revision)
        return found

    async def range(
        self, prefix: str, *, after: str = "", limit: int = 0, revision: int = 0, counted: bool = True
    ) -> Page:
        """Read keys."""
        found: Page = await self._link.ask("range", prefix, after, limit, revision, counted)
        return found

    async def known(self, key: str) -> Record | None:
        """Read one key."""
        return (await self.get(key))[0]

    async def known_below(self, prefix: str) -> Sequence[Record]:
        """Read keys."""
        return (await self.range(prefix)).records

    async def count(self, prefix: str) -> int:
        """Count keys."""
        found: int = await self._link.ask("count", prefix)
        return found

    async def txn(self, compares: Sequence[Compare], operations: Sequence[Put | Delete]) -> Outcome:
        """Write."""
        found: Outcome = await self._link.ask("txn", tuple(compares), tuple(operations))
        return found

    async def revision(self) -> int:
        """Return the newest revision."""
        found: int = await self._link.ask("revision")
        return found

    async def usage(self, tenant: str) -> Usage:
        """Return what a tenant keeps."""
        found: Usage = await self._link.ask("usage", tenant)
        return found

    def watch(self, prefix: str, after: int, *, progress: float | None = None) -> AsyncGenerator[Batch, None]:
        """Changes come without being asked for."""
        raise StoreError(f"nothing is watched here: {prefix} {after} {progress}")

    async def compact(self, revision: int) -> None:
        """Nothing is compacted here."""
        raise StoreError(f"nothing is compacted here: {revision}")

    async def sound(self) -> None:
        """Whoever has the store sees to it."""

    async def close(self) -> None:
        """Whoever has the store closes it."""
