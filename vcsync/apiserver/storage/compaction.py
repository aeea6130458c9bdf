"""Compacts the store periodically, so that it keeps a window of history."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import structlog

from vcsync.apiserver.storage.interface import StoreError

WINDOW_SECONDS = 300.0
"""Length of the window: the default of kube-apiserver's `--etcd-compaction-interval`."""

log = structlog.get_logger(__name__)


class Compactable(Protocol):
    """The part of a `Store` that compaction uses."""

    async def revision(self) -> int:
        """See `Store.revision`."""
        ...

    async def compact(self, revision: int) -> None:
        """See `Store.compact`."""
        ...


async def keep_window(
    store: Compactable,
    seconds: float = WINDOW_SECONDS,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Compact until cancelled, so that the store keeps between one and two times `seconds` of history.

    Several processes may compact one etcd: each removes only history older than its own window. If compaction fails, the
    window grows until it succeeds.
    """
    oldest: int | None = None
    while True:
        try:
            newest = await store.revision()
            if oldest is not None:
                await store.compact(oldest)
            oldest = newest
        except StoreError as error:
            log.warning("cannot compact the store", error=str(error))
        await sleep(seconds)
