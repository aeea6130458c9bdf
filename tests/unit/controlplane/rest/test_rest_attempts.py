"""Changing what stands at a key, by what is known of it: what is known late decides nothing."""

from types import SimpleNamespace
from typing import Any

import pytest

from vcsync.controlplane.errors import StatusError, forbidden
from vcsync.controlplane.rest.attempts import MOST, attempts
from vcsync.controlplane.store.interface import Record

OLD, NEW = Record("k", b"old", 1, 1), Record("k", b"new", 1, 2)


class Store:
    """Remembers something, which may not be what stands there."""

    def __init__(self, known: Record | None, there: Record | None) -> None:
        self.remembered, self.there = known, there
        self.reads = 0

    async def known(self, _key: str) -> Record | None:
        return self.remembered

    async def get(self, _key: str) -> tuple[Record | None, int]:
        self.reads += 1
        return self.there, 9


async def tried(store: Store, *came: Any) -> tuple[Any, list[Record | None], list[str]]:
    """Return what comes of attempts that end like this, what each began with, and the warnings."""
    scope = SimpleNamespace(key=lambda: "k", warnings=["before"])
    seen: list[Record | None] = []
    ends = iter(came)

    async def attempt(record: Record | None) -> Any:
        seen.append(record)
        scope.warnings.append(f"attempt {len(seen)}")
        end = next(ends)
        if isinstance(end, Exception):
            raise end
        return end

    return await attempts(store, scope, attempt), seen, scope.warnings  # type: ignore[arg-type]


async def test_what_is_written_by_what_is_known_is_written() -> None:
    store = Store(OLD, OLD)
    assert await tried(store, ("done", None)) == ("done", [OLD], ["before", "attempt 1"])
    assert not store.reads


async def test_after_another_write_it_begins_with_what_that_left() -> None:
    store = Store(OLD, NEW)
    assert await tried(store, (None, NEW), ("done", None)) == ("done", [OLD, NEW], ["before", "attempt 2"])
    assert not store.reads


@pytest.mark.parametrize("late", [forbidden("pods", "", "p", "no"), ("nothing to do", OLD)])
async def test_what_was_late_decides_nothing(late: Any) -> None:
    assert await tried(Store(OLD, NEW), late, ("done", None)) == ("done", [OLD, NEW], ["before", "attempt 2"])
    assert await tried(Store(OLD, None), late, ("done", None)) == (
        "done",
        [OLD, None],
        ["before", "attempt 2"],
    )


async def test_a_refusal_counts_for_what_stands() -> None:
    for store in (Store(OLD, OLD), Store(None, None)):
        with pytest.raises(StatusError):
            await tried(store, forbidden("pods", "", "p", "no"))
    with pytest.raises(StatusError):
        await tried(Store(OLD, NEW), (None, NEW), forbidden("pods", "", "p", "no"))


async def test_nothing_to_do_counts_for_what_stands() -> None:
    assert (await tried(Store(OLD, OLD), ("same", OLD)))[:2] == ("same", [OLD])
    assert (await tried(Store(OLD, NEW), (None, NEW), ("same", NEW)))[:2] == ("same", [OLD, NEW])


async def test_what_is_not_known_is_read() -> None:
    store = Store(None, NEW)
    assert (await tried(store, ("done", None)))[:2] == ("done", [NEW])
    assert store.reads == 1


async def test_it_ends_when_other_writes_come_between_again_and_again() -> None:
    done, seen, _ = await tried(Store(OLD, OLD), *[(None, NEW)] * MOST)
    assert done is None
    assert len(seen) == MOST
