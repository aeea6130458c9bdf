"""The command line accepts the commands of the Makefile, and `make up` compiles nothing."""

import shlex
import subprocess

import pytest

from hack.generate import ROOT
from tests.unit.hack.test_containers import context_of


def recipe(target: str, *arguments: str) -> list[list[str]]:
    """Return the commands that `make` would run."""
    done = subprocess.run(
        ["make", "--dry-run", target, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return [shlex.split(line) for line in done.stdout.splitlines() if line.startswith(".venv/bin/")]


@pytest.mark.parametrize(
    ("target", "arguments", "typed"),
    [
        ("up", (), ["up"]),
        (
            "up",
            ("UP_ARGS=--tenants acme,umbrella --ephemeral",),
            ["up", "--tenants", "acme,umbrella", "--ephemeral"],
        ),
        ("demo", (), ["demo"]),
    ],
)
def test_make_runs_vcsync_and_nothing_before_it(
    target: str, arguments: tuple[str, ...], typed: list[str]
) -> None:
    (command,) = recipe(target, *arguments)
    assert command == [".venv/bin/vcsync", *typed]
    assert context_of(typed).info_name == typed[0]


def test_make_up_real_builds_kubernetes_first() -> None:
    assert recipe("up-real", "UP_ARGS=--once") == [
        [".venv/bin/python", "-m", "hack.testbed", "build"],
        [".venv/bin/python", "-m", "hack.up", "--once"],
    ]
