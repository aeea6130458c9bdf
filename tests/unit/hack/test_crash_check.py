"""The check after a crash finds lost transactions and faults of the database."""

from __future__ import annotations

import asyncio
from pathlib import Path

import apsw
import pytest

from hack.crash.check import current, problems
from hack.crash.writer import PAIR, key, value
from vcsync.apiserver.storage.interface import Put
from vcsync.apiserver.storage.sqlite import open_sqlite

TRANSACTIONS = 5


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database after a writer's task 0."""

    async def written() -> None:
        store = await open_sqlite(tmp_path / "store.db")
        for number in range(1, TRANSACTIONS + 1):
            await store.txn([], [Put(key(0, name), value(number)) for name in PAIR])
        await store.close()

    asyncio.run(written())
    return tmp_path / "store.db"


def test_a_sound_database_has_no_problems(path: Path) -> None:
    revision, found = current(path)
    assert (revision, found) == (TRANSACTIONS + 1, {0: (TRANSACTIONS, TRANSACTIONS + 1)})
    assert problems(path, found, revision) == []


@pytest.mark.parametrize(
    ("number", "revision", "before", "said"),
    [
        (6, 7, 6, "acknowledged 6 at 7, found 5 at 6"),
        (3, 4, 6, "found 5, which the writer never tried after 3"),
        (5, 6, 9, "revision went back from 9 to 6"),
    ],
    ids=["lost", "never tried", "back"],
)
def test_acknowledged_transactions_are_compared_with_the_database(
    path: Path, number: int, revision: int, before: int, said: str
) -> None:
    assert said in "\n".join(problems(path, {0: (number, revision)}, before))


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("DELETE FROM object WHERE key LIKE '%left'", "acknowledged 5 at 6, found [(5, 6)]"),
        ("UPDATE object SET value = CAST('4 ' AS BLOB) WHERE key LIKE '%left'", "half a transaction"),
        ("UPDATE state SET revision = 5", "newer than revision 5"),
        ("DELETE FROM log WHERE sequence >> 16 = 3", "revisions [3] are not in the log"),
        ("UPDATE log SET before = 2 WHERE sequence >> 16 = 5", "follows 2, the log says 4"),
        ("UPDATE log SET previous = NULL WHERE sequence >> 16 = 5", "does not know what it replaced"),
        ("UPDATE object SET revision = 5", "is at 5, the log ends at 6"),
        ("UPDATE usage SET bytes = bytes + 1", "usage is"),
    ],
)
def test_a_fault_of_the_database_is_found(path: Path, statement: str, said: str) -> None:
    revision, found = current(path)
    with apsw.Connection(str(path)) as connection:
        connection.execute(statement)
    connection.close()
    assert said in "\n".join(problems(path, found, revision))
