"""Judges one room: copies the checkout, lets mutmut make mutants, and runs a seeded sample of them."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from hack import checkout
from hack.mutants.rooms import DESELECTED, Room

# mutmut's results for a mutant that the tests detect. A mutant that never ends counts as detected.
KILLED = ("killed", "timeout", "segfault")

# Time limit of one test, with a margin for a busy machine.
TEST_SECONDS = 120

# mutmut makes all mutants and records which test runs which function before it looks up the names passed to it.
NOTHING = "no.such.mutant"
FOUND_NOTHING = "nothing matches"


class MutationError(Exception):
    """A room could not be judged; the text says why."""


@dataclass(frozen=True)
class Survivor:
    """A fault that no test detects.

    Attributes:
        name: of the mutant, for `mutmut show`.
        status: `survived`, or `no tests` if no test runs the function.
        diff: the fault, as a unified diff.
    """

    name: str
    status: str
    diff: str


@dataclass(frozen=True)
class Verdict:
    """The result of a room's sample.

    Attributes:
        made: number of the room's mutants.
        tried: number of mutants in the sample.
        survivors: mutants that no test detects.
    """

    made: int
    tried: int
    survivors: tuple[Survivor, ...]

    @property
    def killed(self) -> int:
        """Number of mutants that the tests detect."""
        return self.tried - len(self.survivors)


def configuration(room: Room) -> str:
    """Return the section of pyproject.toml that configures mutmut for the room."""
    settings = {
        "source_paths": ["vcsync"],
        "only_mutate": list(room.modules),
        "pytest_add_cli_args": [
            "-p",
            "no:cacheprovider",
            "-p",
            "hack.mutants.plugin",
            # A test that hangs ends the process, and the mutant counts as detected. Raising an exception instead is
            # not enough: hypothesis treats it as a failure and runs the hanging example again, without a timer.
            f"--timeout={TEST_SECONDS}",
            "--timeout-method=thread",
            *(f"--deselect={each}" for each in DESELECTED),
        ],
        "pytest_add_cli_args_test_selection": list(room.tests),
        "also_copy": ["tests", "hack", "config", "docs"],
        # mutmut measures wall-clock time, so that on a busy machine a slow run would count as detected. The limit of
        # each test ends a run that hangs; this limit is for runs that the other one cannot end.
        "timeout_constant": 600.0,
        "timeout_multiplier": 2.0,
        "use_git_change_detection": False,
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    return "\n".join(["[tool.mutmut]", *lines, ""])


def sample(names: Iterable[str], size: int, seed: int) -> list[str]:
    """Choose mutants; deterministic for the same names, size and seed."""
    ordered = sorted(names)
    return sorted(random.Random(seed).sample(ordered, min(size, len(ordered))))  # noqa: S311


def judge(room: Room, folder: Path, size: int, seed: int, progress: Callable[[str], None]) -> Verdict:
    """Try a sample of a room's mutants.

    Args:
        room: the room to judge.
        folder: for the copy of the checkout; files of an earlier run are reused.
        size: number of mutants to try.
        seed: of the sample.
        progress: called with each line of progress.

    Raises:
        MutationError: The room's tests fail without a fault, or mutmut fails.
    """
    checkout.copy(folder, {"pyproject.toml": "\n" + configuration(room)})
    progress("making mutants, and recording which tests run which function")
    made = _mutmut(folder, "run", NOTHING)
    if FOUND_NOTHING not in made.stdout:
        raise MutationError(made.stdout[-4000:])
    names = _statuses(folder)
    chosen = sample(names, size, seed)
    progress(f"trying {len(chosen)} of {len(names)} mutants")
    tried = _mutmut(folder, "run", *chosen)
    statuses = _statuses(folder)
    unknown = [name for name in chosen if statuses.get(name, "not checked") in {"not checked", "suspicious"}]
    if tried.returncode != 0 or unknown:
        raise MutationError(f"{len(unknown)} mutants without a verdict\n{tried.stdout[-4000:]}")
    survivors = [
        Survivor(name, statuses[name], _mutmut(folder, "show", name).stdout.strip())
        for name in chosen
        if statuses[name] not in KILLED
    ]
    return Verdict(len(names), len(chosen), tuple(survivors))


def _mutmut(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mutmut", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def _statuses(folder: Path) -> dict[str, str]:
    results = _mutmut(folder, "results", "--all", "true")
    if results.returncode != 0:
        raise MutationError(results.stdout[-4000:])
    pairs = (line.strip().rpartition(": ") for line in results.stdout.splitlines())
    return {name: status for name, separator, status in pairs if separator}
