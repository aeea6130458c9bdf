"""Backs up a SQLite store while it is in use, and restores it where there is no store.

All functions block; from an event loop, call them in a thread.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import apsw

from vcsync.apiserver.storage.interface import StoreError, StoreRefused
from vcsync.apiserver.storage.sqlite_file import FileLock, check, damaged

BUMP = 1_000_000_000
"""Revisions that a restored store skips.

Clients may have seen revisions that are newer than the backup. If the store reused them for other changes, clients that
resume there would keep a wrong state forever. `etcdutl snapshot restore --bump-revision` does the same.
"""

_PART = ".part"
_SUFFIXES = ("", "-wal", "-shm", "-journal")
"""Suffixes of the names of all files of a database."""


class BackupFailed(StoreError):
    """The copy failed and was removed. The message says why."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The content of a backup."""

    objects: int
    revision: int
    bytes: int


def backup(database: Path, target: Path) -> Summary:
    """Copy a consistent snapshot of a database, which may be in use, to a new file that only its owner can read.

    Raises:
        BackupFailed: The target exists or cannot be written.
        StoreRefused: The database does not exist or is damaged.
    """
    if not database.exists():
        raise StoreRefused(f"{database} does not exist: give the data folder of a control plane")
    if target.exists():
        raise BackupFailed(f"{target} already exists: give another name")
    with _into(target) as part, _opened(database) as connection:
        try:
            connection.execute("VACUUM INTO ?", (str(part),))
        except (apsw.CorruptError, apsw.NotADBError) as error:
            raise damaged(database, str(error)) from None
        except apsw.Error as error:
            raise BackupFailed(f"cannot write {target}: {error}") from None
        return inspect(part)


def restore(source: Path, database: Path) -> Summary:
    """Restore a backup. An existing database is never overwritten.

    Clients find that their resource versions have expired, and list again.

    Raises:
        StoreRefused: The backup is damaged, newer than this program or not vcsync's, or the database exists.
        BackupFailed: The database cannot be written.
    """
    if not source.exists():
        raise BackupFailed(f"{source} does not exist")
    inspect(source)
    lock = FileLock(database)
    try:
        for existing in (database.with_name(database.name + suffix) for suffix in _SUFFIXES):
            if existing.exists():
                raise StoreRefused(f"{existing} already exists: move it away first")
        with _into(database) as part:
            shutil.copyfile(source, part)
            with _opened(part) as connection:
                connection.execute("DELETE FROM log")
                connection.execute(
                    "UPDATE state SET revision = revision + ?1, compacted = revision + ?1", (BUMP,)
                )
            return inspect(part)
    finally:
        lock.release()


def inspect(path: Path) -> Summary:
    """Return the content of a backup.

    Raises:
        StoreRefused: The backup is damaged, newer than this program, or not vcsync's.
    """
    with _opened(path) as connection:
        try:
            if check(connection, path) == 0:
                raise StoreRefused(f"{path} is not a backup of vcsync: it is empty")
            ((objects, revision),) = connection.execute(
                "SELECT (SELECT count(*) FROM object), revision FROM state"
            )
        except (apsw.CorruptError, apsw.NotADBError) as error:
            raise damaged(path, str(error)) from None
    return Summary(objects, revision, path.stat().st_size)


@contextmanager
def _into(target: Path) -> Iterator[Path]:
    """Yield a private temporary file. It is renamed to the target once it is complete and on disk."""
    part = target.with_name(target.name + _PART)
    try:
        part.unlink(missing_ok=True)
        part.touch(mode=0o600, exist_ok=False)
        yield part
        _sync(part)
        part.rename(target)
        _sync(target.parent)
    except OSError as error:
        raise BackupFailed(f"cannot write {target}: {error.strerror}") from None
    finally:
        for suffix in _SUFFIXES:
            part.with_name(part.name + suffix).unlink(missing_ok=True)


@contextmanager
def _opened(path: Path) -> Iterator[apsw.Connection]:
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    except apsw.CantOpenError as error:
        raise StoreRefused(f"{path}: {error}") from None
    try:
        connection.set_busy_timeout(5000)
        yield connection
    finally:
        connection.close()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
