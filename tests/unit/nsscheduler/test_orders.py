"""An operator's orders reach the slices of a tenant, whatever it writes, whatever it answers, and without it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from vcsync.kube.errors import KubeError, Unreachable
from vcsync.nsscheduler.commit import commit
from vcsync.nsscheduler.reconcile import Inputs, Plan, obey, reconcile
from vcsync.scheduling.snapshot import Health

from .fakes import NAMESPACE, changed
from .test_reconcile import SLICE, Stage, view

FOUR = {"cpu": "400m", "memory": "400Mi"}


class Hostile(Stage):
    """A namespace with four slices on r1, whose tenant then does something."""

    def __init__(self, deed: str) -> None:
        super().__init__()
        self.deed = ""
        self.views = {"r1": view("r1")}
        self.tenant.hards = [FOUR]
        self.turn()
        assert self.placements() == {"r1": 4}
        self.views = {"r1": view("r1"), "r2": view("r2")}
        self.do(deed)

    def do(self, deed: str) -> None:
        """Let the tenant do something."""
        self.deed = deed
        metadata = self.tenant.objects[NAMESPACE]["metadata"]
        match deed:
            case "annotation":
                self.annotate("x")
            case "slices":
                self.tenant.hards = [{"cpu": "9999", "memory": "9999Gi"}]
            case "quota":
                self.tenant.hards = [{"cpu": "-1"}]
            case "another UID":
                self.tenant.put(NAMESPACE, {"metadata": metadata | {"uid": metadata["uid"] + "0"}})
            case "nothing":
                self.annotate(SLICE)
                self.tenant.hards = [FOUR]
            case "finalizer":
                ends = metadata | {
                    "deletionTimestamp": "2026-01-01T00:00:00Z",
                    "finalizers": ["example.com/x"],
                }
                self.tenant.put(NAMESPACE, {"metadata": ends})

    def inputs(self) -> Inputs:
        inputs = super().inputs()
        if self.deed == "hides its quotas":
            return replace(inputs, hards=())
        if self.deed in ("hides its namespace", "is silent", "is away"):
            return replace(inputs, namespace=None, hards=())
        return inputs

    def turn(self) -> Plan:
        async def silence(*_: object) -> Any:
            raise Unreachable("no answer", endpoint="tenant")

        inputs = self.inputs()
        plan = (obey if self.deed == "is away" else reconcile)(inputs)
        tenant = self.tenant.control_plane()
        if self.deed == "is silent":
            tenant = changed(tenant, live_namespace=silence, live_hards=silence, patch_namespace=silence)
        with suppress(KubeError):  # it is tried again
            asyncio.run(commit(inputs, plan, self.meta.ledger(), None if self.deed == "is away" else tenant))
        return plan

    def settle(self) -> None:
        for _ in range(4):
            self.turn()
            entry = self.meta.entry()
            assert entry is not None
            assert not entry.deleting
            assert {f"tenancy.x-k8s.io/drain-{each}" for each in entry.status.placements} <= set(
                entry.finalizers
            )
        done = len(self.meta.writes)
        self.turn()
        assert len(self.meta.writes) == done, "it settles"


DEEDS = (
    "nothing",
    "annotation",
    "slices",
    "quota",
    "finalizer",
    "hides its quotas",
    "hides its namespace",
    "is silent",
    "is away",
)


def drain(stage: Stage) -> None:
    stage.views["r1"] = view("r1", draining=True)


def lose(stage: Stage) -> None:
    stage.views["r1"], stage.leaving = view("r1", health=Health.LOST), {"r1": 0}


def lower(stage: Stage) -> None:
    stage.spec["quota"] = {"cpu": "100m", "memory": "1Gi"}


def suspend(stage: Stage) -> None:
    stage.spec["suspended"] = True


def remove(stage: Stage) -> None:
    del stage.views["r1"]


ORDERS = ((drain, {"r2": 4}), (lose, {"r2": 4}), (lower, {"r1": 1}), (suspend, {}), (remove, {"r2": 4}))


@pytest.mark.parametrize(("order", "placements"), ORDERS, ids=lambda value: getattr(value, "__name__", ""))
@pytest.mark.parametrize("deed", DEEDS)
def test_an_order_arrives_whatever_the_tenant_does(deed: str, order: Any, placements: dict[str, int]) -> None:
    stage = Hostile(deed)
    stage.settle()
    assert stage.placements() == {"r1": 4}
    order(stage)
    stage.settle()
    assert stage.placements() == placements
    entry = stage.meta.entry()
    assert entry is not None
    assert "tenancy.x-k8s.io/drain-r1" in entry.finalizers
    if deed not in ("is away", "is silent", "hides its namespace"):
        assert (stage.mirror() or {}) == placements
    elif deed == "is away":
        assert stage.mirror() == {"r1": 4}, "the mirror waits for the tenant"


@pytest.mark.parametrize("deed", DEEDS[1:])
def test_a_tenant_that_says_nothing_valid_gets_no_more_slices(deed: str) -> None:
    stage = Hostile(deed)
    lower(stage)
    stage.settle()
    assert stage.placements() == {"r1": 1}
    stage.spec.clear()
    stage.settle()
    assert stage.placements() == {"r1": 1}
    entry = stage.meta.entry()
    assert entry is not None
    assert (entry.spec.slices, entry.status.waiting) == (4, 3)


def test_a_namespace_that_is_well_again_gets_the_slices_that_a_cap_has_taken() -> None:
    stage = Hostile("annotation")
    lower(stage)
    stage.settle()
    stage.spec.clear()
    stage.annotate(SLICE)
    stage.settle()
    assert sum((stage.placements() or {}).values()) == 4


@pytest.mark.parametrize("deed", DEEDS[1:])
def test_slices_without_room_elsewhere_stay_on_a_super_cluster_that_drains(deed: str) -> None:
    stage = Hostile(deed)
    stage.views = {"r1": view("r1", draining=True), "r2": view("r2", "300m")}
    stage.settle()
    assert stage.placements() == {"r1": 1, "r2": 3}
    stage.views["r2"] = view("r2")
    stage.settle()
    assert stage.placements() == {"r2": 4}


def test_a_namespace_that_is_being_deleted_does_not_count_as_suspended_after_the_resumption() -> None:
    stage = Hostile("finalizer")
    suspend(stage)
    stage.settle()
    stage.spec.clear()
    stage.settle()
    entry = stage.meta.entry()
    assert entry is not None
    assert [(each.reason, each.message) for each in entry.status.conditions] == [
        ("Terminating", "the namespace is being deleted")
    ]


@given(
    deeds=st.lists(st.sampled_from([*DEEDS, "another UID"]), max_size=8),
    orders=st.lists(st.sampled_from([drain, lose, lower, suspend]), min_size=1, max_size=3),
)
@settings(max_examples=60, deadline=None)
def test_orders_arrive_while_a_tenant_does_whatever_it_can(deeds: list[str], orders: list[Any]) -> None:
    """One turn after each deed, and syncers that clear what slices have left: two more turns are enough in any case."""
    stage = Hostile("nothing")
    for order in orders:
        order(stage)
    for deed in [*deeds, *deeds[-1:], *deeds[-1:]] or ["is away"] * 2:
        stage.do(deed)
        stage.turn()
        assert suspend not in orders or not stage.placements(), "at once, and for as long as the order stands"
        entry = stage.meta.entry()
        if entry is not None:
            stage.drained(*({"r1", "r2"} - set(entry.status.placements)))
    placements = stage.placements() or {}
    if lower in orders:
        assert sum(placements.values()) <= 1
    if drain in orders or lose in orders:
        assert "r1" not in placements


def test_the_event_of_an_invalid_annotation_says_what_an_order_has_moved() -> None:
    stage = Hostile("annotation")
    stage.settle()
    drain(stage)
    plan = stage.turn()
    assert plan.event is not None
    assert (plan.event[1], plan.event[2].partition("; 4 slices placed")[1:]) == (
        "InvalidSlice",
        ("; 4 slices placed", " (r2: 4)"),
    )
    assert stage.turn().event is None


def test_a_suspended_tenants_entry_goes_with_its_namespace() -> None:
    stage = Hostile("nothing")
    suspend(stage)
    stage.settle()
    stage.drained("r1")
    stage.tenant.objects.clear()
    stage.turn()
    assert stage.meta.entry() is None
