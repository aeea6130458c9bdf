"""The rooms of mutation testing name existing code and tests, and the sample is deterministic."""

import fnmatch
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hack.checkout import ROOT
from hack.mutants.rooms import ROOMS, Room
from hack.mutants.run import Survivor, Verdict, configuration, sample

ENDLESS = """
from hypothesis import given, strategies

@given(strategies.integers())
def test_endless(number):
    while True:
        try:
            pass
        except BaseException:
            pass

def test_next():
    while True:
        pass
"""
GREEDY = """
import mmap

def test_greedy():
    mmap.mmap(-1, 8 * 2**30)
"""

SOURCES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "vcsync").rglob("*.py"))


@pytest.mark.parametrize("name", ROOMS)
def test_every_pattern_and_test_of_a_room_exists(name: str) -> None:
    room = ROOMS[name]

    for pattern in room.modules:
        assert fnmatch.filter(SOURCES, pattern), pattern
    for test in room.tests:
        assert (ROOT / test).exists(), test


def test_no_module_is_in_two_rooms() -> None:
    for source in SOURCES:
        rooms = [
            name for name, room in ROOMS.items() if any(fnmatch.fnmatch(source, p) for p in room.modules)
        ]
        assert len(rooms) <= 1, source


def test_the_rooms_of_identity_and_rights_are_complete() -> None:
    patterns = ROOMS["authentication"].modules + ROOMS["authorization"].modules
    for room in ("authentication", "authorization", "reviews"):
        for source in fnmatch.filter(SOURCES, f"vcsync/apiserver/{room}/*.py"):
            known = any(fnmatch.fnmatch(source, pattern) for pattern in patterns)
            assert known or source.endswith(("__init__.py", "rights.py")), source


def test_mutmut_can_read_the_configuration() -> None:
    section = tomllib.loads(configuration(Room(("vcsync/kube/*",), ("tests/unit/kube",))))["tool"]["mutmut"]

    assert section["only_mutate"] == ["vcsync/kube/*"]
    assert section["pytest_add_cli_args_test_selection"] == ["tests/unit/kube"]


@given(st.sets(st.text(max_size=5)), st.integers(0, 20), st.integers(0, 3))
def test_the_sample_depends_only_on_names_size_and_seed(names: set[str], size: int, seed: int) -> None:
    chosen = sample(names, size, seed)

    assert chosen == sample(sorted(names, reverse=True), size, seed)
    assert len(set(chosen)) == min(size, len(names))
    assert set(chosen) <= names


def test_survivors_are_mutants_that_no_test_detects() -> None:
    verdict = Verdict(10, 4, (Survivor("m", "survived", ""), Survivor("n", "no tests", "")))

    assert verdict.killed == 2


def _run_as_a_mutant(folder: Path, text: str, *more: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(text, encoding="utf-8")
    section = tomllib.loads(configuration(Room((), ())))["tool"]["mutmut"]
    arguments = [each for each in section["pytest_add_cli_args"] if not each.startswith("--deselect")]
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            *arguments,
            *more,
            f"--rootdir={folder}",
            str(folder / "test_it.py"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_a_test_that_never_ends_ends_the_process_as_a_failure(tmp_path: Path) -> None:
    ended = _run_as_a_mutant(tmp_path, ENDLESS, "--timeout=1")

    assert ended.returncode == 1
    assert "Timeout" in ended.stdout + ended.stderr
    assert "in test_endless" in ended.stdout + ended.stderr
    assert "in test_next" not in ended.stdout + ended.stderr


def test_a_test_that_takes_memory_without_end_fails(tmp_path: Path) -> None:
    ended = _run_as_a_mutant(tmp_path, GREEDY)

    assert ended.returncode == 1
    assert "Cannot allocate memory" in ended.stdout
