"""Reads and writes many bytes of a Pod with kubectl, and measures time and CPU."""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hack.bench_plane.load import Flow, cpu_seconds
from hack.testbed import ensure
from hack.testbed.processes import resident_memory

POD = "bench"
PORT = 8080
PIECE = 1 << 20
SAMPLE_SECONDS = 0.2
READY_SECONDS = 120.0


@dataclass(frozen=True)
class Way:
    """A way to the Pod: kubectl's kubeconfig and namespace, and the servers between it and the kubelet."""

    name: str
    kubeconfig: Path
    namespace: str
    pids: Sequence[int]

    def command(self, *arguments: str) -> list[str]:
        """Return the command line of kubectl."""
        kubectl = str(ensure(["kubectl"])["kubectl"])
        return [kubectl, f"--kubeconfig={self.kubeconfig}", f"--namespace={self.namespace}", *arguments]

    def run(self, *arguments: str) -> str:
        """Run kubectl, and return its output, which is empty if it failed."""
        done = subprocess.run(self.command(*arguments), capture_output=True, text=True, check=False)
        return done.stdout


def measured(way: Way, flow: Callable[[Way], int]) -> Flow:
    """Measure one flow, which returns its bytes."""
    before, began = cpu_seconds(way.pids), time.monotonic()
    size = flow(way)
    return Flow(size, time.monotonic() - began, cpu_seconds(way.pids) - before)


def log(way: Way) -> int:
    """Read the whole log."""
    return _received(way.command("logs", POD))


def received(megabytes: int) -> Callable[[Way], int]:
    """Return the flow of a command's output."""
    return lambda way: _received(
        way.command("exec", POD, "--", "head", "-c", str(megabytes * 1_000_000), "/dev/zero")
    )


def sent(megabytes: int) -> Callable[[Way], int]:
    """Return the flow of a command's input."""

    def flow(way: Way) -> int:
        command = way.command("exec", "-i", POD, "--", "wc", "-c")
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin is not None  # noqa: S101 - it is a pipe
            assert process.stdout is not None  # noqa: S101 - it is a pipe
            piece = bytes(1_000_000)
            for _ in range(megabytes):
                process.stdin.write(piece)
            process.stdin.close()
            return int(process.stdout.read())

    return flow


def forwarded(way: Way) -> int:
    """Download the file that the Pod serves, through a forwarded port."""
    command = way.command("port-forward", f"pod/{POD}", f":{PORT}", "--address=127.0.0.1")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            port = int(line.partition("127.0.0.1:")[2].split()[0])
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(b"GET /file HTTP/1.0\r\n\r\n")
                size = 0
                while piece := connection.recv(PIECE):
                    size += len(piece)
            return size
        finally:
            process.terminate()


def latency(way: Way, times: int) -> float:
    """Return the median time of a short command, in milliseconds."""
    command = way.command("exec", POD, "--", "true")
    found = []
    for _ in range(times):
        began = time.monotonic()
        subprocess.run(command, check=True, capture_output=True)
        found.append(time.monotonic() - began)
    return statistics.median(found) * 1000


@contextmanager
def peak_memory(pid: int) -> Iterator[list[int]]:
    """Yield a list whose only element becomes the most bytes by which a process has grown, until the block ends."""
    before, ended, found = resident_memory(pid), threading.Event(), [0]

    def watch() -> None:
        while not ended.wait(SAMPLE_SECONDS):
            found[0] = max(found[0], resident_memory(pid) - before)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()


def _received(command: Sequence[str]) -> int:
    size = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        while piece := os.read(process.stdout.fileno(), PIECE):
            size += len(piece)
    return size
