"""The values of an enumeration of a schema, prepared for many comparisons. Pure but for a cache.

Looking at each of N values for each of M items takes N times M steps.
"""

import json
from collections.abc import Sequence
from typing import Any

from vcsync.apimachinery import gotext
from vcsync.apimachinery.message_size import cut
from vcsync.objects.kept import Kept

FEW = 16
"""Values from which on the prepared form is kept."""
KEPT_BYTES = 16 << 20
"""Bytes of prepared enumerations that are kept."""
_EACH = 200
"""Bytes of a value in the prepared form, without its text."""
_LONGEST_SHOWN = 1024
"""Most characters of an enumeration in the message of one item."""


class Choices:
    """An enumeration.

    Args:
        values: The values as written.
    """

    __slots__ = ("_keys", "_values", "shown", "supported")

    def __init__(self, values: Sequence[Any]) -> None:
        self._values = values
        self._keys = frozenset(_key(each) for each in values if each is not None)
        self.supported = tuple(each if isinstance(each, str) else gotext.plain(each) for each in values)
        """The values as texts, in their order."""
        self.shown = cut(gotext.plain(list(values)), _LONGEST_SHOWN)
        """All values in one text, as `%v` formats them; cut if it is long."""

    def __contains__(self, value: object) -> bool:
        """Return whether a JSON value is one of the enumeration. Numbers are compared by their amount."""
        return _key(value) in self._keys

    @property
    def size(self) -> int:
        """Bytes of the prepared form, roughly."""
        return sum(_EACH + 2 * len(each) for each in self.supported)

    def of(self, values: Sequence[Any]) -> bool:
        """Return whether this is the prepared form of that very list."""
        return self._values is values


# The prepared form refers to its list, so that no other list gets the same id while it is kept.
_kept: Kept[int, Choices] = Kept(KEPT_BYTES)


def choices_of(values: Sequence[Any]) -> Choices:
    """Return the prepared form of an enumeration. The list must not be changed after that."""
    if len(values) < FEW:
        return Choices(values)
    found = _kept.get(id(values))
    if found is None or not found.of(values):
        found = Choices(values)
        _kept.put(id(values), found, found.size)
    return found


def _key(value: Any) -> str:
    """Return a text that is equal for equal values only.

    Python's hashes of numbers and of lists of numbers are no secret: a tenant could choose values that all have the same one.
    """
    return f'"{value}' if isinstance(value, str) else json.dumps(_plain(value), sort_keys=True)


def _plain(value: Any) -> Any:
    """Return a JSON value in which equal numbers have one form."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
