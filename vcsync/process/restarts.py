"""Starts a process again that the watchdog has ended, for commands in a terminal, which have no other supervisor.

`supervise` forks. The parent does nothing but wait, and passes signals on. It forks again when the watchdog has ended the child.
"""

import ctypes
import os
import secrets
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

from vcsync.process.end_signal import END_SIGNAL

_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_PATIENCE = 2
"""Signals to pass on before the child is killed: the first one ends it gracefully, the second one immediately."""
_PR_SET_PDEATHSIG = 1
"""Operation of prctl(2): the kernel sends a signal when the parent ends."""
_SHELL = 128
"""A shell's exit code for a process that a signal ended is this and the signal's number."""

_scratch: Path | None = None
"""Folder for temporary data that survives a restart. The parent removes it, whether it was made or not."""


def supervise(notice: str) -> None:
    """Return in a child process. The calling process waits for it, and ends with its exit code.

    Call it early, while the process has one thread and uses little memory.

    Args:
        notice: Text for standard error before a restart.
    """
    global _scratch  # noqa: PLW0603 - the child inherits it
    _scratch = Path(tempfile.gettempdir()) / f"vcsync-{secrets.token_hex(8)}"
    parent = _Parent()
    while parent.fork():
        status = parent.wait()
        if parent.signals or os.waitstatus_to_exitcode(status) != -END_SIGNAL:
            _end(status)
        sys.stderr.write(f"{notice}\n")


@contextmanager
def scratch(prefix: str) -> Iterator[Path]:
    """Yield a folder for temporary data. It is removed at the end, but survives a restart by `supervise`."""
    if _scratch is None:
        with tempfile.TemporaryDirectory(prefix=prefix) as made:
            yield Path(made)
        return
    _scratch.mkdir(mode=0o700, exist_ok=True)
    yield _scratch


class _Parent:
    """The waiting process.

    Attributes:
        signals: Number of signals that were passed on.
    """

    def __init__(self) -> None:
        self.signals = 0
        self._child = 0

    def fork(self) -> bool:
        """Fork. Return whether this is the parent."""
        before = os.getpid()
        # A signal must find either the default handlers, or those of a parent that knows its child.
        signal.pthread_sigmask(signal.SIG_BLOCK, (*_PASSED_ON, signal.SIGTSTP))
        self._child = os.fork()
        if self._child:
            for number in _PASSED_ON:
                signal.signal(number, self._pass_on)
            signal.signal(signal.SIGTSTP, self._pause)
        else:
            for number in (*_PASSED_ON, signal.SIGTSTP):
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            # The terminal sends its signals to the parent alone, which passes each of them on once.
            os.setpgid(0, 0)
            _die_with(before)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (*_PASSED_ON, signal.SIGTSTP))
        return bool(self._child)

    def wait(self) -> int:
        """Wait until the child has ended, and return its status."""
        return os.waitpid(self._child, 0)[1]

    def _pass_on(self, number: int, _frame: FrameType | None) -> None:
        self.signals += 1
        os.kill(self._child, number if self.signals <= _PATIENCE else signal.SIGKILL)

    def _pause(self, _number: int, _frame: FrameType | None) -> None:
        """Stop the child and this process, until a shell continues it."""
        os.kill(self._child, signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        os.kill(self._child, signal.SIGCONT)


def _die_with(parent: int) -> None:
    """Let the kernel kill this process when its parent ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def _end(status: int) -> NoReturn:
    if _scratch is not None:
        shutil.rmtree(_scratch, ignore_errors=True)
    code = os.waitstatus_to_exitcode(status)
    sys.exit(code if code >= 0 else _SHELL - code)
