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
        self.peak: tuple[str, ...] = ()
        """Prefix and etcd of each of them at that moment, which tell the cluster and the test bed."""

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
            found = tuple(filter(None, map(self._cluster, Path("/proc").glob("[0-9]*"))))
            if len(found) > self.most:
                self.most, self.peak = len(found), found

    def _cluster(self, process: Path) -> str:
        """Return the cluster of a kube-apiserver of the run; empty for other processes."""
        try:
            program, *arguments = (process / "cmdline").read_bytes().decode().split("\0")
            if program.rpartition("/")[2] != PROGRAM:
                return ""
            if self._mark not in (process / "environ").read_bytes().split(b"\0"):
                return ""
        except OSError:
            return ""
        return " ".join(sorted(each for each in arguments if each.startswith("--etcd-")))
