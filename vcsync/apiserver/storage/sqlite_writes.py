"""Writes of a transaction: checks conditions, and updates the object table, the undo log and the usage counts.

Everything here runs inside an SQL transaction that the caller begins and ends.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import apsw

from vcsync.apiserver.storage.interface import Change, Compare, Delete, Outcome, Put, Record, tenant_of
from vcsync.apiserver.storage.usage import size_of

POSITION_BITS = 16
"""A sequence number in the log is `revision << POSITION_BITS | position in the transaction`."""

_FIND = "SELECT id, value, created, revision FROM object WHERE key = ?"
_INSERT = "INSERT INTO object (key, created, revision, expires, value) VALUES (?, ?, ?, ?, ?)"
_UPDATE = "UPDATE object SET revision = ?, expires = ?, value = ? WHERE id = ?"
_REMOVE = "DELETE FROM object WHERE id = ?"
_LOG = "INSERT INTO log (sequence, key, created, before, previous) VALUES (?, ?, ?, ?, ?)"
_USE = (
    "INSERT INTO usage VALUES (?, ?, ?) "
    "ON CONFLICT (tenant) DO UPDATE SET objects = objects + excluded.objects, bytes = bytes + excluded.bytes"
)
_FORGET = "DELETE FROM log WHERE sequence IN (SELECT sequence FROM log WHERE sequence < ? ORDER BY sequence LIMIT ?)"
_EXPIRED = "SELECT key FROM object WHERE expires <= ? ORDER BY expires, key LIMIT ?"


def first_sequence(revision: int) -> int:
    """Return the lowest sequence number that a change at this revision can have."""
    return revision << POSITION_BITS


@dataclass(frozen=True, slots=True)
class _Row:
    id: int
    value: bytes
    created: int
    revision: int


class TransactionWriter:
    """Writes transactions of the store within one SQL transaction. Each of them gets its own revision.

    Attributes:
        revision: The newest revision, including uncommitted ones.
        changes: All changes so far, in order.
    """

    def __init__(self, connection: apsw.Connection, now: float) -> None:
        """Read the newest revision.

        Args:
            connection: The connection, in an SQL transaction.
            now: Seconds since 1970.
        """
        self._connection = connection
        self._now = now
        self._used: Counter[str] = Counter()
        self._counted: Counter[str] = Counter()
        self.changes: list[Change] = []
        self.revision: int = connection.execute("SELECT revision FROM state").get

    def apply(self, compares: Sequence[Compare], operations: Sequence[Put | Delete]) -> Outcome:
        """Execute all operations if every condition holds."""
        rows: dict[str, _Row | None] = {}
        failed: list[tuple[str, Record | None]] = []
        for compare in compares:
            row = rows[compare.key] = self._find(compare.key)
            if compare.revision != (row.revision if row else 0):
                failed.append((compare.key, _record(compare.key, row)))
        if failed:
            return Outcome(self.revision, tuple(failed))
        revision = self.revision + 1
        done: list[Change] = []
        for operation in operations:
            key = operation.key
            row = rows[key] if key in rows else self._find(key)
            if isinstance(operation, Put):
                self._put(operation, row, revision)
                done.append(_put_change(operation, row, revision))
            elif row:
                self._connection.execute(_REMOVE, (row.id,))
                done.append(Change(revision, key, None, row.value, row.created))
            else:
                continue
            before = row.revision if row else 0
            self._note(done[-1], before, first_sequence(revision) + len(done) - 1)
        if done:
            self.revision = revision
            self.changes += done
        return Outcome(self.revision)

    def expire(self, limit: int) -> int:
        """Delete at most `limit` expired keys, all at one revision. Returns their number."""
        keys = [key for (key,) in self._connection.execute(_EXPIRED, (int(self._now * 1000), limit))]
        self.apply((), [Delete(key) for key in keys])
        return len(keys)

    def compact(self, revision: int) -> None:
        """Refuse reads of revisions before `revision` from now on. `forget` deletes their history."""
        self._connection.execute("UPDATE state SET compacted = max(compacted, ?)", (revision,))

    def forget(self, limit: int) -> int:
        """Delete at most `limit` entries of the log that are older than the window. Returns their number."""
        compacted = self._connection.execute("SELECT compacted FROM state").get
        self._connection.execute(_FORGET, (first_sequence(compacted + 1), limit))
        return self._connection.changes()

    def shrink(self, pages: int) -> int:
        """Return at most `pages` free pages to the file system. Returns the number of remaining free pages."""
        for _ in self._connection.execute(f"PRAGMA incremental_vacuum({pages:d})"):
            pass
        left: int = self._connection.execute("PRAGMA freelist_count").get
        return left

    def finish(self) -> None:
        """Write the revision and the usage counts. The caller commits immediately after it."""
        if not self.changes:
            return
        self._connection.execute("UPDATE state SET revision = ?", (self.revision,))
        for tenant, size in self._used.items():
            self._connection.execute(_USE, (tenant, self._counted[tenant], size))

    def _find(self, key: str) -> _Row | None:
        row = self._connection.execute(_FIND, (key,)).fetchone()
        return _Row(*row) if row else None

    def _put(self, put: Put, row: _Row | None, revision: int) -> None:
        expires = None if put.ttl is None else int((self._now + put.ttl) * 1000)
        if row:
            self._connection.execute(_UPDATE, (revision, expires, put.value, row.id))
        else:
            self._connection.execute(_INSERT, (put.key, revision, revision, expires, put.value))

    def _note(self, change: Change, before: int, sequence: int) -> None:
        self._connection.execute(_LOG, (sequence, change.key, change.created, before, change.previous))
        tenant = tenant_of(change.key)
        self._counted[tenant] += (change.value is not None) - (change.previous is not None)
        self._used[tenant] += size_of(change.key, change.value) - size_of(change.key, change.previous)


def _record(key: str, row: _Row | None) -> Record | None:
    return Record(key, row.value, row.created, row.revision) if row else None


def _put_change(put: Put, row: _Row | None, revision: int) -> Change:
    return Change(revision, put.key, put.value, row.value if row else None, row.created if row else revision)
