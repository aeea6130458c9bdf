"""`vcsync setup` says what it waits for."""

from pathlib import Path

import pytest

from vcsync.cli.main import main


def test_without_a_control_plane_it_says_what_to_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["setup", "--data", str(tmp_path), "--wait", "0"]) == 1
    assert f"is 'vcsync run controlplane --data {tmp_path}' running?" in capsys.readouterr().err


def test_who_takes_part_comes_from_the_section_of_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "vcsync.yaml").write_text("up: {tenants: r1, hollow: r1}")
    assert main(["setup", "--config", str(tmp_path / "vcsync.yaml")]) == 2
    assert "'r1' cannot be used" in capsys.readouterr().err
