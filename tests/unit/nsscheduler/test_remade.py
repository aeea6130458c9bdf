"""A namespace that is deleted and made again gets its slices, also while a super cluster with its former objects is lost."""

from __future__ import annotations

import pytest

from vcsync.api import names
from vcsync.scheduling.snapshot import Health

from .fakes import NAMESPACE
from .test_reconcile import SLICE, SMALL, Stage, view

TWO = {"r1": 1, "r2": 1}


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    stage.tenant.hards = [SMALL]
    stage.turn()
    assert stage.placements() == TWO
    return stage


def delete(stage: Stage) -> None:
    stage.tenant.objects.clear()


def make(stage: Stage, uid: str = "uid-2") -> None:
    stage.tenant.put(NAMESPACE, {"metadata": {"uid": uid, "annotations": {names.SLICE: SLICE}}})


def lose(stage: Stage, *, fenced: bool = False) -> None:
    stage.views["r1"] = view("r1", health=Health.LOST, fenced=fenced)


def turns(stage: Stage, count: int = 4) -> None:
    for _ in range(count):
        stage.turn()
    done = len(stage.meta.writes)
    stage.turn()
    assert len(stage.meta.writes) == done, "it settles"


@pytest.mark.parametrize("seen", [True, False], ids=["seen as gone", "made again at once"])
@pytest.mark.parametrize("fenced", [True, False])
def test_a_namespace_made_again_during_a_loss_is_placed_elsewhere(
    stage: Stage, *, seen: bool, fenced: bool
) -> None:
    lose(stage, fenced=fenced)
    if seen:
        delete(stage)
        turns(stage)
    make(stage)
    turns(stage)
    assert stage.placements() == {}
    assert stage.turn().message == "its former placement is being cleared by r2"
    stage.drained("r2")
    turns(stage)
    entry = stage.meta.entry()
    assert entry is not None
    assert (entry.spec.namespace_uid, stage.placements(), stage.mirror()) == ("uid-2", {"r2": 2}, {"r2": 2})
    assert (entry.status.former, set(entry.status.clearing)) == (("r1",), {"r1"})
    assert entry.status.clearing["r1"]["cpu"] == "100m"
    assert entry.status.away == {}


def test_it_gets_nothing_on_the_super_cluster_that_returns_before_that_has_cleared(stage: Stage) -> None:
    lose(stage)
    make(stage)
    turns(stage)
    stage.drained("r2")
    turns(stage)
    stage.views["r1"] = view("r1")
    stage.views["r2"] = view("r2", "200m")
    stage.tenant.hards = [{"cpu": "300m", "memory": "300Mi"}]
    turns(stage)
    assert stage.placements() == {"r2": 2}
    stage.meta.patch(NAMESPACE, {"spec": {"pins": {"r1": 1}}})
    turns(stage)
    assert stage.placements() == {"r2": 2}
    stage.drained("r1")
    turns(stage)
    entry = stage.meta.entry()
    assert entry is not None
    assert (stage.placements(), entry.status.former, entry.status.clearing) == ({"r1": 1, "r2": 2}, (), {})


def test_it_waits_for_super_clusters_that_are_in_touch(stage: Stage) -> None:
    make(stage)
    for health in (Health.READY, Health.SUSPECT, Health.RECOVERING):
        stage.views["r1"] = view("r1", health=health)
        turns(stage)
        assert stage.placements() == {}
        assert stage.turn().reason == "Draining"
    stage.drained("r1", "r2")
    stage.views["r1"] = view("r1")
    turns(stage)
    assert stage.placements() == TWO


def test_it_may_be_made_again_twice(stage: Stage) -> None:
    lose(stage)
    make(stage)
    turns(stage)
    stage.drained("r2")
    turns(stage)
    make(stage, "uid-3")
    turns(stage)
    entry = stage.meta.entry()
    assert entry is not None
    assert (stage.placements(), entry.status.former) == ({}, ("r1", "r2"))
    stage.drained("r2")
    turns(stage)
    assert stage.placements() == {"r2": 2}


def test_the_entry_of_a_deleted_namespace_ends_when_all_have_cleared(stage: Stage) -> None:
    delete(stage)
    turns(stage)
    entry = stage.meta.entry()
    assert entry is not None
    assert (entry.deleting, entry.spec.slices, stage.placements()) == (False, 0, {})
    assert [each.reason for each in entry.status.conditions] == ["Gone"]
    stage.drained("r1")
    turns(stage)
    assert stage.meta.entry() is not None
    stage.drained("r2")
    turns(stage)
    assert stage.meta.entry() is None


def test_a_suspended_tenant_gets_no_slices_for_a_namespace_made_again(stage: Stage) -> None:
    lose(stage)
    make(stage)
    stage.spec["suspended"] = True
    turns(stage)
    stage.drained("r2")
    for _ in range(4):
        stage.turn()
        assert stage.placements() == {}
    stage.spec["suspended"] = False
    turns(stage)
    assert stage.placements() == {"r2": 2}


def test_pins_end_with_their_namespace(stage: Stage) -> None:
    stage.meta.patch(NAMESPACE, {"spec": {"pins": {"r1": 2}}})
    turns(stage)
    make(stage)
    turns(stage)
    entry = stage.meta.entry()
    assert entry is not None
    assert not entry.spec.pins
