"""Counts the kube-apiservers that a run of tests has at the same time."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

RUN = "VCSYNC_RUN"
"""Environment variable that marks the processes of a run; processes that these start inherit it."""
MOST = 6
"""kube-apiservers that a run may have at the same time, so that two processors are enough for them."""
SECONDS = 1.0
PROGRAM = "kube-apiserver"


class Census:
    """The largest number of kube-apiservers so far that belong to one run."""

    def __init__(self, run: str) -> None:
        self.run = run
        self._mark = f"{RUN}={run}".encode()
        self._ended = threading.Event()
        self.most = 0

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        """Count once a second until the block ends."""
        thread = threading.Thread(target=self._count, name="census")
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def _count(self) -> None:
        while not self._ended.wait(SECONDS):
            self.most = max(self.most, sum(map(self._belongs, Path("/proc").glob("[0-9]*"))))

    def _belongs(self, process: Path) -> bool:
        try:
            program = (process / "cmdline").read_bytes().partition(b"\0")[0]
            if program.rpartition(b"/")[2] != PROGRAM.encode():
                return False
            return self._mark in (process / "environ").read_bytes().split(b"\0")
        except OSError:
            return False
