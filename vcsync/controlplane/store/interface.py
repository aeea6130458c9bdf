"""What a store promises: keys in order, one global revision, transactions, a window of history, watches.

The semantics are etcd's (https://etcd.io/docs/v3.6/learning/api/) as far as kube-apiserver relies on them. Both
implementations are held to one test suite.
"""

from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

NARROW = 128
"""Conditions, and operations, that etcd takes in one transaction by default (`--max-txn-ops`); wider ones are made of several."""
MAX_OPERATIONS = 3600
"""Operations, and conditions, that one transaction may have at most."""
MAX_CONDITIONS = 60
"""Conditions that a wide transaction may have; all keys of one folder that must not be there count as `AREA`."""
AREA = 8


class StoreError(Exception):
    """The store could not do it; nothing of the request is in effect unless a subclass says otherwise."""


class Compacted(StoreError):
    """The revision asked for is older than the window of history; list again.

    Attributes:
        oldest: the first revision that can still be read or watched from.
    """

    def __init__(self, oldest: int) -> None:
        super().__init__(f"revision is compacted; the oldest is {oldest}")
        self.oldest = oldest


class FutureRevision(StoreError):
    """The revision asked for is newer than any that exists.

    Attributes:
        current: the newest revision.
    """

    def __init__(self, current: int) -> None:
        super().__init__(f"revision is in the future; the newest is {current}")
        self.current = current


class StoreRefused(StoreError):
    """What is on disk cannot be served as it is; the message says why and names the remedy."""


class StoreFull(StoreError):
    """There is no room: writes are refused until there is; reads go on."""


class StoreUnavailable(StoreError):
    """The store does not answer. Whether a write took effect is not known."""


@dataclass(frozen=True, slots=True)
class Record:
    """One key's value. `created` and `revision` are the revisions of its creation and of its last change."""

    key: str
    value: bytes
    created: int
    revision: int


@dataclass(frozen=True, slots=True)
class Page:
    """What a range found, in key order.

    `revision`: the snapshot it was read at. `more`: whether keys follow. `remaining`: how many, when `more`.
    """

    records: list[Record]
    revision: int
    more: bool = False
    remaining: int = 0


@dataclass(frozen=True, slots=True)
class Compare:
    """A condition: the key's last change is at this revision; 0: the key does not exist."""

    key: str
    revision: int


@dataclass(frozen=True, slots=True)
class Put:
    """Set a key. `ttl`: seconds after which the key is deleted; None: never."""

    key: str
    value: bytes
    ttl: int | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a key; none there: nothing happens."""

    key: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a transaction.

    `revision`: of the commit if it took effect, else the store's newest. `failed`: the keys whose condition
    did not hold, with what stands there now (None: nothing); empty when it took effect.
    """

    revision: int
    failed: tuple[tuple[str, Record | None], ...] = ()

    @property
    def done(self) -> bool:
        """Whether the writes took effect."""
        return not self.failed


@dataclass(frozen=True, slots=True)
class Change:
    """One key's change, in the order of revisions; several changes of one transaction share a revision.

    `value` None: deleted. `previous` None: it did not exist before. `created`: revision of the key's creation.
    """

    revision: int
    key: str
    value: bytes | None
    previous: bytes | None
    created: int


@dataclass(frozen=True, slots=True)
class Usage:
    """What a tenant keeps: how many objects, and the bytes of their keys and values."""

    objects: int
    bytes: int


def tenant_of(key: str) -> str:
    """Return the first path segment of a key."""
    return key.partition("/")[0]


class Batch(list[Change]):
    """Changes that a watch is given at once.

    Attributes:
        revision: the watch has now been given every change up to this revision.
    """

    __slots__ = ("revision",)

    def __init__(self, changes: Iterable[Change], revision: int) -> None:
        super().__init__(changes)
        self.revision = revision


def folder_of(key: str) -> str:
    """Return the part of a key up to its last slash."""
    return key[: key.rfind("/") + 1]


def too_wide(compares: Sequence[Compare], operations: Sequence[Put | Delete]) -> bool:
    """Tell whether a transaction is one that not every store can take.

    Any number of keys that are not there may be asked for, as long as they are in a few folders.
    """
    most = max(len(compares), len(operations))
    if most <= NARROW:
        return False
    folders = {folder_of(each.key) for each in compares if not each.revision}
    conditions = sum(bool(each.revision) for each in compares) + AREA * len(folders)
    return most > MAX_OPERATIONS or conditions > MAX_CONDITIONS


def require_valid(compares: Sequence[Compare], operations: Sequence[Put | Delete]) -> None:
    """Make sure that a transaction is one that every store takes.

    Raises:
        ValueError: a key stands twice among the operations, or it is too wide.
    """
    if too_wide(compares, operations):
        raise ValueError("the transaction has too many conditions or operations")
    if len({operation.key for operation in operations}) < len(operations):
        raise ValueError("a key stands twice among the operations of a transaction")


class Store(Protocol):
    """Keys and values of every tenant. Every method may raise `StoreUnavailable`."""

    async def get(self, key: str, *, revision: int = 0) -> tuple[Record | None, int]:
        """Read one key, as of `revision` (0: now).

        Returns:
            the record or None, and the revision of the snapshot.

        Raises:
            Compacted, FutureRevision: history does not reach that revision.
        """
        ...

    async def range(
        self, prefix: str, *, after: str = "", limit: int = 0, revision: int = 0, counted: bool = True
    ) -> Page:
        """Read keys that begin with `prefix` in byte order, those after the key `after`, at most `limit` (0: all).

        With a `limit` there may be fewer of long ones, at least one: `more` tells whether keys follow.
        Without `counted` the page's `remaining` means nothing: counting reads as many keys as there are.

        Raises:
            Compacted, FutureRevision: history does not reach that revision.
        """
        ...

    async def known(self, key: str) -> Record | None:
        """Return what stands at a key, perhaps from memory: at least as new as every write that was answered."""
        ...

    async def known_below(self, prefix: str) -> Sequence[Record]:
        """Return what stands below a prefix that ends in a slash, perhaps from memory: as new as `known`."""
        ...

    async def count(self, prefix: str) -> int:
        """Return how many keys begin with `prefix`."""
        ...

    async def txn(self, compares: Sequence[Compare], operations: Sequence[Put | Delete]) -> Outcome:
        """Do all operations at one new revision if every condition holds, else nothing. Durable once it returns.

        Operations that change nothing (deleting what is not there) take no revision.

        Raises:
            StoreFull: no room.
            ValueError: a key stands twice among the operations, or it is `too_wide`.
        """
        ...

    def watch(self, prefix: str, after: int, *, progress: float | None = None) -> AsyncGenerator[Batch, None]:
        """Yield every change after revision `after` to keys that begin with `prefix`, in order, in batches.

        A batch never splits a revision. It ends only by cancellation or an error; leave it by `aclosing`.
        `progress`: whenever nothing came for so many seconds, yield an empty batch, whose `revision` is good for
        a bookmark.

        Raises:
            Compacted: `after` is older than the window of history.
        """
        ...

    async def revision(self) -> int:
        """Return the newest revision; every change up to it has been or will be given to watches in order."""
        ...

    async def compact(self, revision: int) -> None:
        """Forget history before `revision`; current values stay."""
        ...

    async def usage(self, tenant: str) -> Usage:
        """Return what is kept below a first path segment; cheap, kept up with every change."""
        ...

    async def sound(self) -> None:
        """Return once it is known that what is kept is whole; a large store may be served before.

        Raises:
            StoreRefused: it is damaged; the message names the remedy.
        """
        ...

    async def close(self) -> None:
        """Finish what is in flight and release everything."""
        ...
