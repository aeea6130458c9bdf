"""Wide transactions on SQLite, and their form for etcd."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.apiserver.storage import wide_writes
from vcsync.apiserver.storage import etcd_wide_transactions as etcd_wide
from vcsync.apiserver.storage.interface import MAX_CONDITIONS, MAX_OPERATIONS, NARROW, Compare, too_wide
from vcsync.apiserver.storage.sqlite import open_sqlite


@pytest.fixture
async def store(tmp_path: Path) -> Any:
    opened = await open_sqlite(tmp_path / "store.db", sweep_seconds=None)
    yield opened
    await opened.close()


async def test_wide_transactions_take_effect_completely(store: Any) -> None:
    await wide_writes.check_that_wide_writes_are_done_whole(store)


async def test_wide_transactions_are_atomic(store: Any) -> None:
    await wide_writes.check_that_wide_writes_are_done_or_not_at_all(store)


async def test_concurrent_wide_transactions_never_claim_the_same_key(store: Any) -> None:
    await wide_writes.check_that_no_two_wide_writes_take_the_same(store, store)


async def test_a_transaction_too_wide_for_every_store_is_refused(store: Any) -> None:
    await wide_writes.check_that_what_no_store_takes_is_refused(store)


def conditions(absent: int, folders: int, exact: int) -> list[Compare]:
    """Return conditions on keys that must not exist, spread over folders, and on keys at a revision."""
    return [
        *(Compare(f"a/{number % folders}/{number}", 0) for number in range(absent)),
        *(Compare(f"b/{number}", 7) for number in range(exact)),
    ]


@pytest.mark.parametrize(
    ("absent", "folders", "exact", "operations", "wide"),
    [
        (0, 1, 128, 128, False),
        (0, 1, 129, 0, True),
        (129, 1, 0, 0, False),
        (129, 1, 52, 0, False),
        (129, 1, 53, 0, True),
        (129, 7, 4, 0, False),
        (129, 7, 5, 0, True),
        (3600, 1, 0, 3600, False),
        (3601, 1, 0, 0, True),
        (0, 1, 0, 3601, True),
        (0, 1, 60, 129, False),
        (0, 1, 61, 129, True),
    ],
)
def test_the_limits_of_a_transaction(
    absent: int, folders: int, exact: int, operations: int, wide: bool
) -> None:
    assert too_wide(conditions(absent, folders, exact), [None] * operations) == wide  # type: ignore[list-item]


KEYS = [f"{folder}/{name}" for folder in "abcdef" for name in range(60)]
COMPARES = st.builds(Compare, st.sampled_from(KEYS), st.sampled_from([0, 0, 0, 7]))


@given(st.lists(COMPARES, unique_by=lambda each: each.key), st.integers(0, MAX_OPERATIONS))
def test_a_transaction_that_is_not_too_wide_fits_the_limits_of_etcd(
    compares: list[Compare], operations: int
) -> None:
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
