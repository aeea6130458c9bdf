"""Lists as messages write them. Pure."""

from collections.abc import Sequence


def plural(word: str, count: int) -> str:
    """Return a word for so many."""
    return word if count == 1 else f"{word}s"


def quoted(items: Sequence[str]) -> str:
    """Return items in quotes, with commas between."""
    return ", ".join(f'"{each}"' for each in items)
