"""History is kept for a window of time, and what is older is forgotten."""

from __future__ import annotations

import pytest

from vcsync.controlplane.store.interface import StoreUnavailable
from vcsync.controlplane.store.window import keep_window


class Enough(Exception):
    pass


class Recorder:
    """A store whose revision moves on by ten in every window, and that may be away."""

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
async def test_what_is_older_than_the_window_is_forgotten(
    away: set[int], compacted: list[tuple[int, int]]
) -> None:
    store = Recorder(away)
    with pytest.raises(Enough):
        await keep_window(store, 60, store.sleep)
    assert store.compacted == compacted
