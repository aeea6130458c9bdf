"""Reads a database: current values, older snapshots by undoing the log, and the sequence of changes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import apsw

from vcsync.apiserver.storage.interface import (
    Batch,
    Change,
    Compacted,
    FutureRevision,
    Record,
    StoreUnavailable,
    Usage,
)
from vcsync.apiserver.storage.ranges import end_of
from vcsync.apiserver.storage.sqlite_writes import POSITION_BITS, first_sequence

RANGE_BYTES = 512 * 1024
"""Bytes of values after which one read stops (0.3 ms). The value that exceeds it is included."""

_GET = (
    "SELECT state.revision, object.value, object.created, object.revision "
    "FROM state LEFT JOIN object ON object.key = ?"
)
_UNDO = "SELECT previous, created, before FROM log WHERE key = ? AND sequence >= ? ORDER BY sequence LIMIT 1"
_RANGE = "SELECT key, value, created, revision FROM object WHERE key >= ? AND key < CAST(? AS TEXT) ORDER BY key LIMIT ?"
_COUNT = "SELECT count(*) FROM object WHERE key >= ? AND key < CAST(? AS TEXT)"

# The state at an older revision is the objects that have not changed since, and the values that the first change
# since then replaced. A change is the first one exactly if the state before it is not newer than that revision.
_KEPT = "FROM object WHERE key >= :from AND key < CAST(:to AS TEXT) AND revision <= :revision"
_REPLACED = (
    "FROM log WHERE key >= :from AND key < CAST(:to AS TEXT) "
    "AND sequence >= :since AND before <= :revision AND previous IS NOT NULL"
)
_OLD_RANGE = (
    f"SELECT key, value, created, revision {_KEPT} UNION ALL "
    f"SELECT key, previous, created, before {_REPLACED} ORDER BY key LIMIT :limit"
)
# Counting in the same way would read every object. This reads the index, and the changes since the revision.
_CHANGED = "SELECT key FROM log WHERE key >= :from AND key < CAST(:to AS TEXT) AND sequence >= :since"
_OLD_COUNT = (
    "SELECT (SELECT count(*) FROM object WHERE key >= :from AND key < CAST(:to AS TEXT)) "  # noqa: S608  made of the texts above
    f"- (SELECT count(*) FROM object WHERE key IN ({_CHANGED})) + (SELECT count(*) {_REPLACED})"
)

# The value that a change set is the value that the next change of that key replaced, or the current value.
_CHANGES = """
    SELECT log.sequence, log.key, log.created, log.previous,
           CASE WHEN later.sequence IS NULL THEN object.value ELSE later.previous END
    FROM log
    LEFT JOIN log AS later ON later.sequence = (
        SELECT min(next.sequence) FROM log AS next WHERE next.key = log.key AND next.sequence > log.sequence)
    LEFT JOIN object ON object.key = log.key AND later.sequence IS NULL
    WHERE log.sequence IN ({chosen}) ORDER BY log.sequence
"""
_ALL = "SELECT sequence FROM log WHERE sequence >= :from AND sequence < :to ORDER BY sequence LIMIT :limit"
_SOME = (
    "SELECT sequence FROM log INDEXED BY log_key WHERE key >= :prefix AND key < CAST(:end AS TEXT) "
    "AND sequence >= :from AND sequence < :to ORDER BY sequence LIMIT :limit"
)


@dataclass(frozen=True, slots=True)
class Window:
    """The revisions that can be read.

    Attributes:
        newest: The newest revision.
        compacted: The oldest readable revision.
    """

    newest: int
    compacted: int

    def require(self, revision: int) -> None:
        """Raise Compacted or FutureRevision unless the state at `revision` can be read."""
        if revision > self.newest:
            raise FutureRevision(self.newest)
        if revision < self.compacted:
            raise Compacted(self.compacted)

    def resolve(self, revision: int) -> int | None:
        """Return the revision to read at, or None for the current values.

        Raises:
            Compacted, FutureRevision: History does not contain that revision.
        """
        if revision:
            self.require(revision)
        return None if revision in {0, self.newest} else revision


class Reader:
    """Reads on one connection. Must not be used concurrently."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    @contextmanager
    def snapshot(self) -> Iterator[Window]:
        """Run all reads of the block on one snapshot of the database."""
        try:
            self._connection.execute("BEGIN")
            try:
                yield self.window()
            finally:
                self._connection.execute("COMMIT")
        except apsw.Error as error:
            raise StoreUnavailable(f"the database cannot be read: {error}") from error

    def window(self) -> Window:
        """Return the revisions that can be read now."""
        ((newest, compacted),) = self._connection.execute("SELECT revision, compacted FROM state")
        return Window(newest, compacted)

    def get(self, key: str) -> tuple[Record | None, int]:
        """Return the current record of a key, and the newest revision."""
        try:
            ((newest, value, created, revision),) = self._connection.execute(_GET, (key,))
        except apsw.Error as error:
            raise StoreUnavailable(f"the database cannot be read: {error}") from error
        return (None if value is None else Record(key, value, created, revision)), newest

    def get_at(self, key: str, revision: int) -> Record | None:
        """Return the record of a key at an older revision."""
        undo = self._connection.execute(_UNDO, (key, first_sequence(revision + 1))).fetchone()
        if undo is None:
            return self.get(key)[0]
        previous, created, before = undo
        return None if previous is None else Record(key, previous, created, before)

    def range(self, prefix: str, after: str, limit: int, revision: int | None) -> tuple[list[Record], bool]:
        """Return up to `limit` records after the key `after`, and whether more follow.

        Returns fewer records if they are large. `revision` None reads the current values.
        """
        rows = (
            self._connection.execute(_RANGE, (_first(prefix, after), _end(prefix), limit + 1))
            if revision is None
            else self._connection.execute(_OLD_RANGE, _bounds(prefix, after, revision) | {"limit": limit + 1})
        )
        records: list[Record] = []
        size = 0
        for row in rows:
            if len(records) == limit or size >= RANGE_BYTES:
                rows.close()
                return records, True
            records.append(Record(*row))
            size += len(row[1])
        return records, False

    def count(self, prefix: str, after: str, revision: int | None) -> int:
        """Return the number of keys after the key `after`. `revision` None counts the current keys."""
        if revision is None:
            counted = self._connection.execute(_COUNT, (_first(prefix, after), _end(prefix))).get
        else:
            counted = self._connection.execute(_OLD_COUNT, _bounds(prefix, after, revision)).get
        return int(counted)

    def changes(self, prefix: str, after: int, until: int, limit: int) -> Batch:
        """Return about `limit` changes after revision `after` up to `until`.

        The batch contains every change up to its own `revision`.
        """
        bounds: dict[str, str | bytes | int] = {
            "prefix": prefix,
            "end": _end(prefix),
            "from": first_sequence(after + 1),
            "to": first_sequence(until + 1),
            "limit": limit,
        }
        chosen = _SOME if prefix else _ALL
        sequences = [sequence for (sequence,) in self._connection.execute(chosen, bounds)]
        if len(sequences) == limit:
            until = sequences[-1] >> POSITION_BITS
            # A batch never splits a revision: read to the end of this one.
            bounds |= {"to": first_sequence(until + 1), "limit": -1}
        rows = self._connection.execute(_CHANGES.format(chosen=chosen), bounds)
        return Batch(
            (
                Change(sequence >> POSITION_BITS, key, value, previous, created)
                for sequence, key, created, previous, value in rows
            ),
            until,
        )

    def has_expired(self, now: float) -> bool:
        """Return whether expired keys exist. `now` is in seconds since 1970."""
        expired = "SELECT EXISTS (SELECT 1 FROM object WHERE expires <= ?)"
        return bool(self._connection.execute(expired, (int(now * 1000),)).get)

    def usage(self, tenant: str) -> Usage:
        """Return the usage of a tenant."""
        row = self._connection.execute(
            "SELECT objects, bytes FROM usage WHERE tenant = ?", (tenant,)
        ).fetchone()
        return Usage(*row) if row else Usage(0, 0)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _first(prefix: str, after: str) -> str:
    # The immediate successor of a key in byte order is that key with a zero byte appended.
    return max(prefix, f"{after}\0") if after else prefix


def _end(prefix: str) -> bytes:
    # The end need not be UTF-8, so it is bound as bytes and compared as text. UTF-8 never contains the byte 0xff.
    return end_of(prefix.encode()) if prefix else b"\xff"


def _bounds(prefix: str, after: str, revision: int) -> dict[str, str | bytes | int]:
    return {
        "from": _first(prefix, after),
        "to": _end(prefix),
        "revision": revision,
        "since": first_sequence(revision + 1),
    }
