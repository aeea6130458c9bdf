"""Changes of an object that start from a cached record, which may be outdated."""

from types import SimpleNamespace
from typing import Any

import pytest

from vcsync.apimachinery.errors import StatusError, forbidden
from vcsync.apiserver.registry.guaranteed_update import MAX_ATTEMPTS, guaranteed_update
from vcsync.apiserver.storage.interface import Record

OLD, NEW = Record("k", b"old", 1, 1), Record("k", b"new", 1, 2)


class Store:
    """Remembers something, which may not be what stands there."""

    def __init__(self, known: Record | None, there: Record | None) -> None:
        self.remembered, self.there = known, there
        self.reads = 0

    async def get_cached(self, _key: str) -> Record | None:
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

    return await guaranteed_update(store, scope, attempt), seen, scope.warnings  # type: ignore[arg-type]


async def test_a_write_based_on_the_cached_record_succeeds() -> None:
    store = Store(OLD, OLD)
    assert await tried(store, ("done", None)) == ("done", [OLD], ["before", "attempt 1"])
    assert not store.reads


async def test_the_next_attempt_starts_from_the_record_of_the_other_write() -> None:
    store = Store(OLD, NEW)
    assert await tried(store, (None, NEW), ("done", None)) == ("done", [OLD, NEW], ["before", "attempt 2"])
    assert not store.reads


@pytest.mark.parametrize("late", [forbidden("pods", "", "p", "no"), ("nothing to do", OLD)])
async def test_an_outdated_record_decides_nothing(late: Any) -> None:
    assert await tried(Store(OLD, NEW), late, ("done", None)) == ("done", [OLD, NEW], ["before", "attempt 2"])
    assert await tried(Store(OLD, None), late, ("done", None)) == (
        "done",
        [OLD, None],
        ["before", "attempt 2"],
    )


async def test_a_refusal_of_the_current_record_is_final() -> None:
    for store in (Store(OLD, OLD), Store(None, None)):
        with pytest.raises(StatusError):
            await tried(store, forbidden("pods", "", "p", "no"))
    with pytest.raises(StatusError):
        await tried(Store(OLD, NEW), (None, NEW), forbidden("pods", "", "p", "no"))


async def test_a_result_without_a_write_is_final_for_the_current_record() -> None:
    assert (await tried(Store(OLD, OLD), ("same", OLD)))[:2] == ("same", [OLD])
    assert (await tried(Store(OLD, NEW), (None, NEW), ("same", NEW)))[:2] == ("same", [OLD, NEW])


async def test_a_record_that_is_not_cached_is_read() -> None:
    store = Store(None, NEW)
    assert (await tried(store, ("done", None)))[:2] == ("done", [NEW])
    assert store.reads == 1


async def test_the_number_of_attempts_is_limited() -> None:
    done, seen, _ = await tried(Store(OLD, OLD), *[(None, NEW)] * MAX_ATTEMPTS)
    assert done is None
    assert len(seen) == MAX_ATTEMPTS
