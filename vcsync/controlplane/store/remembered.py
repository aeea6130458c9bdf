"""What was read or written lately: what every write asks for again costs a look-up. Pure."""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Sequence
from operator import attrgetter

from vcsync.controlplane.store.hub import folders
from vcsync.controlplane.store.interface import Change, Record

MOST_PLACES = 8192
MOST_BYTES = 64 * 1024
"""Of one place: what is larger is read each time."""
MOST_BYTES_IN_ALL = 16 * 2**20
MOST_WRITTEN_BYTES = 4 * 2**20
"""Of what was written and nobody has asked for yet; what was written first goes first."""
FEW = 16
"""Records below a prefix that are kept up with changes; more are read anew."""

_key = attrgetter("key")


class Remembered:
    """Records by place: a key, or a prefix that ends in a slash. `note` must be told of every change."""

    def __init__(self) -> None:
        self._places: dict[str, tuple[Record, ...]] = {}
        self._bytes = 0
        self._written: OrderedDict[str, Record] = OrderedDict()
        self._written_bytes = 0
        self.turn = 0
        """Grows with every change that it is told of."""

    def get(self, place: str) -> tuple[Record, ...] | None:
        """Return what stands at a place; None: it is not remembered."""
        written = self._written.get(place)
        return self._places.get(place) if written is None else (written,)

    def put(self, place: str, records: Sequence[Record]) -> tuple[Record, ...]:
        """Remember what was just read, if it is not too much."""
        found = tuple(records)
        size = sum(len(each.value) for each in found)
        if size > MOST_BYTES:
            return found
        if len(self._places) >= MOST_PLACES or self._bytes + size > MOST_BYTES_IN_ALL:
            self._places.clear()
            self._bytes = 0
        self._places[place] = found
        self._bytes += size
        return found

    def note(self, changes: Sequence[Change]) -> None:
        """Take note of changes."""
        self.turn += 1
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
                    found = self._drop(folder)
                    if len(found) < FEW:
                        self.put(folder, _changed(found, change.key, record))

    def _drop(self, place: str) -> tuple[Record, ...]:
        gone = self._places.pop(place, ())
        self._bytes -= sum(len(each.value) for each in gone)
        return gone

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


def _changed(found: Sequence[Record], key: str, record: Record | None) -> list[Record]:
    """Return records, in order of their keys, with one of them set or gone."""
    at = bisect_left(found, key, key=_key)
    rest = at + 1 if at < len(found) and found[at].key == key else at
    return [*found[:at], *(() if record is None else (record,)), *found[rest:]]
