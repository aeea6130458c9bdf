"""The data files match the generator."""

from pathlib import Path

import pytest

import vcsync.apimachinery.schema
from hack import generate
from hack.schema import builtin

FOLDER = Path(vcsync.apimachinery.schema.__file__).parent


def test_the_data_files_are_up_to_date() -> None:
    assert generate.check_data({FOLDER: builtin.data_files}) == ""


def test_a_stale_data_file_is_reported_and_generated_again(tmp_path: Path) -> None:
    (tmp_path / "builtin.json.gz").write_bytes(b"old")
    folders = {tmp_path: builtin.data_files}
    assert "builtin.json.gz is out of date" in generate.check_data(folders)
    assert "wrote" in generate.write_data(folders)
    assert generate.check_data(folders) == ""


@pytest.mark.parametrize("name", ["builtin.json.gz", "openapi.json.gz"])
def test_a_data_file_contains_no_time_of_generation(name: str) -> None:
    assert (FOLDER / name).read_bytes()[4:8] == bytes(4)
