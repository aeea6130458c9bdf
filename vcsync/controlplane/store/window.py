"""Keeps a window of history: forgets, again and again, what is older."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import structlog

from vcsync.controlplane.store.interface import StoreError

WINDOW_SECONDS = 300.0
"""As kube-apiserver's `--etcd-compaction-interval`."""

log = structlog.get_logger(__name__)


class Compactable(Protocol):
    """The part of a `Store` that is needed here."""

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
    """Compact without end, so that between one and two times `seconds` of history are there.

    Several processes may do so on one etcd: each forgets only what is older than its own window. When the store
    cannot, the window grows until it can.
    """
    oldest: int | None = None
    while True:
        try:
            newest = await store.revision()
            if oldest is not None:
                await store.compact(oldest)
            oldest = newest
        except StoreError as error:
            log.warning("cannot forget old history", error=str(error))
        await sleep(seconds)
