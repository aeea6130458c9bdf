r"""Regular expressions that may see the text of a tenant: time linear in the text, bounded memory. Pure.

Python's `re` backtracks. Some patterns take it time that grows with the square of a text, with its cube, or without any bound,
and it keeps the interpreter lock all the while. So a pattern that may see the text of a tenant follows one of these rules, and
`tests/unit/patterns/` refuses any other use of `re`:

* It is compiled here, by google-re2. A call costs about ten times as much as one of `re`: two microseconds for a name.
* It needs a position in a long text, bytes, or a speed that google-re2 does not have, and is linear with `re`, too. Possessive
  repeats (`\d++`) help. The table of the test names it with the reason, and the test measures it.
* It needs what google-re2 lacks: references to groups, looking ahead or behind. Then the same holds, or a function takes its
  place that passes over the text once, which the test measures as well.

The syntax is that of https://github.com/google/re2/wiki/Syntax. These differences to `re` matter: classes such as `\w` contain
ASCII only, `\s` has no vertical tab, `$` matches at the end only, and flags are written into the pattern: `(?i)`, `(?s)`.
"""

from collections.abc import Callable, Iterator
from typing import Any

import re2

MEMORY = 1 << 20
"""Most bytes of a compiled pattern with its automata."""


class InvalidPattern(ValueError):
    """The text is not a regular expression. The message is that of RE2."""


class Match:
    """A match in a text. Groups and positions are those of `re.Match`, and are computed when they are asked for."""

    __slots__ = ("_at", "_before", "_data", "_found", "_names")

    def __init__(self, found: Any, data: bytes, names: dict[str, int], before: int = 0, at: int = 0) -> None:
        """Keep a match.

        Args:
            found: The match in UTF-8.
            data: The text in UTF-8.
            names: Numbers of the named groups.
            before: A place in `data` that is not after the match.
            at: The same place in the text.
        """
        self._found = found
        self._data = data
        self._names = names
        self._before = before
        self._at = at

    def __getitem__(self, group: int | str) -> str | Any:
        """Return the text of a group, or None if it does not take part in the match."""
        return _group(self._found[group if isinstance(group, int) else self._names[group]])

    def groups(self) -> tuple[str | Any, ...]:
        """Return the texts of all groups, None for those that do not take part in the match."""
        return tuple(map(_group, self._found.groups()))

    def start(self) -> int:
        """Return the position of the first character of the match."""
        return self._at + _length(self._data[self._before : self._found.start()])

    def end(self) -> int:
        """Return the position after the match."""
        return self._at + _length(self._data[self._before : self._found.end()])


class Pattern:
    """A compiled pattern. The methods are those of `re.Pattern`, without positions."""

    __slots__ = ("_compiled", "_names", "pattern")

    def __init__(self, pattern: str, memory: int) -> None:
        """Compile.

        Raises:
            InvalidPattern: The text is not a regular expression, or needs more memory.
        """
        options = re2.Options()
        options.log_errors = False
        options.max_mem = memory
        try:
            self._compiled = re2.compile(_data(pattern), options)
        except re2.error as problem:
            said = problem.args[0] if problem.args else b""
            raise InvalidPattern(_text(said) if isinstance(said, bytes) else str(said)) from None
        self._names = {_text(name): group for name, group in self._compiled.groupindex.items()}
        self.pattern = pattern

    def __repr__(self) -> str:
        """Return what compiles the pattern."""
        return f"linear({self.pattern!r})"

    @property
    def size(self) -> int:
        """The number of its instructions. Comparing a text takes time in proportion to it at worst."""
        return max(int(self._compiled.programsize), int(self._compiled.reverseprogramsize))

    def match(self, text: str) -> Match | None:
        """Match the beginning of the text."""
        data = _data(text)
        found = self._compiled.match(data)
        return None if found is None else Match(found, data, self._names)

    def fullmatch(self, text: str) -> Match | None:
        """Match the whole text."""
        data = _data(text)
        found = self._compiled.fullmatch(data)
        return None if found is None else Match(found, data, self._names)

    def search(self, text: str) -> Match | None:
        """Find the first match in the text."""
        data = _data(text)
        found = self._compiled.search(data)
        return None if found is None else Match(found, data, self._names)

    def finditer(self, text: str) -> Iterator[Match]:
        """Find all matches in the text, from left to right."""
        data = _data(text)
        before = at = 0
        for found in self._compiled.finditer(data):
            # google-re2 finds matches without bytes within characters, too.
            if (begin := found.start()) < len(data) and data[begin] & 0xC0 == 0x80:
                continue
            at += _length(data[before:begin])
            before = begin
            yield Match(found, data, self._names, before, at)

    def split(self, text: str) -> list[str]:
        """Split the text at the matches. Groups are not kept."""
        pieces, before = [], 0
        for match in self.finditer(text):
            pieces.append(text[before : match.start()])
            before = match.end()
        return [*pieces, text[before:]]

    def sub(self, replacement: Callable[[Match], str] | str, text: str) -> str:
        """Replace the matches. A text replaces as it is: it has no references to groups."""
        pieces, before = [], 0
        for match in self.finditer(text):
            pieces.append(text[before : match.start()])
            pieces.append(replacement if isinstance(replacement, str) else replacement(match))
            before = match.end()
        return "".join([*pieces, text[before:]])


def linear(pattern: str, memory: int = MEMORY) -> Pattern:
    """Compile a pattern.

    Args:
        pattern: The pattern, in the syntax of RE2.
        memory: Most bytes of it with its automata.

    Raises:
        InvalidPattern: The text is not a regular expression, or needs more memory.
    """
    return Pattern(pattern, memory)


def _group(data: bytes | None) -> str | None:
    return None if data is None else _text(data)


def _data(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def _length(data: bytes) -> int:
    return len(data) if data.isascii() else len(_text(data))
