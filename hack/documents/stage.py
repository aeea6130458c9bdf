"""One document on its own machine: its network, its /var/lib/vcsync, and the reader's clusters."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from hack import checkout
from hack.documents.blocks import Block, blocks, files
from hack.documents.plays import SERVES, Play, earlier, play_of, typed
from hack.documents.shell import CommandFailed, Shell
from hack.testbed import TestBed
from hack.testbed.binaries import ensure, locate, source_of

COMMAND_SECONDS = 180.0
READY_SECONDS = 90.0
STOP_SECONDS = 30.0

# Folders that documents name and that the namespace must replace by its own.
_TAKEN = ("/var/lib", "/var/log")


def apart(document: str) -> int:
    """Execute a document in its own namespaces, in which it is root; returns the exit code."""
    done = subprocess.run(
        [
            "unshare",
            "--map-root-user",
            "--net",
            "--mount",
            sys.executable,
            "-m",
            "hack.documents",
            "--here",
            document,
        ],
        cwd=checkout.ROOT,
        check=False,
    )
    return done.returncode


def play(document: str, report: Callable[[str], None]) -> None:
    """Execute a document's commands from top to bottom, within the namespaces that `apart` creates.

    Raises:
        CommandFailed: A command failed or did not become ready.
    """
    _take_possession()
    surroundings = play_of(document)
    with tempfile.TemporaryDirectory(prefix="vcsync-documents-") as temporary:
        folder = Path(temporary) / "vcsync"
        folder.mkdir()
        checkout.copy(folder)
        (folder / ".venv").symlink_to(checkout.ROOT / ".venv")
        with (
            _clusters(surroundings, Path(temporary) / "bed", folder),
            _shell(folder, Path(temporary), surroundings) as shell,
        ):
            for borrowed, lender in surroundings.borrowed.items():
                (folder / borrowed).write_text(files((checkout.ROOT / lender).read_text())[borrowed])
            for program in surroundings.sources:
                (folder / program).symlink_to(source_of(program))
            for block in blocks((checkout.ROOT / document).read_text()):
                if name := block.file:
                    (folder / name).write_text(block.text)
                if block.language == "console":
                    _type_all(f"{document}:{block.line}", block, surroundings, shell, report)


def _type_all(where: str, block: Block, play: Play, shell: Shell, report: Callable[[str], None]) -> None:
    for command in block.commands():
        for line in (*earlier(command, play), typed(command, play)):
            report(f"{where}: {line}")
            try:
                _type(line, shell)
            except CommandFailed as error:
                raise CommandFailed(f"{where}: {error}") from error


def _type(line: str, shell: Shell) -> None:
    if line.endswith("&"):
        shell.start(line.removesuffix("&").strip(), READY_SECONDS)
    elif SERVES.match(line):
        shell.interrupt(shell.start(line, READY_SECONDS), line, STOP_SECONDS)
    else:
        shell.run(line, COMMAND_SECONDS)


def _take_possession() -> None:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for place in _TAKEN:
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], check=True)


@contextlib.contextmanager
def _clusters(play: Play, directory: Path, folder: Path) -> Iterator[None]:
    """Start the reader's clusters, each a real API server, and put their kubeconfigs into the folder."""
    if not play.clusters:
        yield
        return
    tenants = [name for name in play.clusters if name == "acme"]
    with TestBed(supers=0, tenants=tenants, directory=directory) as bed:
        for name in play.clusters:
            if name not in bed.clusters:
                bed.add_super(name)
            shutil.copy(bed.clusters[name].kubeconfig, folder / f"{name}.kubeconfig")
        yield


def _shell(folder: Path, directory: Path, play: Play) -> Shell:
    found = (locate("kubectl"), *ensure(play.programs).values())
    programs = ":".join(
        str(each) for each in (checkout.ROOT / ".venv" / "bin", *(path.parent for path in found))
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("VCSYNC_", "KUBE"))}
    home = directory / "home"
    home.mkdir()
    return Shell(
        folder, directory / "log", {**kept, "PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(home)}
    )
