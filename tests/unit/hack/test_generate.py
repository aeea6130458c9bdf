"""config/ equals the generated files, and a difference is found."""

from pathlib import Path

import pytest
import yaml

from hack import generate


def test_config_is_up_to_date() -> None:
    assert generate.check(generate.CONFIG) == "", "run: python -m hack.generate"


def test_written_files_pass_the_check(tmp_path: Path) -> None:
    assert generate.check(tmp_path)
    generate.write(tmp_path)
    assert generate.check(tmp_path) == ""
    assert generate.write(tmp_path) == ""


def test_a_changed_file_is_shown_as_a_difference(tmp_path: Path) -> None:
    generate.write(tmp_path)
    tenants = tmp_path / "crd/tenants.yaml"
    tenants.write_text(tenants.read_text().replace("maximum: 1000", "maximum: 2000"))
    difference = generate.check(tmp_path)
    assert "-                  maximum: 2000" in difference
    assert "config/crd/tenants.yaml" in difference
    assert "superclusters" not in difference


def test_a_stale_file_is_shown_and_removed(tmp_path: Path) -> None:
    generate.write(tmp_path)
    stale = tmp_path / "rbac/meta/gone.yaml"
    stale.write_text("kind: Role\n")
    assert "-kind: Role" in generate.check(tmp_path)
    generate.write(tmp_path)
    assert not stale.exists()


def test_the_command_fails_only_on_a_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate, "CONFIG", tmp_path)
    assert generate.main(["--check"]) == 1
    assert "+kind: CustomResourceDefinition" in capsys.readouterr().out
    assert generate.main([]) == 0
    assert generate.main(["--check"]) == 0


@pytest.mark.parametrize("kustomization", sorted(generate.CONFIG.rglob("kustomization.yaml")), ids=str)
def test_kustomizations_name_all_existing_files(kustomization: Path) -> None:
    listed = yaml.safe_load(kustomization.read_text())["resources"]
    for entry in listed:
        assert (kustomization.parent / entry).exists()
    beside = {path.name for path in kustomization.parent.glob("*.yaml")} - {"kustomization.yaml"}
    assert beside <= set(listed)
