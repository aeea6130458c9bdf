"""Watches the event loop: logs and counts when it stands, and ends the process if it does not go on.

A loop stands while the process uses the processor but the loop's timer does not run. Two timers of processor time measure that,
so a process that is suspended, waits for a debugger, or gets no processor is never blamed. The kernel sends their signals, and
`faulthandler` writes the stacks in the signal handler. So code that keeps the interpreter's lock is seen and ended as well.
SIGVTALRM only writes the stacks. SIGPROF writes them as the report and ends the process. A thread logs the first stacks while the
loop still stands, if it gets the lock; otherwise the loop does when it goes on.
"""

import asyncio
import faulthandler
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import structlog

from vcsync.process.end_signal import END_SIGNAL, is_free
from vcsync.process.marks import NOBODY, Mark, described, innermost
from vcsync.process.stall_counts import STALLS
from vcsync.process.stall_report import AGAIN, STANDS, suspects

END_SECONDS = 60.0
"""Processor time after which a process is ended whose event loop stands, in seconds."""
LOG_SECONDS = 1.0
"""Processor time after which a stall is logged, in seconds."""
STARTING = 10
"""While the process starts, the limits are so many times as long."""
LATE_SECONDS = 10.0
"""Time after which it is logged that the process did not get the processor."""
RUNNING = "running.txt"
"""The report of the running process. It is empty unless the process stands, or ended while it did."""
MOST_REPORTS = 10
"""Reports of earlier processes to keep."""

_MOST_BYTES = 1 << 20
"""Bytes of a dump to read: `faulthandler` writes at most 100 threads with 100 functions each."""

_log = structlog.get_logger(__name__)


@dataclass
class StallLimits:
    """The limits of stalls, in seconds of processor time.

    Attributes:
        log: Time after which a stall is logged.
        end: Time after which the process is ended. 0: never.
        folder: Folder of the reports. None: the report goes to standard error.
    """

    log: float = LOG_SECONDS
    end: float = END_SECONDS
    folder: Path | None = None


LIMITS = StallLimits()
"""The limits of this process. Change them before the loop runs."""


class Watchdog:
    """Watches one event loop, that of the main thread.

    Args:
        loop: The loop.
        limits: The limits of stalls.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, limits: StallLimits) -> None:
        self._loop = loop
        self._limits = limits if is_free() else replace(limits, end=0)
        self._every = limits.log / 4
        self._starting = True
        self._thread_id = threading.get_ident()
        self._beaten = time.monotonic()
        self._timer: asyncio.TimerHandle | None = None
        self._lock = threading.Lock()
        self._reported = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._stacks = os.memfd_create("stacks")
        self._report: int | None = None
        self._left = ""

    def start(self) -> None:
        """Begin to watch. Call it in the main thread."""
        faulthandler.register(signal.SIGVTALRM, file=self._stacks, all_threads=True, chain=False)
        if self._limits.end:
            if self._limits.folder is not None:
                self._open_report(self._limits.folder)
            report = sys.stderr if self._report is None else self._report
            faulthandler.register(END_SIGNAL, file=report, all_threads=True, chain=True)
        self._beat()
        self._thread.start()

    def started(self) -> None:
        """Apply the limit of a process that has started."""
        self._starting = False
        self._arm()

    def taken_report(self) -> str:
        """Return the report of the last process of the folder, the first time only; empty if it ended while its loop ran."""
        left, self._left = self._left, ""
        return left

    def _open_report(self, folder: Path) -> None:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._left = left_report(folder)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._report = os.open(folder / RUNNING, flags, 0o600)
        except OSError as error:
            _log.warning("reports of stalls go to standard error", folder=str(folder), error=str(error))

    def stop(self) -> None:
        """Stop watching."""
        self._stop.set()
        if self._timer is not None:
            self._timer.cancel()
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        faulthandler.unregister(signal.SIGVTALRM)
        if self._limits.end:
            signal.setitimer(signal.ITIMER_PROF, 0)
            faulthandler.unregister(END_SIGNAL)
        self._thread.join(timeout=LATE_SECONDS)
        os.close(self._stacks)
        if self._report is not None:
            _empty(self._report)
            os.close(self._report)

    def _arm(self) -> None:
        times = STARTING if self._starting else 1
        signal.setitimer(signal.ITIMER_VIRTUAL, self._limits.log * times)
        if self._limits.end:
            signal.setitimer(signal.ITIMER_PROF, self._limits.end * times)

    def _beat(self) -> None:
        """Show that the loop runs. The loop calls it at intervals."""
        self._arm()
        now = time.monotonic()
        late, self._beaten = now - self._beaten, now
        self._timer = self._loop.call_later(self._every, self._beat)
        if late >= self._limits.log:
            self._went_on(late)

    def _went_on(self, late: float) -> None:
        with self._lock:
            stacks = _read(self._stacks)
            if stacks and not self._reported:
                self._tell(stacks)
            if stacks:
                _log.warning("the event loop goes on", seconds=round(late, 1))
            elif late >= LATE_SECONDS and not self._starting:
                _log.warning("the process did not get the processor, or waited", seconds=round(late, 1))
            _empty(self._stacks)
            if self._report is not None and self._reported:
                _empty(self._report)
            self._reported = False

    def _watch(self) -> None:
        while not self._stop.wait(self._every):
            with self._lock:
                stacks = _read(self._stacks)
                if not stacks or self._reported:
                    continue
                if time.monotonic() - self._beaten < self._limits.log:
                    _empty(self._stacks)  # other threads used several processors
                    continue
                mark, frame = innermost(sys._current_frames().get(self._thread_id))
                self._reported = True
                self._tell(stacks, mark, described(frame))

    def _tell(self, stacks: str, mark: Mark = NOBODY, what: str = "") -> None:
        """Log a stall, and count it. Begin the report if the loop still stands."""
        found = suspects(stacks)
        if mark == NOBODY:
            mark = found.mark
        STALLS.add(mark.tenant)
        _log.error("the event loop stands", tenant=mark.tenant, kind=mark.kind, what=what, stacks=stacks)
        if self._report is not None and self._reported:
            head = f"{STANDS}{mark.name}\n{what}\n" if mark != NOBODY else ""
            os.write(self._report, f"{head}{stacks}{AGAIN}".encode())


def left_report(folder: Path) -> str:
    """Return the report of the last process that used a folder, and put it away; empty if it ended while its loop ran.

    Call it before the loop of this process runs.

    Raises:
        OSError: The folder cannot be read or written.
    """
    running = folder / RUNNING
    try:
        text = running.read_text(errors="replace")
    except FileNotFoundError:
        return ""
    if not text:
        return ""
    at = datetime.fromtimestamp(running.stat().st_mtime, UTC)
    running.rename(folder / f"{at:%Y-%m-%dT%H-%M-%S.%f}.txt")
    for old in sorted(each for each in folder.glob("*.txt") if each != running)[:-MOST_REPORTS]:
        with suppress(OSError):
            old.unlink()
    return text


def _read(descriptor: int) -> str:
    return os.pread(descriptor, _MOST_BYTES, 0).decode(errors="replace")


def _empty(descriptor: int) -> None:
    os.ftruncate(descriptor, 0)
    os.lseek(descriptor, 0, os.SEEK_SET)
