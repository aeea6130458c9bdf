"""What a NamespacePlacement means to one super cluster."""

import json
from typing import Any

import pytest
from engine_paper import PaperApi

from vcsync.api import names
from vcsync.kube.envelope import Envelope, parse
from vcsync.syncer.ledger import Holding, Ledger, entry_of, hard_of, room_of
from vcsync.syncer.room import LEAST

KEY = "vcsync-1a2b3c-acme"


def placement(
    placements: dict[str, int] | None, *finalizers: str, deleting: bool = False, version: int = 1, **spec: Any
) -> Envelope:
    meta: dict[str, Any] = {
        "name": "shop",
        "namespace": KEY,
        "uid": "np",
        "resourceVersion": str(version),
        "finalizers": list(finalizers),
    }
    if deleting:
        meta["deletionTimestamp"] = "2026-05-01T12:00:00Z"
    body = {
        "metadata": meta,
        "spec": {
            "virtualCluster": {"namespace": "vcsync", "name": "acme", "uid": "vc"},
            "tenant": KEY,
            "namespace": "shop",
            "namespaceUID": "ns",
            "sliceSize": {"cpu": "500m", "memory": "1Gi"},
            **spec,
        },
    }
    if placements is not None:
        body["status"] = {"placements": placements}
    return parse(json.dumps(body).encode())


DRAIN = names.drain_finalizer("r1")


@pytest.mark.parametrize(
    ("envelope", "holding"),
    [
        (placement({"r1": 2}, DRAIN), Holding.PLACED),
        (placement({"r1": 2}), Holding.PLACED),
        (placement({"r2": 2}, DRAIN), Holding.DRAINING),
        (placement({"r1": 0}, DRAIN), Holding.DRAINING),
        (placement({"r1": 2}, DRAIN, deleting=True), Holding.DRAINING),
        (placement({}, DRAIN), Holding.DRAINING),
        (placement(None, DRAIN), None),
        (placement(None, DRAIN, deleting=True), Holding.DRAINING),
        (placement({"r2": 2}), None),
        (placement({"r2": 2}, names.drain_finalizer("r2")), None),
        (placement({"r1": 2}, deleting=True), None),
    ],
)
def test_holding_follows_status_and_finalizer(envelope: Envelope, holding: Holding | None) -> None:
    entry = entry_of(envelope, "r1")
    assert (entry.holding if entry else None) is holding


def test_the_quota_in_the_super_cluster_is_exactly_the_slices() -> None:
    entry = entry_of(placement({"r1": 3, "r2": 1}, DRAIN), "r1")
    assert entry is not None
    assert entry.placement.hard == {"requests.cpu": "1500m", "requests.memory": "3Gi"}
    assert entry.placement.placements == {"r1": 3, "r2": 1}


def test_slices_of_thousandths_add_up_exactly() -> None:
    assert hard_of(3, {"cpu": "333m"}) == {"requests.cpu": "999m"}


def test_the_quota_in_the_super_cluster_bounds_pods_that_request_nothing_and_other_objects() -> None:
    size = {"cpu": "1", "pods": "14", "services.nodeports": "20"}
    assert hard_of(3, size) == {"requests.cpu": "3", "pods": "42", "services.nodeports": "60"}


def test_whose_namespace_it_is_comes_from_the_placements_place_not_from_its_spec() -> None:
    entry = entry_of(placement({"r1": 1}, tenant="vcsync-ffffff-other", namespace="kube-system"), "r1")
    assert entry is not None
    assert (entry.tenant, entry.namespace) == (KEY, "shop")


def test_changes_are_reported_once_and_only_when_they_matter() -> None:
    told: list[tuple[str, str]] = []
    ledger = Ledger(PaperApi("meta"), "r1", lambda *key: told.append(key))
    ledger.reflector.observe(placement({"r1": 1}, DRAIN, version=1))
    ledger.reflector.observe(placement({"r1": 1}, DRAIN, version=2))
    assert told == [(KEY, "shop")]
    assert ledger.open(KEY, "shop")
    ledger.reflector.observe(placement({"r2": 1}, DRAIN, version=3))
    assert told == [(KEY, "shop")] * 2
    assert ledger.open(KEY, "shop"), "what is being drained must be seen until it is gone"
    ledger.reflector.observe(placement({"r2": 1}, version=4))
    assert told == [(KEY, "shop")] * 3
    assert not ledger.open(KEY, "shop")
    assert list(ledger.entries()) == []


def test_a_placement_that_cannot_be_read_changes_nothing() -> None:
    ledger = Ledger(PaperApi("meta"), "r1", lambda *_: None)
    ledger.reflector.observe(placement({"r1": 1}, DRAIN, version=1))
    ledger.reflector.observe(placement({"r1": 1}, DRAIN, version=2, sliceSize={"cpu": "much"}))
    assert ledger.open(KEY, "shop")


def test_bytes_of_slices_are_no_quota_of_an_api_server_but_room_for_objects() -> None:
    size = {"cpu": "1", "object-bytes": "8Mi"}
    assert hard_of(3, size) == {"requests.cpu": "3"}
    assert room_of(3, size) == 24 << 20
    assert room_of(1, {"object-bytes": "4Ki"}) == LEAST
    assert room_of(1, {"cpu": "1"}) is None


def test_a_tenants_room_is_that_of_all_its_namespaces() -> None:
    ledger = Ledger(PaperApi("meta"), "r1", lambda *_: None)  # type: ignore[arg-type]
    size = {"cpu": "1", "object-bytes": "8Mi"}
    seen = ledger.reflector.observe
    seen(placement({"r1": 2}, DRAIN, version=1, sliceSize=size))
    assert ledger.room(KEY) == 16 << 20
    seen(placement({"r1": 3}, DRAIN, version=2, sliceSize=size))
    assert ledger.room(KEY) == 24 << 20
    seen(placement({"r2": 3}, DRAIN, version=3, sliceSize=size))
    assert ledger.room(KEY) <= LEAST
    ledger.reflector.observe_gone(KEY, "shop", "np")
    assert ledger.room(KEY) == 0
