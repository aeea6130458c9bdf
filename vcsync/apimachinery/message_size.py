"""The sizes of the texts in refusals and warnings: how long one may be, and how many have room in an answer. Pure.

A tenant chooses the values and names that messages repeat. If each of N findings shows a list of N items, or the long name
of the object around them, the messages have N times N bytes. So a finding keeps its value and only an answer makes a text of
it, paths have a longest form, and an answer has room for so many bytes. kube-apiserver has no such limits.
"""

import json

LONGEST_ANSWER = 1024 * 1024
"""Most bytes of JSON that the entries of one refusal take: those of its message and those of its causes together."""
LONGEST_TEXT = 64 * 1024
"""Most characters that a message shows of a value or of an explanation."""
LONGEST_PATH = 1024
"""Most characters that a message shows of a path of field names."""
_AROUND = len('{"reason":"FieldValueTypeInvalid","message":"","field":""},')
"""Bytes of an entry without its own texts."""


def cut(text: str, most: int = LONGEST_TEXT) -> str:
    """Return a text, or the beginning of a text that has more than `most` characters, with a note that says so."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"


def extended(path: str, suffix: str) -> str:
    """Return a path with a suffix such as `.name` or `[0]`. What exceeds `LONGEST_PATH` characters is replaced by `...`.

    It takes time and memory in proportion to the suffix, however many fields have a long path in common.
    """
    if len(path) > LONGEST_PATH:
        return path
    return (
        path + suffix if len(path) + len(suffix) <= LONGEST_PATH else f"{path}{suffix}"[:LONGEST_PATH] + "..."
    )


class Room:
    """The room that an answer has left for the entries of its message and its causes."""

    __slots__ = ("_left",)

    def __init__(self, size: int = LONGEST_ANSWER) -> None:
        """Begin with room for `size` bytes."""
        self._left = size

    def holds(self, *texts: str) -> bool:
        """Return whether there is room for one more entry with these texts, and take it."""
        self._left -= _AROUND + sum(map(_size, texts))
        return self._left >= 0


def left_out(number: int) -> str:
    """Return the text of the entry that replaces those that an answer has no room for."""
    return f"and {number} more, which are left out of this answer because of their size or number"


def _size(text: str) -> int:
    """Return the bytes of a text in JSON."""
    return len(json.dumps(text, ensure_ascii=False).encode("utf-8", "replace"))
