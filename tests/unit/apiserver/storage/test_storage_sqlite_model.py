"""The SQLite store behaves like the model, through restarts and with watches that fall behind."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings

from tests.unit.apiserver.storage.store_model import StoreMachine
from vcsync.apiserver.storage import broadcaster as hub
from vcsync.apiserver.storage import sqlite
from vcsync.apiserver.storage.interface import Store
from vcsync.apiserver.storage.sqlite import SqliteStore, open_sqlite


class SqliteMachine(StoreMachine):
    def __init__(self) -> None:
        # Use a file system in memory if the machine has one: this does not test syncs.
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
    """The same with small pages and buffers, so that every way to continue a read is taken."""

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
