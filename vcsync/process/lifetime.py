"""Finds out whether a process of this machine has ended, from a lock on a file that the identity of the process names.

The kernel releases the lock (flock) when the process ends for any reason, and not before. The name of the file is random, so
equal host names, other data folders and reused process ids do not matter. If the file is missing, the result is unknown.
"""

import fcntl
import os
import re
import secrets
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import structlog

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_IDENTITY = re.compile(r".*_([0-9a-f]{32})", re.ASCII | re.DOTALL)
_LEFT_SECONDS = 86_400.0
"""Age in seconds at which files of ended processes are removed."""

_held: list[int] = []
"""Descriptors of the locks that this process holds until it ends."""
_log = structlog.get_logger(__name__)


def default_folder() -> Path:
    """Return the folder of the locks of this user's processes, on this machine or in this container.

    Raises:
        OSError: There is no folder for temporary files.
    """
    return Path(tempfile.gettempdir()) / f"vcsync-{os.getuid()}"


def begin(name: str, folder: Path | None = None) -> str:
    """Return a unique identity for this process, and hold the lock that shows that the process lives.

    Args:
        name: Prefix of the identity.
        folder: Folder of the locks. Default: `default_folder`.
    """
    token = secrets.token_hex(16)
    try:
        folder = folder or default_folder()
        _prepare(folder)
        _held.append(_lock_new(folder, token))
    except OSError as error:
        _log.info("a successor on this machine must wait until the lease expires", error=str(error))
    return f"{name}_{token}"


def ended(identity: str, folder: Path | None = None) -> bool:
    """Return whether a process ran on this machine since it was booted, and has certainly ended.

    Args:
        identity: The result of `begin` in that process.
        folder: Folder of the locks. Default: `default_folder`.
    """
    match = _IDENTITY.fullmatch(identity)
    if match is None:
        return False
    try:
        folder = folder or default_folder()
        if not _is_ours_alone(folder):
            return False
        descriptor = os.open(folder / match[1], os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.read(descriptor, 200) == _boot_id()
    except OSError:  # the lock is held, so the process lives
        return False
    finally:
        os.close(descriptor)


def _prepare(folder: Path) -> None:
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if not _is_ours_alone(folder):
        raise PermissionError(f"{folder} must be a folder that only this user owns and may enter")
    for left in folder.iterdir():
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > _LEFT_SECONDS and _free(left):
                left.unlink()


def _lock_new(folder: Path, token: str) -> int:
    """Create and lock a file, before other processes know its name."""
    descriptor = os.open(folder / token, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(descriptor, _boot_id())
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _is_ours_alone(folder: Path) -> bool:
    found = os.lstat(folder)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


def _free(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _boot_id() -> bytes:
    """Return the boot id, which differs for each machine and boot: machines may share a folder, but not a kernel.

    Raises:
        OSError: The system has no boot id.
    """
    return _BOOT_ID.read_bytes().strip()
