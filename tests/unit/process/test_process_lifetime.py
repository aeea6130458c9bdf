"""Detection of ended processes by their locks. Everything else is unknown."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from vcsync.process import lifetime

PROGRAM = """
import sys, time
from pathlib import Path
from vcsync.process.lifetime import begin
print(begin("host", Path(sys.argv[1])), flush=True)
time.sleep(600)
"""


class Predecessor:
    """Another process that called `begin`."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(folder)], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.identity = self.process.stdout.readline().strip()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "locks"


@pytest.fixture
def predecessor(folder: Path) -> Iterator[Predecessor]:
    started = Predecessor(folder)
    yield started
    started.kill()


def test_a_killed_process_has_ended_and_a_living_or_stopped_one_has_not(
    folder: Path, predecessor: Predecessor
) -> None:
    assert predecessor.identity.startswith("host_")
    assert not lifetime.ended(predecessor.identity, folder)
    predecessor.process.send_signal(signal.SIGSTOP)
    assert not lifetime.ended(predecessor.identity, folder)
    predecessor.kill()
    assert lifetime.ended(predecessor.identity, folder)
    assert lifetime.ended(predecessor.identity, folder), "a look takes nothing away from the next one"


def test_two_processes_with_one_name_have_different_identities(
    folder: Path, predecessor: Predecessor
) -> None:
    other = Predecessor(folder)
    assert other.identity != predecessor.identity
    other.kill()
    assert lifetime.ended(other.identity, folder)
    assert not lifetime.ended(predecessor.identity, folder)


def test_the_own_process_has_not_ended(folder: Path) -> None:
    assert not lifetime.ended(lifetime.begin("me", folder), folder)


def test_processes_of_other_containers_or_machines_are_unknown(
    folder: Path, predecessor: Predecessor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    predecessor.kill()
    elsewhere = tmp_path / "elsewhere"
    lifetime.begin("host", elsewhere)
    assert not lifetime.ended(predecessor.identity, elsewhere)
    other_boot = tmp_path / "boot_id"
    other_boot.write_text("another kernel's\n")
    monkeypatch.setattr(lifetime, "_BOOT_ID", other_boot)
    assert not lifetime.ended(predecessor.identity, folder)


@pytest.mark.parametrize("identity", ["", "host", "host_", "host_../../etc/passwd", "host_" + "g" * 32, "up"])
def test_foreign_identities_are_unknown(folder: Path, identity: str) -> None:
    lifetime.begin("me", folder)
    assert not lifetime.ended(identity, folder)


def test_a_folder_that_others_can_enter_is_not_used(folder: Path, predecessor: Predecessor) -> None:
    predecessor.kill()
    folder.chmod(0o777)
    assert not lifetime.ended(predecessor.identity, folder)
    before = sorted(folder.iterdir())
    lifetime.begin("me", folder)
    assert sorted(folder.iterdir()) == before


def test_symbolic_links_are_not_followed(folder: Path, predecessor: Predecessor, tmp_path: Path) -> None:
    predecessor.kill()
    token = predecessor.identity.rpartition("_")[2]
    (folder / token).rename(folder / "elsewhere")
    (folder / token).symlink_to(folder / "elsewhere")
    assert not lifetime.ended(predecessor.identity, folder)
    link = tmp_path / "link"
    link.symlink_to(folder)
    assert not lifetime.ended(f"host_{'0' * 32}", link)


def test_files_of_ended_processes_are_removed_after_a_day(folder: Path, predecessor: Predecessor) -> None:
    other = Predecessor(folder)
    other.kill()
    for path in folder.iterdir():
        os.utime(path, (0, 0))
    lifetime.begin("me", folder)
    left = {path.name for path in folder.iterdir()}
    assert predecessor.identity.rpartition("_")[2] in left
    assert other.identity.rpartition("_")[2] not in left
