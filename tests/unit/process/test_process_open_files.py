"""Shares of the limit of open files."""

import resource

import pytest

from vcsync.process.open_files import share_of_files


@pytest.mark.parametrize(
    ("files", "share", "most", "files_each", "connections"),
    [
        (20_500, 1, 50_000, 1, 20_000),
        (20_500, 0.25, 50_000, 1, 5_000),
        (20_500, 1, 50_000, 2, 10_000),
        (20_500, 1, 100, 1, 100),
        (256, 1, 100, 1, 16),
        (resource.RLIM_INFINITY, 0.5, 100, 1, 100),
    ],
)
def test_a_part_has_its_share_of_the_open_files(
    monkeypatch: pytest.MonkeyPatch, files: int, share: float, most: int, files_each: int, connections: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    assert share_of_files(share, most, files_each) == connections
