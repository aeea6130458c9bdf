"""The macro `exists_one` with two variables, which cel-cpp knows only as `existsOne`. Pure.

cel-go knows both names (`ext/comprehensions.go`).
"""

import re

_NAME, _KNOWN = "exists_one", "existsOne "
"""Both are equally long, so that the positions in messages stay right."""
_ARGUMENTS = 3
_TOKEN = re.compile(
    r"//[^\n]*"
    r'|[rR]?[bB]?[rR]?(?:"""|\'\'\')|[rR]?[bB]?[rR]?["\']'
    r"|exists_one(?=\s*\()|\w+|[()\[\]{},]"
)


def respelled(source: str) -> str:
    """Return an expression with `existsOne` in place of each `exists_one` that has two variables."""
    if _NAME not in source:
        return source
    found = [at for at, count in _calls(source) if count == _ARGUMENTS]
    for at in found:
        source = f"{source[:at]}{_KNOWN}{source[at + len(_NAME) :]}"
    return source


def _calls(source: str) -> list[tuple[int, int]]:
    """Return (position, number of arguments) of every call of `exists_one`."""
    calls: list[tuple[int, int]] = []
    opened: list[list[int]] = []
    """For each open bracket: the position of the call that it belongs to, or -1, and the commas in it."""
    named = -1
    at = 0
    while (token := _TOKEN.search(source, at)) is not None:
        text, at = token[0], token.end()
        if text[-1] in "\"'":
            at = _after_string(source, at, text)
        elif text == _NAME:
            named = token.start()
            continue
        elif text in "([{":
            opened.append([named if text == "(" else -1, 0])
        elif text == "," and opened:
            opened[-1][1] += 1
        elif text in ")]}" and opened:
            position, commas = opened.pop()
            if position >= 0:
                calls.append((position, commas + 1))
        named = -1
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
