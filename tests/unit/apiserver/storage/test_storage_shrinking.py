"""The database file shrinks when history is compacted, including files of earlier versions."""

import apsw
import pytest

from vcsync.apiserver.storage.interface import Put
from vcsync.apiserver.storage.sqlite import SPARE_PAGES, open_sqlite
from vcsync.apiserver.storage.sqlite_file import PAGE_BYTES

SIZE = 250_000


def pages(path):
    connection = apsw.Connection(str(path))
    try:
        return connection.execute("PRAGMA page_count").get
    finally:
        connection.close()


async def overwrite(store, times):
    for number in range(times):
        await store.txn((), [Put("t/core/configmaps/default/big", bytes([number % 256]) * SIZE)])


async def test_compaction_shrinks_the_file(tmp_path):
    path = tmp_path / "store.db"
    store = await open_sqlite(path, sweep_seconds=None)
    try:
        await overwrite(store, 100)
        before = pages(path)
        await store.compact(await store.revision())
        assert before > 100 * SIZE // PAGE_BYTES
        assert pages(path) <= SPARE_PAGES + 2 * SIZE // PAGE_BYTES + 100
        record, _ = await store.get("t/core/configmaps/default/big")
        assert record.value == bytes([99]) * SIZE
    finally:
        await store.close()


async def test_a_few_free_pages_are_kept_for_the_next_writes(tmp_path):
    path = tmp_path / "store.db"
    store = await open_sqlite(path, sweep_seconds=None)
    try:
        await overwrite(store, 5)
        before = pages(path)
        await store.compact(await store.revision())
        assert pages(path) >= before - 128
    finally:
        await store.close()


@pytest.mark.parametrize("mode", [0, 2])
async def test_a_file_of_an_earlier_version_is_rewritten_once(tmp_path, mode):
    path = tmp_path / "store.db"
    store = await open_sqlite(path, sweep_seconds=None)
    await overwrite(store, 3)
    await store.close()
    connection = apsw.Connection(str(path))
    connection.execute(f"PRAGMA auto_vacuum = {mode}; VACUUM")
    connection.close()

    store = await open_sqlite(path, sweep_seconds=None)
    try:
        record, _ = await store.get("t/core/configmaps/default/big")
        assert record.value == bytes([2]) * SIZE
        await overwrite(store, 100)
        await store.compact(await store.revision())
        assert pages(path) <= SPARE_PAGES + 2 * SIZE // PAGE_BYTES + 100
    finally:
        await store.close()
