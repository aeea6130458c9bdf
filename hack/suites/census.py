"""Counts the kube-apiservers that a run of tests has at the same time."""

import contextlib
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

RUN = "VCSYNC_RUN"
"""Environment variable that marks the processes of a run; processes that these start inherit it."""
MOST = 6
"""kube-apiservers that a run may have at the same time, unless its suite says more, so that two processors are enough."""
SECONDS = 1.0
PROGRAM = "kube-apiserver"
TOLD = ("PYTEST_XDIST_WORKER", "PYTEST_CURRENT_TEST")
"""Environment variables that name the worker and the test which started a process."""


class Census:
    """The largest number of kube-apiservers so far that belong to one run."""

    def __init__(self, run: str) -> None:
        self.run = run
        self._ended = threading.Event()
        self.most = 0
        self.peak: tuple[str, ...] = ()
        """Cluster, etcd, worker and test of each of them at that moment."""

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
        """Return the cluster of a kube-apiserver of the run and what started it; empty for other processes."""
        try:
            program, *arguments = (process / "cmdline").read_bytes().decode().split("\0")
            if program.rpartition("/")[2] != PROGRAM:
                return ""
            variables = (process / "environ").read_bytes()
        except OSError:
            return ""
        return described(arguments, variables, f"{RUN}={self.run}")


def described(arguments: Sequence[str], variables: bytes, mark: str) -> str:
    """Return the cluster of a kube-apiserver and what started it; empty if its environment lacks the mark of the run."""
    environment = variables.decode(errors="replace").split("\0")
    if mark not in environment:
        return ""
    clusters = sorted(each for each in arguments if each.startswith("--etcd-"))
    started = [each for name in TOLD for each in environment if each.startswith(f"{name}=")]
    return " ".join([*clusters, *started])
