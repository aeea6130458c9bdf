"""Decodes objects that admission reads with many writes: once for each change, within a limit of bytes."""

from collections.abc import Sequence
from typing import Any

import msgspec

from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.storage.interface import Record
from vcsync.objects.budget import Budget
from vcsync.process.loop_turns import rest

MAX_BYTES = 4 * 2**20
"""Most bytes of stored objects whose decoded form is kept. It takes some ten times as much memory."""
MAX_OBJECT = 64 * 1024
"""Size of a stored object up to which its decoded form is kept."""
OBJECT_STEPS, BYTES_PER_STEP = 5, 100
"""Microseconds that an object takes, and the stored bytes that are decoded in one."""
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Decoded:
    """Decoded objects by key. Those that were used longest ago make room for others.

    Args:
        most: Most bytes of the stored objects.
    """

    def __init__(self, most: int = MAX_BYTES) -> None:
        self._most = most
        self._known: dict[str, tuple[bytes, Object]] = {}
        self.size = 0

    def get(self, record: Record) -> Object:
        """Return a decoded object, which nobody may change."""
        known = self._known.pop(record.key, None)
        if known is not None:
            self.size -= len(known[0])
        value = record.value
        found = known[1] if known is not None and known[0] == value else _decode(value)
        if len(value) <= MAX_OBJECT:
            self._known[record.key] = (value, found)
            self.size += len(value)
            while self.size > self._most:
                self.size -= len(self._known.pop(next(iter(self._known)))[0])
        return found


_decoded = Decoded()


async def decoded(records: Sequence[Record]) -> list[Object]:
    """Return decoded objects, which nobody may change. Other tasks run in between if there are many."""
    budget = Budget("the objects that admission reads")
    found = []
    for record in records:
        found.append(_decoded.get(record))
        budget.spend(OBJECT_STEPS + len(record.value) // BYTES_PER_STEP)
        await rest(budget)
    return found
