"""The database file: which files are refused with which advice, writes on a full disk, expiry, long reads."""

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

from vcsync.apiserver.storage import sqlite, sqlite_check, sqlite_file
from vcsync.apiserver.storage.interface import (
    MAX_OPERATIONS,
    Compare,
    Delete,
    Put,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
    Usage,
)
from vcsync.apiserver.storage.sqlite import SqliteStore, open_sqlite


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = await open_sqlite(path, sweep_seconds=None)
    yield store
    await store.close()


async def filled(path: Path, count: int = 300) -> None:
    """Create a database with some keys, and close it."""
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


async def test_data_survives_a_restart(path: Path) -> None:
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
    said = rf"^{re.escape(str(path))} is damaged .*'vcsync restore BACKUP --data "
    assert re.search(said, await refusal(path))


async def test_a_truncated_file_is_refused(path: Path) -> None:
    await filled(path)
    os.truncate(path, path.stat().st_size // 2)
    assert (await refusal(path)).startswith(f"{path} is damaged")


async def test_a_file_of_a_newer_vcsync_is_refused(path: Path) -> None:
    await filled(path, 1)
    with apsw.Connection(str(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    assert re.search(
        r"newer vcsync \(schema version 99; this one knows 1\): run that vcsync", await refusal(path)
    )


async def test_another_programs_database_is_refused_and_left_alone(path: Path) -> None:
    with apsw.Connection(str(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    before = path.read_bytes()
    assert "is not a database of vcsync" in await refusal(path)
    assert path.read_bytes() == before


async def test_migrations_run_in_order(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await filled(path, 1)
    further = ("CREATE TABLE second (x)", "ALTER TABLE second ADD COLUMN y")
    monkeypatch.setattr(sqlite_file, "MIGRATIONS", (*sqlite_file.MIGRATIONS, *further))
    store = await open_sqlite(path)
    assert await store.count("t/") == 1
    await store.close()
    with apsw.Connection(str(path)) as connection:
        assert connection.execute("SELECT x, y FROM second").fetchall() == []
        assert connection.execute("PRAGMA user_version").get == 3


async def test_a_failed_migration_leaves_the_previous_schema_version(
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
        "from vcsync.apiserver.storage.sqlite import open_sqlite\n"
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


async def test_the_files_are_private_to_their_owner(store: SqliteStore, path: Path) -> None:
    await store.txn([], [Put("t/a", b"")])
    modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    assert modes == {"store.db": 0o600, "store.db-wal": 0o600, "store.db-shm": 0o600, "store.db.lock": 0o600}


async def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
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
    """Limit the growth of the database to this number of pages."""
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
from vcsync.apiserver.storage.interface import Put, StoreFull
from vcsync.apiserver.storage.sqlite import open_sqlite

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


async def test_a_failing_disk_refuses_writes_and_nothing_else(path: Path) -> None:
    ended = await asyncio.to_thread(run_program, NO_ROOM, path)
    assert ended.returncode == 0, ended.stderr
    with apsw.Connection(str(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").get == "ok"
    connection.close()
    store = await open_sqlite(path)
    assert await store.count("t/a") == await store.count("t/b") > 0
    assert (await store.get("t/last"))[0]
    await store.close()


async def test_a_transaction_that_does_not_fit_does_not_affect_its_group(store: SqliteStore) -> None:
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


async def test_compaction_makes_room_on_a_full_disk(store: SqliteStore) -> None:
    for _ in range(20):
        await store.txn([], [Put("t/a", bytes(50_000))])
    limit_pages(store, 0)
    with pytest.raises(StoreFull):
        await store.txn([], [Put("t/b", bytes(500_000))])
    await store.compact(await store.revision())
    await store.txn([], [Put("t/b", bytes(500_000))])


async def test_a_closed_store_reports_that_it_is_closed(path: Path) -> None:
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


async def test_closing_finishes_writes_in_flight(path: Path) -> None:
    store = await open_sqlite(path, sweep_seconds=None)
    writes = asyncio.gather(*(store.txn([], [Put(f"t/{n}", b"")]) for n in range(300)))
    await asyncio.sleep(0)
    await store.close()
    assert [outcome.revision for outcome in await writes] == list(range(2, 302))
    store = await open_sqlite(path, sweep_seconds=None)
    assert await store.count("t/") == 300
    await store.close()


async def test_expired_keys_are_deleted_periodically(path: Path) -> None:
    now = 1000.0
    store = await open_sqlite(path, clock=lambda: now, sweep_seconds=0.001)
    async with aclosing(store.watch("t/", await store.revision())) as watch:
        await store.txn([], [Put("t/a", b"1", ttl=5), Put("t/b", b"2", ttl=60)])
        assert [change.key for change in await anext(watch)] == ["t/a", "t/b"]
        now += 5
        (change,) = await anext(watch)
        assert (change.key, change.value, change.previous) == ("t/a", None, b"1")
    await store.close()


async def test_a_cancelled_write_affects_no_other_write(store: SqliteStore) -> None:
    tasks = [asyncio.create_task(store.txn([], [Put(f"t/{n}", b"")])) for n in range(10)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(result, BaseException) for result in results] == [True, False] * 5
    assert (await store.txn([], [Put("t/last", b"")])).done


async def test_writers_wait_while_the_queue_is_full(store: SqliteStore) -> None:
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
async def test_a_transaction_that_some_store_cannot_execute_is_refused(
    store: SqliteStore, operations: list[Put | Delete]
) -> None:
    with pytest.raises(ValueError, match="transaction"):
        await store.txn([], operations)


async def test_a_long_range_does_not_block_writers_nor_see_their_writes(path: Path) -> None:
    await filled(path, 1200)
    store = await open_sqlite(path)
    page, outcome = await asyncio.gather(
        store.range("t/"), store.txn([], [Put("t/new", b""), Delete("t/999")])
    )
    assert (len(page.records), page.revision) == (1200, outcome.revision - 1)
    await store.close()


@pytest.mark.parametrize("old", [False, True])
async def test_a_page_of_large_values_has_few_records(store: SqliteStore, old: bool) -> None:
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


async def test_the_usage_of_each_tenant_is_counted(store: SqliteStore) -> None:
    await store.txn([], [Put("a/core/pods/x", b"12345"), Put("b/ü", b"1"), Put("a/y", b"")])
    await store.txn([], [Put("a/core/pods/x", b"1"), Delete("b/nothing")])
    assert await store.usage("a") == Usage(2, len("a/core/pods/x") + 1 + len("a/y"))
    assert await store.usage("b") == Usage(1, len("b/ü".encode()) + 1)
    await store.txn([], [Delete("b/ü")])
    assert await store.usage("b") == await store.usage("nobody") == Usage(0, 0)


async def test_a_large_file_is_served_during_its_check_and_damage_is_reported(
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
        await store.wait_until_checked()
    await store.close()


async def test_closing_does_not_wait_for_the_check(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await filled(path)
    begun, interrupted = threading.Event(), threading.Event()

    def reads_until_interrupted(connection: apsw.Connection, _: Path) -> None:
        begun.set()
        try:
            connection.execute(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
            ).fetchall()
        except apsw.InterruptError:
            interrupted.set()

    monkeypatch.setattr(sqlite, "CHECK_SECONDS", 0)
    monkeypatch.setattr(sqlite_check, "require_sound", reads_until_interrupted)
    store = await open_sqlite(path)
    await asyncio.to_thread(begun.wait, 10)
    await store.close()
    assert interrupted.is_set()


async def test_a_range_without_count_reports_no_remaining_number(store: SqliteStore) -> None:
    await store.txn([], [Put(f"t/{n}", b"") for n in range(5)])
    counted, uncounted = [await store.range("t/", limit=2, counted=each) for each in (True, False)]
    assert (counted.records, counted.more, counted.remaining) == (uncounted.records, True, 3)
    assert (uncounted.more, uncounted.remaining) == (True, 0)
    assert [each.key for each in counted.records] == ["t/0", "t/1"]


@pytest.mark.parametrize("limit", [0, 250, 300, 350])
async def test_a_range_of_several_pages_ends_at_its_limit(store: SqliteStore, limit: int) -> None:
    await store.txn([], [Put(f"t/{n:03}", b"") for n in range(300)])
    page = await store.range("t/", after="t/004", limit=limit)
    wanted = [f"t/{n:03}" for n in range(5, 300)][: limit or None]
    assert [each.key for each in page.records] == wanted
    assert (page.more, page.remaining) == (len(wanted) < 295, 295 - len(wanted))


async def test_long_ranges_share_a_few_connections(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await filled(path, 450)
    opened: list[Path] = []

    def counted(file: Path) -> apsw.Connection:
        opened.append(file)
        return sqlite_file.open_reader(file)

    store = await open_sqlite(path, sweep_seconds=None)
    monkeypatch.setattr(sqlite, "open_reader", counted)
    pages = await asyncio.gather(*(store.range("t/") for _ in range(12)))
    assert {len(page.records) for page in pages} == {450}
    assert len(opened) == sqlite.LONG_READS
    await store.range("t/")
    assert len(opened) == sqlite.LONG_READS
    await store.close()


async def test_a_sweep_returns_the_number_of_expired_keys(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(sqlite, "BATCH_ROWS", 2)
    store = await open_sqlite(path, clock=lambda: now, sweep_seconds=None)
    await store.txn([], [Put(f"t/{n}", b"", ttl=5 + n) for n in range(5)])
    assert await store.sweep() == 0
    now += 7
    assert await store.sweep() == 3
    assert await store.count("t/") == 2
    now += 60
    assert (await store.sweep(), await store.sweep()) == (2, 0)
    await store.close()


async def test_a_failed_sweep_is_repeated(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, tries = 1000.0, 0
    store = await open_sqlite(path, clock=lambda: now, sweep_seconds=0.001)
    await store.txn([], [Put("t/a", b"", ttl=5)])
    has_expired = store._reader.has_expired

    def failing(at: float) -> bool:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise StoreUnavailable("away")
        return has_expired(at)

    monkeypatch.setattr(store._reader, "has_expired", failing)
    now += 5
    async with asyncio.timeout(20), aclosing(store.watch("t/", 2)) as watch:
        assert [change.value for change in await anext(watch)] == [None]
    await store.close()


async def test_range_cached_of_a_large_folder_sees_every_completed_write(path: Path) -> None:
    await filled(path, 450)
    store = await open_sqlite(path, sweep_seconds=None)
    reading = asyncio.create_task(store.range_cached("t/"))
    await store.txn([], [Put("t/new", b"1")])
    await reading
    assert "t/new" in {each.key for each in await store.range_cached("t/")}
    await store.close()


@pytest.mark.parametrize(
    ("error", "code", "kind", "message"),
    [
        (apsw.FullError, 0, StoreFull, "the database is full"),
        (apsw.IOError, apsw.SQLITE_IOERR_WRITE, StoreFull, "the database cannot grow: odd"),
        (apsw.IOError, apsw.SQLITE_IOERR_TRUNCATE, StoreFull, "the database cannot grow: odd"),
        (apsw.IOError, apsw.SQLITE_IOERR_SHMSIZE, StoreFull, "the database cannot grow: odd"),
        (apsw.IOError, apsw.SQLITE_IOERR_FSYNC, StoreUnavailable, "the database fails: odd"),
        (apsw.BusyError, 0, StoreUnavailable, "the database fails: odd"),
    ],
)
def test_errors_of_the_database_are_mapped_to_errors_of_the_store(
    error: type[apsw.Error], code: int, kind: type[Exception], message: str
) -> None:
    made = error("odd")
    if code:
        made.extendedresult = code  # type: ignore[attr-defined]
    found = sqlite_file.as_store_error(made)
    assert (type(found), str(found)) == (kind, message)


async def test_a_large_file_of_an_earlier_version_is_not_rewritten(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(path, 3)
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA auto_vacuum = 0; VACUUM")
    connection.close()
    size = path.stat().st_size
    for converted, mode in ((size - 1, 0), (size, 2)):
        monkeypatch.setattr(sqlite_file, "CONVERTED_BYTES", converted)
        store = await open_sqlite(path, sweep_seconds=None)
        assert await store.count("t/") == 3
        await store.close()
        connection = apsw.Connection(str(path))
        assert connection.execute("PRAGMA auto_vacuum").get == mode
        connection.close()


async def test_a_file_that_can_shrink_is_not_rewritten(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rewritten: list[Path] = []
    monkeypatch.setattr(sqlite_file, "_make_shrinkable", lambda _, file: rewritten.append(file))
    for _ in range(2):
        await filled(path, 1)
    assert rewritten == []


async def test_a_path_that_is_no_file_is_refused(path: Path) -> None:
    path.mkdir()
    assert re.search(
        rf"^{path}: unable to open database file; give a folder that this user can write to$",
        await refusal(path),
    )


def test_the_error_about_a_damaged_file_is_one_line_and_names_the_remedy(path: Path) -> None:
    assert str(sqlite_file.damaged(path, "*** in database main ***\nTree 2:  bad")) == (
        f"{path} is damaged (*** in database main *** Tree 2: bad): move it and store.db-* away and "
        f"restore a backup with 'vcsync restore BACKUP --data {path.parent}'"
    )


async def test_the_connection_is_configured_for_durability(store: SqliteStore) -> None:
    settings = {
        name: store._connection.execute(f"PRAGMA {name}").get
        for name in (
            "journal_mode", "synchronous", "page_size", "auto_vacuum", "wal_autocheckpoint",
            "journal_size_limit", "cache_size", "application_id", "user_version",
        )
    }  # fmt: skip
    assert settings == {
        "journal_mode": "wal",
        "synchronous": 2,
        "page_size": 8192,
        "auto_vacuum": 2,
        "wal_autocheckpoint": 2000,
        "journal_size_limit": 4 * 2000 * 8192,
        "cache_size": -16384,
        "application_id": 0x76637379,
        "user_version": 1,
    }
