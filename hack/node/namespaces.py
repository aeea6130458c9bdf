"""Linux system calls for namespaces and mounts, which Python 3.11 does not have."""

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# sched.h, sys/mount.h, sys/prctl.h
CLONE_NEWNS = 0x00020000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MS_SHARED = 1 << 20
_PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    """Leave namespaces for new ones.

    Raises:
        OSError: the kernel refuses it.
    """
    _check(_libc.unshare(flags), "unshare")


def mount(source: str, target: Path, kind: str = "", flags: int = 0, data: str = "") -> None:
    """Mount a file system, or change a mount.

    Raises:
        OSError: the kernel refuses it.
    """
    result = _libc.mount(
        source.encode(), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), data.encode()
    )
    _check(result, f"mounting {target}")


def fork_inside() -> int:
    """Fork the first process of a new process id namespace, like `os.fork`; later children are outside again.

    Raises:
        OSError: the kernel refuses it.
    """
    with Path("/proc/self/ns/pid").open("rb") as own:
        unshare(CLONE_NEWPID)
        if pid := os.fork():
            _check(_libc.setns(own.fileno(), CLONE_NEWPID), "setns")
        return pid


def end_with_parent() -> None:
    """Let the kernel kill this process when the thread that forked it ends."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL), "prctl")


@contextmanager
def children_inside(pid: int) -> Iterator[None]:
    """Let children of this thread belong to the process id namespace of a process.

    Raises:
        OSError: the process does not exist, or the kernel refuses it.
    """
    with Path("/proc/self/ns/pid").open("rb") as own, Path(f"/proc/{pid}/ns/pid").open("rb") as other:
        _check(_libc.setns(other.fileno(), CLONE_NEWPID), "setns")
        try:
            yield
        finally:
            _check(_libc.setns(own.fileno(), CLONE_NEWPID), "setns")


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
