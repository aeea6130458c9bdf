"""Passes changes to the watches of one process, in order, and limits how many wait for a slow watch."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence

from vcsync.apiserver.storage.interface import Batch, Change, StoreError

MAX_PENDING = 4096
"""Changes that wait for a watch. A watch that falls further behind continues from history."""

History = Callable[[str, int, int], AsyncGenerator[Batch, None]]
"""Yields the batches of changes: (prefix, after, until) -> changes after one revision up to another, ending at `until`.

Raises Compacted if `after` is older than the window of history.
"""


class Subscription:
    """The changes that wait for one watch.

    Attributes:
        base: Every published change after this revision is among the waiting ones.
    """

    def __init__(self, base: int) -> None:
        self.base = base
        self._pending: list[Change] = []
        self._wake = asyncio.Event()
        self._error: StoreError | None = None

    def add(self, change: Change) -> None:
        """Add a change."""
        self._pending.append(change)

    def added(self, revision: int) -> None:
        """Wake the watch. All changes up to `revision` have been added."""
        if len(self._pending) > MAX_PENDING:
            self._pending.clear()
            self.base = revision
        self._wake.set()

    def fail(self, error: StoreError) -> None:
        """End the watch."""
        self._error = error
        self._wake.set()

    def take(self) -> list[Change]:
        """Remove and return all waiting changes.

        Raises:
            StoreError: The watch has been ended.
        """
        if self._error:
            raise self._error
        self._wake.clear()
        taken, self._pending = self._pending, []
        return taken

    async def wait(self, seconds: float | None) -> bool:
        """Wait for changes. Returns False if none arrived within `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return self._wake.is_set()
        return True


class Broadcaster:
    """All watches, indexed by prefix.

    Attributes:
        published: The newest published revision.
    """

    def __init__(self, published: int) -> None:
        self.published = published
        self._folders: dict[str, set[Subscription]] = defaultdict(set)
        self._others: dict[str, set[Subscription]] = defaultdict(set)

    @property
    def watches(self) -> int:
        """Number of watches."""
        return sum(len(watches) for place in (self._folders, self._others) for watches in place.values())

    def publish(self, changes: Sequence[Change], revision: int) -> None:
        """Pass changes to watches. They are all changes up to `revision`."""
        touched: set[Subscription] = set()
        for change in changes:
            for subscription in self._watching(change.key):
                subscription.add(change)
                touched.add(subscription)
        for subscription in touched:
            subscription.added(revision)
        self.published = revision

    def subscribe(self, prefix: str) -> Subscription:
        """Start to collect the changes below a prefix for a watch."""
        subscription = Subscription(self.published)
        self._place(prefix)[prefix].add(subscription)
        return subscription

    def unsubscribe(self, prefix: str, subscription: Subscription) -> None:
        """Stop collecting changes for a watch."""
        place = self._place(prefix)
        place[prefix].discard(subscription)
        if not place[prefix]:
            del place[prefix]

    def fail(self, error: StoreError) -> None:
        """End every watch."""
        for place in (self._folders, self._others):
            for subscriptions in place.values():
                for subscription in subscriptions:
                    subscription.fail(error)

    def restart(self, revision: int, error: StoreError) -> None:
        """End every watch, because the changes up to `revision` are not known."""
        self.fail(error)
        self._folders.clear()
        self._others.clear()
        self.published = revision

    def _place(self, prefix: str) -> dict[str, set[Subscription]]:
        return self._folders if not prefix or prefix.endswith("/") else self._others

    def _watching(self, key: str) -> Iterator[Subscription]:
        # Most prefixes are whole path segments, so a few look-ups find the watches of a key.
        for prefix in folders(key):
            yield from self._folders.get(prefix, ())
        for prefix, subscriptions in self._others.items():
            if key.startswith(prefix):
                yield from subscriptions


async def follow(
    broadcaster: Broadcaster, history: History, prefix: str, after: int, progress: float | None
) -> AsyncGenerator[Batch, None]:
    """Watch a prefix: earlier changes from history, then new ones, without gaps or repetitions.

    Raises:
        Compacted: History no longer contains the next change.
        StoreError: The broadcaster ended all watches.
    """
    subscription = broadcaster.subscribe(prefix)
    position = after
    try:
        while True:
            if position < subscription.base:
                async for batch in history(prefix, position, subscription.base):
                    position = batch.revision
                    if batch:
                        yield batch
                continue
            changes = subscription.take()
            if changes:
                if changes[0].revision <= position:
                    changes = [change for change in changes if change.revision > position]
                position = max(position, broadcaster.published)
                if changes:
                    yield Batch(changes, position)
                continue
            if not await subscription.wait(progress):
                position = max(position, broadcaster.published)
                yield Batch((), position)
    finally:
        broadcaster.unsubscribe(prefix, subscription)


def folders(key: str) -> Iterator[str]:
    """Return every prefix of a key that ends in a slash, and the empty one."""
    yield ""
    end = key.find("/")
    while end >= 0:
        yield key[: end + 1]
        end = key.find("/", end + 1)
