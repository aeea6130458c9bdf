"""A disk that fails to keep a write stops the writer: nothing is acknowledged of which nobody knows whether it is there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

from vcsync.controlplane.store.group_commit import GroupCommit
from vcsync.controlplane.store.interface import Change, Put, StoreUnavailable
from vcsync.controlplane.store.sqlite_file import MIGRATIONS


class FailingDisk(apsw.VFS):
    """Files whose fsync fails when told to."""

    def __init__(self) -> None:
        super().__init__("failing-disk", "")
        self.fails = False

    def xOpen(self, name: Any, flags: list[int]) -> FailingFile:  # noqa: N802  SQLite's name
        return FailingFile(self, name, flags)


class FailingFile(apsw.VFSFile):
    def __init__(self, disk: FailingDisk, name: Any, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._disk = disk

    def xSync(self, flags: int) -> None:  # noqa: N802
        if self._disk.fails:
            error = apsw.IOError("sync")
            error.extendedresult = apsw.SQLITE_IOERR_FSYNC
            raise error
        super().xSync(flags)


async def test_after_a_failed_fsync_nothing_is_written_any_more(tmp_path: Path) -> None:
    disk = FailingDisk()
    connection = apsw.Connection(str(tmp_path / "x.db"), vfs="failing-disk")
    connection.execute(MIGRATIONS[0])
    published: list[Change] = []

    def publish(changes: Sequence[Change], revision: int) -> None:
        published.extend(changes)

    writer = GroupCommit(connection, publish, clock=lambda: 0)

    async def put(key: str) -> None:
        await writer.do(lambda ledger: ledger.apply([], [Put(key, b"")]))

    await put("a")
    disk.fails = True
    results = await asyncio.gather(put("b"), put("c"), return_exceptions=True)
    assert [type(result) for result in results] == [StoreUnavailable] * 2
    disk.fails = False
    with pytest.raises(StoreUnavailable, match="restart vcsync"):
        await put("d")
    await writer.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await put("e")
    assert [change.key for change in published] == ["a"]
    connection.close()


async def test_a_defect_in_one_job_goes_to_its_caller_and_harms_no_other(tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / "x.db"))
    connection.execute(MIGRATIONS[0])
    writer = GroupCommit(connection, lambda changes, revision: None, clock=lambda: 0)
    jobs = [
        writer.do(lambda ledger: ledger.apply([], [Put("a", b"")])),
        writer.do(lambda ledger: 1 // 0),
        writer.do(lambda ledger: ledger.apply([], [Put("b", b"")])),
    ]
    first, broken, last = await asyncio.gather(*jobs, return_exceptions=True)
    assert isinstance(broken, ZeroDivisionError)
    assert (first.revision, last.revision) == (2, 3)
    await writer.close()
    connection.close()
