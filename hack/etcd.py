"""A real etcd as a process of its own, for tests and measurements: start, stop, start again with its data."""

import time
import urllib.request
from pathlib import Path
from typing import Self

from hack.testbed import ensure, servers
from hack.testbed.processes import Process, Spawner, free_ports, stop

READY_SECONDS = 30


class EtcdError(Exception):
    """It did not start; the text holds what it printed."""


class Etcd:
    """An etcd on free ports of this machine, with its data in a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.port, peer_port = free_ports(2)
        self.url = f"http://127.0.0.1:{self.port}"
        binary = ensure(["etcd"])["etcd"]
        self._command = [
            str(binary),
            *servers.etcd(folder / "data", self.url, f"http://127.0.0.1:{peer_port}"),
        ]
        self._spawner = Spawner(die_with_us=True)
        self._process: Process | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Its process id; raises `EtcdError` when it does not run."""
        if self._process is None:
            raise EtcdError("etcd does not run")
        return self._process.pid

    def start(self, *more: str) -> None:
        """Start it with further options and wait until it is ready.

        Raises:
            EtcdError: it is not.
        """
        log = self.folder / "etcd.log"
        self._process = self._spawner.start([*self._command, *more], log, self.folder)
        deadline = time.monotonic() + READY_SECONDS
        while not self._ready():
            if not self._process.alive or time.monotonic() > deadline:
                raise EtcdError(log.read_text()[-2000:])
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop it; its data stay."""
        if self._process is not None:
            stop([self._process], self._spawner.reap)
            self._process = None

    def close(self) -> None:
        """Stop it for good."""
        self.stop()
        self._spawner.close()

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=1):  # noqa: S310 - it is http
                return True
        except OSError:
            return False
