"""Compaction keeps a window of history."""

from __future__ import annotations

import pytest

from vcsync.apiserver.storage.compaction import keep_window
from vcsync.apiserver.storage.interface import StoreUnavailable


class Enough(Exception):
    pass


class Recorder:
    """A store whose revision grows by ten in every window, and which may be unavailable."""

    def __init__(self, away: set[int]) -> None:
        self.window = 0
        self.away = away
        self.compacted: list[tuple[int, int]] = []

    async def revision(self) -> int:
        if self.window in self.away:
            raise StoreUnavailable("away")
        return self.window * 10

    async def compact(self, revision: int) -> None:
        self.compacted.append((self.window, revision))

    async def sleep(self, seconds: float) -> None:
        assert seconds == 60
        self.window += 1
        if self.window == 5:
            raise Enough


@pytest.mark.parametrize(
    ("away", "compacted"),
    [
        (set(), [(1, 0), (2, 10), (3, 20), (4, 30)]),
        ({2}, [(1, 0), (3, 10), (4, 30)]),
        ({0}, [(2, 10), (3, 20), (4, 30)]),
    ],
)
async def test_history_older_than_the_window_is_compacted(
    away: set[int], compacted: list[tuple[int, int]]
) -> None:
    store = Recorder(away)
    with pytest.raises(Enough):
        await keep_window(store, 60, store.sleep)
    assert store.compacted == compacted


async def test_the_default_window_is_five_minutes() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        raise Enough

    with pytest.raises(Enough):
        await keep_window(Recorder(set()), sleep=sleep)
    assert slept == [300.0]
