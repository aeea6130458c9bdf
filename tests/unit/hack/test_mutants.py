"""Which code gets faults and which tests answer for it; the sample is the same each time."""

import fnmatch
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hack.checkout import ROOT
from hack.mutants.rooms import ROOMS, Room
from hack.mutants.run import Survivor, Verdict, configuration, sample

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


def test_all_of_identity_is_authentication_or_authorization() -> None:
    patterns = ROOMS["authentication"].modules + ROOMS["authorization"].modules
    for source in fnmatch.filter(SOURCES, "vcsync/controlplane/identity/*.py"):
        assert source in patterns or source.endswith("__init__.py"), source


def test_the_configuration_is_what_mutmut_reads() -> None:
    section = tomllib.loads(configuration(Room(("vcsync/kube/*",), ("tests/unit/kube",))))["tool"]["mutmut"]

    assert section["only_mutate"] == ["vcsync/kube/*"]
    assert section["pytest_add_cli_args_test_selection"] == ["tests/unit/kube"]


@given(st.sets(st.text(max_size=5)), st.integers(0, 20), st.integers(0, 3))
def test_the_sample_depends_on_names_size_and_seed_alone(names: set[str], size: int, seed: int) -> None:
    chosen = sample(names, size, seed)

    assert chosen == sample(sorted(names, reverse=True), size, seed)
    assert len(set(chosen)) == min(size, len(names))
    assert set(chosen) <= names


def test_what_survived_was_not_noticed() -> None:
    verdict = Verdict(10, 4, (Survivor("m", "survived", ""), Survivor("n", "no tests", "")))

    assert verdict.killed == 2
