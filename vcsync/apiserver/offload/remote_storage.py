"""The store as the offload process uses it: every call is a remote call to the control plane's process."""

from collections.abc import AsyncGenerator, Mapping, Sequence

from vcsync.apiserver.offload.link import Link, Procedure
from vcsync.apiserver.storage import assumptions
from vcsync.apiserver.storage.assumptions import Assumptions
from vcsync.apiserver.storage.interface import (
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


def store_procedures(store: Store) -> Mapping[str, Procedure]:
    """Return the procedures that a `RemoteStore` calls."""

    async def get(key: str, revision: int) -> tuple[Record | None, int]:
        return await store.get(key, revision=revision)

    async def page(prefix: str, after: str, limit: int, revision: int, counted: bool) -> Page:
        return await store.range(prefix, after=after, limit=limit, revision=revision, counted=counted)

    async def txn(
        compares: Sequence[Compare],
        operations: Sequence[Put | Delete],
        keys: dict[str, int],
        folders: dict[str, int],
    ) -> Outcome:
        assumed = Assumptions(fresh=True)
        assumed.keys, assumed.folders = keys, folders
        with assumptions.assuming(assumed):
            return await store.txn(compares, operations)

    return {
        "get": get,
        "range": page,
        "count": store.count,
        "txn": txn,
        "revision": store.revision,
        "usage": store.usage,
    }


class RemoteStore:
    """A `Store` without watches and compaction, which writes do not need.

    Args:
        link: Connection to the process that has the store.
    """

    def __init__(self, link: Link) -> None:
        self._link = link

    async def get(self, key: str, *, revision: int = 0) -> tuple[Record | None, int]:
        """Read one key; see `Store.get`."""
        found: tuple[Record | None, int] = await self._link.call("get", key, revision)
        return found

    async def range(
        self, prefix: str, *, after: str = "", limit: int = 0, revision: int = 0, counted: bool = True
    ) -> Page:
        """Read a range of keys; see `Store.range`."""
        found: Page = await self._link.call("range", prefix, after, limit, revision, counted)
        return found

    async def get_cached(self, key: str) -> Record | None:
        """Read one key. Nothing is cached here."""
        record, _ = await self.get(key)
        assumed = assumptions.current()
        if assumed is not None:
            assumed.note(key, record)
        return record

    async def range_cached(self, prefix: str) -> Sequence[Record]:
        """Read all keys with a prefix. Nothing is cached here."""
        page = await self.range(prefix)
        assumed = assumptions.current()
        if assumed is not None:
            assumed.note_folder(prefix, page.records, page.revision)
        return page.records

    async def count(self, prefix: str) -> int:
        """Return the number of keys with a prefix."""
        found: int = await self._link.call("count", prefix)
        return found

    async def txn(self, compares: Sequence[Compare], operations: Sequence[Put | Delete]) -> Outcome:
        """Commit a transaction; see `Store.txn`. The control plane's store checks that what was read is current."""
        assumed = assumptions.current()
        keys, folders = ({}, {}) if assumed is None else (assumed.keys, assumed.folders)
        found: Outcome = await self._link.call("txn", tuple(compares), tuple(operations), keys, folders)
        if assumed is not None and found.done:
            assumed.note_commit(operations, found.revision)
        return found

    async def holds(self, assumed: Assumptions) -> bool:  # noqa: ARG002 - of every `AssumingStore`
        """Return True: nothing is cached here, so everything was current when it was read."""
        return True

    async def revision(self) -> int:
        """Return the newest revision."""
        found: int = await self._link.call("revision")
        return found

    async def usage(self, tenant: str) -> Usage:
        """Return how much a tenant stores."""
        found: Usage = await self._link.call("usage", tenant)
        return found

    def watch(self, prefix: str, after: int, *, progress: float | None = None) -> AsyncGenerator[Batch, None]:
        """Raise an error: changes arrive as notifications of the link."""
        raise StoreError(f"the offload process does not watch the store: {prefix} {after} {progress}")

    async def compact(self, revision: int) -> None:
        """Raise an error: the control plane's process compacts the store."""
        raise StoreError(f"the offload process does not compact the store: {revision}")

    async def wait_until_checked(self) -> None:
        """Do nothing: the control plane's process checks the store."""

    async def close(self) -> None:
        """Do nothing: the control plane's process closes the store."""
