"""Writes audit events to their files: a bounded queue, and a thread that empties it. Requests do not wait for it."""

import itertools
import threading
from collections import deque
from collections.abc import Callable
from functools import partial

import structlog

from vcsync.apiserver.audit.events import Moment, line
from vcsync.apiserver.audit.files import Files

MAX_EVENTS = 20_000
MAX_BYTES = 64 * 2**20
"""Bytes of the queue. Events that arrive when it is full are dropped and counted."""
GATHER_SECONDS = 0.05
"""Time for which the thread collects events before it writes them."""
SWEEP_SECONDS = 3600.0
STOP_SECONDS = 10.0
REPORT_SECONDS = 10.0
"""Interval at which the program's log reports dropped events."""
_log = structlog.get_logger(__name__)


class Writer:
    """Takes events from the event loop and writes them in a thread.

    Args:
        files: The files.
        largest: Bytes of the largest event.
        clock: Returns monotonic seconds.

    Attributes:
        written: Number of events written.
        dropped: Number of events lost because the queue was full or a file could not be written.
    """

    def __init__(self, files: Files, largest: int, clock: Callable[[], float]) -> None:
        self._files = files
        self._largest = largest
        self._clock = clock
        self._queue: deque[Moment] = deque()
        self._wake = threading.Event()
        self._end = threading.Event()
        self._put_bytes = 0
        # Only the thread changes this counter, and only the event loop changes the other one.
        self._done_bytes = 0
        self._overflown = 0
        self._failed = 0
        self._reported_at = float("-inf")
        self._reported = 0
        self.written = 0
        self._thread = threading.Thread(target=self._run, name="audit-log", daemon=True)

    @property
    def dropped(self) -> int:
        """Number of lost events."""
        return self._overflown + self._failed

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Write queued events and end the thread. Blocks for a few seconds at most."""
        self._end.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)

    def put(self, moment: Moment) -> None:
        """Queue an event. Never blocks."""
        waiting = self._put_bytes - self._done_bytes
        if len(self._queue) >= MAX_EVENTS or waiting + moment.cost > MAX_BYTES:
            self._overflown += 1
            self._report()
            return
        self._put_bytes += moment.cost
        self._queue.append(moment)
        if not self._wake.is_set():
            self._wake.set()

    def _run(self) -> None:
        swept = self._clock()
        while True:
            ended = self._end.is_set()
            if not ended:
                self._wake.wait(SWEEP_SECONDS)
                self._end.wait(GATHER_SECONDS)
            self._wake.clear()
            self._drain()
            if self._clock() - swept > SWEEP_SECONDS:
                swept = self._clock()
                self._guarded(self._files.sweep, 0)
            if ended and not self._queue:
                return

    def _drain(self) -> None:
        logs: dict[str, list[bytes]] = {}
        for _ in itertools.repeat(None, len(self._queue)):
            moment = self._queue.popleft()
            self._done_bytes += moment.cost
            try:
                text = line(moment, self._largest)
            except Exception:  # noqa: BLE001 - one event that cannot be encoded must not end the log
                self._failed += 1
                _log.exception("audit event cannot be written", audit_id=moment.trail.begun.audit_id)
                continue
            logs.setdefault(moment.trail.begun.log, []).append(text)
        for name, lines in logs.items():
            if self._guarded(partial(self._files.append, name, lines), len(lines)):
                self.written += len(lines)

    def _guarded(self, work: Callable[[], None], events: int) -> bool:
        try:
            work()
        except OSError as error:
            self._failed += events
            _log.error("audit log cannot be written", error=str(error))
            return False
        return True

    def _report(self) -> None:
        """Log that events are dropped, at most once in `REPORT_SECONDS`."""
        if self._clock() - self._reported_at > REPORT_SECONDS:
            self._reported_at = self._clock()
            since_last = self.dropped - self._reported
            _log.warning("audit events dropped", dropped=self.dropped, since_last=since_last)
            self._reported = self.dropped
