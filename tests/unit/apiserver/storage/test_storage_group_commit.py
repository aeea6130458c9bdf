"""Group commit: a write that the disk failed to keep is not acknowledged, jobs fail independently, commits are limited."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from vcsync.apiserver.storage import group_commit
from vcsync.apiserver.storage.group_commit import GroupCommit
from vcsync.apiserver.storage.interface import Change, Put, StoreUnavailable
from vcsync.apiserver.storage.sqlite_file import MIGRATIONS


class FailingDisk(apsw.VFS):
    """Files whose fsync fails on demand."""

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


async def test_after_a_failed_fsync_writes_continue_once_the_disk_works_again(tmp_path: Path) -> None:
    disk = FailingDisk()
    connection = apsw.Connection(str(tmp_path / "x.db"), vfs="failing-disk")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(MIGRATIONS[0])
    published: list[Change] = []

    def publish(changes: Sequence[Change], revision: int) -> None:
        published.extend(changes)

    writer = GroupCommit(connection, publish, clock=lambda: 0)

    async def put(key: str) -> None:
        await writer.do(lambda transaction: transaction.apply([], [Put(key, b"")]))

    await put("a")
    disk.fails = True
    results = await asyncio.gather(put("b"), put("c"), return_exceptions=True)
    assert [type(result) for result in results] == [StoreUnavailable] * 2
    with pytest.raises(StoreUnavailable, match="the disk failed to keep a write"):
        await put("d")
    disk.fails = False
    await put("a2")
    copy = tmp_path / "crashed.db"
    for file in ("x.db", "x.db-wal"):
        shutil.copy(tmp_path / file, tmp_path / file.replace("x.db", copy.name))
    with closing(apsw.Connection(str(copy))) as crashed:  # the state that a crash would leave
        assert [key for (key,) in crashed.execute("SELECT key FROM object ORDER BY key")] == ["a", "a2"]
    await writer.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await put("e")
    assert [change.key for change in published] == ["a", "a2"]
    connection.close()


async def test_an_error_in_one_job_reaches_its_caller_and_affects_no_other(tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / "x.db"))
    connection.execute(MIGRATIONS[0])
    writer = GroupCommit(connection, lambda changes, revision: None, clock=lambda: 0)
    jobs = [
        writer.do(lambda transaction: transaction.apply([], [Put("a", b"")])),
        writer.do(lambda transaction: 1 // 0),
        writer.do(lambda transaction: transaction.apply([], [Put("b", b"")])),
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
async def test_the_size_of_a_commit_is_limited(
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
        writer.do(lambda transaction, n=n: transaction.apply([], [Put(str(n), b"")]), size)
        for n, size in enumerate(sizes)
    ]
    others = asyncio.gather(*jobs)
    await asyncio.sleep(0)  # they wait behind the first one, so they form groups
    go_on.set()
    await asyncio.gather(first, others)
    assert len(published) == commits
    await writer.close()
    connection.close()
