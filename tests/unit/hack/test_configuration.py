"""docs/configuration.md names every field of vcsync.yaml, and its example is valid."""

import re
from pathlib import Path

from hack import configuration, generate
from vcsync.cli.command import config


def test_the_document_contains_every_field() -> None:
    text = configuration.document()
    for section in (config.COMMON, *config.SECTIONS):
        part = text.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
        assert re.findall(r"^\| `([^`]+)`", part, re.MULTILINE) == list(config.fields(section))


def test_the_example_in_it_is_accepted(tmp_path: Path) -> None:
    example = re.search(r"```yaml\n(.*?)```", configuration.document(), re.DOTALL)
    assert example is not None
    path = tmp_path / "vcsync.yaml"
    path.write_text(example[1])
    read = config.read(path)
    assert read.defaults("up")["tenants"] == "acme,umbrella"
    assert read.defaults("nsscheduler")["default_slice"] == ["cpu=2", "memory=4Gi"]


def test_a_document_that_is_out_of_date_is_shown_as_a_difference(tmp_path: Path) -> None:
    assert generate.check_documents(tmp_path).startswith("--- docs/configuration.md")
    assert (
        generate.write_documents(tmp_path) == "wrote configuration.md\nwrote reference/status.schema.json\n"
    )
    assert generate.check_documents(tmp_path) == ""
