"""What the leader asks for by itself: the way back after a loss, and a rebalance on a schedule."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from vcsync.api import names
from vcsync.api.fields import Quantity
from vcsync.api.moves import MoveRequest, Wanted, request_annotation, request_of
from vcsync.api.objects import NamespacePlacement
from vcsync.api.specs import FailBack, NamespacePlacementSpec, NamespacePlacementStatus, VirtualClusterRef
from vcsync.kube.errors import Conflict, Status
from vcsync.nsscheduler.rebalancing import RETRY_SECONDS, Rebalancing
from vcsync.scheduling.ledger import Key, Ledger
from vcsync.scheduling.resources import times
from vcsync.scheduling.snapshot import Health, SuperView
from vcsync.tenancy.distribution import entry_of

SIZE = {"cpu": 1000, "memory": 1000}
ROOT = "k-acme"
EVERY = 3600.0


class Stage:
    """A pool of three super clusters with a stored ledger."""

    def __init__(self, *, every: float | None = None, budget: int = 20) -> None:
        self.views = {
            super_id: SuperView(super_id, Health.READY, times(SIZE, 10)) for super_id in ("r1", "r2", "r3")
        }
        self.ledger = Ledger()
        self.stored: dict[Key, NamespacePlacement] = {}
        self.policies: dict[str, FailBack | None] = {ROOT: "WithinBudget"}
        self.changed = False
        self.time, self.now = 0.0, datetime(2026, 1, 1, 12, tzinfo=UTC)
        self.rebalancing = Rebalancing(
            self.views,
            self.ledger,
            "spread",
            self,
            self.policies.get,
            budget,
            every,
            lambda: self.time,
            lambda: self.now,
        )

    def put(self, name: str, away: dict[str, int] | None = None, **placements: int) -> Key:
        key = (ROOT, name)
        placement = NamespacePlacement(
            name=name,
            namespace=ROOT,
            spec=NamespacePlacementSpec(
                virtual_cluster=VirtualClusterRef(namespace="vcsync", name="acme", uid="u"),
                tenant=ROOT,
                namespace=name,
                namespace_uid="u",
                slice_size={"cpu": Quantity("1"), "memory": Quantity("1")},
                slices=sum(placements.values()),
            ),
            status=NamespacePlacementStatus(placements=placements, away=away or {}),
        )
        self.stored[key] = placement
        self.ledger.put(key, entry_of(placement))
        return key

    def asked(self) -> list[NamespacePlacement]:
        return [each for each in self.stored.values() if names.MOVES in each.annotations]

    def of(self, keys: Iterable[Key]) -> dict[Key, NamespacePlacement]:
        return {key: self.stored[key] for key in keys}

    async def annotate(self, placement: NamespacePlacement, annotations: dict[str, Any]) -> None:
        if self.changed:
            raise Conflict(Status(409))
        key = (placement.namespace, placement.name)
        self.stored[key] = replace(placement, annotations=annotations)

    def requests(self) -> dict[str, list[tuple[str, str, int]]]:
        found = {}
        for each in self.asked():
            request = request_of(each.annotations)
            assert request is not None
            found[each.name] = [(move.source, move.target, move.slices) for move in request.moves]
        return found

    def refuse(self, key: Key, **fields: Any) -> None:
        request = request_of(self.stored[key].annotations)
        assert request is not None
        refused = replace(request, refused="no", **fields)
        self.stored[key] = replace(self.stored[key], annotations=request_annotation(refused))

    def wait(self, seconds: float) -> None:
        self.time += seconds
        self.now += timedelta(seconds=seconds)

    def answer(self) -> None:
        """Forget all requests, as if they had been carried out."""
        for each in self.asked():
            self.put(each.name, r1=sum(each.status.placements.values()))


async def test_slices_go_back_to_a_super_cluster_that_has_returned() -> None:
    stage = Stage()
    stage.put("shop", {"r2": 1}, r1=2, r3=1)
    stage.put("web", r1=2, r3=1)
    await stage.rebalancing.look()
    assert stage.requests() == {"shop": [("r1", "r2", 1)]}


async def test_slices_go_back_to_the_data_that_they_have_left() -> None:
    """A drain waits for volumes, so what has been lost with them is being cleared until it has slices there again."""
    stage = Stage()
    for name, there in (("shop", "r2"), ("other", "r3")):
        key = stage.put(name, {"r2": 1}, r1=2)
        placement = stage.stored[key]
        held = {there: {"cpu": Quantity("1"), "memory": Quantity("1")}}
        stage.stored[key] = replace(
            placement,
            finalizers=(names.drain_finalizer(there),),
            status=replace(placement.status, clearing=held),
        )
        stage.ledger.put(key, entry_of(stage.stored[key]))
    await stage.rebalancing.look()
    assert stage.requests() == {"shop": [("r1", "r2", 1)]}


@pytest.mark.parametrize("policy", ["Never", "NextRebalance", None])
async def test_slices_stay_if_the_policy_does_not_send_them_back_at_once(policy: FailBack | None) -> None:
    stage = Stage()
    stage.policies[ROOT] = policy
    stage.put("shop", {"r2": 1}, r1=2, r3=1)
    await stage.rebalancing.look()
    assert not stage.requests()


@pytest.mark.parametrize("health", [Health.LOST, Health.SUSPECT, Health.RECOVERING])
async def test_slices_stay_until_the_quiet_time_is_over(health: Health) -> None:
    stage = Stage()
    key = stage.put("shop", {"r2": 1}, r1=2, r3=1)
    stage.views["r2"] = replace(stage.views["r2"], health=health)
    await stage.rebalancing.look()
    assert not stage.requests()
    assert stage.ledger.get(key).away == {"r2": 1}  # type: ignore[union-attr]


async def test_slices_stay_where_the_way_back_would_make_the_pool_worse() -> None:
    stage = Stage()
    stage.put("shop", {"r2": 1}, r1=1)
    stage.put("heavy", r2=5)
    await stage.rebalancing.look()
    assert not stage.requests()


async def test_a_budget_goes_back_at_a_time_and_the_next_when_that_is_done() -> None:
    stage = Stage(budget=2)
    for number in range(4):
        stage.put(f"n{number}", {"r2": 1}, r1=2, r3=1)
    await stage.rebalancing.look()
    assert sorted(stage.requests()) == ["n0", "n1"]
    await stage.rebalancing.look()
    assert sorted(stage.requests()) == ["n0", "n1"]
    stage.answer()
    await stage.rebalancing.look()
    assert sorted(stage.requests()) == ["n2", "n3"]


async def test_a_way_back_that_was_refused_is_tried_again_later() -> None:
    stage = Stage()
    key = stage.put("shop", {"r2": 1}, r1=2, r3=1)
    await stage.rebalancing.look()
    stage.refuse(key)
    before = stage.stored[key]
    await stage.rebalancing.look()
    assert stage.stored[key] == before
    stage.wait(RETRY_SECONDS + 1)
    await stage.rebalancing.look()
    request = request_of(stage.stored[key].annotations)
    assert request is not None
    assert not request.refused


async def test_slices_that_claims_need_are_not_asked_for_again() -> None:
    stage = Stage()
    key = stage.put("shop", {"r2": 1}, r1=2, r3=1)
    await stage.rebalancing.look()
    stage.refuse(key, stay={"r1": 2, "r3": 1})
    stage.wait(RETRY_SECONDS + 1)
    await stage.rebalancing.look()
    request = request_of(stage.stored[key].annotations)
    assert request is not None
    assert request.refused


async def test_a_rebalance_on_a_schedule_comes_once_in_an_interval_within_the_budget() -> None:
    stage = Stage(every=EVERY, budget=2)
    for number in range(6):
        stage.put(f"n{number}", r1=1)
    await stage.rebalancing.look()
    assert not stage.requests()
    stage.time += EVERY
    await stage.rebalancing.look()
    assert len(stage.requests()) == 2
    stage.answer()
    await stage.rebalancing.look()
    assert not stage.requests()
    stage.time += EVERY
    await stage.rebalancing.look()
    assert len(stage.requests()) == 2


async def test_the_next_rebalance_takes_slices_back() -> None:
    stage = Stage(every=EVERY)
    stage.policies[ROOT] = "NextRebalance"
    stage.put("shop", {"r2": 1}, r1=2, r3=1)
    stage.time += EVERY
    await stage.rebalancing.look()
    assert stage.requests() == {"shop": [("r1", "r2", 1)]}


async def test_a_rebalance_waits_for_requests_of_others() -> None:
    stage = Stage(every=EVERY)
    key = stage.put("other", r1=1)
    stage.put("shop", r1=4)
    asked = MoveRequest(at="2026-01-01T11:00:00Z", moves=(Wanted("r1", "r3", 1),))
    stage.stored[key] = replace(stage.stored[key], annotations=request_annotation(asked))
    stage.time += EVERY
    await stage.rebalancing.look()
    assert list(stage.requests()) == ["other"]


async def test_namespaces_of_tenants_that_are_not_connected_stay() -> None:
    stage = Stage(every=EVERY)
    stage.policies.clear()
    stage.put("shop", r1=4)
    stage.time += EVERY
    await stage.rebalancing.look()
    assert not stage.requests()


async def test_an_entry_that_has_changed_is_asked_again() -> None:
    stage = Stage()
    stage.put("shop", {"r2": 1}, r1=2, r3=1)
    stage.changed = True
    await stage.rebalancing.look()
    assert not stage.requests()
    stage.changed = False
    await stage.rebalancing.look()
    assert stage.requests()
