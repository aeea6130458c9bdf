"""The check of prose finds banned words in prose, and only there."""

from pathlib import Path

import pytest

from hack import prose

PYTHON = '''"""Waits for ever.

Ends so much later.
"""

for_ever = 1  # it is no more
SENT = f"{for_ever} is dear"
'''
MARKDOWN = """Text by whom?

```console
$ echo for ever
```
For ever and a day.
"""


def placed(tmp_path: Path, name: str, text: str) -> list[tuple[int, str]]:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return sorted((each.line, each.found) for each in prose.findings([path]))


def test_words_are_found_in_docstrings_comments_and_messages_but_not_in_names(tmp_path: Path) -> None:
    assert placed(tmp_path, "sample.py", PYTHON) == [
        (1, "for ever"),
        (3, "so much later"),
        (6, "is no more"),
        (7, "is dear"),
    ]


def test_blocks_of_code_in_documents_are_skipped(tmp_path: Path) -> None:
    assert placed(tmp_path, "sample.md", MARKDOWN) == [(1, "by whom"), (6, "For ever")]


@pytest.mark.parametrize("text", ["whoever is smallest", "recommended", "forever", "hence\n"])
def test_only_whole_words_count(tmp_path: Path, text: str) -> None:
    assert placed(tmp_path, "sample.md", text) == []


def test_a_finding_names_the_place_and_the_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "sample.md"
    path.write_text("\nIt waits for ever.\n", encoding="utf-8")
    assert prose.main([str(path)]) == 1
    assert capsys.readouterr().out == f"{path}:2: 'for ever': write 'forever'\n"


def test_documents_and_sources_are_checked_but_neither_the_list_nor_quoted_references() -> None:
    found = {str(path.relative_to(prose.ROOT)) for path in prose.sources(prose.ROOT)}
    assert {"README.md", "CHANGELOG.md", "docs/design.md", "vcsync/api/names.py", "hack/generate.py"} <= found
    assert not {"hack/prose.py", "docs/reference/virtualcluster.md"} & found


@pytest.mark.parametrize(
    ("first", "found"),
    [("What a tenant is.", True), ("Where.", True), ("Whatever comes.", False), ("The tenants.", False)],
)
def test_the_first_line_of_a_module_or_a_value_names_its_subject(
    tmp_path: Path, first: str, found: bool
) -> None:
    assert bool(placed(tmp_path, "sample.py", f'"""{first}"""\n')) == found
    assert bool(placed(tmp_path, "other.py", f'"""The thing."""\n\nX = 1\n"""{first}"""\n')) == found


@pytest.mark.parametrize(
    ("first", "found"),
    [("What it holds.", True), ("Whether it holds anything.", False), ("Contents.", False)],
)
@pytest.mark.parametrize("definition", ["class Box:", "def box():", "async def box():"])
def test_the_first_line_of_a_definition_names_its_subject(
    tmp_path: Path, definition: str, first: str, found: bool
) -> None:
    source = f'"""Boxes."""\n\n\n{definition}\n    """{first}"""\n'
    assert placed(tmp_path, "sample.py", source) == ([(5, first)] if found else [])
