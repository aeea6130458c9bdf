"""Which database files are opened, which are refused and with what advice, and what happens on a full disk."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import apsw
import pytest

from vcsync.controlplane.store import sqlite, sqlite_check, sqlite_file
from vcsync.controlplane.store.interface import (
    MAX_OPERATIONS,
    Compare,
    Delete,
    Put,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
    Usage,
)
from vcsync.controlplane.store.sqlite import SqliteStore, open_sqlite


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = await open_sqlite(path, sweep_seconds=None)
    yield store
    await store.close()


async def filled(path: Path, count: int = 300) -> None:
    """A database with something in it, closed."""
    store = await open_sqlite(path, sweep_seconds=None)
    await asyncio.gather(*(store.txn([], [Put(f"t/{n}", bytes(4000))]) for n in range(count)))
    await store.close()


def run_program(program: str, path: Path) -> subprocess.CompletedProcess[str]:
    """Run a Python program with a path as its argument."""
    return subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False
    )


async def refusal(path: Path) -> str:
    with pytest.raises(StoreRefused) as caught:
        await open_sqlite(path)
    return str(caught.value)


async def test_what_was_kept_is_there_again(path: Path) -> None:
    await filled(path, 3)
    store = await open_sqlite(path)
    assert await store.count("t/") == 3
    assert await store.revision() == 4
    await store.close()


@pytest.mark.parametrize("start", [0, 40, 100, 50_000], ids=["magic", "header", "first page", "inside"])
async def test_a_damaged_file_is_refused_and_the_advice_is_to_restore(path: Path, start: int) -> None:
    await filled(path)
    with path.open("r+b") as file:
        file.seek(start)
        file.write(b"\xa5\x5a\x01" * 3000)
    assert re.search(r"is damaged .*'vcsync restore BACKUP --data ", await refusal(path))


async def test_a_file_cut_off_is_refused(path: Path) -> None:
    await filled(path)
    os.truncate(path, path.stat().st_size // 2)
    assert "is damaged" in await refusal(path)


async def test_a_file_of_a_newer_vcsync_is_refused(path: Path) -> None:
    await filled(path, 1)
    with apsw.Connection(str(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    assert re.search(r"newer vcsync \(form 99; this one knows 1\): run that vcsync", await refusal(path))


async def test_another_programs_database_is_refused_and_left_alone(path: Path) -> None:
    with apsw.Connection(str(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    before = path.read_bytes()
    assert "is no database of vcsync" in await refusal(path)
    assert path.read_bytes() == before


async def test_older_forms_are_brought_to_the_newest_in_order(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(path, 1)
    further = ("CREATE TABLE second (x)", "ALTER TABLE second ADD COLUMN y")
    monkeypatch.setattr(sqlite_file, "MIGRATIONS", (*sqlite_file.MIGRATIONS, *further))
    store = await open_sqlite(path)
    assert await store.count("t/") == 1
    await store.close()
    with apsw.Connection(str(path)) as connection:
        assert connection.execute("SELECT x, y FROM second").fetchall() == []
        assert connection.execute("PRAGMA user_version").get == 3


async def test_a_migration_that_fails_leaves_the_form_before_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(path, 1)
    broken = ("CREATE TABLE second (x); INSERT INTO nowhere VALUES (1)",)
    with monkeypatch.context() as patched:
        patched.setattr(sqlite_file, "MIGRATIONS", (*sqlite_file.MIGRATIONS, *broken))
        with pytest.raises(apsw.SQLError):
            await open_sqlite(path)
    store = await open_sqlite(path)
    assert await store.count("t/") == 1
    await store.close()


async def test_a_second_opening_in_the_same_process_is_refused(store: SqliteStore, path: Path) -> None:
    assert re.search(rf"in use by another vcsync \(process {os.getpid()}\)", await refusal(path))


async def test_a_second_process_is_refused_until_the_first_has_gone(store: SqliteStore, path: Path) -> None:
    program = (
        "import asyncio, sys, pathlib\n"
        "from vcsync.controlplane.store.sqlite import open_sqlite\n"
        "async def go():\n"
        "    await (await open_sqlite(pathlib.Path(sys.argv[1]))).close()\n"
        "asyncio.run(go())\n"
    )

    first = await asyncio.to_thread(run_program, program, path)
    assert first.returncode
    assert f"in use by another vcsync (process {os.getpid()})" in first.stderr
    await store.close()
    second = await asyncio.to_thread(run_program, program, path)
    assert second.returncode == 0, second.stderr


async def test_what_is_kept_is_for_its_owner_only(store: SqliteStore, path: Path) -> None:
    await store.txn([], [Put("t/a", b"")])
    modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    assert modes == {"store.db": 0o600, "store.db-wal": 0o600, "store.db-shm": 0o600, "store.db.lock": 0o600}


async def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    assert "No such file or directory" in await refusal(tmp_path / "none" / "store.db")


@pytest.mark.parametrize(
    ("version", "good"), [("3.51.2", False), ("3.51.3", True), ("3.60.0", True), ("4.0.0", True)]
)
def test_sqlite_must_have_the_fix_of_the_wal_reset_defect(version: str, good: bool) -> None:
    if good:
        sqlite_file.require_sqlite(version)
    else:
        with pytest.raises(StoreRefused, match=r"apsw.* 3\.51\.3 or newer"):
            sqlite_file.require_sqlite(version)


def limit_pages(store: SqliteStore, more: int) -> None:
    """Let the database grow by so many pages only."""
    connection = store._connection
    connection.execute(f"PRAGMA max_page_count = {connection.execute('PRAGMA page_count').get + more}")


async def test_a_full_disk_refuses_writes_and_nothing_else(store: SqliteStore) -> None:
    await store.txn([], [Put("t/before", b"1")])
    limit_pages(store, 4)
    big = bytes(100_000)
    watch = store.watch("t/", await store.revision(), progress=0)
    before = await store.revision()
    with pytest.raises(StoreFull):
        await store.txn([], [Put("t/small", b"2"), Put("t/big", big), Put("t/before", b"3")])
    assert [one.key for one in (await store.range("t/")).records] == ["t/before"]
    assert await store.revision() == before
    assert not await anext(watch)
    outcome = await store.txn([Compare("t/small", 0)], [Put("t/small", b"2"), Delete("t/before")])
    assert outcome.revision == before + 1
    limit_pages(store, 1000)
    assert (await store.txn([], [Put("t/big", big)])).revision == before + 2
    assert [change.key for change in await anext(watch)] == ["t/small", "t/before", "t/big"]
    await watch.aclose()


NO_ROOM = """
import asyncio, os, pathlib, resource, sys
from vcsync.controlplane.store.interface import Put, StoreFull
from vcsync.controlplane.store.sqlite import open_sqlite

async def go(path):
    store = await open_sqlite(path)
    await store.txn([], [Put("t/first", b"1")])
    # Writes beyond this size fail in the kernel, as on a full disk.
    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, resource.RLIM_INFINITY))
    full = 0
    for n in range(400):
        try:
            await store.txn([], [Put(f"t/a{n}", os.urandom(5000)), Put(f"t/b{n}", b"")])
        except StoreFull:
            full += 1
    assert full > 100, full
    assert await store.count("t/a") == await store.count("t/b") == 400 - full
    assert await store.revision() == 402 - full
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await store.txn([], [Put("t/last", bytes(1_000_000))])
    await store.close()

asyncio.run(go(pathlib.Path(sys.argv[1])))
"""


async def test_a_disk_that_takes_no_more_refuses_writes_and_nothing_else(path: Path) -> None:
    ended = await asyncio.to_thread(run_program, NO_ROOM, path)
    assert ended.returncode == 0, ended.stderr
    with apsw.Connection(str(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").get == "ok"
    connection.close()
    store = await open_sqlite(path)
    assert await store.count("t/a") == await store.count("t/b") > 0
    assert (await store.get("t/last"))[0]
    await store.close()


async def test_one_transaction_that_does_not_fit_takes_none_of_its_group_along(store: SqliteStore) -> None:
    limit_pages(store, 20)
    sizes = [10, 1_000_000, 20, 2_000_000, 30]
    results: list[Any] = await asyncio.gather(
        *(store.txn([], [Put(f"t/{size:07}", bytes(size))]) for size in sizes), return_exceptions=True
    )
    assert [type(result).__name__ for result in results] == [
        "Outcome", "StoreFull", "Outcome", "StoreFull", "Outcome",
    ]  # fmt: skip
    assert [len(one.value) for one in (await store.range("t/")).records] == [10, 20, 30]
    assert [result.revision for result in results[::2]] == [2, 3, 4]


async def test_a_full_disk_is_left_behind_by_compaction(store: SqliteStore) -> None:
    for _ in range(20):
        await store.txn([], [Put("t/a", bytes(50_000))])
    limit_pages(store, 0)
    with pytest.raises(StoreFull):
        await store.txn([], [Put("t/b", bytes(500_000))])
    await store.compact(await store.revision())
    await store.txn([], [Put("t/b", bytes(500_000))])


async def test_a_closed_store_says_so(path: Path) -> None:
    store = await open_sqlite(path)
    watch = store.watch("", 0, progress=0)
    await anext(watch)
    await store.close()
    await store.close()
    for act in (
        store.get("a"),
        store.range("a"),
        store.count("a"),
        store.txn([], [Put("a", b"")]),
        anext(watch),
    ):
        with pytest.raises(StoreUnavailable):
            await act


async def test_closing_finishes_what_was_begun(path: Path) -> None:
    store = await open_sqlite(path, sweep_seconds=None)
    writes = asyncio.gather(*(store.txn([], [Put(f"t/{n}", b"")]) for n in range(300)))
    await asyncio.sleep(0)
    await store.close()
    assert [outcome.revision for outcome in await writes] == list(range(2, 302))
    store = await open_sqlite(path, sweep_seconds=None)
    assert await store.count("t/") == 300
    await store.close()


async def test_what_has_outlived_its_time_goes_by_itself(path: Path) -> None:
    now = 1000.0
    store = await open_sqlite(path, clock=lambda: now, sweep_seconds=0.001)
    async with aclosing(store.watch("t/", await store.revision())) as watch:
        await store.txn([], [Put("t/a", b"1", ttl=5), Put("t/b", b"2", ttl=60)])
        assert [change.key for change in await anext(watch)] == ["t/a", "t/b"]
        now += 5
        (change,) = await anext(watch)
        assert (change.key, change.value, change.previous) == ("t/a", None, b"1")
    await store.close()


async def test_a_cancelled_write_harms_nobody(store: SqliteStore) -> None:
    tasks = [asyncio.create_task(store.txn([], [Put(f"t/{n}", b"")])) for n in range(10)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(result, BaseException) for result in results] == [True, False] * 5
    assert (await store.txn([], [Put("t/last", b"")])).done


async def test_writers_wait_for_their_turn_when_there_are_many(store: SqliteStore) -> None:
    outcomes = await asyncio.gather(*(store.txn([], [Put(f"t/{n % 7}", b"")]) for n in range(3000)))
    assert [outcome.revision for outcome in outcomes] == list(range(2, 3002))


async def test_only_one_of_many_creates_a_key(store: SqliteStore) -> None:
    outcomes = await asyncio.gather(
        *(store.txn([Compare("t/a", 0)], [Put("t/a", b"%d" % n)]) for n in range(50))
    )
    assert [outcome.done for outcome in outcomes].count(True) == 1
    record, _ = await store.get("t/a")
    assert all(outcome.failed == (("t/a", record),) for outcome in outcomes if not outcome.done)


@pytest.mark.parametrize(
    "operations",
    [[Put("a", b""), Delete("a")], [Put(str(n), b"") for n in range(MAX_OPERATIONS + 1)]],
    ids=["a key twice", "too many"],
)
async def test_a_transaction_that_not_every_store_takes_is_refused(
    store: SqliteStore, operations: list[Put | Delete]
) -> None:
    with pytest.raises(ValueError, match="transaction"):
        await store.txn([], operations)


async def test_a_long_range_lets_writers_go_on_and_does_not_see_them(path: Path) -> None:
    await filled(path, 1200)
    store = await open_sqlite(path)
    page, outcome = await asyncio.gather(
        store.range("t/"), store.txn([], [Put("t/new", b""), Delete("t/999")])
    )
    assert (len(page.records), page.revision) == (1200, outcome.revision - 1)
    await store.close()


@pytest.mark.parametrize("old", [False, True])
async def test_of_long_values_few_are_read_at_once(store: SqliteStore, old: bool) -> None:
    values = {
        f"t/{number}": b"x" * size for number, size in enumerate((1, 300_000, 300_000, 300_000, 600_000, 1))
    }
    outcome = await store.txn([], [Put(key, value) for key, value in values.items()])
    if old:
        await store.txn([], [Delete(key) for key in values])
    pages, after = [], ""
    while not pages or pages[-1].more:
        pages.append(await store.range("t/", after=after, limit=5, revision=outcome.revision))
        after = pages[-1].records[-1].key
    assert [(len(page.records), page.more, page.remaining) for page in pages] == [
        (3, True, 3), (2, True, 1), (1, False, 0)
    ]  # fmt: skip
    assert {each.key: each.value for page in pages for each in page.records} == values
    whole = await store.range("t/", revision=outcome.revision)
    assert {each.key: each.value for each in whole.records} == values


async def test_what_each_tenant_uses_is_counted(store: SqliteStore) -> None:
    await store.txn([], [Put("a/core/pods/x", b"12345"), Put("b/ü", b"1"), Put("a/y", b"")])
    await store.txn([], [Put("a/core/pods/x", b"1"), Delete("b/nothing")])
    assert await store.usage("a") == Usage(2, len("a/core/pods/x") + 1 + len("a/y"))
    assert await store.usage("b") == Usage(1, len("b/ü".encode()) + 1)
    await store.txn([], [Delete("b/ü")])
    assert await store.usage("b") == await store.usage("nobody") == Usage(0, 0)


async def test_a_large_file_is_served_while_it_is_checked_and_damage_is_told(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(path)
    with path.open("r+b") as file:
        file.seek(50_000)
        file.write(b"\xa5\x5a\x01" * 3000)
    monkeypatch.setattr(sqlite, "CHECK_SECONDS", 0)
    store = await open_sqlite(path)
    assert await store.revision()
    with pytest.raises(StoreRefused, match="is damaged"):
        await store.sound()
    await store.close()


async def test_closing_does_not_wait_for_the_check(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await filled(path)
    begun, interrupted = threading.Event(), threading.Event()

    def reads_for_ever(connection: apsw.Connection, _: Path) -> None:
        begun.set()
        try:
            connection.execute(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
            ).fetchall()
        except apsw.InterruptError:
            interrupted.set()

    monkeypatch.setattr(sqlite, "CHECK_SECONDS", 0)
    monkeypatch.setattr(sqlite_check, "require_sound", reads_for_ever)
    store = await open_sqlite(path)
    await asyncio.to_thread(begun.wait, 10)
    await store.close()
    assert interrupted.is_set()
