"""`vcsync demo` plays to its end, and notices when something does not come about."""

import subprocess
import sys

import pytest

BARRED = """
from vcsync.cli.main import main
from vcsync.simulate.door import Door

Door.open = lambda door: None  # the super cluster never comes back
raise SystemExit(main(["demo", "--patience", "5"]))
"""


@pytest.mark.timeout(390)
def test_the_walk_through_plays_to_its_end() -> None:
    command = (sys.executable, "-m", "vcsync", "demo", "--pile", "150")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=380)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all of it came about" in done.stdout
    assert done.stderr == ""


@pytest.mark.timeout(390)
def test_what_does_not_come_about_fails_the_walk_through() -> None:
    command = (sys.executable, "-c", BARRED)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=380)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "demo: not within 5 s" in done.stderr
    assert "all of it came about" not in done.stdout
