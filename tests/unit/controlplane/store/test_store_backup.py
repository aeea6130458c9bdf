"""A backup is taken from a store in use, and put back only where there is nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import apsw
import pytest

from vcsync.cli.main import main
from vcsync.controlplane.store.backup import BUMP, BackupFailed, backup, inspect, restore
from vcsync.controlplane.store.interface import Compacted, Put, StoreRefused, Usage
from vcsync.controlplane.store.sqlite import DATABASE, open_sqlite


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


async def test_a_store_in_use_is_copied_as_of_one_moment(data: Path, empty: Path) -> None:
    store = await open_sqlite(data / DATABASE)
    copying = asyncio.to_thread(backup, data / DATABASE, empty / "copy")
    writes = (store.txn([], [Put(f"t/n{n}", b""), Put(f"t/m{n}", b"")]) for n in range(100))
    summary, *_ = await asyncio.gather(copying, *writes)
    await store.close()
    assert summary == inspect(empty / "copy")
    assert summary.objects == 2 + 2 * (summary.revision - 3)
    assert [path.name for path in empty.iterdir()] == ["copy"]
    assert (empty / "copy").stat().st_mode & 0o777 == 0o600


async def test_what_is_restored_is_what_was_kept(data: Path, empty: Path, tmp_path: Path) -> None:
    backup(data / DATABASE, tmp_path / "copy")
    restore(tmp_path / "copy", empty / DATABASE)
    store = await open_sqlite(empty / DATABASE)
    page = await store.range("")
    assert [(one.key, one.value, one.revision) for one in page.records] == [
        ("t/a", b"3", 3),
        ("t/b", b"2", 2),
    ]
    assert await store.usage("t") == Usage(2, 8)
    # Whatever a client has seen since the backup was made, no revision comes twice.
    assert page.revision == 3 + BUMP
    with pytest.raises(Compacted):
        await anext(store.watch("", 3))
    assert (await store.txn([], [Put("t/c", b"")])).revision == 4 + BUMP
    await store.close()


async def test_a_database_that_is_there_is_never_overwritten(data: Path, tmp_path: Path) -> None:
    backup(data / DATABASE, tmp_path / "copy")
    before = (data / DATABASE).read_bytes()
    with pytest.raises(StoreRefused, match=r"store\.db is there already: move it away"):
        restore(tmp_path / "copy", data / DATABASE)
    assert (data / DATABASE).read_bytes() == before


async def test_a_leftover_wal_is_not_mixed_with_a_restored_database(
    data: Path, empty: Path, tmp_path: Path
) -> None:
    backup(data / DATABASE, tmp_path / "copy")
    (empty / f"{DATABASE}-wal").write_bytes(b"")
    with pytest.raises(StoreRefused, match=r"store\.db-wal is there already"):
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


async def test_a_damaged_store_makes_no_backup(data: Path, empty: Path) -> None:
    with (data / DATABASE).open("r+b") as file:
        file.seek(2 * 8192)  # the second page only maps others, and a copy makes it anew
        file.write(b"\xa5" * 8192)
    with pytest.raises(StoreRefused, match="damaged"):
        backup(data / DATABASE, empty / "copy")
    assert list(empty.iterdir()) == []


async def test_a_backup_does_not_replace_another(data: Path, empty: Path) -> None:
    (empty / "copy").write_text("precious")
    with pytest.raises(BackupFailed, match="there already"):
        backup(data / DATABASE, empty / "copy")
    assert (empty / "copy").read_text() == "precious"


async def test_a_folder_that_is_not_there_is_told(data: Path, empty: Path) -> None:
    with pytest.raises(BackupFailed, match="No such file or directory"):
        backup(data / DATABASE, empty / "none" / "copy")


async def test_the_commands_do_it_and_say_so(
    data: Path, empty: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = str(tmp_path / "copy")
    assert main(["backup", copy, "--data", str(data)]) == 0
    assert main(["restore", copy, "--data", str(empty)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == f"2 objects as of revision 3 (0 MiB) kept in {copy}"
    assert out[1] == f"2 objects as of revision {3 + BUMP} (0 MiB) restored to {empty}"
    assert main(["restore", copy, "--data", str(empty)]) == 1
    assert main(["backup", copy, "--data", str(data)]) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"vcsync: {empty / DATABASE} is there already: move it away first",
        f"vcsync: {copy} is there already: give another name",
    ]
