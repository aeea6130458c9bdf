"""`python -m hack.suites.gate`: runs CI's checks in a clean clone of HEAD, and remembers the commit that has passed."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from hack.checkout import ROOT
from hack.suites.snapshot import git

GREEN = "vcsync.green"
"""Key of git's local configuration with the last commit that has passed."""


def main() -> int:
    """Run the gate and return its exit code."""
    commit = git(ROOT, "rev-parse", "HEAD")
    if green() == commit:
        print(f"gate: {commit[:12]} has passed")
        return 0
    if git(ROOT, "status", "--porcelain"):
        print("gate: changes that are not committed are not part of it", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="vcsync-gate-"))
    checkout = folder / "checkout"
    git(ROOT, "clone", "--quiet", "--no-hardlinks", str(ROOT), str(checkout))
    git(checkout, "checkout", "--quiet", "--detach", commit)
    done = subprocess.run(
        ["bash", ".ci/run"],
        cwd=checkout,
        env={**os.environ, "CI": "true"},
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode:
        print(f"gate: FAILED on {commit[:12]}; its clone is {checkout}")
        return done.returncode
    git(ROOT, "config", "--local", GREEN, commit)
    shutil.rmtree(folder, ignore_errors=True)
    print(f"gate: passed on {commit[:12]}")
    return 0


def green() -> str:
    """Return the last commit that has passed; empty: there is none."""
    done = subprocess.run(
        ["git", "config", "--local", "--get", GREEN], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
