"""Starts servers, identifies them later by process id and start time, and stops them reliably."""

import contextlib
import ctypes
import fcntl
import json
import os
import random
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hack.node.namespaces import children_inside

STOP_SECONDS = 10.0
_PR_SET_PDEATHSIG = 1  # prctl(2)
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Process:
    """A server as recorded in the state file: its process id, and its start time to detect a reused id."""

    pid: int
    start_time: int
    """Clock ticks between the machine's boot and the process's start (field 22 of /proc/<pid>/stat)."""
    boot_id: str
    command: tuple[str, ...]
    log: str

    @property
    def alive(self) -> bool:
        """Whether this process runs; a zombie, or another process with its id, does not count."""
        return self.boot_id == boot_id() and start_time(self.pid) == self.start_time

    def send(self, signal_number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.alive:
            try:
                os.kill(self.pid, signal_number)
            except ProcessLookupError:
                return


class Spawner:
    """Starts processes from a thread that lives as long as they may run.

    The kernel sends the parent-death signal of prctl(2) when the *thread* that forked ends, so that servers started from
    a short-lived worker thread would end with it.
    """

    def __init__(self, *, die_with_us: bool) -> None:
        self._die_with_us = die_with_us
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="testbed-spawner")
        self._children: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, command: Sequence[str], log: Path, cwd: Path, inside: int = 0) -> Process:
        """Run a command in its own process group.

        Args:
            command: program and arguments.
            log: file to which its output is appended.
            cwd: its working directory.
            inside: id of a process in whose process id namespace it runs; 0: in this one's.
        """
        return self._thread.submit(self._start, command, log, cwd, inside).result()

    def reap(self, process: Process) -> int | None:
        """Return the exit code of a child that has ended, else None."""
        child = self._children.get(process.pid)
        if child is None:
            return None
        # The kernel shows that a process has ended moments before its exit code can be read.
        return child.poll() if process.alive else child.wait(STOP_SECONDS)

    def close(self) -> None:
        """End the thread, and with it the running processes if `die_with_us` is set."""
        self._thread.shutdown(wait=True)
        for child in self._children.values():
            if child.poll() is None and not self._die_with_us:
                # The process is detached: suppress Popen's warning that it still runs.
                child.returncode = 0

    def _start(self, command: Sequence[str], log: Path, cwd: Path, inside: int) -> Process:
        die_with_parent = _dying_with(os.getpid()) if self._die_with_us else None
        space = children_inside(inside) if inside else contextlib.nullcontext()
        with log.open("ab") as output, space:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - calls prctl only, takes no lock
            )
        self._children[child.pid] = child
        return Process(child.pid, start_time(child.pid) or 0, boot_id(), tuple(command), str(log))


def stop(processes: Iterable[Process], reap: Callable[[Process], object] | None = None) -> None:
    """Kill processes and wait until all have ended.

    They cannot clean up, which is not necessary because their data is discarded.

    Raises:
        TimeoutError: a process still exists ten seconds after SIGKILL.
    """
    left = list(processes)
    for process in left:
        process.send(signal.SIGKILL)
    wait_gone(left, STOP_SECONDS, reap)


def wait_gone(
    processes: Iterable[Process], timeout: float, reap: Callable[[Process], object] | None = None
) -> None:
    """Wait until all of the processes have ended.

    Raises:
        TimeoutError: some still run after `timeout` seconds.
    """
    everyone = left = list(processes)
    deadline = time.monotonic() + timeout
    while left:
        for process in left:
            if reap:
                reap(process)
        left = [process for process in left if process.alive]
        if left and time.monotonic() > deadline:
            raise TimeoutError(
                f"processes {[process.pid for process in left]} still run after {timeout:.0f} s"
            )
        if left:
            time.sleep(0.01)
    for process in everyone:
        if reap:
            reap(process)


def start_time(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None if it has ended (zombies included)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command in parentheses may itself contain spaces and parentheses; the fields after it do not.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" and not _other_threads(pid) else int(fields[19])


def resident_memory(pid: int) -> int:
    """Return the resident memory of a process in bytes; 0 if it does not exist."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def boot_id() -> str:
    """Return the id of the machine's current boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def free_ports(count: int, reserved: Collection[int] = ()) -> list[int]:
    """Return distinct free TCP ports of the loopback address, none of them in `reserved`.

    They are below the range that the kernel uses for outgoing connections, so that a restarted server finds its port
    free. A port that a running process of this user has got is not returned while there are others, because its user
    may not listen yet.
    """
    first_ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    candidates = list(range(20_000, max(first_ephemeral, 24_000)))
    random.shuffle(candidates)
    ports: list[int] = []
    with _claimed_ports() as claims:
        candidates.sort(key=lambda port: str(port) in claims)
        for port in candidates:
            if len(ports) == count:
                break
            if port in reserved or not _is_free(port):
                continue
            ports.append(port)
            claims[str(port)] = [os.getpid(), start_time(os.getpid()) or 0]
    return ports


@contextmanager
def _claimed_ports() -> Iterator[dict[str, list[int]]]:
    """Lock and open the record of ports: port -> process id and start time of the process that got it."""
    record = Path(tempfile.gettempdir()) / f"vcsync-ports-{os.getuid()}.json"
    with os.fdopen(os.open(record, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            claims: dict[str, list[int]] = json.loads(file.read())
        except ValueError:  # it is new, or its writer was killed
            claims = {}
        alive = {pid: start_time(pid) for pid, _ in claims.values()}
        claims = {port: [pid, begun] for port, (pid, begun) in claims.items() if alive[pid] == begun}
        yield claims
        file.seek(0)
        file.write(json.dumps(claims))
        file.truncate()


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _other_threads(pid: int) -> bool:
    # The first thread of a killed process may be a zombie while other threads still hold its ports.
    try:
        return len(list(Path(f"/proc/{pid}/task").iterdir())) > 1
    except FileNotFoundError:
        return False


def _dying_with(parent: int) -> Callable[[], None]:
    def prepare() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # The parent may have ended before prctl was called. In another process id namespace it has the id 0.
        if os.getppid() not in (parent, 0):
            os._exit(1)

    return prepare
