"""Whether a process of this machine has ended: it holds a lock on a file as long as it lives, and its identity names the file.

The kernel gives up the lock (flock) when the process has ended, however it ended, and not before. The name is random, so neither
equal host names, other data folders nor process numbers that are used again can be mistaken for it. Where the file cannot be
found, nothing is proved.
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
_LEFT_SECONDS = 86_400.0  # after which files of processes that have ended are of no use to anybody

_held: list[int] = []  # descriptors whose locks last as long as this process
_log = structlog.get_logger(__name__)


def default_folder() -> Path:
    """Return where this user's processes hold their locks; of this machine or container, not of any data folder.

    Raises:
        OSError: there is no folder for temporary files.
    """
    return Path(tempfile.gettempdir()) / f"vcsync-{os.getuid()}"


def begin(name: str, folder: Path | None = None) -> str:
    """Return an identity for this process, which no other ever has, and hold what proves that it lives.

    Args:
        name: what it is to begin with.
        folder: where the locks are.
    """
    token = secrets.token_hex(16)
    try:
        folder = folder or default_folder()
        _prepare(folder)
        _held.append(_lock_new(folder, token))
    except OSError as error:
        _log.info("successors on this machine will wait for the lease", error=str(error))
    return f"{name}_{token}"


def ended(identity: str, folder: Path | None = None) -> bool:
    """Whether the process with that identity ran on this machine, since it was booted, and has certainly ended.

    Args:
        identity: what `begin` returned in that process.
        folder: where the locks are.
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
    except OSError:  # it is held: the process lives
        return False
    finally:
        os.close(descriptor)


def _prepare(folder: Path) -> None:
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if not _is_ours_alone(folder):
        raise PermissionError(f"{folder} must be a folder that nobody but its owner, this user, may enter")
    for left in folder.iterdir():
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > _LEFT_SECONDS and _free(left):
                left.unlink()


def _lock_new(folder: Path, token: str) -> int:
    """Make and lock a file; its identity is known to nobody before that."""
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
    """Return what changes with each start of the machine: a folder may be shared with another one, a kernel not.

    Raises:
        OSError: this system has none.
    """
    return _BOOT_ID.read_bytes().strip()
