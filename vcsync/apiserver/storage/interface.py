"""The interface of a store: ordered keys, one global revision, transactions, a window of history, and watches.

The semantics are those of etcd (https://etcd.io/docs/v3.6/learning/api/) as far as kube-apiserver relies on them. Both
implementations pass the same test suite.
"""

from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

NARROW = 128
"""Most conditions, and most operations, of one etcd transaction by default (`--max-txn-ops`).

A wider transaction of the store is a nested transaction in etcd.
"""
MAX_OPERATIONS = 3600
"""Most operations, and most conditions, of one transaction."""
MAX_CONDITIONS = 60
"""Most conditions of a wide transaction. All keys of one folder that must not exist count as `AREA` conditions."""
AREA = 8


class StoreError(Exception):
    """The operation failed. It has no effect unless a subclass says otherwise."""


class Compacted(StoreError):
    """The requested revision is older than the window of history; list again.

    Attributes:
        oldest: The first revision that can still be read or watched from.
    """

    def __init__(self, oldest: int) -> None:
        super().__init__(f"revision is compacted; the oldest is {oldest}")
        self.oldest = oldest


class FutureRevision(StoreError):
    """The requested revision is newer than the newest one.

    Attributes:
        current: The newest revision.
    """

    def __init__(self, current: int) -> None:
        super().__init__(f"revision is in the future; the newest is {current}")
        self.current = current


class StoreRefused(StoreError):
    """The files on disk cannot be served. The message says why, and names the remedy."""


class StoreFull(StoreError):
    """The disk is full. Writes are refused until there is room; reads continue."""


class StoreUnavailable(StoreError):
    """The store does not answer. Whether a write took effect is not known."""


@dataclass(frozen=True, slots=True)
class Record:
    """A key and its value. `created` and `revision` are the revisions of its creation and its last change."""

    key: str
    value: bytes
    created: int
    revision: int


@dataclass(frozen=True, slots=True)
class Page:
    """The records of a range, in key order.

    `revision` is that of the snapshot. `more` says whether keys follow, and `remaining` is their number.
    """

    records: list[Record]
    revision: int
    more: bool = False
    remaining: int = 0


@dataclass(frozen=True, slots=True)
class Compare:
    """A condition: the last change of the key has this revision. 0: the key does not exist."""

    key: str
    revision: int


@dataclass(frozen=True, slots=True)
class Put:
    """Set a key. `ttl` is its time to live in seconds; None: unlimited."""

    key: str
    value: bytes
    ttl: int | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a key. A key that does not exist is ignored."""

    key: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a transaction.

    `revision` is that of the commit if the transaction took effect, otherwise the newest one. `failed` holds the keys whose
    condition did not hold, with their current records (None: the key does not exist); it is empty on success.
    """

    revision: int
    failed: tuple[tuple[str, Record | None], ...] = ()

    @property
    def done(self) -> bool:
        """Whether the operations took effect."""
        return not self.failed


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one key. The changes of one transaction share a revision.

    `value` is None if the key was deleted, `previous` is None if it was created. `created` is the revision of its creation.
    """

    revision: int
    key: str
    value: bytes | None
    previous: bytes | None
    created: int


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage of a tenant: the number of its objects, and the bytes of their keys and values."""

    objects: int
    bytes: int


def tenant_of(key: str) -> str:
    """Return the first segment of a key, or an empty text for a key of one segment, which belongs to no tenant."""
    tenant, slash, _ = key.partition("/")
    return tenant if slash else ""


class Batch(list[Change]):
    """Changes that a watch receives together.

    Attributes:
        revision: The watch has received every change up to this revision.
    """

    __slots__ = ("revision",)

    def __init__(self, changes: Iterable[Change], revision: int) -> None:
        super().__init__(changes)
        self.revision = revision


def folder_of(key: str) -> str:
    """Return the part of a key up to its last slash."""
    return key[: key.rfind("/") + 1]


def too_wide(compares: Sequence[Compare], operations: Sequence[Put | Delete]) -> bool:
    """Return whether a transaction is too large for some store.

    It may require any number of keys not to exist, as long as they are in a few folders.
    """
    most = max(len(compares), len(operations))
    if most <= NARROW:
        return False
    folders = {folder_of(each.key) for each in compares if not each.revision}
    conditions = sum(bool(each.revision) for each in compares) + AREA * len(folders)
    return most > MAX_OPERATIONS or conditions > MAX_CONDITIONS


def require_valid(compares: Sequence[Compare], operations: Sequence[Put | Delete]) -> None:
    """Return if every store accepts a transaction.

    Raises:
        ValueError: A key occurs twice among the operations, or the transaction is too wide.
    """
    if too_wide(compares, operations):
        raise ValueError("the transaction has too many conditions or operations")
    if len({operation.key for operation in operations}) < len(operations):
        raise ValueError("a key occurs twice among the operations of a transaction")


class Store(Protocol):
    """Keys and values of every tenant. Every method may raise `StoreUnavailable`."""

    async def get(self, key: str, *, revision: int = 0) -> tuple[Record | None, int]:
        """Read one key as of `revision` (0: now).

        Returns:
            The record or None, and the revision of the snapshot.

        Raises:
            Compacted, FutureRevision: History does not contain that revision.
        """
        ...

    async def range(
        self, prefix: str, *, after: str = "", limit: int = 0, revision: int = 0, counted: bool = True
    ) -> Page:
        """Read the keys with a prefix that follow the key `after`, in byte order, at most `limit` (0: all).

        With a `limit`, the page may have fewer records if they are large, but at least one; `more` says whether keys follow.
        Without `counted`, `remaining` is undefined, because counting reads all keys.

        Raises:
            Compacted, FutureRevision: History does not contain that revision.
        """
        ...

    async def get_cached(self, key: str) -> Record | None:
        """Read one key, perhaps from a cache. The result is at least as new as every completed write."""
        ...

    async def range_cached(self, prefix: str) -> Sequence[Record]:
        """Read the keys with a prefix that ends in a slash, perhaps from a cache; as new as `get_cached`."""
        ...

    async def count(self, prefix: str) -> int:
        """Return the number of keys with a prefix."""
        ...

    async def txn(self, compares: Sequence[Compare], operations: Sequence[Put | Delete]) -> Outcome:
        """Execute all operations at one new revision if every condition holds. The result is durable on return.

        A transaction that changes nothing (because it deletes keys that do not exist) takes no revision.

        Raises:
            StoreFull: The disk is full.
            ValueError: A key occurs twice among the operations, or the transaction is `too_wide`.
        """
        ...

    def watch(self, prefix: str, after: int, *, progress: float | None = None) -> AsyncGenerator[Batch, None]:
        """Yield every change of keys with a prefix after revision `after`, in order, in batches.

        A batch never splits a revision. The watch ends only by cancellation or an error; close it with `aclosing`. After
        `progress` seconds without changes it yields an empty batch, whose `revision` can serve as a bookmark.

        Raises:
            Compacted: `after` is older than the window of history.
        """
        ...

    async def revision(self) -> int:
        """Return the newest revision. Watches have received or will receive every change up to it, in order."""
        ...

    async def compact(self, revision: int) -> None:
        """Remove history before `revision`. Current values stay."""
        ...

    async def usage(self, tenant: str) -> Usage:
        """Return the usage of a tenant. The store maintains it with every change, so that this is cheap."""
        ...

    async def wait_until_checked(self) -> None:
        """Wait until the store has been checked for damage. A large store may be in use before.

        Raises:
            StoreRefused: The store is damaged. The message names the remedy.
        """
        ...

    async def close(self) -> None:
        """Finish operations in flight, and release all resources."""
        ...
