"""The messages of `vcsync setup` while it waits."""

from pathlib import Path

import pytest

from vcsync.cli.command.main import main


def test_without_a_control_plane_it_names_the_command_to_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["setup", "--data", str(tmp_path), "--wait", "0"]) == 1
    assert f"is 'vcsync run controlplane --data {tmp_path}' running?" in capsys.readouterr().err


def test_members_come_from_the_section_of_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "vcsync.yaml").write_text("up: {tenants: r1, hollow: r1}")
    assert main(["setup", "--config", str(tmp_path / "vcsync.yaml")]) == 2
    assert "'r1' cannot be used" in capsys.readouterr().err
