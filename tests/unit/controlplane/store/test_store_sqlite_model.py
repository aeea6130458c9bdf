"""The SQLite store does what the model does, through restarts, with watches that fall behind."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings

from tests.unit.controlplane.store.store_model import StoreMachine
from vcsync.controlplane.store import hub, sqlite
from vcsync.controlplane.store.interface import Store
from vcsync.controlplane.store.sqlite import SqliteStore, open_sqlite


class SqliteMachine(StoreMachine):
    def __init__(self) -> None:
        # On every machine where there is one, a file system in memory: syncs are not what is tested here.
        shm = Path("/dev/shm")
        self.folder = Path(tempfile.mkdtemp(dir=shm if shm.is_dir() else None))
        super().__init__()

    async def open(self) -> Store:
        return await self.reopen()

    async def reopen(self) -> Store:
        return await open_sqlite(self.folder / "store.db", clock=lambda: self.model.now, sweep_seconds=None)

    async def sweep(self) -> int:
        assert isinstance(self.store, SqliteStore)
        return await self.store.sweep()

    def teardown(self) -> None:
        super().teardown()
        shutil.rmtree(self.folder)


class NarrowMachine(SqliteMachine):
    """With pages and buffers so small that every way of reading on is gone."""

    at_once = 2

    def __init__(self) -> None:
        self.kept = (hub.MAX_PENDING, sqlite.PAGE_RECORDS, sqlite.BATCH_ROWS)
        hub.MAX_PENDING, sqlite.PAGE_RECORDS, sqlite.BATCH_ROWS = 1, 2, self.at_once
        super().__init__()

    def teardown(self) -> None:
        hub.MAX_PENDING, sqlite.PAGE_RECORDS, sqlite.BATCH_ROWS = self.kept
        super().teardown()


TestSqlite = SqliteMachine.TestCase
TestSqliteNarrow = NarrowMachine.TestCase
TestSqlite.settings = settings(stateful_step_count=40)
TestSqliteNarrow.settings = settings(stateful_step_count=40)
