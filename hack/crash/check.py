"""Invariants of a database after its writer was killed. Reads the file directly, not through the store's code."""

from collections.abc import Mapping
from pathlib import Path

import apsw

from hack.crash.writer import PAIR, TASKS, key, number_of

Acknowledged = Mapping[int, tuple[int, int]]
"""Task -> (number of its last acknowledged transaction, revision of that transaction)."""


def problems(path: Path, acknowledged: Acknowledged, revision_before: int) -> list[str]:
    """Return the violations in the database; normally none.

    Args:
        path: of the file; no process may have it open.
        acknowledged: transactions that the writer reported, or that the database had before.
        revision_before: the newest revision at the end of the previous round.
    """
    with apsw.Connection(str(path)) as connection:
        found = [
            *(
                f"integrity: {line}"
                for (line,) in connection.execute("PRAGMA integrity_check")
                if line != "ok"
            ),
            *_lost(connection, acknowledged),
            *_disagreeing(connection, revision_before),
            *_miscounted(connection),
        ]
    connection.close()
    return found


def current(path: Path) -> tuple[int, dict[int, tuple[int, int]]]:
    """Return a database's newest revision, and the current transaction of each task, which must not be lost later."""
    with apsw.Connection(str(path)) as connection:
        revision: int = connection.execute("SELECT revision FROM state").get
        pairs = {task: _pair(connection, task) for task in range(TASKS)}
    connection.close()
    return revision, {task: pair[0] for task, pair in pairs.items() if pair}


def _pair(connection: apsw.Connection, task: int) -> list[tuple[int, int]]:
    """Return (number, revision) of each existing key of a task."""
    found = []
    for name in PAIR:
        for row in connection.execute("SELECT value, revision FROM object WHERE key = ?", (key(task, name),)):
            value, revision = row
            assert isinstance(value, bytes)  # noqa: S101  the column's type
            assert isinstance(revision, int)  # noqa: S101
            found.append((number_of(value), revision))
    return found


def _lost(connection: apsw.Connection, acknowledged: Acknowledged) -> list[str]:
    """Find acknowledged transactions that are missing, and halves of transactions."""
    found = []
    for task, (number, revision) in acknowledged.items():
        pair = _pair(connection, task)
        if len(pair) < len(PAIR):
            found.append(f"task {task}: acknowledged {number} at {revision}, found {pair}")
            continue
        (left, at), right = pair
        if (left, at) != right:
            found.append(f"task {task}: half a transaction: {pair}")
        if left < number or at < revision:
            found.append(f"task {task}: acknowledged {number} at {revision}, found {left} at {at}")
        if left > number + 1:
            found.append(f"task {task}: found {left}, which the writer never tried after {number}")
    return found


def _disagreeing(connection: apsw.Connection, revision_before: int) -> list[str]:
    """Find revisions that decrease, and contradictions between log and current values."""
    ((revision, compacted),) = connection.execute("SELECT revision, compacted FROM state")
    found = []
    if revision < revision_before:
        found.append(f"revision went back from {revision_before} to {revision}")
    ahead = (
        connection.execute(
            "SELECT count(*) FROM object WHERE revision > ?1 OR created > revision", (revision,)
        ).get
        + connection.execute("SELECT count(*) FROM log WHERE sequence >> 16 > ?1", (revision,)).get
    )
    if ahead:
        found.append(f"{ahead} rows are newer than revision {revision}")
    # Every revision of the window is in the log without a gap: each transaction of this program changes something.
    logged = {revision for (revision,) in connection.execute("SELECT DISTINCT sequence >> 16 FROM log")}
    if missing := set(range(compacted + 1, revision + 1)) - logged - {1}:
        found.append(f"revisions {sorted(missing)[:5]} are not in the log")
    # For every key, each change replaced the result of the previous one, and the last one left the current value.
    last: dict[str, int] = {}
    for sequence, name, before, previous in connection.execute(
        "SELECT sequence, key, before, previous IS NULL FROM log ORDER BY sequence"
    ):
        if name in last and before not in {0, last[name]}:
            found.append(
                f"{name}: the change at {sequence >> 16} follows {before}, the log says {last[name]}"
            )
        if bool(previous) != (before == 0):
            found.append(f"{name}: the change at {sequence >> 16} does not know what it replaced")
        last[name] = sequence >> 16
    for name, at in connection.execute("SELECT key, revision FROM object"):
        if at > compacted and last.get(name) != at:
            found.append(f"{name}: is at {at}, the log ends at {last.get(name)}")
    return found


def _miscounted(connection: apsw.Connection) -> list[str]:
    counted = set(
        connection.execute(
            "SELECT substr(key, 1, instr(key, '/') - 1), count(*), "
            "sum(length(CAST(key AS BLOB)) + length(value)) FROM object GROUP BY 1"
        )
    )
    kept = set(connection.execute("SELECT tenant, objects, bytes FROM usage WHERE objects > 0"))
    return [f"usage is {sorted(kept)}, should be {sorted(counted)}"] if counted != kept else []
