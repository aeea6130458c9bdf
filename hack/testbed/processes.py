"""Starting servers, finding them again by process id and start time, and ending them for certain."""

import ctypes
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

STOP_SECONDS = 10.0
_PR_SET_PDEATHSIG = 1  # prctl(2)
_libc = ctypes.CDLL(None, use_errno=True)
_given_ports: set[int] = set()  # by `free_ports`, to whoever may not listen yet


@dataclass(frozen=True)
class Process:
    """A server as the state file records it: its id together with what tells a recycled id apart."""

    pid: int
    start_time: int
    """Clock ticks between the machine's boot and the process's start (field 22 of /proc/<pid>/stat)."""
    boot_id: str
    command: tuple[str, ...]
    log: str

    @property
    def alive(self) -> bool:
        """Whether this very process runs; a zombie and another process with its id do not count."""
        return self.boot_id == boot_id() and start_time(self.pid) == self.start_time

    def send(self, signal_number: int) -> None:
        """Send a signal, unless the process is gone."""
        if self.alive:
            try:
                os.kill(self.pid, signal_number)
            except ProcessLookupError:
                return


class Spawner:
    """Starts processes from one thread that lives as long as they may.

    The parent-death signal of prctl(2) goes out when the *thread* that forked ends, so servers started from a
    short-lived worker thread would die with it.
    """

    def __init__(self, *, die_with_us: bool) -> None:
        self._die_with_us = die_with_us
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="testbed-spawner")
        self._children: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, command: Sequence[str], log: Path, cwd: Path) -> Process:
        """Run a command in a process group of its own with its output appended to `log`."""
        return self._thread.submit(self._start, command, log, cwd).result()

    def reap(self, process: Process) -> int | None:
        """The exit code of a child that has ended, else None."""
        child = self._children.get(process.pid)
        return child.poll() if child else None

    def close(self) -> None:
        """End the thread, and with it whatever still runs and was to die with us."""
        self._thread.shutdown(wait=True)
        for child in self._children.values():
            if child.poll() is None and not self._die_with_us:
                child.returncode = 0  # no longer ours: Popen need not warn that it runs on

    def _start(self, command: Sequence[str], log: Path, cwd: Path) -> Process:
        die_with_parent = _dying_with(os.getpid()) if self._die_with_us else None
        with log.open("ab") as output:
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
    """Kill processes and wait until none is left.

    What they store is thrown away, so they get no time to tidy up.

    Raises:
        TimeoutError: a process outlived SIGKILL by ten seconds.
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
        TimeoutError: some run on after `timeout` seconds.
    """
    everyone = left = list(processes)
    deadline = time.monotonic() + timeout
    while left:
        for process in left:
            if reap:
                reap(process)
        left = [process for process in left if process.alive]
        if left and time.monotonic() > deadline:
            raise TimeoutError(f"processes {[process.pid for process in left]} run on after {timeout:.0f} s")
        if left:
            time.sleep(0.01)
    for process in everyone:
        if reap:
            reap(process)


def start_time(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None when it is gone (a zombie is)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command in parentheses may itself hold spaces and parentheses; the fields after it don't.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" and not _other_threads(pid) else int(fields[19])


def resident_memory(pid: int) -> int:
    """Bytes of memory a process holds; 0 when there is none."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def boot_id() -> str:
    """Names the machine's current boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def free_ports(count: int, reserved: Collection[int] = ()) -> list[int]:
    """Distinct free TCP ports of the loopback address, none of them reserved.

    They lie below the range the kernel takes for outgoing connections, so that a server that is down for a
    moment finds its port again. None is given a second time while there are others: who was given a port may
    be yet to listen there.
    """
    first_ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    candidates = list(range(20_000, max(first_ephemeral, 24_000)))
    random.shuffle(candidates)
    candidates.sort(key=_given_ports.__contains__)
    ports: list[int] = []
    for port in candidates:
        if len(ports) == count:
            break
        if port in reserved:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            ports.append(port)
    _given_ports.update(ports)
    return ports


def _other_threads(pid: int) -> bool:
    # The first thread of a process that is being killed may be a zombie while others still hold its ports.
    try:
        return len(list(Path(f"/proc/{pid}/task").iterdir())) > 1
    except FileNotFoundError:
        return False


def _dying_with(parent: int) -> Callable[[], None]:
    def prepare() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the call above
            os._exit(1)

    return prepare
