"""Assumptions of a write: values that it has read, which its commit compares with the current ones.

Within `assuming`, `Store.get_cached` and `Store.range_cached` of a store that other processes write, too, may return what
this process knows from its watch. The store notes what it returned. `Store.txn` adds a condition for each of them.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, runtime_checkable

from vcsync.apiserver.storage.interface import Delete, Put, Record, StoreError


class AssumptionFailed(StoreError):
    """A write is based on objects that have changed. It had no effect; read again."""


class Assumptions:
    """Objects that one write has read.

    Args:
        own: Key of the object that is written. Its writer checks it.
        fresh: Whether the store reads what is current at that time, because what it knew was not.

    Attributes:
        keys: Key -> revision of its last change; 0: it does not exist.
        folders: Prefix -> revision at which its records were read. They are among `keys`.
        committed: Whether a commit has taken effect, and with it the check of everything that was read before.
    """

    __slots__ = ("committed", "folders", "fresh", "keys", "own")

    def __init__(self, own: str = "", *, fresh: bool = False) -> None:
        self.own = own
        self.fresh = fresh
        self.keys: dict[str, int] = {}
        self.folders: dict[str, int] = {}
        self.committed = False

    def note(self, key: str, record: Record | None) -> None:
        """Note what was read of a key."""
        if key != self.own:
            self.keys[key] = record.revision if record else 0

    def note_folder(self, prefix: str, records: Sequence[Record], revision: int) -> None:
        """Note that the keys with a prefix were read, as of a revision."""
        self.folders[prefix] = revision
        for each in records:
            self.note(each.key, each)

    def note_commit(self, operations: Sequence[Put | Delete], revision: int) -> None:
        """Note that a commit took effect: everything that was read was current then."""
        self.committed = True
        self.folders = dict.fromkeys(self.folders, revision)
        for each in operations:
            if each.key in self.keys:
                self.keys[each.key] = revision if isinstance(each, Put) else 0


@runtime_checkable
class AssumingStore(Protocol):
    """A store whose `get_cached` and `range_cached` note what they return within `assuming`."""

    async def holds(self, assumed: Assumptions) -> bool:
        """Return whether everything that was read is still current."""
        ...


_current: ContextVar[Assumptions | None] = ContextVar("assumptions", default=None)


def current() -> Assumptions | None:
    """Return the assumptions of the write that this task executes, or None if its reads are not noted."""
    return _current.get()


@contextmanager
def assuming(assumptions: Assumptions) -> Iterator[None]:
    """Note the reads of this task and of the tasks that it starts."""
    token = _current.set(assumptions)
    try:
        yield
    finally:
        _current.reset(token)
