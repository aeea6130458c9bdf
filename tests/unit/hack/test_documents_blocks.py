"""The commands of a document, and the language of every code block."""

import ast

import pytest

from hack.checkout import ROOT
from hack.documents.blocks import Block, blocks, files
from hack.documents.plays import DOCUMENTS, ON_REAL_NODES, PLAYS, Play, earlier, play_of, typed

ALL = ["README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]

TEXT = """\
Some words.

```console
$ export A=1        # what for
$ run --long \\
  --option &

$ echo '#1'
```

```yaml
# settings.yaml, for --config
a: 1
```
"""


def test_commands_are_typed_without_their_comments_and_in_one_line() -> None:
    commands = list(next(blocks(TEXT)).commands())

    assert commands == ["export A=1", "run --long    --option &", "echo '#1'"]


def test_a_block_names_its_file_in_its_first_line() -> None:
    assert files(TEXT) == {"settings.yaml": "# settings.yaml, for --config\na: 1\n"}


def test_an_unclosed_block_is_an_error() -> None:
    with pytest.raises(ValueError, match="line 3 does not end"):
        list(blocks("a\n\n```\nb\n"))


@pytest.mark.parametrize("document", ALL)
def test_every_block_has_a_language(document: str) -> None:
    for block in blocks((ROOT / document).read_text()):
        assert block.language in {"console", "python", "yaml", "text"}, f"{document}:{block.line}"
        if block.language == "python":
            compile(block.text, f"{document}:{block.line}", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.parametrize("document", ALL)
def test_every_document_with_commands_or_files_is_executed(document: str) -> None:
    found = [
        block for block in blocks((ROOT / document).read_text()) if block.language in {"console", "yaml"}
    ]

    assert not found or document in (*DOCUMENTS, *ON_REAL_NODES)
    for block in found:
        assert block.language != "yaml" or block.file, f"{document}:{block.line} names no file"
        assert block.language != "console" or list(block.commands()), f"{document}:{block.line}"


@pytest.mark.parametrize("document", PLAYS)
def test_preparations_of_a_document_refer_to_its_commands(document: str) -> None:
    play = play_of(document)
    commands = [command for block in blocks((ROOT / document).read_text()) for command in block.commands()]

    for start in play.before:
        assert any(command.startswith(start) for command in commands), start
    for replaced in play.instead:
        assert replaced in commands


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("make test", "make --dry-run test"),
        ("make bench BENCH_ARGS='--only burst'", "make --dry-run bench BENCH_ARGS='--only burst'"),
        ("python -m hack.conformance --short", "python -m hack.conformance --short --help"),
        ("make up", "make up"),
        ("vcsync up", "vcsync up"),
        ("pip install .", "true"),
    ],
)
def test_long_commands_are_replaced_by_a_check(command: str, expected: str) -> None:
    assert typed(command, Play(instead={"pip install .": "true"})) == expected


def test_commands_typed_elsewhere_come_before_their_command() -> None:
    play = Play(before={"vcsync super list": ("vcsync run all &",)})

    assert earlier("vcsync super list -o json", play) == ("vcsync run all &",)
    assert earlier("vcsync super add r1", play) == ()


def test_blocks_of_other_languages_have_no_commands() -> None:
    assert list(Block(1, "yaml", "a: 1\n").commands()) == []
