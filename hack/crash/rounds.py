"""Rounds of writing, SIGKILL at a random moment, and checking, all on one database."""

import random
import selectors
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from hack.crash.check import current, problems
from vcsync.apiserver.storage.sqlite import DATABASE

START_SECONDS = 60


@dataclass
class Tally:
    """The result of all rounds."""

    rounds: int = 0
    acknowledged: int = 0
    problems: list[str] = field(default_factory=list)


def run(
    folder: Path, count: int, longest: float, seed: int, progress: Callable[[Tally], None] = lambda _: None
) -> Tally:
    """Run rounds until one finds a problem.

    Args:
        folder: an empty folder for the database.
        count: number of rounds.
        longest: maximum seconds between a writer's first write and its end.
        seed: of the random moments.
        progress: called after every round.
    """
    moments = random.Random(seed)  # noqa: S311  not a secret
    tally = Tally()
    last: dict[int, tuple[int, int]] = {}
    revision = 0
    for number in range(1, count + 1):
        lines = _written(folder, moments.uniform(0, longest))
        for line in lines:
            task, transaction, at = map(int, line.split())
            last[task] = transaction, at
        tally.rounds, tally.acknowledged = number, tally.acknowledged + len(lines)
        tally.problems += [f"round {number}: {one}" for one in problems(folder / DATABASE, last, revision)]
        if tally.problems:
            break
        revision, last = current(folder / DATABASE)
        progress(tally)
    return tally


def _written(folder: Path, seconds: float) -> list[bytes]:
    """Let a writer write for some time, kill it, and return everything that it reported as written."""
    command = [sys.executable, "-m", "hack.crash.writer", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0) as writer:
        assert writer.stdout  # noqa: S101  asked for above
        said = b""
        deadline = time.monotonic() + START_SECONDS
        killed = False
        with selectors.DefaultSelector() as selector:
            selector.register(writer.stdout, selectors.EVENT_READ)
            while not killed:
                if selector.select(max(0, deadline - time.monotonic())):
                    if not (chunk := writer.stdout.read(1 << 16)):
                        raise AssertionError(f"the writer ended by itself with {writer.wait()}")
                    if not said:
                        deadline = time.monotonic() + seconds
                    said += chunk
                if time.monotonic() >= deadline:
                    writer.kill()
                    killed = True
        said += writer.stdout.read()
    lines = said.split(b"\n")
    if lines[0] != b"ready":
        raise AssertionError("the writer did not start")
    return lines[1:-1]
