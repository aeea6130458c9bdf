"""Defects of VirtualCluster's scheduler that must not return: about its slices, its Pods, and its lost super clusters."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from vcsync.api.names import InvalidName, require_super_id
from vcsync.api.objects import NamespacePlacement
from vcsync.objects.envelope import parse
from vcsync.podscheduler.accounting import Assign, PodAccounting, Wait
from vcsync.podscheduler.pods import Pod
from vcsync.scheduling.ledger import Entry, Ledger
from vcsync.scheduling.place import Decision, SliceRequest, place_slices
from vcsync.scheduling.pods import PodNeeds
from vcsync.scheduling.snapshot import Health, SuperView

SIZE = {"cpu": 100, "memory": 100}
SHOP = ("acme", "shop")


def views(*ids: str, lost: str = "", slices: int = 10) -> dict[str, SuperView]:
    full = {name: amount * slices for name, amount in SIZE.items()}
    return {each: SuperView(each, Health.LOST if each == lost else Health.READY, full) for each in ids}


def decide(found: dict[str, SuperView], slices: int, ledger: Ledger | None = None, **fields: Any) -> Decision:
    """Decide on the namespace as the scheduler does, with the amounts of all others."""
    ledger = ledger or Ledger()
    allocated = {each: ledger.allocated(each, without=SHOP) for each in found}
    present = ledger.get(SHOP)
    current = {} if present is None else present.placements
    return place_slices(found, allocated, SliceRequest(slices, SIZE, current=current, **fields))


def placed(**placements: int) -> Ledger:
    ledger = Ledger()
    ledger.put(SHOP, Entry(SIZE, placements))
    return ledger


# Section 5.5: from quotas to slices


def test_without_any_super_cluster_nothing_is_placed_on_a_nameless_one() -> None:
    decision = decide({}, 2)
    assert (decision.placements, decision.waiting) == ({}, 2)


def test_slices_that_fit_are_placed_although_others_do_not() -> None:
    decision = decide(views("r1", "r2", slices=1), 3)
    assert (decision.placements, decision.waiting) == ({"r1": 1, "r2": 1}, 1)


def test_present_slices_are_a_hint_that_has_an_effect() -> None:
    assert decide(views("r1", "r2"), 3, placed(r2=3)).placements == {"r2": 3}


def test_another_slice_size_of_a_placed_namespace_is_supported() -> None:
    decision = decide(views("r1", "r2"), 4, placed(r2=2), current_size={"cpu": 200, "memory": 200})
    assert decision.placements == {"r2": 4}


# Section 5.6: from slices to Pods


def pod(name: str, cpu: int, *, on: str = "") -> Pod:
    needs = PodNeeds(requests={"cpu": cpu}, node=f"n1.{on}" if on else "")
    return Pod("shop", name, f"uid-{name}", "1", needs, on, on, deleting=False, waiting_message="")


@pytest.fixture
def pods() -> PodAccounting:
    accounting = PodAccounting()
    accounting.grant("shop", SIZE, {"r1": 1})
    return accounting


def test_a_pod_on_a_super_cluster_without_slices_blocks_no_other(pods: PodAccounting) -> None:
    pods.update(pod("left", 50, on="r9"))
    verdict = pods.decide(pod("new", 50), views("r1"))
    assert isinstance(verdict, Assign)
    assert verdict.super_id == "r1"


def test_a_pod_larger_than_the_slices_waits_and_its_reason_names_the_super_cluster(
    pods: PodAccounting,
) -> None:
    verdict = pods.decide(pod("large", 900), views("r1"))
    assert isinstance(verdict, Wait)
    assert verdict.decision.reasons().startswith("r1: ")


def test_a_pod_is_not_placed_on_a_super_cluster_that_is_lost(pods: PodAccounting) -> None:
    assert isinstance(pods.decide(pod("new", 50), views("r1", lost="r1")), Wait)


def test_pods_that_are_gone_leave_nothing_behind(pods: PodAccounting) -> None:
    pods.update(pod("a", 50, on="r1"))
    pods.grant("shop", SIZE, {})
    pods.remove(("shop", "a"))
    assert pods.namespaces() == []


# Section 5.10: super clusters that fail, shrink and leave


@pytest.mark.parametrize("there", [("r1", "r2"), ("r1",)], ids=["dead", "missing"])
def test_a_dead_super_cluster_blocks_no_change_of_a_quota(there: tuple[str, ...]) -> None:
    decision = decide(views(*there, lost="r2"), 4, placed(r2=2), pins={"r2": 2, "r9": 1})
    assert sum(decision.placements.values()) == 4
    assert decision.placements["r1"] >= 2


def test_a_full_super_cluster_blocks_no_change_of_a_quota() -> None:
    found = {**views("r1"), **views("r2", slices=2)}
    assert decide(found, 4, placed(r2=2), pins={"r2": 4}).placements == {"r1": 2, "r2": 2}


def test_a_namespace_on_a_removed_super_cluster_can_be_given_up() -> None:
    ledger = placed(gone=2)
    assert decide(views("r1"), 0, ledger).placements == {}
    assert ledger.drop(SHOP)
    assert ledger.allocated("gone") == {}


def test_a_super_cluster_that_is_removed_and_added_again_keeps_what_is_allocated() -> None:
    ledger = placed(r2=3)
    assert ledger.allocated("r2") == {"cpu": 300, "memory": 300}
    assert decide(views("r1", "r2"), 3, ledger).placements == {"r2": 3}


def test_a_capacity_below_what_is_allocated_loses_no_namespace() -> None:
    found = {**views("r1"), **views("r2", slices=1)}
    assert decide(found, 4, placed(r2=3)).placements == {"r1": 1, "r2": 3}


@pytest.mark.parametrize("super_id", ["", "R2", "r2.example", "-r2", "r" * 64])
def test_an_id_that_is_no_dns_label_is_refused(super_id: str) -> None:
    with pytest.raises(InvalidName):
        require_super_id(super_id)


def test_a_negative_number_of_slices_is_refused() -> None:
    spec = {
        "virtualCluster": {"namespace": "vcsync", "name": "acme", "uid": "u"},
        "tenant": "root",
        "namespace": "shop",
        "namespaceUID": "n",
    }
    body = {"metadata": {"name": "shop"}, "spec": spec, "status": {"placements": {"r1": 3, "r2": -1}}}
    with pytest.raises(ValueError, match="placements"):
        NamespacePlacement.from_envelope(parse(msgspec.json.encode(body)))
