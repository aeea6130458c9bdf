"""`python -m hack.suites.check`: runs the unit tests of what changed since the last commit that passed the gate."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import PurePosixPath

from hack.checkout import ROOT
from hack.suites.gate import green
from hack.suites.snapshot import git

UNIT = PurePosixPath("tests/unit")
EVERYTHING = frozenset({"pyproject.toml", "requirements-dev.lock", "tests/unit/conftest.py"})
"""Files whose change concerns all tests."""


def main() -> int:
    """Run the tests and return the exit code of pytest."""
    since = green() or git(ROOT, "rev-parse", "HEAD")
    changed = git(ROOT, "diff", "--name-only", since).splitlines()
    changed += git(ROOT, "ls-files", "--others", "--exclude-standard").splitlines()
    existing = {path.relative_to(ROOT).as_posix() for path in (ROOT / UNIT).rglob("*")}
    chosen = tests_of(changed, existing)
    if not chosen:
        print(f"check: nothing with unit tests has changed since {since[:12]}")
        return 0
    print(f"check: changed since {since[:12]}: {' '.join(chosen)}", flush=True)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "auto", "--dist", "loadfile", *chosen]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def tests_of(changed: Iterable[str], existing: set[str]) -> list[str]:
    """Return the folders and files of unit tests that belong to changed files, without those within others.

    tests/unit mirrors vcsync/ and hack/: a module's tests are in the deepest folder that mirrors its own.

    Args:
        changed: Paths of changed files, relative to the checkout.
        existing: Paths of all files and folders below tests/unit.
    """
    chosen: set[PurePosixPath] = set()
    for name in changed:
        path = PurePosixPath(name)
        if name in EVERYTHING:
            return [str(UNIT)]
        if path.parts[:2] == UNIT.parts:
            if path.name.startswith("test_") and name in existing:
                chosen.add(path)
            elif str(path.parent) in existing:
                chosen.add(path.parent)
        elif path.parts[0] == "vcsync" or path.parts[0] == "hack":
            mirrored = path.parts[1:-1] if path.parts[0] == "vcsync" else ("hack",)
            while mirrored and str(UNIT.joinpath(*mirrored)) not in existing:
                mirrored = mirrored[:-1]
            if mirrored:
                chosen.add(UNIT.joinpath(*mirrored))
    return sorted(str(path) for path in chosen if not chosen.intersection(path.parents))


if __name__ == "__main__":
    sys.exit(main())
