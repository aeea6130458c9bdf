"""Hands changes to watches inside one process, in order, with a bound on what a slow one may keep back."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence

from vcsync.controlplane.store.interface import Batch, Change, StoreError

MAX_PENDING = 4096
"""Changes that wait for a watch; one that falls behind further reads on from history."""

History = Callable[[str, int, int], AsyncGenerator[Batch, None]]
"""(prefix, after, until): the batches of changes after one revision up to another; the last one ends at `until`.

Raises Compacted when `after` is older than the window of history.
"""


class Subscription:
    """What waits for one watch.

    Attributes:
        base: every change after this revision, as far as published, is in what waits.
    """

    def __init__(self, base: int) -> None:
        self.base = base
        self._pending: list[Change] = []
        self._wake = asyncio.Event()
        self._error: StoreError | None = None

    def add(self, change: Change) -> None:
        """Let one more change wait."""
        self._pending.append(change)

    def added(self, revision: int) -> None:
        """Wake the watch; `revision`: what came is all up to there."""
        if len(self._pending) > MAX_PENDING:
            self._pending.clear()
            self.base = revision
        self._wake.set()

    def fail(self, error: StoreError) -> None:
        """End the watch."""
        self._error = error
        self._wake.set()

    def take(self) -> list[Change]:
        """Return all that waits.

        Raises:
            StoreError: the watch has been ended.
        """
        if self._error:
            raise self._error
        self._wake.clear()
        taken, self._pending = self._pending, []
        return taken

    async def wait(self, seconds: float | None) -> bool:
        """Return True when something came, False when nothing did for so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return self._wake.is_set()
        return True


class Hub:
    """Everyone who watches, found by the prefixes of a changed key.

    Attributes:
        published: the newest revision that was handed out.
    """

    def __init__(self, published: int) -> None:
        self.published = published
        self._folders: dict[str, set[Subscription]] = defaultdict(set)
        self._others: dict[str, set[Subscription]] = defaultdict(set)

    @property
    def watches(self) -> int:
        """How many there are."""
        return sum(len(found) for place in (self._folders, self._others) for found in place.values())

    def publish(self, changes: Sequence[Change], revision: int) -> None:
        """Hand out changes; `revision`: these are all up to there."""
        touched: set[Subscription] = set()
        for change in changes:
            for subscription in self._watching(change.key):
                subscription.add(change)
                touched.add(subscription)
        for subscription in touched:
            subscription.added(revision)
        self.published = revision

    def subscribe(self, prefix: str) -> Subscription:
        """Begin to keep changes below a prefix for somebody."""
        subscription = Subscription(self.published)
        self._place(prefix)[prefix].add(subscription)
        return subscription

    def unsubscribe(self, prefix: str, subscription: Subscription) -> None:
        """Keep nothing more for it."""
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
        """End every watch, as what was published until `revision` is not known."""
        self.fail(error)
        self._folders.clear()
        self._others.clear()
        self.published = revision

    def _place(self, prefix: str) -> dict[str, set[Subscription]]:
        return self._folders if not prefix or prefix.endswith("/") else self._others

    def _watching(self, key: str) -> Iterator[Subscription]:
        # Most watches are of whole path segments: a few look-ups find them among any number of others.
        for prefix in folders(key):
            yield from self._folders.get(prefix, ())
        for prefix, subscriptions in self._others.items():
            if key.startswith(prefix):
                yield from subscriptions


async def follow(
    hub: Hub, history: History, prefix: str, after: int, progress: float | None
) -> AsyncGenerator[Batch, None]:
    """Watch a prefix: first from history what was published before, then what comes, without gap or repetition.

    Raises:
        Compacted: history no longer has what comes next.
        StoreError: the hub ended all watches.
    """
    subscription = hub.subscribe(prefix)
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
                position = max(position, hub.published)
                if changes:
                    yield Batch(changes, position)
                continue
            if not await subscription.wait(progress):
                position = max(position, hub.published)
                yield Batch((), position)
    finally:
        hub.unsubscribe(prefix, subscription)


def folders(key: str) -> Iterator[str]:
    """Return every prefix of a key that ends in a slash, and the empty one."""
    yield ""
    end = key.find("/")
    while end >= 0:
        yield key[: end + 1]
        end = key.find("/", end + 1)
