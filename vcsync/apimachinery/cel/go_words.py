"""Rewrites the messages of cel-cpp's checker to those of cel-go. Pure."""

import re

from vcsync.apimachinery.cel.libraries import GLOBALS, MEMBERS
from vcsync.apimachinery.cel.messages import PACKAGE
from vcsync.patterns.linear import Match, linear

_ON_TARGETS = {name for name, *_ in MEMBERS} - {name for name, *_ in GLOBALS} | {
    "startsWith", "endsWith", "contains", "matches", "hasValue", "value", "orValue", "or", "getFullYear", "getMonth",
    "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getHours", "getMinutes", "getSeconds",
    "getMilliseconds", "flatten", "slice", "distinct", "reverse", "sort",
}  # fmt: skip
_WORDS = (
    (
        r"expression of type '([^']*)' cannot be the operand of a select operation",
        r"type '\1' does not support field selection",
    ),
    (
        r"\b\w+\(\) (?:first |second )?variable name must be a simple identifier",
        "argument must be a simple name",
    ),
    (
        r"\b\w+\(\) (?:first |second )?variable name cannot be __result__",
        "iteration variable overwrites accumulator variable",
    ),
    (r"has\(\) argument must be a field selection", "invalid argument to has() macro"),
    (r"cannot be the range of a comprehension", "cannot be range of a comprehension"),
    (
        r"type '(kubernetes\.[\w.]+)' does not support field selection",
        r"unexpected failed resolution of '\1'",
    ),
    (r"(undefined field '[^']*') not found in struct '[^']*'", r"\1"),
    (r"\bT%\d+", "dyn"),
    (r"\bnull_type\b", "null"),
    (r"\bgoogle\.protobuf\.Duration\b", "duration"),
    (r"\bgoogle\.protobuf\.Timestamp\b", "timestamp"),
)
_UNKNOWN = "*error*"
"""Name that the checker gives the type of an expression that it could not check."""
_WIDE_DOT, _WIDE_ARROW = "\uff0e", "\uff3e"
_HEAD = re.compile(r"ERROR: <input>:(?P<line>-?\d+):(?P<column>-?\d+): (?P<told>.*)", re.DOTALL)
_UNDECLARED = re.compile(r"undeclared reference to '(?P<name>[\w.]+)'(?P<rest> \(in container ''\))")
_CALL = linear(r"(?s)(overload for '(\w+)' applied to )'\((.*)\)'")
_TWICE = re.compile(r"\w+\(\) second variable must be different from the first variable")


def in_go_words(told: str) -> str:
    """Rewrite the messages about an expression."""
    told = re.sub(r"^[A-Z_]+: (?=ERROR|WARNING|Expression)", "", told)
    told = re.sub(r" \[[A-Z_]+\]$", "", told)
    problems = [_problem(each) for each in re.split(r"\n(?=ERROR: |WARNING: )", told)]
    # cel-go does not go on about what an error has made unknown, and does not warn.
    kept = [each for each in problems if _UNKNOWN not in each and not each.startswith("WARNING: ")]
    return "\n".join(sorted(kept, key=_position))


def _problem(told: str) -> str:
    """Rewrite one message. Lines that show the source stay as they are."""
    head, bar, source = told.partition("\n | ")
    for theirs, ours in _WORDS:
        head = re.sub(theirs, ours, head)
    head = _CALL.sub(_called, shown(head))
    head = head.replace(r"'\u003F'", "'?'")
    return _placed(head, source.partition("\n")[0]) if bar else head


def _placed(head: str, source: str) -> str:
    """Return a message with its source line, at the place and about the name that cel-go reports."""
    match = _HEAD.fullmatch(head)
    if match is None:
        return f"{head}\n | {source}"
    at, told = int(match["column"]) - 1, match["told"]
    undeclared = _UNDECLARED.fullmatch(told)
    if undeclared is not None:
        at, name = _undeclared(at, undeclared["name"], source)
        told = f"undeclared reference to '{name}'{undeclared['rest']}"
    elif _TWICE.fullmatch(told) and (names := re.match(r"(\w+)\s*,\s*", source[at:])) is not None:
        at, told = at + names.end(), f"duplicate variable name: {names[1]}"
    return f"ERROR: <input>:{match['line']}:{at + 1}: {told}{marked(source, at)}"


def marked(line: str, at: int) -> str:
    """Return the lines that show a place in a line of the source. Characters beyond ASCII have wide marks."""
    dots = "".join("." if each.isascii() else _WIDE_DOT for each in line[:at])
    arrow = "^" if line[at : at + 1].isascii() else _WIDE_ARROW
    shown_line = line.replace("\t", " ")
    return f"\n | {shown_line}\n | {dots}{arrow}"


def _undeclared(at: int, name: str, source: str) -> tuple[int, str]:
    """Return where cel-go reports what is undeclared, and its name.

    It reports a variable instead of a field of it, and a type where its fields begin.
    """
    if source[at:].startswith(name) and source[at + len(name) :].lstrip().startswith("{"):
        return source.index("{", at), name
    before, dot, _ = name.rpartition(".")
    if dot and source[: at + 1].endswith(f"{before}."):
        return at - len(before), name.partition(".")[0]
    if dot and source[at:].startswith(f"({name}"):
        return at + 1, name.partition(".")[0]
    return at, name


def shown(told: str) -> str:
    """Format the names of types as cel-go does."""
    told = re.sub(rf"\b{PACKAGE}\.T\d+_(\w+)", r"kubernetes.\1", told)
    return re.sub(rf"\b{PACKAGE}\.T\d+\b", "object", told)


def _called(match: Match) -> str:
    """Format the arguments of a call on a target: `string.(int)`."""
    if match[2] not in _ON_TARGETS:
        return match[0]
    depth = 0
    for at, each in enumerate(match[3]):
        depth += (each in "(<") - (each in ")>")
        if each == "," and depth == 0:
            return f"{match[1]}'{match[3][:at]}.({match[3][at + 2 :]})'"
    return f"{match[1]}'{match[3]}.()'"


def _position(problem: str) -> tuple[int, int]:
    match = _HEAD.match(problem)
    return (int(match["line"]), int(match["column"])) if match is not None else (0, 0)
