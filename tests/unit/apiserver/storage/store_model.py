"""A model of a store, and a state machine that compares any store with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from vcsync.apiserver.storage.interface import (
    Batch,
    Change,
    Compacted,
    Compare,
    Delete,
    FutureRevision,
    Outcome,
    Put,
    Record,
    Store,
    Usage,
)

T = TypeVar("T")

KEYS = [
    "a/core/pods/ns/a",
    "a/core/pods/ns/b",
    "a/core/pods/ns2/a",
    "a/core/pods/ns-x/a",
    "a/core/podsets/ns/a",
    "a/core/nodes/ü",
    "b/core/pods/ns/a",
    "b/x.io/things/\U0001f600",
    "ab",
]
PREFIXES = ["", "a/", "a/core/pods/", "a/core/pods/ns/", "a/core/po", "b/", "a/core/pods/ns/a", "c/", "a"]


class Model:
    """The model: every state that has existed."""

    def __init__(self, revision: int) -> None:
        self.revision = revision
        self.first = self.compacted = revision
        self.states: dict[int, dict[str, Record]] = {revision: {}}
        self.changes: list[Change] = []
        self.expires: dict[str, float] = {}
        self.now = 1000.0

    @property
    def objects(self) -> dict[str, Record]:
        return self.states[self.revision]

    def txn(self, compares: list[Compare], operations: list[Put | Delete]) -> Outcome:
        failed = tuple(
            (compare.key, self.objects.get(compare.key))
            for compare in compares
            if compare.revision != (self.objects[compare.key].revision if compare.key in self.objects else 0)
        )
        if failed:
            return Outcome(self.revision, failed)
        revision, objects, changed = self.revision + 1, dict(self.objects), False
        for operation in operations:
            old = objects.get(operation.key)
            self.expires.pop(operation.key, None)
            created, previous = (old.created, old.value) if old else (revision, None)
            if isinstance(operation, Put):
                objects[operation.key] = Record(operation.key, operation.value, created, revision)
                if operation.ttl is not None:
                    self.expires[operation.key] = self.now + operation.ttl
                self.changes.append(Change(revision, operation.key, operation.value, previous, created))
            elif old:
                del objects[operation.key]
                self.changes.append(Change(revision, operation.key, None, previous, created))
            else:
                continue
            changed = True
        if changed:
            self.revision, self.states[revision] = revision, objects
        return Outcome(self.revision)

    def skip_to(self, revision: int) -> None:
        """Add revisions without changes."""
        self.states |= dict.fromkeys(range(self.revision + 1, revision + 1), self.objects)
        self.revision = revision

    def sweep(self, at_once: int) -> int:
        """Delete expired keys, oldest first, in groups that share a revision."""
        over = [key for key, expires in self.expires.items() if expires <= self.now]
        over.sort(key=lambda key: (self.expires[key], key.encode()))
        for start in range(0, len(over), at_once):
            self.txn([], [Delete(key) for key in over[start : start + at_once]])
        return len(over)

    def range(self, prefix: str, after: str, revision: int) -> list[Record]:
        found = [
            record
            for key, record in self.states[revision].items()
            if key.startswith(prefix) and key.encode() > after.encode()
        ]
        return sorted(found, key=lambda record: record.key.encode())

    def between(self, prefix: str, after: int, until: int) -> list[Change]:
        return [
            change
            for change in self.changes
            if after < change.revision <= until and change.key.startswith(prefix)
        ]


@dataclass
class Watching:
    """A watch and the changes that it has delivered."""

    prefix: str
    after: int
    batches: AsyncGenerator[Batch, None]
    got: list[Change] = field(default_factory=list)
    position: int = 0


def in_order(changes: list[Change]) -> list[Change]:
    """Return changes in order of their revisions, then keys."""
    return sorted(changes, key=lambda change: (change.revision, change.key))


FOLDERS = ["a/core/pods/ns/", "a/core/pods/", "b/x.io/things/"]
ODD = [
    "\U0010ffff",
    "\U0010ffff\U0010ffff",
    "\U0010fffe",
    "\uffff",
    "\x7f",
    "\x00",
    "%",
    "_",
    "a\x00",
    "e\u0301",
    "é",
]
"""Names that sort last, have a meaning in SQL, end texts in C, or are Unicode forms of each other."""

names = st.one_of(
    st.sampled_from(ODD), st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
)
odd_keys = st.builds("{}{}".format, st.sampled_from(FOLDERS), names)
keys = st.one_of(st.sampled_from(KEYS), odd_keys)
prefixes = st.one_of(st.sampled_from(PREFIXES), odd_keys)
values = st.binary(max_size=4)
picks = st.integers(0, 1 << 16)
operations = st.one_of(
    st.builds(Put, keys, values),
    st.builds(Put, keys, values, st.integers(1, 9)),
    st.builds(Delete, keys),
)


class StoreMachine(RuleBasedStateMachine):
    """Applies the same operations to a store and to the model, and compares. Subclasses open the store."""

    TTL = True
    """Whether the model controls the clock. Otherwise no key may expire within a test."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.watching: list[Watching] = []
        self.store: Store = self.run(self.open())
        self.model = Model(self.run(self.store.revision()))

    async def open(self) -> Store:
        """Return an empty store."""
        raise NotImplementedError

    async def reopen(self) -> Store:
        """Open the same store again, as another process, after it was closed."""
        raise NotImplementedError

    at_once = 200
    """Expired keys that are deleted at one revision."""

    async def settled(self) -> None:
        """Wait until the store has published its own changes."""

    async def sweep(self) -> int:
        """Delete the keys that have expired by the model's clock."""
        raise NotImplementedError

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(coroutine)

    def teardown(self) -> None:
        for watching in self.watching:
            self.run(watching.batches.aclose())
        self.run(self.store.close())
        self.runner.close()

    def _revision(self, pick: int) -> int:
        """Draw a revision, in most cases a readable one."""
        return self.model.compacted + pick % (self.model.revision - self.model.compacted + 1)

    @rule(
        conditions=st.lists(st.tuples(keys, st.integers(0, 4)), max_size=2, unique_by=lambda pair: pair[0]),
        writes=st.lists(operations, max_size=4, unique_by=lambda one: one.key),
    )
    def txn(self, conditions: list[tuple[str, int]], writes: list[Put | Delete]) -> None:
        if not self.TTL:
            writes = [Put(one.key, one.value) if isinstance(one, Put) else one for one in writes]
        compares = []
        for key, kind in conditions:
            record = self.model.objects.get(key)
            right = record.revision if record else 0
            compares.append(Compare(key, right if kind else max(0, right - 1) or 1))
        assert self.run(self.store.txn(compares, writes)) == self.model.txn(compares, writes)

    @rule(key=keys)
    def get(self, key: str) -> None:
        assert self.run(self.store.get(key)) == (self.model.objects.get(key), self.model.revision)

    @rule(key=keys, pick=picks)
    def get_at_revision(self, key: str, pick: int) -> None:
        revision = self._revision(pick)
        expected = self.model.states[revision].get(key)
        assert self.run(self.store.get(key, revision=revision)) == (expected, revision)

    @rule(
        prefix=prefixes, after=st.one_of(st.just(""), keys), limit=st.integers(0, 4), pick=st.none() | picks
    )
    def range(self, prefix: str, after: str, limit: int, pick: int | None) -> None:
        revision = 0 if pick is None else self._revision(pick)
        page = self.run(self.store.range(prefix, after=after, limit=limit, revision=revision))
        expected = self.model.range(prefix, after, revision or self.model.revision)
        cut = limit or len(expected)
        assert page.records == expected[:cut]
        assert page.revision == (revision or self.model.revision)
        assert (page.more, page.remaining) == (len(expected) > cut, max(0, len(expected) - cut))

    @rule(prefix=prefixes)
    def count(self, prefix: str) -> None:
        assert self.run(self.store.count(prefix)) == len(self.model.range(prefix, "", self.model.revision))

    @rule(tenant=st.sampled_from(["a", "b", "c", "ab"]))
    def usage(self, tenant: str) -> None:
        records = [one for one in self.model.objects.values() if one.key.startswith(f"{tenant}/")]
        size = sum(len(one.key.encode()) + len(one.value) for one in records)
        self.run(self.settled())
        assert self.run(self.store.usage(tenant)) == Usage(len(records), size)

    @rule()
    def revision(self) -> None:
        assert self.run(self.store.revision()) == self.model.revision

    @precondition(lambda self: len(self.watching) < 4)
    @rule(prefix=prefixes, pick=picks)
    def watch(self, prefix: str, pick: int) -> None:
        after = self._revision(pick)
        batches = self.store.watch(prefix, after, progress=0.001)
        self.watching.append(Watching(prefix, after, batches, position=after))

    @precondition(lambda self: self.watching)
    @rule(pick=picks)
    def follow(self, pick: int) -> None:
        watching = self.watching[pick % len(self.watching)]
        until = self.model.revision

        async def follow() -> None:
            while watching.position < until:
                batch = await anext(watching.batches)
                assert batch.revision >= watching.position
                assert all(watching.position < change.revision <= batch.revision for change in batch)
                assert [one.revision for one in batch] == sorted(one.revision for one in batch)
                watching.got += batch
                watching.position = batch.revision

        try:
            self.run(follow())
        except Compacted as error:
            oldest = error.oldest
            # The watch had not begun, or had fallen behind, when its history was compacted.
            assert watching.position < oldest == self.model.compacted
            self.watching.remove(watching)
        expected = self.model.between(watching.prefix, watching.after, watching.position)
        assert in_order(watching.got) == in_order(expected)

    @rule(pick=picks)
    def compact(self, pick: int) -> None:
        revision = self._revision(pick)
        self.run(self.store.compact(revision))
        self.model.compacted = revision

    @precondition(lambda self: self.model.compacted > self.model.first + 1)
    @rule(prefix=prefixes)
    def read_what_is_compacted(self, prefix: str) -> None:
        async def watched() -> Batch:
            return await anext(self.store.watch(prefix, self.model.compacted - 2))

        old = self.model.compacted - 1
        self._fails(Compacted(self.model.compacted), lambda: self.store.range(prefix, revision=old))
        self._fails(Compacted(self.model.compacted), lambda: self.store.get("ab", revision=old))
        self._fails(Compacted(self.model.compacted), watched)

    @rule(prefix=prefixes, ahead=st.integers(1, 9))
    def read_what_is_not_yet(self, prefix: str, ahead: int) -> None:
        future = self.model.revision + ahead
        error = FutureRevision(self.model.revision)
        self._fails(error, lambda: self.store.range(prefix, revision=future))
        self._fails(error, lambda: self.store.get("ab", revision=future))
        self._fails(error, lambda: self.store.compact(future))

    @precondition(lambda self: self.TTL)
    @rule(seconds=st.integers(0, 6))
    def time_passes(self, seconds: int) -> None:
        self.model.now += seconds
        assert self.run(self.sweep()) == self.model.sweep(self.at_once)

    @rule()
    def restart(self) -> None:
        self.watching.clear()
        self.run(self.store.close())
        self.store = self.run(self.reopen())
        self.model.skip_to(self.run(self.store.revision()))

    def _fails(self, error: Compacted | FutureRevision, act: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        with pytest.raises(type(error)) as caught:
            self.run(act())
        assert vars(caught.value) == vars(error)
