"""The process that is killed: writes from several concurrent tasks and reports acknowledged transactions on stdout.

It prints a line after the store has acknowledged a transaction, by one write(2) that is small enough to be atomic on a
pipe. A line is `<task> <number> <revision>`: the `number`-th transaction of that task took effect at that revision.
"""

import asyncio
import os
import sys
from pathlib import Path

from vcsync.apiserver.storage.interface import Compare, Delete, Put
from vcsync.apiserver.storage.sqlite import DATABASE, SqliteStore, open_sqlite

TASKS = 8
PAIR = ("left", "right")
"""Every transaction sets both keys of its task to the same value, so that half a transaction is visible."""

DELETE_EVERY = 7
COMPACT_EVERY = 50
KEPT_REVISIONS = 100


def value(number: int) -> bytes:
    """Return the value of the `number`-th transaction of a task; sizes vary from less than a page to several pages."""
    return b"%d " % number + b"." * (number * 997 % 20_000)


def number_of(content: bytes) -> int:
    """Return the number of the transaction that set this value."""
    return int(content.partition(b" ")[0])


def key(task: int, name: str) -> str:
    """Return a key of a task."""
    return f"t{task}/core/pods/ns/{name}"


async def write(store: SqliteStore, task: int) -> None:
    """Write endlessly: a pair in one transaction, conditional on this task's previous write."""
    record, _ = await store.get(key(task, PAIR[0]))
    number = number_of(record.value) if record else 0
    revision = record.revision if record else 0
    while True:
        number += 1
        extra = key(task, f"extra-{number % 3}")
        outcome = await store.txn(
            [Compare(key(task, name), revision) for name in PAIR],
            [
                *(Put(key(task, name), value(number)) for name in PAIR),
                Delete(extra) if number % DELETE_EVERY == 0 else Put(extra, value(number)),
            ],
        )
        if not outcome.done:
            raise AssertionError(f"task {task}: another writer changed {outcome.failed}")
        revision = outcome.revision
        os.write(1, b"%d %d %d\n" % (task, number, revision))
        if number % COMPACT_EVERY == 0:
            await store.compact(max(1, revision - KEPT_REVISIONS))


async def main(folder: Path) -> None:
    """Write until killed."""
    store = await open_sqlite(folder / DATABASE)
    os.write(1, b"ready\n")
    async with asyncio.TaskGroup() as group:
        for task in range(TASKS):
            group.create_task(write(store, task))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
