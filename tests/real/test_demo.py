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


ACTS = (
    "Two tenants, each with a Kubernetes API of its own",
    "A quota becomes slices, which are distributed over the super clusters",
    "One Deployment, two clusters",
    "Super cluster west goes away",
    "Super cluster west comes back",
    "Super cluster west is lost, not just out of touch",
    "The operator lets acme move",
    "The operator fences west",
    "Super cluster west is regained",
    "A greedy tenant next to a quiet one",
)

DEFIANT = """
from vcsync.cli.command.main import main
from vcsync.cli.demo import loss

async def set_fence(*_): ...  # nobody says that the Pods of the lost super cluster have ended
loss.set_fence = set_fence
raise SystemExit(main(["demo", "--patience", "30"]))
"""


@pytest.mark.timeout(390)
def test_the_walk_through_plays_all_acts_to_its_end() -> None:
    command = (sys.executable, "-m", "vcsync", "demo", "--pile", "150")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=380)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "every expected result appeared" in done.stdout
    titles = [line.removeprefix("== ") for line in done.stdout.splitlines() if line.startswith("== ")]
    assert tuple(titles[:-1]) == ACTS
    assert done.stderr == ""


@pytest.mark.timeout(390)
def test_an_expected_state_that_is_not_reached_fails_the_walk_through() -> None:
    command = (sys.executable, "-c", BARRED)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=380)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "demo: not within 5 s" in done.stderr
    assert "every expected result appeared" not in done.stdout


@pytest.mark.timeout(390)
def test_a_stateful_set_is_not_replaced_without_the_fence() -> None:
    command = (sys.executable, "-c", DEFIANT)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=380)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "demo: not within 30 s: StatefulSet stock runs on east" in done.stderr
    assert "the Pods of StatefulSet stock on west are Terminating" in done.stdout
