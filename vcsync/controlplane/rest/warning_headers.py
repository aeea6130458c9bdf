"""Warning headers of an answer: once each, and short enough for clients, whoever wrote them. Pure.

Source: apiserver's `pkg/endpoints/filters/warning.go`.
"""

from collections.abc import Iterable

MOST_CHARACTERS = 4 * 1024
"""Of all warnings of an answer; when there are more, each is cut."""
CUT_CHARACTERS = 256


def warning_headers(texts: Iterable[str]) -> list[str]:
    """Return the values of an answer's Warning headers."""
    distinct = [each for each in dict.fromkeys(texts) if each]
    if sum(map(len, distinct)) > MOST_CHARACTERS:
        distinct = list(_cut(distinct))
    return [f'299 - "{_quoted(each)}"' for each in distinct]


def _cut(texts: Iterable[str]) -> Iterable[str]:
    written = 0
    for each in texts:
        if written >= MOST_CHARACTERS:
            return
        short = each[:CUT_CHARACTERS]
        written += len(short)
        yield short


def _quoted(text: str) -> str:
    shown = "".join(character if character.isprintable() else " " for character in text)
    return shown.replace("\\", "\\\\").replace('"', '\\"')
