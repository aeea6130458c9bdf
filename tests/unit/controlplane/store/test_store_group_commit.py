"""A disk that fails to keep a write stops the writer: nothing is acknowledged of which nobody knows whether it is there."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

from vcsync.controlplane.store import group_commit
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


@pytest.mark.parametrize(
    ("sizes", "commits"),
    [([1] * 6, 1), ([10] * 3, 3), ([1, 10, 1, 1], 2)],
    ids=["many small ones", "large ones", "a large one between"],
)
async def test_a_commit_takes_only_so_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sizes: list[int], commits: int
) -> None:
    monkeypatch.setattr(group_commit, "MAX_GROUP_BYTES", 10)
    connection = apsw.Connection(str(tmp_path / "x.db"))
    connection.execute(MIGRATIONS[0])
    published: list[int] = []
    writer = GroupCommit(connection, lambda changes, revision: published.append(revision), clock=lambda: 0)
    begun, go_on = threading.Event(), threading.Event()

    def hold(_: object) -> None:
        begun.set()
        go_on.wait(60)

    first = asyncio.create_task(writer.do(hold))
    await asyncio.to_thread(begun.wait, 60)
    jobs = [
        writer.do(lambda ledger, n=n: ledger.apply([], [Put(str(n), b"")]), size)
        for n, size in enumerate(sizes)
    ]
    others = asyncio.gather(*jobs)
    await asyncio.sleep(0)  # they wait behind the first, and so form groups
    go_on.set()
    await asyncio.gather(first, others)
    assert len(published) == commits
    await writer.close()
    connection.close()
