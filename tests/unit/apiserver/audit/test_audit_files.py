"""The files of the audit log: appending, rotation, and limits of number, age and total size."""

import os

import pytest

from vcsync.apiserver.audit.files import Bounds, Files


class Clock:
    def __init__(self):
        self.now = 1_800_000_000.0

    def __call__(self):
        self.now += 1.0
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def open_files(tmp_path, clock):
    return lambda **bounds: Files(tmp_path / "logs", Bounds(**bounds), clock)


def names(tmp_path):
    return sorted(path.name for path in (tmp_path / "logs").iterdir())


def whole(tmp_path, log):
    paths = sorted(
        (tmp_path / "logs").glob(f"{log}*.log"), key=lambda path: (path.name == f"{log}.log", path.name)
    )
    return b"".join(path.read_bytes() for path in paths)


def test_only_the_operator_can_read_the_file_of_a_tenant(open_files, tmp_path):
    files = open_files()
    files.append("acme", [b"one\n"])
    files.append("umbrella", [b"two\n"])
    files.append("acme", [b"three\n"])
    assert (tmp_path / "logs/acme.log").read_bytes() == b"one\nthree\n"
    assert names(tmp_path) == ["acme.log", "umbrella.log"]
    assert (tmp_path / "logs/acme.log").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "logs").stat().st_mode & 0o777 == 0o700


def test_a_full_file_is_rotated_and_the_number_of_files_is_limited(open_files, tmp_path):
    files = open_files(size=10, backups=2)
    for number in range(5):
        files.append("acme", [b"line-%d..\n" % number])
    assert names(tmp_path)[-1] == "acme.log"
    assert len(names(tmp_path)) == 3
    assert whole(tmp_path, "acme") == b"line-2..\nline-3..\nline-4..\n"


def test_a_batch_that_fills_several_files_splits_no_line(open_files, tmp_path):
    files = open_files(size=12, backups=9)
    files.append("acme", [b"line-%d\n" % number for number in range(5)])
    assert whole(tmp_path, "acme") == b"".join(b"line-%d\n" % number for number in range(5))
    assert all(path.stat().st_size <= 12 for path in (tmp_path / "logs").iterdir())


def test_a_line_larger_than_a_file_gets_its_own_file(open_files, tmp_path):
    open_files(size=4).append("acme", [b"a\n", b"long line\n", b"b\n"])
    assert whole(tmp_path, "acme") == b"a\nlong line\nb\n"


def test_the_largest_log_loses_its_oldest_file_at_the_total_limit(open_files, tmp_path):
    files = open_files(size=10, backups=99, total=40)
    files.append("quiet", [b"important\n"])
    for number in range(8):
        files.append("loud", [b"noise-%d.\n" % number])
    assert (tmp_path / "logs/quiet.log").exists()
    assert sum(path.stat().st_size for path in (tmp_path / "logs").iterdir()) <= 40
    assert whole(tmp_path, "loud").endswith(b"noise-7.\n")


def test_old_files_are_deleted(open_files, tmp_path, clock):
    files = open_files(days=2)
    files.append("old", [b"x\n"])
    files.append("new", [b"x\n"])
    os.utime(tmp_path / "logs/old.log", (0, clock.now - 3 * 86400))
    os.utime(tmp_path / "logs/new.log", (0, clock.now - 86400))
    files.sweep()
    assert names(tmp_path) == ["new.log"]
    files.append("old", [b"y\n"])
    assert whole(tmp_path, "old") == b"y\n"


def test_a_restart_appends_and_completes_a_truncated_line(open_files, tmp_path):
    open_files().append("acme", [b"whole\n"])
    with (tmp_path / "logs/acme.log").open("ab") as file:
        file.write(b'{"cut')
    open_files(size=100, days=100_000).append("acme", [b"next\n"])
    assert whole(tmp_path, "acme") == b'whole\n{"cut\nnext\n'


def test_a_tenant_whose_name_ends_like_a_date_has_its_own_log(open_files, tmp_path):
    files = open_files(size=4, backups=1)
    files.append("a", [b"1\n"])
    files.append("a-b", [b"2\n"])
    for _ in range(3):
        files.append("a", [b"more\n"])
    assert whole(tmp_path, "a-b") == b"2\n"


def test_symbolic_links_are_not_followed(open_files, tmp_path):
    files = open_files()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.touch()
    (tmp_path / "logs/acme.log").symlink_to(elsewhere)
    with pytest.raises(OSError, match="symbolic links"):
        files.append("acme", [b"x\n"])
    assert elsewhere.read_bytes() == b""
