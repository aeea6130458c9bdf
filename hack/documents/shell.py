"""One shell for commands, with the programs that it runs in the background."""

from __future__ import annotations

import contextlib
import os
import signal
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Self

_LISTENS = "0A"
_POLL_SECONDS = 0.2


class CommandFailed(Exception):
    """A command failed; the text contains the command and its output."""


class Shell:
    """A bash in its own folder. Its end stops all processes that it has started.

    Args:
        folder: its initial working directory.
        log: file for the output of commands.
        environment: of the shell.
        prefix: command that runs the shell, for instance in other namespaces.
    """

    def __init__(
        self, folder: Path, log: Path, environment: Mapping[str, str], prefix: Sequence[str] = ()
    ) -> None:
        self._log = log
        self._groups: list[int] = []
        self._output = log.open("wb")
        self._bash = subprocess.Popen(
            [*prefix, "bash", "--norc"],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._output,
            text=True,
            start_new_session=True,
        )
        # Job control gives each background program a process group and the signals of a terminal.
        self.run("set -m", 10)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for group in self._groups:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGTERM)
        deadline = time.monotonic() + 10
        while any(_members(group) for group in self._groups) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        for group in self._groups:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        self._bash.kill()
        self._bash.wait()
        for stream in (self._bash.stdin, self._bash.stdout):
            if stream is not None:
                stream.close()
        self._output.close()

    def run(self, command: str, seconds: float) -> None:
        """Execute a command and wait until it has succeeded.

        Raises:
            CommandFailed: It ended with another exit code than 0, or not within the seconds.
        """
        begun = self._log.stat().st_size
        code = self._ask(f"{{ {command}\n}} 1>&2; echo $?", seconds, command)
        if code != "0":
            raise CommandFailed(f"exit code {code}: {command}\n{self._printed(begun)}")

    def start(self, command: str, seconds: float) -> int:
        """Start a server command, and wait until it reports to be ready; returns its process group.

        Raises:
            CommandFailed: It ended, or was not ready within the seconds.
        """
        begun = self._log.stat().st_size
        group = int(self._ask(f"{{ {command}\n}} 1>&2 & echo $!", 10, command))
        self._groups.append(group)
        deadline = time.monotonic() + seconds
        while not any(_ready(port) for port in _ports(group)):
            if not _members(group):
                raise CommandFailed(f"ended: {command}\n{self._printed(begun)}")
            if time.monotonic() > deadline:
                raise CommandFailed(f"not ready within {seconds:g} s: {command}\n{self._printed(begun)}")
            time.sleep(_POLL_SECONDS)
        return group

    def interrupt(self, group: int, command: str, seconds: float) -> None:
        """Press Ctrl-C for a program that `start` has started.

        Raises:
            CommandFailed: It did not end within the seconds.
        """
        os.killpg(group, signal.SIGINT)
        deadline = time.monotonic() + seconds
        while _members(group):
            if time.monotonic() > deadline:
                raise CommandFailed(f"Ctrl-C did not end it within {seconds:g} s: {command}")
            time.sleep(_POLL_SECONDS)
        self._groups.remove(group)

    def _ask(self, line: str, seconds: float, command: str) -> str:
        stdin, stdout = self._bash.stdin, self._bash.stdout
        if stdin is None or stdout is None:
            raise CommandFailed("the shell has ended")
        late = threading.Event()

        def end() -> None:
            late.set()
            os.killpg(self._bash.pid, signal.SIGKILL)

        timer = threading.Timer(seconds, end)
        timer.start()
        try:
            stdin.write(f"{line}\n")
            stdin.flush()
            answer = stdout.readline().strip()
        finally:
            timer.cancel()
        if late.is_set():
            raise CommandFailed(f"did not end within {seconds:g} s: {command}\n{self._printed(0)}")
        return answer

    def _printed(self, begun: int) -> str:
        return self._log.read_bytes()[begun:].decode(errors="replace")[-3000:]


def _members(group: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[2]) == group and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def _ports(group: int) -> set[int]:
    """Return the TCP ports on which a process group listens."""
    sockets = set()
    for pid in _members(group):
        with contextlib.suppress(OSError):
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    sockets.add(str(descriptor.readlink()))
    ports = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENS and f"socket:[{fields[9]}]" in sockets:
                ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports


def _ready(port: int) -> bool:
    # The request only checks readiness.
    unchecked = ssl.create_default_context()
    unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
    # Kubernetes' controllers have no /readyz. For servers that have one, /healthz is not sufficient.
    for scheme, path in (("http", "readyz"), ("https", "readyz"), ("https", "healthz")):
        address = f"{scheme}://127.0.0.1:{port}/{path}"
        try:
            with urllib.request.urlopen(address, timeout=2, context=unchecked) as answer:  # noqa: S310
                return bool(answer.status == 200)
        except urllib.error.HTTPError as error:
            # An HTTPS server answers HTTP with 400, and an unknown path with 404.
            if error.code >= HTTPStatus.INTERNAL_SERVER_ERROR:
                return False
        except OSError:
            continue
    return False
