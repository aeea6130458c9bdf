"""Ranges of keys: a key is in the range of a prefix exactly if it begins with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vcsync.apiserver.storage.interface import Put
from vcsync.apiserver.storage.ranges import end_of
from vcsync.apiserver.storage.sqlite import open_sqlite

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)


@given(WORDS.filter(bool), WORDS)
@example("/a/", "\U0010ffff")
@example("\U0010ffff", "\U0010ffff")
def test_a_range_contains_exactly_the_keys_with_its_prefix(prefix: str, other: str) -> None:
    first, end = prefix.encode(), end_of(prefix.encode())
    for key in (prefix + other, other):
        assert (first <= key.encode() < end) == key.startswith(prefix)


@pytest.mark.parametrize("name", ["\U0010ffff", "\U0010ffff\U0010ffff", "\U0010ffffa", "a", "\ud7ff", "\x7f"])
@pytest.mark.parametrize("prefix", ["", "/t/things/", "/t/\U0010ffff", "/t/\ud7ff"])
async def test_names_that_sort_last_are_listed_and_counted(tmp_path: Path, name: str, prefix: str) -> None:
    store = await open_sqlite(tmp_path / "store.db", sweep_seconds=None)
    try:
        await store.txn([], [Put(prefix + name, b"1")])
        page = await store.range(prefix, limit=10)
        assert [record.key for record in page.records] == [prefix + name]
        assert await store.count(prefix) == 1
    finally:
        await store.close()
