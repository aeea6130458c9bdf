"""The database file: who may open it, whether it is sound, which form it has, and how connections are set up."""

import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, TypeVar

import apsw
import structlog

from vcsync.controlplane.store.interface import StoreFull, StoreRefused, StoreUnavailable

T = TypeVar("T")

log = structlog.get_logger(__name__)

APPLICATION_ID = 0x76637379
"""`PRAGMA application_id` of our files: "vcsy"."""

OLDEST_SQLITE = (3, 51, 3)
"""Earlier ones can lose commits when two connections reset the WAL at once (https://sqlite.org/wal.html#walresetbug)."""

PAGE_BYTES = 8192
WRITER_CACHE_KIB = 16 * 1024
READER_CACHE_KIB = 16 * 1024
WAL_PAGES = 2000
"""The WAL is copied into the database when it holds so many pages (16 MiB)."""

CONVERTED_BYTES = 2**30
"""Files of earlier versions up to this size are rewritten at the start, so that they can become smaller (seconds)."""

MIGRATIONS: tuple[str, ...] = (
    # object: what stands now. log: how to undo each change, which gives older snapshots and the course of
    # events without keeping any value twice. `sequence` is revision << 16 | position in the transaction.
    # usage: objects and bytes (keys and values) below each first path segment.
    """
    CREATE TABLE state (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        revision INTEGER NOT NULL,
        compacted INTEGER NOT NULL
    );
    INSERT INTO state VALUES (1, 1, 0);
    CREATE TABLE object (
        id INTEGER PRIMARY KEY,
        key TEXT NOT NULL UNIQUE,
        created INTEGER NOT NULL,
        revision INTEGER NOT NULL,
        expires INTEGER,
        value BLOB NOT NULL
    );
    CREATE INDEX object_expires ON object (expires) WHERE expires IS NOT NULL;
    CREATE TABLE log (
        sequence INTEGER PRIMARY KEY,
        key TEXT NOT NULL,
        created INTEGER NOT NULL,
        before INTEGER NOT NULL,
        previous BLOB
    );
    CREATE INDEX log_key ON log (key, sequence);
    CREATE TABLE usage (
        tenant TEXT PRIMARY KEY,
        objects INTEGER NOT NULL,
        bytes INTEGER NOT NULL
    ) WITHOUT ROWID;
    """,
)
"""How to get from each form of the file to the next; `PRAGMA user_version` counts those that were done."""


class FileLock:
    """Keeps other processes from opening the same database. The system lets go of it when a process dies.

    It is a file of its own: closing any descriptor of the database itself would drop SQLite's own locks.
    """

    def __init__(self, database: Path) -> None:
        """Take the lock.

        Raises:
            StoreRefused: another process holds it, or the folder cannot be written to.
        """
        path = database.with_name(f"{database.name}.lock")
        try:
            path.touch(mode=0o600)
            self._file: IO[str] = path.open("a+")
        except OSError as error:
            raise StoreRefused(
                f"{path}: {error.strerror}; give a folder that this user can write to"
            ) from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.seek(0)
            holder = self._file.read().strip() or "unknown"
            self._file.close()
            raise StoreRefused(
                f"{database} is in use by another vcsync (process {holder}): stop that one first, or give this one another folder"
            ) from None
        with suppress(OSError):  # on a full disk; it only serves the message above
            self._file.truncate(0)
            self._file.write(str(os.getpid()))
            self._file.flush()

    def release(self) -> None:
        """Let others open the database."""
        self._file.close()


def open_checked(path: Path) -> apsw.Connection:
    """Open a database for writing, made new or brought to the newest form where need be.

    Whether all of it is sound is another question: see `require_sound`.

    Raises:
        StoreRefused: it is not ours, newer than this program, or so damaged that it shows at once.
    """
    require_sqlite()
    if not path.exists():
        path.touch(mode=0o600)  # it holds every tenant's Secrets; SQLite gives its other files the same mode
    connection = _guarded(path, lambda: _connect(path, apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE))
    try:
        _guarded(path, lambda: _prepare(connection, path))
    except BaseException:
        connection.close()
        raise
    return connection


def open_reader(path: Path) -> apsw.Connection:
    """Open a further connection for reading to a database that `open_checked` has seen to."""
    connection = _connect(path, apsw.SQLITE_OPEN_READONLY)
    connection.execute(f"PRAGMA cache_size = -{READER_CACHE_KIB}")
    return connection


def check(connection: apsw.Connection, path: Path) -> int:
    """Return the form (`user_version`) of a database that is sound and ours; 0: a new one.

    Raises:
        StoreRefused: it is damaged, not ours, or newer than this program.
    """
    version = _form(connection, path)
    require_sound(connection, path)
    return version


def require_sound(connection: apsw.Connection, path: Path) -> None:
    """Read all of a database; about a second for each GB that the system has in memory, else as the disk reads.

    Raises:
        StoreRefused: it is damaged.
    """
    found = _guarded(path, lambda: connection.execute("PRAGMA quick_check(1)").get)
    if found != "ok":
        raise damaged(path, str(found))


def _form(connection: apsw.Connection, path: Path) -> int:
    try:
        version = _number(connection, "user_version")
        application = _number(connection, "application_id")
        tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
    except apsw.SQLError as error:  # "unsupported file format"
        raise damaged(path, str(error)) from None
    if application != APPLICATION_ID and (version or tables):
        raise StoreRefused(f"{path} is no database of vcsync: give another folder, or put the file aside")
    if version > len(MIGRATIONS):
        raise StoreRefused(
            f"{path} was written by a newer vcsync (form {version}; this one knows {len(MIGRATIONS)}): "
            f"run that vcsync, or move it and {path.name}-* away and {_restore(path)} from before the upgrade"
        )
    return version


def damaged(path: Path, detail: str) -> StoreRefused:
    """Say that a database is damaged, and what helps."""
    return StoreRefused(
        f"{path} is damaged ({' '.join(detail.split())}): move it and {path.name}-* away and {_restore(path)}"
    )


def require_sqlite(version: str | None = None) -> None:
    """Make sure that the SQLite in use is not one with the WAL-reset defect.

    Raises:
        StoreRefused: it is.
    """
    version = version or apsw.sqlite_lib_version()
    if tuple(int(part) for part in version.split(".")) < OLDEST_SQLITE:
        wanted = ".".join(map(str, OLDEST_SQLITE))
        raise StoreRefused(
            f"SQLite {version} can lose data: install the package apsw from PyPI, at {wanted} or newer"
        )


def as_store_error(error: apsw.Error) -> StoreFull | StoreUnavailable:
    """Say what an error of SQLite means to who asked for a write. Nothing of it is in effect if `StoreFull`."""
    if isinstance(error, apsw.FullError):
        return StoreFull("the database is full")
    code = getattr(error, "extendedresult", 0)
    if code in _WRITE_FAILED:
        return StoreFull(f"the database cannot grow: {error}")
    return StoreUnavailable(f"the database fails: {error}")


# A failed fsync is not among them: what it should have made durable may or may not be.
_WRITE_FAILED = {
    apsw.SQLITE_IOERR_WRITE,
    apsw.SQLITE_IOERR_TRUNCATE,
    apsw.SQLITE_IOERR_SHMSIZE,
    apsw.SQLITE_IOERR_SHMOPEN,
}


def _prepare(connection: apsw.Connection, path: Path) -> None:
    version = _form(connection, path)
    if 0 < version < len(MIGRATIONS):
        require_sound(connection, path)
    if version == 0:
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES}")
    connection.execute(f"PRAGMA journal_size_limit = {4 * WAL_PAGES * PAGE_BYTES}")
    connection.execute(f"PRAGMA cache_size = -{WRITER_CACHE_KIB}")
    for form, statements in enumerate(MIGRATIONS[version:], version + 1):
        connection.execute("BEGIN IMMEDIATE")
        with_version = (
            f"{statements}; PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {form}; COMMIT"
        )
        connection.execute(with_version)
    if version and not _number(connection, "auto_vacuum"):
        _let_it_shrink(connection, path)


def _let_it_shrink(connection: apsw.Connection, path: Path) -> None:
    """Rewrite a file that an earlier version made, so that it can become smaller; without room it stays as it is."""
    if path.stat().st_size > CONVERTED_BYTES:
        log.warning(
            "the database never becomes smaller; to change that, stop and rewrite it by backup and restore",
            path=str(path),
        )
        return
    try:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL; VACUUM")
    except (apsw.FullError, apsw.IOError) as error:
        log.warning("the database cannot be rewritten to become smaller", path=str(path), error=str(error))


def _connect(path: Path, flags: int) -> apsw.Connection:
    connection = apsw.Connection(str(path), flags=flags, statementcachesize=100)
    connection.set_busy_timeout(5000)
    return connection


def _guarded(path: Path, act: Callable[[], T]) -> T:
    try:
        return act()
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise damaged(path, str(error)) from None
    except apsw.CantOpenError as error:
        raise StoreRefused(f"{path}: {error}; give a folder that this user can write to") from None
    except (apsw.IOError, apsw.FullError) as error:
        raise StoreRefused(f"{path} cannot be opened: {error}; is there room left on the disk?") from None


def _restore(path: Path) -> str:
    return f"bring back a backup by 'vcsync restore BACKUP --data {path.parent}'"


def _number(connection: apsw.Connection, pragma: str) -> int:
    value = connection.execute(f"PRAGMA {pragma}").get
    return int(value)
