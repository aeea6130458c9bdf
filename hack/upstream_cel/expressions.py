"""Finds expressions in the Go tests of modules, in the versions that the test bed's kube-apiserver is built from."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from hack.testbed.binaries import MODULES

SOURCES = (("k8s.io/apiserver", "pkg/cel"), ("github.com/google/cel-go", "ext"))
"""(module, folder) of the tests."""
LONGEST = 2_000
_LITERAL = re.compile(
    r'//[^\n]*|/\*.*?\*/|`(?P<raw>[^`]*)`|(?P<quoted>"(?:[^"\\\n]|\\.)*")|\'(?:[^\'\\\n]|\\.)+\'', re.DOTALL
)
_LIKE_AN_EXPRESSION = re.compile(r"[(\[{=<>&|!+*/?]")


def all_expressions() -> list[str]:
    """Return the expressions of all sources, sorted."""
    found: set[str] = set()
    for module, folder in SOURCES:
        for path in sorted((_directory(module) / folder).rglob("*_test.go")):
            found |= set(expressions(path.read_text()))
    return sorted(found)


def expressions(source: str) -> Iterator[str]:
    """Yield the texts of a Go file that may be expressions.

    A test's messages can be among them. Both servers must refuse these alike, too.
    """
    for match in _LITERAL.finditer(source):
        text = match["raw"] if match["raw"] is not None else _unquoted(match["quoted"])
        if text.strip() and len(text) <= LONGEST and _LIKE_AN_EXPRESSION.search(text):
            yield text


def _unquoted(literal: str | None) -> str:
    """Return the text of a Go string literal, whose escapes are those of Python."""
    try:
        return str(ast.literal_eval(literal)) if literal else ""
    except (SyntaxError, ValueError):
        return ""


def _directory(module: str) -> Path:
    """Return where the module cache has a module. The test bed's build has downloaded it."""
    found = subprocess.run(
        ["go", "list", "-m", "-f", "{{.Dir}}", module],
        cwd=MODULES / "kubernetes",
        capture_output=True,
        text=True,
        check=True,
    )
    return Path(found.stdout.strip())
