"""Copies of a SQLite store: taken while it is in use, and put back into an empty place.

All of it blocks; from an event loop call it in a thread.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import apsw

from vcsync.controlplane.store.interface import StoreError, StoreRefused
from vcsync.controlplane.store.sqlite_file import FileLock, check, damaged

BUMP = 1_000_000_000
"""A restored store goes on so many revisions later.

Clients may have seen revisions that are newer than the backup. Were they used again, for other changes, a client
that resumes there would keep a wrong picture for ever (as `etcdutl snapshot restore --bump-revision`).
"""

_PART = ".part"
_BESIDE = ("", "-wal", "-shm", "-journal")


class BackupFailed(StoreError):
    """The copy could not be made; nothing is left of it. The message says why."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What a backup holds."""

    objects: int
    revision: int
    bytes: int


def backup(database: Path, target: Path) -> Summary:
    """Copy a database, which may be in use, as it is at one moment, to a new file that only its owner can read.

    Raises:
        BackupFailed: the target is there already or cannot be written.
        StoreRefused: there is no sound database.
    """
    if not database.exists():
        raise StoreRefused(f"there is no {database}: give the data folder of a control plane")
    if target.exists():
        raise BackupFailed(f"{target} is there already: give another name")
    with _into(target) as part, _opened(database) as connection:
        try:
            connection.execute("VACUUM INTO ?", (str(part),))
        except (apsw.CorruptError, apsw.NotADBError) as error:
            raise damaged(database, str(error)) from None
        except apsw.Error as error:
            raise BackupFailed(f"cannot write {target}: {error}") from None
        return inspect(part)


def restore(source: Path, database: Path) -> Summary:
    """Put a backup where there is no database; what is there already is never touched.

    Clients find their resource versions expired and list again.

    Raises:
        StoreRefused: the backup is damaged, newer than this program or none of ours, or there is a database.
        BackupFailed: the database cannot be written.
    """
    if not source.exists():
        raise BackupFailed(f"there is no {source}")
    inspect(source)
    lock = FileLock(database)
    try:
        for there in (database.with_name(database.name + suffix) for suffix in _BESIDE):
            if there.exists():
                raise StoreRefused(f"{there} is there already: move it away first")
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
    """Say what a backup holds.

    Raises:
        StoreRefused: it is damaged, newer than this program, or none of ours.
    """
    with _opened(path) as connection:
        try:
            if check(connection, path) == 0:
                raise StoreRefused(f"{path} is no backup of vcsync: it is empty")
            ((objects, revision),) = connection.execute(
                "SELECT (SELECT count(*) FROM object), revision FROM state"
            )
        except (apsw.CorruptError, apsw.NotADBError) as error:
            raise damaged(path, str(error)) from None
    return Summary(objects, revision, path.stat().st_size)


@contextmanager
def _into(target: Path) -> Iterator[Path]:
    """Give a private file to write to; it gets the target's name once it is whole and on disk."""
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
        for suffix in _BESIDE:
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
