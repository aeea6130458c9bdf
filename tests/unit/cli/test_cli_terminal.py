"""Names and messages of tenants and servers do not control the terminal of an operator."""

import ast
from pathlib import Path

import pytest

import vcsync
from vcsync.cli.command.terminal import say
from vcsync.process.legible import legible, legible_lines

PACKAGE = Path(vcsync.__file__).parent
HOSTILE = "\x1b[2J\x9b31m\x85\u2028\u202e\u200fa\rb"
PRINTS = {
    "cli/command/terminal.py": "is the place",
    "cli/kubectl/plugin.py": "has the text of the command itself, and starts fast",
    "cli/command/main.py": "closes stderr",
    "process/restarts.py": "says one sentence of the command itself",
    "process/watchdog.py": "hands stderr to a thread that reports stacks while the process stands",
    "process/logs.py": "is told where to write, and escapes by itself",
}
"""Modules that may write to the terminal otherwise."""


def test_all_commands_print_by_one_function() -> None:
    found = {}
    for path in PACKAGE.rglob("*.py"):
        module = str(path.relative_to(PACKAGE))
        for node in ast.walk(ast.parse(path.read_text())):
            called = node.func if isinstance(node, ast.Call) else None
            name = ast.unparse(called) if called is not None else ""
            stream = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
            if name in {"print", "click.echo", "click.secho", "echo", "secho"} or stream in {
                "sys.stdout",
                "sys.stderr",
            }:
                found[module] = name or stream
    assert set(found) == set(PRINTS), found


def test_lines_are_printed_without_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"a\n\tb{HOSTILE}")
    say(HOSTILE, err=True, nl=False)
    said = capsys.readouterr()
    assert said.out == "a\n\tb" + r"\u001b[2J\u009b31m\u0085\u2028\u202e" + "\u200fa\\u000db\n"
    assert said.err == legible(HOSTILE)


def test_ends_of_lines_are_escaped_in_a_line() -> None:
    assert legible("a\n\tb") == r"a\u000a\u0009b"
    assert legible("Grüße, 世界: fine") == legible_lines("Grüße, 世界: fine") == "Grüße, 世界: fine"


@pytest.mark.parametrize("code", [*range(0x20), *range(0x7F, 0xA0)])
def test_no_control_character_is_left(code: int) -> None:
    assert legible(chr(code)) == f"\\u{code:04x}"
    assert legible_lines(chr(code)) == (chr(code) if chr(code) in "\t\n" else f"\\u{code:04x}")
