"""A cache of recently read or written records, so that the reads of every write cost one look-up. Pure."""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Sequence
from operator import attrgetter

from vcsync.apiserver.storage.broadcaster import folders
from vcsync.apiserver.storage.interface import Change, Record

MOST_PLACES = 8192
"""Most entries."""
MOST_BYTES = 64 * 1024
"""Bytes of one entry. Larger ones are not cached."""
MOST_BYTES_IN_ALL = 16 * 2**20
"""Bytes of all entries that were read. All of them are dropped when more are needed."""
MOST_WRITTEN_BYTES = 4 * 2**20
"""Bytes of entries that were written and not read yet. The oldest ones are dropped first."""
FEW = 16
"""Most records of a prefix whose entry is updated by changes. Larger entries are dropped instead."""

_key = attrgetter("key")


class RecordCache:
    """Caches records by key, and by prefix that ends in a slash. `note` must be called with every change."""

    def __init__(self) -> None:
        self._places: dict[str, tuple[Record, ...]] = {}
        self._bytes = 0
        self._written: OrderedDict[str, Record] = OrderedDict()
        self._written_bytes = 0
        self.generation = 0
        """Increases with every call of `note`."""

    def get(self, place: str) -> tuple[Record, ...] | None:
        """Return the cached records of a key or prefix, or None."""
        written = self._written.get(place)
        return self._places.get(place) if written is None else (written,)

    def put(self, place: str, records: Sequence[Record]) -> tuple[Record, ...]:
        """Cache records that were just read, unless they are too large."""
        self._drop(place)
        cached = tuple(records)
        size = sum(len(each.value) for each in cached)
        if size > MOST_BYTES:
            return cached
        if len(self._places) >= MOST_PLACES or self._bytes + size > MOST_BYTES_IN_ALL:
            self._places.clear()
            self._bytes = 0
        self._places[place] = cached
        self._bytes += size
        return cached

    def note(self, changes: Sequence[Change]) -> None:
        """Apply changes."""
        self.generation += 1
        for change in changes:
            record = (
                None
                if change.value is None
                else Record(change.key, change.value, change.created, change.revision)
            )
            self._drop(change.key)
            self._write(change.key, record)
            for folder in folders(change.key):
                if folder in self._places:
                    cached = self._drop(folder)
                    if len(cached) < FEW:
                        self.put(folder, _changed(cached, change.key, record))

    def _drop(self, place: str) -> tuple[Record, ...]:
        dropped = self._places.pop(place, ())
        self._bytes -= sum(len(each.value) for each in dropped)
        return dropped

    def _write(self, key: str, record: Record | None) -> None:
        written = self._written
        before = written.pop(key, None)
        if before is not None:
            self._written_bytes -= len(before.value)
        if record is None or len(record.value) > MOST_BYTES:
            return
        written[key] = record
        self._written_bytes += len(record.value)
        while self._written_bytes > MOST_WRITTEN_BYTES or len(written) > MOST_PLACES:
            self._written_bytes -= len(written.popitem(last=False)[1].value)


def _changed(records: Sequence[Record], key: str, record: Record | None) -> list[Record]:
    """Return records, sorted by key, with one of them replaced, added or removed."""
    at = bisect_left(records, key, key=_key)
    rest = at + 1 if at < len(records) and records[at].key == key else at
    return [*records[:at], *(() if record is None else (record,)), *records[rest:]]
