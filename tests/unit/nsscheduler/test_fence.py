"""The fence of a new leader: a write of an earlier leader is seen before the first decision, or fails."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.api import names
from vcsync.kube.cache import Cache
from vcsync.kube.errors import Conflict, NotFound, Status, Unreachable
from vcsync.nsscheduler import fence
from vcsync.nsscheduler.clients import LedgerClient
from vcsync.nsscheduler.fence import FencedLedger, NotLeading, stamp_all
from vcsync.objects.envelope import Envelope
from vcsync.tenancy.terms import TermLease

from .fakes import Server

NAMES = [f"ns-{number}" for number in range(5)]
TERM = "8.uid"


class Ledger(Server):
    """A ledger on which writes of an earlier leader land between two requests of the new one."""

    def __init__(
        self, late: list[tuple[int, str]] | None = None, unreachable: set[int] | None = None
    ) -> None:
        super().__init__()
        for name in NAMES:
            self.put(name, {"status": {"placements": {}}})
        self.versions = {name: self.objects[name]["metadata"]["resourceVersion"] for name in NAMES}
        self.late = late or []
        self.unreachable = unreachable or set()
        self.requests = 0
        self.landed: list[str] = []
        self.cache = Cache()

    def old_leader_writes(self, name: str) -> None:
        """Land a write that was decided by what stood before the new leader began."""
        change = {"metadata": {"resourceVersion": self.versions[name]}, "status": {"placements": {"r1": 9}}}
        try:
            self.patch(name, change, status=True)
        except (Conflict, NotFound):
            return
        self.landed.append(name)

    def _request(self) -> None:
        for at, name in self.late:
            if at == self.requests:
                self.old_leader_writes(name)
        self.requests += 1
        if self.requests in self.unreachable:
            raise Unreachable("cut")

    def fenced(self) -> FencedLedger:
        async def read(_namespace: str, name: str) -> Envelope:
            self._request()
            found = self.read(name)
            if found is None:
                raise NotFound(Status(404))
            return found

        async def patch(_namespace: str, name: str, change: dict[str, Any]) -> Envelope:
            self._request()
            return self.patch(name, change)

        return SimpleNamespace(
            read=read,
            patch=patch,
            seen=self.cache.observe,
            gone=self.cache.observe_gone,
            still_held=lambda: True,
        )

    def entries(self) -> list[Envelope]:
        return [found for name in NAMES if (found := self.read(name)) is not None]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fence, "_RETRY_SECONDS", 0.0)


@given(st.lists(st.tuples(st.integers(0, 12), st.sampled_from(NAMES))), st.sets(st.integers(0, 12)))
def test_a_write_of_an_earlier_leader_is_seen_by_the_new_one_or_fails(
    late: list[tuple[int, str]], unreachable: set[int]
) -> None:
    ledger = Ledger(late, unreachable)
    asyncio.run(stamp_all(ledger.entries(), TERM, ledger.fenced()))
    for name in NAMES:
        known = ledger.cache.get("", name)
        assert known == ledger.read(name), "the new leader decides by what stands"
        assert known is not None
        assert known.annotations[names.LEDGER_TERM] == TERM
    before = list(ledger.landed)
    for name in NAMES:
        ledger.old_leader_writes(name)
    assert ledger.landed == before, "nothing lands any more"


async def test_a_deleted_entry_needs_no_stamp() -> None:
    ledger = Ledger()
    entries = ledger.entries()
    for entry in entries:
        ledger.cache.observe(entry)
    del ledger.objects["ns-0"]
    await stamp_all(entries, TERM, ledger.fenced())
    assert ledger.cache.get("", "ns-0") is None


async def test_an_entry_with_the_stamp_of_this_term_is_not_written() -> None:
    ledger = Ledger()
    await stamp_all(ledger.entries(), TERM, ledger.fenced())
    requests = ledger.requests
    await stamp_all(ledger.entries(), TERM, ledger.fenced())
    assert ledger.requests == requests


async def test_without_the_lease_nothing_is_sent() -> None:
    sent: list[str] = []

    async def send(*_: object, **__: object) -> None:
        sent.append("something")

    meta: Any = SimpleNamespace(create=send, patch=send, delete=send)
    writes = LedgerClient(meta, lambda _: None, lambda *_: None, TermLease(TERM, lambda: False))
    for write in (
        writes.create("root", {"metadata": {"name": "shop"}}),
        writes.patch("root", "shop", {}, "status"),
        writes.delete("root", "shop", "uid", "1"),
    ):
        with pytest.raises(NotLeading):
            await write
    assert sent == []


async def test_a_new_entry_has_the_term_of_its_creator() -> None:
    made: list[dict[str, Any]] = []

    async def create(_resource: object, body: dict[str, Any], _namespace: str) -> None:
        made.append(body)

    meta: Any = SimpleNamespace(create=create)
    writes = LedgerClient(meta, lambda _: None, lambda *_: None, TermLease(TERM, lambda: True))
    await writes.create("root", {"metadata": {"name": "shop"}})
    assert made[0]["metadata"] == {"name": "shop", "annotations": {names.LEDGER_TERM: TERM}}
