"""Warning headers of an answer: without duplicates, and short enough for clients. Pure.

Source: apiserver's `pkg/endpoints/filters/warning.go`.
"""

from collections.abc import Iterable

MAX_CHARACTERS = 4 * 1024
"""Characters of all warnings of an answer. If there are more, each warning is truncated."""
TRUNCATED_CHARACTERS = 256
"""Characters that are left of a truncated warning."""


def warning_headers(texts: Iterable[str]) -> list[str]:
    """Return the values of an answer's Warning headers."""
    distinct = [each for each in dict.fromkeys(texts) if each]
    if sum(map(len, distinct)) > MAX_CHARACTERS:
        distinct = list(_truncated(distinct))
    return [f'299 - "{_quoted(each)}"' for each in distinct]


def _truncated(texts: Iterable[str]) -> Iterable[str]:
    written = 0
    for each in texts:
        if written >= MAX_CHARACTERS:
            return
        short = each[:TRUNCATED_CHARACTERS]
        written += len(short)
        yield short


def _quoted(text: str) -> str:
    shown = "".join(character if character.isprintable() else " " for character in text)
    return shown.replace("\\", "\\\\").replace('"', '\\"')
