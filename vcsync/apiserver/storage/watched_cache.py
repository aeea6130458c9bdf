"""Cache of a store that other processes write, too, filled by a watch. Pure.

The cache may lag behind the store, so what it returns has to be checked by the commit that depends on it.
"""

from collections.abc import Sequence

from vcsync.apiserver.storage.interface import Batch, Record
from vcsync.apiserver.storage.read_cache import RecordCache

MOST_UNSEEN = 1024
"""Most keys that are remembered as newer than the watch. Beyond that, nothing is returned until the watch catches up."""


class WatchedCache:
    """Records by key and by prefix. `note` must be called with every batch of the watch, in order."""

    def __init__(self) -> None:
        self._records = RecordCache()
        self._unseen: dict[str, int] = {}
        self._following = False
        self._revision = 0

    @property
    def revision(self) -> int:
        """The revision up to which the watch has reported every change."""
        return self._revision

    def get(self, place: str) -> Sequence[Record] | None:
        """Return the records of a key, or of a prefix that ends in a slash, or None if the store must be asked."""
        if not self._following or len(self._unseen) > MOST_UNSEEN:
            return None
        unseen = self._unseen
        if unseen and (
            place in unseen or (place.endswith("/") and any(key.startswith(place) for key in unseen))
        ):
            return None
        return self._records.get(place)

    def put(self, place: str, records: Sequence[Record], revision: int) -> None:
        """Remember what the store returned at a revision. What the watch may have reported since is not remembered."""
        if self._following and revision >= self._revision:
            self._records.put(place, records)

    def outdated(self, keys: Sequence[str], revision: int) -> None:
        """Do not return these keys until the watch has reported this revision: the store has something newer."""
        if self._following and revision > self._revision:
            for key in keys:
                self._unseen[key] = revision

    def note(self, batch: Batch) -> None:
        """Apply changes of the watch."""
        self._following = True
        self._revision = batch.revision
        self._records.note(batch)
        if self._unseen:
            self._unseen = {key: at for key, at in self._unseen.items() if at > batch.revision}

    def interrupt(self) -> None:
        """Return nothing until the watch continues."""
        self._following = False
        self._unseen.clear()

    def forget(self) -> None:
        """Forget everything, because changes were lost."""
        self.interrupt()
        self._records = RecordCache()
