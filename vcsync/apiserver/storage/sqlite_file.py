"""The database file: its lock, its checks, the version of its schema, and the settings of its connections."""

import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, TypeVar

import apsw
import structlog

from vcsync.apiserver.storage.interface import StoreFull, StoreRefused, StoreUnavailable

T = TypeVar("T")

log = structlog.get_logger(__name__)

APPLICATION_ID = 0x76637379
"""`PRAGMA application_id` of vcsync's files: "vcsy"."""

OLDEST_SQLITE = (3, 51, 3)
"""Earlier versions can lose commits if two connections reset the WAL simultaneously.

See https://sqlite.org/wal.html#walresetbug.
"""

PAGE_BYTES = 8192
WRITER_CACHE_KIB = 16 * 1024
READER_CACHE_KIB = 16 * 1024
WAL_PAGES = 2000
"""Pages (16 MiB) in the WAL at which it is copied into the database."""

CONVERTED_BYTES = 2**30
"""Size up to which the start rewrites files of earlier versions, so that they can shrink. This takes seconds."""

MIGRATIONS: tuple[str, ...] = (
    # object: the current values. log: how to undo each change. The log gives older snapshots and the sequence of
    # changes without storing any value twice; `sequence` is revision << 16 | position in the transaction.
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
"""The steps from each version of the schema to the next. `PRAGMA user_version` counts the completed steps."""


class FileLock:
    """Prevents other processes from opening the same database. The system releases it when a process dies.

    It is a separate file, because closing any descriptor of the database itself would drop SQLite's own locks.
    """

    def __init__(self, database: Path) -> None:
        """Take the lock.

        Args:
            database: The database to lock. The lock file is next to it.

        Raises:
            StoreRefused: Another process holds the lock, or the folder is not writable.
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
                f"{database} is in use by another vcsync (process {holder}): stop it first, or give another folder"
            ) from None
        with suppress(OSError):  # the disk may be full; only the message above uses the content
            self._file.truncate(0)
            self._file.write(str(os.getpid()))
            self._file.flush()

    def release(self) -> None:
        """Release the lock."""
        self._file.close()


def open_checked(path: Path) -> apsw.Connection:
    """Open a database for writing. Creates it if it does not exist, and migrates it to the newest schema.

    This does not check the whole file: see `require_sound`.

    Raises:
        StoreRefused: The database is not vcsync's, newer than this program, or so damaged that opening it fails.
    """
    require_sqlite()
    if not path.exists():
        # It contains every tenant's Secrets. SQLite gives its other files the same mode.
        path.touch(mode=0o600)
    connection = _guarded(path, lambda: _connect(path, apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE))
    try:
        _guarded(path, lambda: _prepare(connection, path))
    except BaseException:
        connection.close()
        raise
    return connection


def open_reader(path: Path) -> apsw.Connection:
    """Open another connection, for reading, to a database that `open_checked` has opened."""
    connection = _connect(path, apsw.SQLITE_OPEN_READONLY)
    connection.execute(f"PRAGMA cache_size = -{READER_CACHE_KIB}")
    return connection


def check(connection: apsw.Connection, path: Path) -> int:
    """Check a whole database, and return the version of its schema (`user_version`; 0: a new database).

    Raises:
        StoreRefused: The database is damaged, not vcsync's, or newer than this program.
    """
    version = _schema_version(connection, path)
    require_sound(connection, path)
    return version


def require_sound(connection: apsw.Connection, path: Path) -> None:
    """Check a whole database by reading it.

    This takes about a second per GB that is in the page cache, and the time of the disk for the rest.

    Raises:
        StoreRefused: The database is damaged.
    """
    result = _guarded(path, lambda: connection.execute("PRAGMA quick_check(1)").get)
    if result != "ok":
        raise damaged(path, str(result))


def _schema_version(connection: apsw.Connection, path: Path) -> int:
    try:
        version = _number(connection, "user_version")
        application = _number(connection, "application_id")
        tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
    except apsw.SQLError as error:  # "unsupported file format"
        raise damaged(path, str(error)) from None
    if application != APPLICATION_ID and (version or tables):
        raise StoreRefused(f"{path} is not a database of vcsync: give another folder, or move the file away")
    if version > len(MIGRATIONS):
        raise StoreRefused(
            f"{path} was written by a newer vcsync (schema version {version}; this one knows {len(MIGRATIONS)}): "
            f"run that vcsync, or move it and {path.name}-* away and {_restore(path)} from before the upgrade"
        )
    return version


def damaged(path: Path, detail: str) -> StoreRefused:
    """Return the error that says that a database is damaged and names the remedy."""
    return StoreRefused(
        f"{path} is damaged ({' '.join(detail.split())}): move it and {path.name}-* away and {_restore(path)}"
    )


def require_sqlite(version: str | None = None) -> None:
    """Check that SQLite does not have the WAL-reset defect.

    Args:
        version: The version to check; None: the version in use.

    Raises:
        StoreRefused: The version has the defect.
    """
    version = version or apsw.sqlite_lib_version()
    if tuple(int(part) for part in version.split(".")) < OLDEST_SQLITE:
        wanted = ".".join(map(str, OLDEST_SQLITE))
        raise StoreRefused(
            f"SQLite {version} can lose data: install the package apsw from PyPI, at {wanted} or newer"
        )


def as_store_error(error: apsw.Error) -> StoreFull | StoreUnavailable:
    """Return the store's error for an error of SQLite during a write. After `StoreFull` the write has no effect."""
    if isinstance(error, apsw.FullError):
        return StoreFull("the database is full")
    code = getattr(error, "extendedresult", 0)
    if code in _WRITE_FAILED:
        return StoreFull(f"the database cannot grow: {error}")
    return StoreUnavailable(f"the database fails: {error}")


# A failed fsync is not among them: the data may be durable or not.
_WRITE_FAILED = {
    apsw.SQLITE_IOERR_WRITE,
    apsw.SQLITE_IOERR_TRUNCATE,
    apsw.SQLITE_IOERR_SHMSIZE,
    apsw.SQLITE_IOERR_SHMOPEN,
}


def _prepare(connection: apsw.Connection, path: Path) -> None:
    version = _schema_version(connection, path)
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
    for next_version, statements in enumerate(MIGRATIONS[version:], version + 1):
        connection.execute("BEGIN IMMEDIATE")
        with_version = (
            f"{statements}; PRAGMA application_id = {APPLICATION_ID}; "
            f"PRAGMA user_version = {next_version}; COMMIT"
        )
        connection.execute(with_version)
    if version and not _number(connection, "auto_vacuum"):
        _make_shrinkable(connection, path)


def _make_shrinkable(connection: apsw.Connection, path: Path) -> None:
    """Rewrite a file of an earlier version, so that it can shrink. If there is no room, the file stays unchanged."""
    if path.stat().st_size > CONVERTED_BYTES:
        log.warning(
            "the database cannot shrink; to change that, stop vcsync, and back up and restore the database",
            path=str(path),
        )
        return
    try:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL; VACUUM")
    except (apsw.FullError, apsw.IOError) as error:
        log.warning("cannot rewrite the database so that it can shrink", path=str(path), error=str(error))


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
    return f"restore a backup with 'vcsync restore BACKUP --data {path.parent}'"


def _number(connection: apsw.Connection, pragma: str) -> int:
    value = connection.execute(f"PRAGMA {pragma}").get
    return int(value)
