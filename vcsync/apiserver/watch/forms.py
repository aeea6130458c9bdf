"""A cache of the encoded forms of events, which watches share, limited in bytes. Pure."""

from itertools import count
from typing import Any

from vcsync.objects.recently_used import RecentlyUsed

FORMS_BYTES = 16 * 2**20
"""Bytes of the encoded forms of all events. A client chooses among dozens of forms, so they are not a part of the history."""
_ENTRY = 200
"""Bytes of a form without its content."""
Forms = RecentlyUsed[tuple[int, str], Any]
_serials = count()


def forms() -> Forms:
    """Return an empty cache."""
    return RecentlyUsed(FORMS_BYTES)


class EventForms:
    """The forms of one event.

    Args:
        shared: The cache, which events share.
    """

    __slots__ = ("_serial", "_shared")

    def __init__(self, shared: Forms) -> None:
        self._serial = next(_serials)
        self._shared = shared

    def get(self, key: str) -> Any:
        """Return the form of a key, or None if it is not cached."""
        return self._shared.get((self._serial, key))

    def put(self, key: str, form: Any, size: int) -> None:
        """Cache a form.

        Args:
            key: Everything that the form depends on besides the event.
            form: The form.
            size: Its memory in bytes.
        """
        self._shared.put((self._serial, key), form, _ENTRY + len(key) + size)
