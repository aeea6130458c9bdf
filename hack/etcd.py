"""A real etcd as a separate process, for tests and measurements: start, stop, restart with its data."""

import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

from hack.testbed import ensure, servers
from hack.testbed.processes import Process, Spawner, free_ports, stop

READY_SECONDS = 120
"""Time limit of the start, for a busy machine."""


class EtcdError(Exception):
    """etcd did not start; the text contains its output."""


class Etcd:
    """An etcd on free ports of this machine, with its data in a folder.

    Args:
        folder: for its data and log.
        peer_url: at which other members reach it; empty: a free port.
        members: name -> peer URL of all members; None: it is the only one.
    """

    def __init__(self, folder: Path, peer_url: str = "", members: Mapping[str, str] | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.port, peer_port = free_ports(2)
        self.url = f"http://127.0.0.1:{self.port}"
        binary = ensure(["etcd"])["etcd"]
        own = peer_url or f"http://127.0.0.1:{peer_port}"
        self._command = [str(binary), *servers.etcd(folder / "data", self.url, own, members)]
        self._spawner = Spawner(die_with_us=True)
        self._process: Process | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Return its process id.

        Raises:
            EtcdError: it does not run.
        """
        if self._process is None:
            raise EtcdError("etcd does not run")
        return self._process.pid

    def start(self, *more: str) -> None:
        """Start it with further options and wait until it is ready.

        Raises:
            EtcdError: it did not become ready.
        """
        self.launch(*more)
        self.wait_ready()

    def launch(self, *more: str) -> None:
        """Start it with further options, without waiting: members are ready only when most of them run."""
        self._process = self._spawner.start([*self._command, *more], self._log, self.folder)

    def wait_ready(self) -> None:
        """Wait until it is ready.

        Raises:
            EtcdError: it did not become ready.
        """
        deadline = time.monotonic() + READY_SECONDS
        while not self._ready():
            if self._process is None or not self._process.alive or time.monotonic() > deadline:
                raise EtcdError(self._log.read_text()[-2000:])
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop it and keep its data."""
        if self._process is not None:
            stop([self._process], self._spawner.reap)
            self._process = None

    def close(self) -> None:
        """Stop it permanently."""
        self.stop()
        self._spawner.close()

    @property
    def _log(self) -> Path:
        return self.folder / "etcd.log"

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=1):  # noqa: S310 - it is http
                return True
        except OSError:
            return False


@contextmanager
def members(folder: Path, count: int = 3) -> Iterator[list[Etcd]]:
    """Run an etcd cluster of several members, each in its own process."""
    peers = {f"member-{number}": f"http://127.0.0.1:{port}" for number, port in enumerate(free_ports(count))}
    with ExitStack() as stack:
        running = [Etcd(folder / name, url, peers) for name, url in peers.items()]
        for each in running:
            stack.callback(each.close)
            each.launch()
        for each in running:
            each.wait_ready()
        yield running
