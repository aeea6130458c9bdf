"""Formats lists for messages. Pure."""

from collections.abc import Sequence


def plural(word: str, count: int) -> str:
    """Return the singular or plural of a word for a count."""
    return word if count == 1 else f"{word}s"


def quoted(items: Sequence[str]) -> str:
    """Return quoted items separated by commas."""
    return ", ".join(f'"{each}"' for each in items)
