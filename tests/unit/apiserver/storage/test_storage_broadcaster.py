"""Changes reach every watch once and in order, however slow it is and wherever it starts."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from vcsync.apiserver.storage import broadcaster as broadcaster_module
from vcsync.apiserver.storage.broadcaster import Broadcaster, follow
from vcsync.apiserver.storage.interface import Batch, Change, Compacted, StoreUnavailable


def change(revision: int, key: str = "t/core/pods/ns/a") -> Change:
    return Change(revision, key, b"v", None, revision)


class Source:
    """A broadcaster, and a history of everything that it has published."""

    def __init__(self, published: int = 0) -> None:
        self.broadcaster = Broadcaster(published)
        self.kept: list[Change] = []
        self.compacted = 0

    def publish(self, *changes: Change) -> None:
        self.kept += changes
        self.broadcaster.publish(changes, changes[-1].revision)

    async def history(self, prefix: str, after: int, until: int) -> AsyncGenerator[Batch, None]:
        if after < self.compacted:
            raise Compacted(self.compacted)
        yield Batch(
            [one for one in self.kept if after < one.revision <= until and one.key.startswith(prefix)], until
        )

    def watch(
        self, prefix: str = "", after: int = 0, progress: float | None = 0
    ) -> AsyncGenerator[Batch, None]:
        return follow(self.broadcaster, self.history, prefix, after, progress)


async def revisions(batches: AsyncGenerator[Batch, None]) -> list[int]:
    """Return the revisions of all batches up to the first empty one."""
    found: list[int] = []
    while batch := await anext(batches):
        found += [one.revision for one in batch]
    return found


async def test_new_changes_follow_history_without_gap_or_repetition() -> None:
    source = Source()
    source.publish(change(1), change(2))
    watch = source.watch(after=1)
    assert await revisions(watch) == [2]
    source.publish(change(3))
    source.publish(change(4), change(4, "t/core/pods/ns/b"))
    assert await revisions(watch) == [3, 4, 4]


async def test_a_watch_that_falls_behind_continues_from_history(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcaster_module, "MAX_PENDING", 2)
    source = Source()
    watch = source.watch()
    assert await revisions(watch) == []
    for revision in range(1, 10):
        source.publish(change(revision))
    assert await revisions(watch) == list(range(1, 10))


async def test_a_watch_that_falls_behind_the_window_gets_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcaster_module, "MAX_PENDING", 2)
    source = Source()
    watch = source.watch()
    assert await revisions(watch) == []
    for revision in range(1, 10):
        source.publish(change(revision))
    source.compacted = 5
    with pytest.raises(Compacted) as caught:
        await anext(watch)
    assert caught.value.oldest == 5


async def test_changes_during_the_read_of_history_are_not_lost() -> None:
    source = Source()
    source.publish(change(1), change(2))
    watch = source.watch()
    assert [one.revision for one in await anext(watch)] == [1, 2]  # the watch is now within history
    source.publish(change(3))
    assert await revisions(watch) == [3]


async def test_a_watch_from_a_future_revision_gets_only_later_changes() -> None:
    source = Source(published=4)
    watch = source.watch(after=6)
    assert await revisions(watch) == []
    source.publish(change(5), change(6), change(7))
    assert await revisions(watch) == [7]


async def test_an_empty_batch_reports_the_progress_of_the_watch() -> None:
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
    assert not source.broadcaster.watches


async def test_a_failing_store_ends_every_watch() -> None:
    source = Source()
    watches = [source.watch("t/"), source.watch("t/core")]
    for watch in watches:
        assert await revisions(watch) == []
    source.broadcaster.fail(StoreUnavailable("gone"))
    for watch in watches:
        with pytest.raises(StoreUnavailable):
            await anext(watch)


@pytest.mark.parametrize(("most", "read_on"), [(3, False), (2, True)])
async def test_a_watch_may_fall_behind_by_a_limited_number_of_changes(
    monkeypatch: pytest.MonkeyPatch, most: int, read_on: bool
) -> None:
    monkeypatch.setattr(broadcaster_module, "MAX_PENDING", most)
    source = Source()
    watch = source.watch()
    assert await revisions(watch) == []
    for revision in (1, 2, 3):
        source.publish(change(revision))
    source.compacted = 3  # the waiting changes need no history
    if read_on:
        with pytest.raises(Compacted):
            await anext(watch)
    else:
        assert await revisions(watch) == [1, 2, 3]


async def test_a_restart_ends_every_watch_and_later_watches_begin_at_its_revision() -> None:
    source = Source(published=4)
    watches = [source.watch("t/", 4), source.watch("t/core", 4)]
    for watch in watches:
        assert await revisions(watch) == []
    source.broadcaster.restart(9, Compacted(9))
    for watch in watches:
        with pytest.raises(Compacted):
            await anext(watch)
    assert source.broadcaster.watches == 0
    later = source.watch("t/", 9)
    assert await revisions(later) == []
    source.publish(change(10))
    assert await revisions(later) == [10]


async def test_the_revision_of_a_batch_covers_changes_of_other_prefixes() -> None:
    source = Source()
    watch = source.watch("t/")
    assert await revisions(watch) == []
    source.publish(change(1), change(2, "u/core/pods/ns/a"))
    batch = await anext(watch)
    assert ([one.revision for one in batch], batch.revision) == ([1], 2)


@pytest.mark.parametrize(
    ("key", "found"),
    [("a/b/c", ["", "a/", "a/b/"]), ("a", [""]), ("", [""]), ("/a", ["", "/"]), ("a/", ["", "a/"])],
)
def test_every_folder_above_a_key_is_found(key: str, found: list[str]) -> None:
    assert list(broadcaster_module.folders(key)) == found
