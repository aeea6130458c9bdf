"""Wide transactions on SQLite, and how they are made for etcd."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.controlplane.store import wide_writes
from vcsync.controlplane.store import etcd_wide
from vcsync.controlplane.store.interface import MAX_CONDITIONS, MAX_OPERATIONS, NARROW, Compare, too_wide
from vcsync.controlplane.store.sqlite import open_sqlite


@pytest.fixture
async def store(tmp_path: Path) -> Any:
    opened = await open_sqlite(tmp_path / "store.db", sweep_seconds=None)
    yield opened
    await opened.close()


async def test_wide_writes_are_done_whole(store: Any) -> None:
    await wide_writes.check_that_wide_writes_are_done_whole(store)


async def test_wide_writes_are_done_or_not_at_all(store: Any) -> None:
    await wide_writes.check_that_wide_writes_are_done_or_not_at_all(store)


async def test_no_two_wide_writes_take_the_same(store: Any) -> None:
    await wide_writes.check_that_no_two_wide_writes_take_the_same(store, store)


async def test_what_no_store_takes_is_refused(store: Any) -> None:
    await wide_writes.check_that_what_no_store_takes_is_refused(store)


KEYS = [f"{folder}/{name}" for folder in "abcdef" for name in range(60)]
COMPARES = st.builds(Compare, st.sampled_from(KEYS), st.sampled_from([0, 0, 0, 7]))


@given(st.lists(COMPARES, unique_by=lambda each: each.key), st.integers(0, MAX_OPERATIONS))
def test_what_is_not_too_wide_fits_into_what_etcd_takes(compares: list[Compare], operations: int) -> None:
    if too_wide(compares, [None] * operations):  # type: ignore[list-item]  # only counted
        return
    if max(len(compares), operations) <= NARROW:
        return
    wide, groups = etcd_wide.plan(compares), etcd_wide.grouped([{}] * operations)
    conditions = len(wide.exact) + len(wide.areas)
    assert conditions <= MAX_CONDITIONS
    outer = max(conditions, len(groups), len(wide.exact))
    assert outer <= NARROW
    assert all(len(each["request_txn"]["success"]) <= NARROW - outer for each in groups)
    asked = [*wide.exact, *(each for found in wide.areas.values() for each in found)]
    assert sorted(asked, key=lambda each: each.key) == sorted(compares, key=lambda each: each.key)
