"""Regular expressions of tenants: Go's syntax, linear time, bounded memory. Pure but for a cache."""

from itertools import islice

from vcsync.objects.kept import Kept
from vcsync.objects.loop_steps import charge_steps
from vcsync.patterns.linear import InvalidPattern as NotUnderstood
from vcsync.patterns.linear import Pattern, linear

_LONGEST = 64 * 1024
_MEMORY = 4 << 20
MOST_WORK = 100_000_000
"""Most instructions of a pattern times characters of a text: seconds, if RE2 has to follow all alternatives at once.

A pattern of 100 instructions, as most are, can be compared with a megabyte. kube-apiserver has no such limit.
"""
KEPT_BYTES = 64 << 20
"""Bytes of compiled patterns that are kept."""
_INSTRUCTION = 800
"""Bytes of an instruction of a pattern with its part of the automata that RE2 builds while it searches."""
_BRIEF = 40_000
_FAST, _SLOW = 400, 40
"""Instructions times characters that take a step of the event loop: usually, and at worst. RE2 is usually a hundred times faster
than at worst, but how fast it is cannot be known before."""
_WORDS = {
    "missing )": "missing closing ): `{0}`",
    "unexpected )": "unexpected ): `{0}`",
    "missing ]": "missing closing ]: `{1}`",
    "no argument for repetition operator": "missing argument to repetition operator: `{1}`",
    "bad repetition operator": "invalid nested repetition operator: `{1}`",
    "invalid repetition size": "invalid repeat count: `{1}`",
    "invalid repeat count": "invalid repeat count: `{1}`",
    "invalid escape sequence": "invalid escape sequence: `{1}`",
    "invalid character class range": "invalid character class range: `{1}`",
    "invalid perl operator": "invalid or unsupported Perl syntax: `{1}`",
    "invalid named capture group": "invalid named capture: `{1}`",
    "trailing \\": "trailing backslash at end of expression: ``",
    "invalid UTF-8": "invalid UTF-8: `{0}`",
}


class InvalidPattern(ValueError):
    """The text is not a regular expression. The message is Go's."""


class TooMuchWork(ValueError):
    """The text is too long to be compared with the expression. The message says how long it may be."""


class _Searcher:
    """A compiled expression."""

    def __init__(self, compiled: Pattern) -> None:
        self.compiled = compiled
        self._size = compiled.size

    def found_in(self, text: str) -> bool:
        """Return whether the expression matches anywhere in the text.

        Raises:
            TooMuchWork: The text is too long.
            TooLong: No steps are left on the event loop.
        """
        self._charge(text)
        return self.compiled.search(_valid(text)) is not None

    def all_in(self, text: str, most: int = -1) -> list[str]:
        """Return the matches in the text, at most `most` of them, or all if it is negative.

        Raises:
            TooMuchWork: The text is too long.
            TooLong: No steps are left on the event loop.
        """
        self._charge(text)
        return [
            match[0] for match in islice(self.compiled.finditer(_valid(text)), most if most >= 0 else None)
        ]

    def _charge(self, text: str) -> None:
        work = self._size * len(text)
        if work > MOST_WORK:
            raise TooMuchWork(
                f"at most {MOST_WORK // self._size} characters can be compared with this pattern"
            )
        charge_steps(work // (_SLOW if work > _BRIEF else _FAST))


_kept: Kept[str, _Searcher | str] = Kept(KEPT_BYTES)


def _compiled(pattern: str) -> _Searcher | str:
    found = _kept.get(pattern)
    if found is None:
        found = _compile(pattern)
        size = len(pattern) if isinstance(found, str) else _INSTRUCTION * found.compiled.size
        _kept.put(pattern, found, min(size, _MEMORY))
    return found


def _compile(pattern: str) -> _Searcher | str:
    if len(pattern) > _LONGEST:
        return "expression nests too deeply: ``"
    try:
        return _Searcher(linear(_valid(pattern), _MEMORY))
    except NotUnderstood as problem:
        what, _, where = str(problem).partition(": ")
        return _WORDS.get(what, "{2}").format(pattern, where, str(problem))


def _valid(text: str) -> str:
    """Return a text without the surrogates that UTF-8 does not have."""
    return text.encode("utf-8", "replace").decode()


def compiled(pattern: str) -> _Searcher:
    """Compile an expression.

    Raises:
        InvalidPattern: the text is not a regular expression. The message is that of Go's regexp package.
    """
    found = _compiled(pattern)
    if isinstance(found, str):
        raise InvalidPattern(f"error parsing regexp: {found}")
    return found
