"""Requests to move slices: what the leader carries out, in which waves, and what it refuses with which reason."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from vcsync.api import names
from vcsync.api.moves import MoveRequest, Wanted, request_annotation, request_of
from vcsync.api.objects import NamespacePlacement
from vcsync.api.specs import NamespacePlacementSpec, VirtualClusterRef
from vcsync.kube.errors import Conflict, Status, Unreachable
from vcsync.nsscheduler.transfers import RETRY_SECONDS, Transfers
from vcsync.scheduling.drain_waves import UNDER_WAY_SECONDS
from vcsync.scheduling.failover import SMALLEST_WAVE
from vcsync.scheduling.ledger import Entry, Key, Ledger
from vcsync.scheduling.place import SliceRequest, place_slices
from vcsync.scheduling.resources import times
from vcsync.scheduling.snapshot import Health, SuperView

SIZE = {"cpu": 1000, "memory": 1000}
ROOT = "k-acme"
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
AT = "2026-01-01T12:00:00Z"


class Stage:
    """A pool with a stored ledger. Decisions are made when the test says so."""

    def __init__(self, **slices: int) -> None:
        self.views = {
            super_id: SuperView(super_id, Health.READY, times(SIZE, room))
            for super_id, room in slices.items()
        }
        self.ledger = Ledger()
        self.annotations: dict[Key, dict[str, str]] = {}
        self.connected = {ROOT}
        self.claims: dict[tuple[Key, str], int | Exception] = {}
        self.added: list[Key] = []
        self.conflicts = 0
        self.time, self.now = 0.0, NOW
        self.transfers = Transfers(
            self.views,
            self.ledger,
            "spread",
            self,
            self.connected.__contains__,
            self._stateful,
            self.added.append,
            lambda: self.time,
            lambda: self.now,
        )

    def put(
        self, name: str, clearing: dict[str, Any] | None = None, tenant: str = ROOT, **placements: int
    ) -> Key:
        key = (tenant, name)
        self.ledger.put(key, Entry(SIZE, placements, clearing or {}))
        return key

    def ask(self, key: Key, *moves: tuple[str, str, int], order: int = 0) -> None:
        left = dict(self.placed(key))
        for source, _, slices in moves:
            left[source] = left.get(source, 0) - slices
        left = {source: left[source] for source, _, _ in moves}
        wanted = tuple(Wanted(*each) for each in moves)
        request = MoveRequest(at=AT, order=order, moves=wanted, left=left)
        self.annotations[key] = request_annotation(request)

    def asked(self) -> list[NamespacePlacement]:
        owner = VirtualClusterRef(namespace="vcsync", name="acme", uid="u")
        spec = NamespacePlacementSpec(
            virtual_cluster=owner, tenant=ROOT, namespace="n", namespace_uid="u", slices=1
        )
        return [
            NamespacePlacement(name=key[1], namespace=key[0], annotations=dict(found), spec=spec)
            for key, found in self.annotations.items()
        ]

    async def annotate(self, placement: NamespacePlacement, annotations: dict[str, Any]) -> None:
        if self.conflicts:
            self.conflicts -= 1
            raise Conflict(Status(409))
        key = (placement.namespace, placement.name)
        if annotations[names.MOVES] is None:
            del self.annotations[key]
        else:
            self.annotations[key] = annotations

    async def _stateful(self, key: Key, super_id: str) -> int:
        found = self.claims.get((key, super_id), 0)
        if isinstance(found, Exception):
            raise found
        return found

    def decide(self, *, drained: bool = True) -> list[Key]:
        """Decide about the namespaces that were enqueued, as the leader does."""
        decided, self.added[:] = list(self.added), []
        for key in decided:
            entry = self.ledger.get(key)
            assert entry is not None
            transfers = self.transfers.of(key)
            total = sum(entry.placements.values())
            request = SliceRequest(total, SIZE, current=entry.placements, transfers=transfers)
            allocated = {each: self.ledger.allocated(each, without=key) for each in self.views}
            after = place_slices(self.views, allocated, request).placements
            left = {} if drained else {each: SIZE for each in entry.placements if each not in after}
            self.ledger.put(key, Entry(SIZE, after, left))
            self.transfers.note_decided(key, transfers, f"slices: {after}")
        return decided

    def refused(self, key: Key) -> str:
        request = request_of(self.annotations.get(key, {}))
        return "" if request is None else request.refused

    def placed(self, key: Key) -> dict[str, int]:
        entry = self.ledger.get(key)
        assert entry is not None
        return entry.placements


async def test_a_request_is_carried_out_and_removed() -> None:
    stage = Stage(r1=10, r2=10)
    key = stage.put("shop", r1=4)
    stage.ask(key, ("r1", "r2", 2))
    await stage.transfers.look()
    assert stage.decide() == [key]
    assert stage.placed(key) == {"r1": 2, "r2": 2}
    await stage.transfers.look()
    assert not stage.annotations
    assert stage.transfers.of(key) == ()


async def test_a_decision_that_began_before_the_request_does_not_end_it() -> None:
    stage = Stage(r1=10, r2=10)
    key = stage.put("shop", r1=4)
    stage.ask(key, ("r1", "r2", 2))
    await stage.transfers.look()
    stage.transfers.note_decided(key, (), "slices: r1 4")
    await stage.transfers.look()
    assert not stage.refused(key)
    assert stage.transfers.of(key)


async def test_a_request_that_is_taken_back_moves_nothing() -> None:
    stage = Stage(r1=10, r2=10)
    key = stage.put("shop", r1=4)
    stage.ask(key, ("r1", "r2", 2))
    await stage.transfers.look()
    del stage.annotations[key]
    await stage.transfers.look()
    stage.decide()
    assert stage.placed(key) == {"r1": 4}


@pytest.mark.parametrize(
    ("move", "reason"),
    [
        (("r1", "r3", 1), "r3 takes no new slices"),
        (("r1", "r4", 2), "r4 has no room for 2 slices"),
        (("r1", "r9", 1), "r9 takes no new slices"),
        (("r2", "r1", 1), "the pool has changed, and the moves would make its score worse"),
    ],
)
async def test_a_request_that_the_leader_does_not_find_good_is_refused(
    move: tuple[str, str, int], reason: str
) -> None:
    stage = Stage(r1=10, r2=10, r3=10, r4=1)
    stage.views["r3"] = replace(stage.views["r3"], fenced=True)
    key = stage.put("shop", r1=4, r2=1)
    stage.ask(key, move)
    await stage.transfers.look()
    assert stage.refused(key) == reason
    assert not stage.added


async def test_a_request_about_other_slices_than_there_are_is_refused() -> None:
    stage = Stage(r1=10, r2=10)
    key = stage.put("shop", r1=4)
    stage.ask(key, ("r1", "r2", 2))
    stage.put("shop", r1=5)
    await stage.transfers.look()
    assert stage.refused(key) == "the namespace has other slices by now than when the moves were asked for"
    assert not stage.added


async def test_a_request_that_an_earlier_leader_has_carried_out_is_not_carried_out_again() -> None:
    stage = Stage(r1=10, r2=10)
    key = stage.put("shop", r1=6)
    stage.ask(key, ("r1", "r2", 1))
    stage.put("shop", r1=5, r2=1)
    await stage.transfers.look()
    assert not stage.added
    assert not stage.annotations


async def test_moves_are_judged_together() -> None:
    """The first one alone makes the pool worse, the second one makes it better by more."""
    stage = Stage(r1=10, r2=10)
    lonely, heavy = stage.put("lonely", r2=1), stage.put("heavy", r1=4)
    stage.ask(lonely, ("r2", "r1", 1), order=0)
    stage.ask(heavy, ("r1", "r2", 2), order=1)
    await stage.transfers.look()
    assert stage.decide() == [lonely, heavy]


async def test_slices_that_pods_with_claims_need_stay_and_the_request_says_so() -> None:
    stage = Stage(r1=10, r2=10)
    key = stage.put("shop", r1=4)
    stage.claims[key, "r1"] = 3
    stage.ask(key, ("r1", "r2", 2))
    await stage.transfers.look()
    assert stage.refused(key) == "Pods with claims need 3 slices on r1"
    request = request_of(stage.annotations[key])
    assert request is not None
    assert request.stay == {"r1": 3}
    assert not stage.added


async def test_a_tenant_that_does_not_answer_is_asked_again_later() -> None:
    stage = Stage(r1=10, r2=10)
    key = stage.put("shop", r1=4)
    stage.claims[key, "r1"] = Unreachable("cut")
    stage.ask(key, ("r1", "r2", 2))
    await stage.transfers.look()
    stage.claims.clear()
    await stage.transfers.look()
    assert not stage.added
    stage.time += RETRY_SECONDS
    await stage.transfers.look()
    assert stage.added == [key]


async def test_a_request_waits_for_its_tenant() -> None:
    stage = Stage(r1=10, r2=10)
    key = stage.put("shop", r1=4)
    stage.connected.clear()
    stage.ask(key, ("r1", "r2", 2))
    await stage.transfers.look()
    assert not stage.added
    assert not stage.refused(key)
    stage.connected.add(ROOT)
    await stage.transfers.look()
    assert stage.added == [key]


async def test_a_wave_is_bounded_until_the_old_places_are_drained() -> None:
    stage = Stage(r1=100, r2=100)
    keys = [stage.put(f"n{number:02}", r1=1) for number in range(SMALLEST_WAVE * 4)]
    for order, key in enumerate(keys):
        stage.ask(key, ("r1", "r2", 1), order=order)
        if order >= SMALLEST_WAVE + 3:
            del stage.annotations[key]
    await stage.transfers.look()
    assert stage.decide(drained=False) == keys[:SMALLEST_WAVE]
    await stage.transfers.look()
    assert not stage.added
    for key in keys[:2]:
        stage.put(key[1], r2=1)
    await stage.transfers.look()
    assert stage.decide(drained=False) == keys[SMALLEST_WAVE : SMALLEST_WAVE + 2]


OTHER = "k-other"


def crowd(stage: Stage, count: int) -> list[Key]:
    """Let many namespaces of one tenant ask first. Their Pods take a day to end."""
    stage.connected.add(OTHER)
    keys = [stage.put(f"n{number:02}", r1=1) for number in range(count)]
    for order, key in enumerate(keys):
        stage.ask(key, ("r1", "r2", 1), order=order)
    return keys


async def test_namespaces_that_do_not_leave_hold_back_others_for_a_time_only() -> None:
    stage = Stage(r1=100, r2=100)
    crowd(stage, SMALLEST_WAVE)
    await stage.transfers.look()
    stage.decide(drained=False)
    await stage.transfers.look()
    quiet = stage.put("quiet", tenant=OTHER, r1=2)
    stage.ask(quiet, ("r1", "r2", 1))
    stage.time = UNDER_WAY_SECONDS - 1
    await stage.transfers.look()
    assert not stage.added
    stage.time = UNDER_WAY_SECONDS
    await stage.transfers.look()
    assert stage.added == [quiet]


async def test_a_tenant_whose_namespaces_do_not_leave_moves_no_more() -> None:
    stage = Stage(r1=100, r2=100)
    crowd(stage, SMALLEST_WAVE)
    await stage.transfers.look()
    stage.decide(drained=False)
    await stage.transfers.look()
    stage.time = UNDER_WAY_SECONDS
    more = stage.put("more", r1=2)
    stage.ask(more, ("r1", "r2", 1))
    await stage.transfers.look()
    assert not stage.added
    assert stage.refused(more) == "10 namespaces of its tenant have not left their former super clusters yet"
    stage.put("n00", r2=1)
    stage.put("late", r1=2)
    stage.ask((ROOT, "late"), ("r1", "r2", 1))
    await stage.transfers.look()
    assert stage.added == [(ROOT, "late")]


async def test_tenants_take_turns_in_a_wave() -> None:
    stage = Stage(r1=100, r2=100)
    keys = crowd(stage, SMALLEST_WAVE * 2)
    quiet = stage.put("quiet", tenant=OTHER, r1=2)
    stage.ask(quiet, ("r1", "r2", 1), order=99)
    await stage.transfers.look()
    assert set(stage.added) == {quiet, *keys[: SMALLEST_WAVE - 1]}


async def test_a_tenant_that_is_not_connected_keeps_no_request_open() -> None:
    """Nothing else is asked for while a request is open."""
    stage = Stage(r1=10, r2=10)
    key = stage.put("shop", r1=4)
    stage.connected.clear()
    stage.ask(key, ("r1", "r2", 2))
    await stage.transfers.look()
    stage.time = UNDER_WAY_SECONDS
    await stage.transfers.look()
    assert stage.refused(key) == "its tenant's control plane does not answer"


async def test_a_tenant_that_does_not_answer_keeps_no_request_open_and_is_asked_as_a_whole() -> None:
    stage = Stage(r1=100, r2=100)
    keys = crowd(stage, SMALLEST_WAVE)
    asked: list[Key] = []

    async def silent(key: Key, _super_id: str) -> int:
        asked.append(key)
        raise Unreachable("cut")

    stage.transfers._stateful = silent
    await stage.transfers.look()
    more = stage.put("more", r1=2)
    stage.ask(more, ("r1", "r2", 1), order=99)
    await stage.transfers.look()
    assert more not in asked, "it belongs to the same tenant"
    for _ in range(6):
        stage.time += RETRY_SECONDS
        await stage.transfers.look()
    assert {stage.refused(key) for key in keys} == {"its tenant's control plane does not answer"}


async def test_an_order_that_nobody_decides_on_is_given_up() -> None:
    stage = Stage(r1=10, r2=10)
    key = stage.put("shop", r1=4)
    stage.ask(key, ("r1", "r2", 2))
    await stage.transfers.look()
    assert stage.added == [key]
    stage.time = UNDER_WAY_SECONDS
    await stage.transfers.look()
    assert stage.refused(key) == "nothing was decided about the namespace in time"
    assert stage.transfers.of(key) == ()


async def test_a_target_that_fills_meanwhile_leaves_the_slices_where_they_are() -> None:
    stage = Stage(r1=10, r2=10)
    key = stage.put("shop", r1=4)
    stage.ask(key, ("r1", "r2", 2))
    await stage.transfers.look()
    stage.put("other", r2=10)
    stage.decide()
    await stage.transfers.look()
    assert stage.placed(key) == {"r1": 4}
    assert stage.refused(key).startswith("r2 could not take the slices: ")


async def test_an_entry_that_has_changed_is_written_at_the_next_look() -> None:
    stage = Stage(r1=10, r2=10)
    key = stage.put("shop", r1=4)
    stage.ask(key, ("r1", "r2", 2))
    await stage.transfers.look()
    stage.decide()
    stage.conflicts = 1
    await stage.transfers.look()
    assert stage.annotations
    await stage.transfers.look()
    assert not stage.annotations
    assert not stage.added


async def test_a_request_that_cannot_be_read_is_refused_and_one_that_was_refused_is_forgotten_in_time() -> (
    None
):
    stage = Stage(r1=10, r2=10)
    key, other = stage.put("shop", r1=4), stage.put("web", r1=1)
    stage.annotations[key] = {names.MOVES: "{"}
    stage.ask(other, ("r1", "r9", 1))
    await stage.transfers.look()
    assert key not in stage.annotations
    assert stage.refused(other)
    stage.now += timedelta(hours=1, seconds=1)
    await stage.transfers.look()
    assert not stage.annotations
