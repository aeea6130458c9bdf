"""Backups of a store in use, and their restore, which never overwrites a store."""

from __future__ import annotations

import asyncio
from pathlib import Path

import apsw
import pytest

from vcsync.apiserver.storage.backup import BUMP, BackupFailed, backup, inspect, restore
from vcsync.apiserver.storage.interface import Compacted, Put, StoreRefused, Usage
from vcsync.apiserver.storage.sqlite import DATABASE, open_sqlite
from vcsync.cli.command.main import main


@pytest.fixture
async def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    store = await open_sqlite(folder / DATABASE)
    await store.txn([], [Put("t/a", b"1"), Put("t/b", b"2")])
    await store.txn([], [Put("t/a", b"3")])
    await store.close()
    return folder


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    folder = tmp_path / "empty"
    folder.mkdir()
    return folder


async def test_the_backup_of_a_store_in_use_is_a_consistent_snapshot(data: Path, empty: Path) -> None:
    store = await open_sqlite(data / DATABASE)
    copying = asyncio.to_thread(backup, data / DATABASE, empty / "copy")
    writes = (store.txn([], [Put(f"t/n{n}", b""), Put(f"t/m{n}", b"")]) for n in range(100))
    summary, *_ = await asyncio.gather(copying, *writes)
    await store.close()
    assert summary == inspect(empty / "copy")
    assert summary.objects == 2 + 2 * (summary.revision - 3)
    assert [path.name for path in empty.iterdir()] == ["copy"]
    assert (empty / "copy").stat().st_mode & 0o777 == 0o600


async def test_a_restored_store_has_the_objects_of_the_backup(
    data: Path, empty: Path, tmp_path: Path
) -> None:
    backup(data / DATABASE, tmp_path / "copy")
    restore(tmp_path / "copy", empty / DATABASE)
    store = await open_sqlite(empty / DATABASE)
    page = await store.range("")
    assert [(one.key, one.value, one.revision) for one in page.records] == [
        ("t/a", b"3", 3),
        ("t/b", b"2", 2),
    ]
    assert await store.usage("t") == Usage(2, 8)
    # No revision repeats one that a client may have seen since the backup.
    assert page.revision == 3 + BUMP
    with pytest.raises(Compacted):
        await anext(store.watch("", 3))
    assert (await store.txn([], [Put("t/c", b"")])).revision == 4 + BUMP
    await store.close()


async def test_an_existing_database_is_never_overwritten(data: Path, tmp_path: Path) -> None:
    backup(data / DATABASE, tmp_path / "copy")
    before = (data / DATABASE).read_bytes()
    with pytest.raises(StoreRefused, match=r"store\.db already exists: move it away"):
        restore(tmp_path / "copy", data / DATABASE)
    assert (data / DATABASE).read_bytes() == before


async def test_a_leftover_wal_is_not_mixed_with_a_restored_database(
    data: Path, empty: Path, tmp_path: Path
) -> None:
    backup(data / DATABASE, tmp_path / "copy")
    (empty / f"{DATABASE}-wal").write_bytes(b"")
    with pytest.raises(StoreRefused, match=r"store\.db-wal already exists"):
        restore(tmp_path / "copy", empty / DATABASE)


async def test_a_store_in_use_is_not_restored_over(data: Path, tmp_path: Path) -> None:
    backup(data / DATABASE, tmp_path / "copy")
    store = await open_sqlite(data / DATABASE)
    with pytest.raises(StoreRefused, match="in use"):
        restore(tmp_path / "copy", data / DATABASE)
    await store.close()


@pytest.mark.parametrize("keep", [0, 100, 9000], ids=["empty", "head only", "cut off"])
async def test_a_damaged_backup_is_refused(data: Path, empty: Path, tmp_path: Path, keep: int) -> None:
    backup(data / DATABASE, tmp_path / "copy")
    (tmp_path / "copy").write_bytes((tmp_path / "copy").read_bytes()[:keep])
    with pytest.raises(StoreRefused):
        restore(tmp_path / "copy", empty / DATABASE)
    assert not (empty / DATABASE).exists()


async def test_a_backup_of_a_newer_vcsync_is_refused(data: Path, empty: Path, tmp_path: Path) -> None:
    backup(data / DATABASE, tmp_path / "copy")
    with apsw.Connection(str(tmp_path / "copy")) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreRefused, match="newer vcsync"):
        restore(tmp_path / "copy", empty / DATABASE)


async def test_a_damaged_store_is_not_backed_up(data: Path, empty: Path) -> None:
    with (data / DATABASE).open("r+b") as file:
        file.seek(2 * 8192)  # the second page only maps other pages, and VACUUM writes a new one
        file.write(b"\xa5" * 8192)
    with pytest.raises(StoreRefused, match="damaged"):
        backup(data / DATABASE, empty / "copy")
    assert list(empty.iterdir()) == []


async def test_a_backup_does_not_replace_another(data: Path, empty: Path) -> None:
    (empty / "copy").write_text("precious")
    with pytest.raises(BackupFailed, match="already exists"):
        backup(data / DATABASE, empty / "copy")
    assert (empty / "copy").read_text() == "precious"


async def test_a_missing_folder_is_reported(data: Path, empty: Path) -> None:
    with pytest.raises(BackupFailed, match="No such file or directory"):
        backup(data / DATABASE, empty / "none" / "copy")


async def test_the_commands_back_up_and_restore_and_report_it(
    data: Path, empty: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = str(tmp_path / "copy")
    assert main(["backup", copy, "--data", str(data)]) == 0
    assert main(["restore", copy, "--data", str(empty)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == f"2 objects as of revision 3 (0 MiB) saved in {copy}"
    assert out[1] == f"2 objects as of revision {3 + BUMP} (0 MiB) restored to {empty}"
    assert main(["restore", copy, "--data", str(empty)]) == 1
    assert main(["backup", copy, "--data", str(data)]) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"vcsync: {empty / DATABASE} already exists: move it away first",
        f"vcsync: {copy} already exists: give another name",
    ]


async def test_a_missing_source_is_reported(data: Path, empty: Path) -> None:
    with pytest.raises(StoreRefused, match=rf"^{empty / DATABASE} does not exist: give the data folder"):
        backup(empty / DATABASE, empty / "copy")
    with pytest.raises(BackupFailed, match=rf"^{empty / 'copy'} does not exist$"):
        restore(empty / "copy", empty / DATABASE)
    assert list(empty.iterdir()) == []


async def test_an_empty_file_is_no_backup(empty: Path) -> None:
    (empty / "copy").touch()
    with pytest.raises(StoreRefused, match=r"copy is not a backup of vcsync: it is empty$"):
        inspect(empty / "copy")


async def test_the_partial_file_of_an_interrupted_backup_is_replaced(data: Path, empty: Path) -> None:
    (empty / "copy.part").write_text("half of it")
    assert backup(data / DATABASE, empty / "copy").objects == 2
    assert [path.name for path in empty.iterdir()] == ["copy"]


async def test_a_restored_store_is_private_to_its_owner_and_can_be_opened_immediately(
    data: Path, empty: Path, tmp_path: Path
) -> None:
    kept = backup(data / DATABASE, tmp_path / "copy")
    restored = restore(tmp_path / "copy", empty / DATABASE)
    assert (kept.objects, kept.revision, restored.objects, restored.revision) == (2, 3, 2, 3 + BUMP)
    assert kept.bytes == (tmp_path / "copy").stat().st_size
    assert (empty / DATABASE).stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in empty.iterdir()) == [DATABASE, f"{DATABASE}.lock"]
    await (await open_sqlite(empty / DATABASE)).close()


async def test_a_backup_of_a_store_in_use_contains_its_last_write(data: Path, empty: Path) -> None:
    store = await open_sqlite(data / DATABASE)
    await store.txn([], [Put("t/c", b"")])
    assert backup(data / DATABASE, empty / "copy").objects == 3
    await store.close()
