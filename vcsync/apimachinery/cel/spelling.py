"""Spellings that cel-cpp and the cel-go of kube-apiserver do not share: `exists_one`, and quoted names. Pure.

cel-cpp knows `exists_one` with two variables only as `existsOne`; cel-go knows both (`ext/comprehensions.go`). cel-cpp accepts
names of fields in backquotes, which kube-apiserver does not enable.
"""

import re
from collections.abc import Iterator

NAME, KNOWN = "exists_one", "existsOne "
"""Both are equally long, so that the positions in messages stay right."""
_ARGUMENTS = 3
_TOKEN = re.compile(
    r"//[^\n]*|`[^`\n]*`"
    r'|[rR]?[bB]?[rR]?(?:"""|\'\'\')|[rR]?[bB]?[rR]?["\']'
    r"|exists_one(?=\s*\()|\w+|[()\[\]{},]"
)


def respelled(source: str) -> str:
    """Return an expression with `existsOne` in place of each `exists_one` that has two variables."""
    if NAME not in source:
        return source
    found = [at for at, count in _calls(source) if count == _ARGUMENTS]
    for at in found:
        source = f"{source[:at]}{KNOWN}{source[at + len(NAME) :]}"
    return source


def quoted_names(source: str) -> list[int]:
    """Return the positions of names in backquotes."""
    if "`" not in source:
        return []
    return [at for at, text in _tokens(source) if text[0] == "`"]


def _tokens(source: str) -> Iterator[tuple[int, str]]:
    """Yield (position, text) of each word, bracket, comma and quoted name. Strings and comments are left out."""
    at = 0
    while (token := _TOKEN.search(source, at)) is not None:
        text, at = token[0], token.end()
        if text[-1] in "\"'" and not text.startswith("//"):
            at = _after_string(source, at, text)
        elif not text.startswith("//"):
            yield token.start(), text


def _calls(source: str) -> list[tuple[int, int]]:
    """Return (position, number of arguments) of every call of `exists_one`."""
    calls: list[tuple[int, int]] = []
    opened: list[list[int]] = []
    """For each open bracket: the position of the call that it belongs to, or -1, and the commas in it."""
    named = -1
    for at, text in _tokens(source):
        if text in ("(", "[", "{"):
            opened.append([named if text == "(" else -1, 0])
        elif text == "," and opened:
            opened[-1][1] += 1
        elif text in (")", "]", "}") and opened:
            position, commas = opened.pop()
            if position >= 0:
                calls.append((position, commas + 1))
        named = at if text == NAME else -1
    return calls


def _after_string(source: str, at: int, start: str) -> int:
    """Return the position after a string whose start was read."""
    quotes = start.lstrip("rRbB")
    raw = "r" in start.lower()
    while at < len(source):
        if source[at] == "\\" and not raw:
            at += 2
        elif source.startswith(quotes, at):
            return at + len(quotes)
        else:
            at += 1
    return at
