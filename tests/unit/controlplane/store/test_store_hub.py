"""Changes reach every watch once and in order, however slow it is and wherever it starts."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from vcsync.controlplane.store import hub as hub_module
from vcsync.controlplane.store.hub import Hub, follow
from vcsync.controlplane.store.interface import Batch, Change, Compacted, StoreUnavailable


def change(revision: int, key: str = "t/core/pods/ns/a") -> Change:
    return Change(revision, key, b"v", None, revision)


class Source:
    """A hub, and history that remembers what was published."""

    def __init__(self, published: int = 0) -> None:
        self.hub = Hub(published)
        self.kept: list[Change] = []
        self.compacted = 0

    def publish(self, *changes: Change) -> None:
        self.kept += changes
        self.hub.publish(changes, changes[-1].revision)

    async def history(self, prefix: str, after: int, until: int) -> AsyncGenerator[Batch, None]:
        if after < self.compacted:
            raise Compacted(self.compacted)
        yield Batch(
            [one for one in self.kept if after < one.revision <= until and one.key.startswith(prefix)], until
        )

    def watch(
        self, prefix: str = "", after: int = 0, progress: float | None = 0
    ) -> AsyncGenerator[Batch, None]:
        return follow(self.hub, self.history, prefix, after, progress)


async def revisions(batches: AsyncGenerator[Batch, None]) -> list[int]:
    """What comes until there is nothing more."""
    found: list[int] = []
    while batch := await anext(batches):
        found += [one.revision for one in batch]
    return found


async def test_history_is_followed_by_what_comes_without_gap_or_repetition() -> None:
    source = Source()
    source.publish(change(1), change(2))
    watch = source.watch(after=1)
    assert await revisions(watch) == [2]
    source.publish(change(3))
    source.publish(change(4), change(4, "t/core/pods/ns/b"))
    assert await revisions(watch) == [3, 4, 4]


async def test_a_watch_that_falls_behind_reads_on_from_history(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "MAX_PENDING", 2)
    source = Source()
    watch = source.watch()
    assert await revisions(watch) == []
    for revision in range(1, 10):
        source.publish(change(revision))
    assert await revisions(watch) == list(range(1, 10))


async def test_a_watch_that_falls_behind_the_window_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "MAX_PENDING", 2)
    source = Source()
    watch = source.watch()
    assert await revisions(watch) == []
    for revision in range(1, 10):
        source.publish(change(revision))
    source.compacted = 5
    with pytest.raises(Compacted) as caught:
        await anext(watch)
    assert caught.value.oldest == 5


async def test_what_comes_while_history_is_read_is_not_lost() -> None:
    source = Source()
    source.publish(change(1), change(2))
    watch = source.watch()
    assert [one.revision for one in await anext(watch)] == [1, 2]  # the watch now stands inside history
    source.publish(change(3))
    assert await revisions(watch) == [3]


async def test_a_watch_from_a_later_revision_is_given_only_what_is_later() -> None:
    source = Source(published=4)
    watch = source.watch(after=6)
    assert await revisions(watch) == []
    source.publish(change(5), change(6), change(7))
    assert await revisions(watch) == [7]


async def test_progress_tells_up_to_where_a_watch_has_been_served() -> None:
    source = Source()
    watch = source.watch("other/")
    source.publish(change(1), change(2))
    assert (await anext(watch)).revision == 2
    source.publish(change(3))
    batch = await anext(watch)
    assert (list(batch), batch.revision) == ([], 3)


@pytest.mark.parametrize(
    ("prefix", "seen"),
    [
        ("", True),
        ("t/", True),
        ("t/core/pods/", True),
        ("t/core/pods/ns/", True),
        ("t/core/pods/ns/a", True),
        ("t/core/po", True),
        ("t", True),
        ("t/core/pods/ns/a/", False),
        ("t/core/pods/n/", False),
        ("u/", False),
        ("/", False),
    ],
)
async def test_a_watch_sees_the_keys_that_begin_with_its_prefix(prefix: str, seen: bool) -> None:
    source = Source()
    watch = source.watch(prefix)
    assert await revisions(watch) == []
    source.publish(change(1))
    assert await revisions(watch) == ([1] if seen else [])


async def test_a_watch_that_ends_leaves_nothing_behind() -> None:
    source = Source()
    for prefix in ("t/", "t"):
        watch = source.watch(prefix)
        await anext(watch)
        await watch.aclose()
    assert not source.hub.watches


async def test_a_failing_store_ends_every_watch() -> None:
    source = Source()
    watches = [source.watch("t/"), source.watch("t/core")]
    for watch in watches:
        assert await revisions(watch) == []
    source.hub.fail(StoreUnavailable("gone"))
    for watch in watches:
        with pytest.raises(StoreUnavailable):
            await anext(watch)
