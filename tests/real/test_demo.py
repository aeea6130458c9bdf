"""`vcsync demo` runs to its end, and fails if an expected state is not reached."""

import subprocess
import sys

import pytest

BARRED = """
from vcsync.cli.command.main import main
from vcsync.simulate.door import Door

Door.open = lambda door: None  # the super cluster never comes back
raise SystemExit(main(["demo", "--patience", "5"]))
"""


@pytest.mark.timeout(390)
def test_the_walk_through_runs_to_its_end() -> None:
    command = (sys.executable, "-m", "vcsync", "demo", "--pile", "150")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=380)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "every expected result appeared" in done.stdout
    assert done.stderr == ""


@pytest.mark.timeout(390)
def test_an_expected_state_that_is_not_reached_fails_the_walk_through() -> None:
    command = (sys.executable, "-c", BARRED)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=380)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "demo: not within 5 s" in done.stderr
    assert "every expected result appeared" not in done.stdout
