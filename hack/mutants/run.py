"""One room: a copy of the checkout, mutants made by mutmut, a seeded sample of them run."""

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
from hack.mutants.rooms import Room

# What mutmut says of a mutant that the tests noticed. A mutant that never ends was noticed, too.
KILLED = ("killed", "timeout", "segfault")

# mutmut makes all mutants and learns which test runs which function before it looks at the names it is given.
NOTHING = "no.such.mutant"
FOUND_NOTHING = "nothing matches"


class MutationError(Exception):
    """A room could not be judged; the text says why."""


@dataclass(frozen=True)
class Survivor:
    """A fault that no test noticed.

    Attributes:
        name: mutmut's, which `mutmut show` takes.
        status: `survived`, or `no tests` where no test runs the function at all.
        diff: the fault, as a unified diff.
    """

    name: str
    status: str
    diff: str


@dataclass(frozen=True)
class Verdict:
    """What became of a room's sample.

    Attributes:
        made: how many mutants the room has in all.
        tried: how many were tried.
        survivors: those that no test noticed.
    """

    made: int
    tried: int
    survivors: tuple[Survivor, ...]

    @property
    def killed(self) -> int:
        """How many were noticed."""
        return self.tried - len(self.survivors)


def configuration(room: Room) -> str:
    """Return the section of pyproject.toml by which mutmut knows the room."""
    settings = {
        "source_paths": ["vcsync"],
        "only_mutate": list(room.modules),
        "pytest_add_cli_args": ["-p", "no:cacheprovider"],
        "pytest_add_cli_args_test_selection": list(room.tests),
        "also_copy": ["tests", "hack", "config", "docs"],
        # Tests that take milliseconds would be given up too early on a busy machine.
        "timeout_constant": 20.0,
        "use_git_change_detection": False,
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    return "\n".join(["[tool.mutmut]", *lines, ""])


def sample(names: Iterable[str], size: int, seed: int) -> list[str]:
    """Choose mutants: the same ones for the same names, size and seed."""
    ordered = sorted(names)
    return sorted(random.Random(seed).sample(ordered, min(size, len(ordered))))  # noqa: S311


def judge(room: Room, folder: Path, size: int, seed: int, told: Callable[[str], None]) -> Verdict:
    """Try a sample of a room's mutants.

    Args:
        room: what is judged.
        folder: for the copy of the checkout; what an earlier run left there is used again.
        size: how many mutants are tried.
        seed: of the sample.
        told: is told of progress, a line at a time.

    Raises:
        MutationError: The room's tests fail without any fault, or mutmut does.
    """
    checkout.copy(folder, {"pyproject.toml": "\n" + configuration(room)})
    told("making mutants, and learning which tests run which function")
    made = _mutmut(folder, "run", NOTHING)
    if FOUND_NOTHING not in made.stdout:
        raise MutationError(made.stdout[-4000:])
    names = _statuses(folder)
    chosen = sample(names, size, seed)
    told(f"trying {len(chosen)} of {len(names)} mutants")
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
    shown = _mutmut(folder, "results", "--all", "true")
    if shown.returncode != 0:
        raise MutationError(shown.stdout[-4000:])
    pairs = (line.strip().rpartition(": ") for line in shown.stdout.splitlines())
    return {name: status for name, separator, status in pairs if separator}
