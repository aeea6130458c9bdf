"""What a NamespacePlacement means to one super cluster."""

import json
from typing import Any

import pytest
from engine_paper import PaperApi

from vcsync.api import names
from vcsync.kube.envelope import Envelope, parse
from vcsync.kube.resources import CONFIG_MAPS, ENDPOINTS, NAMESPACES, PODS, SERVICES, Resource
from vcsync.syncer.ledger import Holding, Ledger, entry_of, hard_of, holds, room_of
from vcsync.syncer.room import LEAST

KEY = "vcsync-1a2b3c-acme"


def placement(
    placements: dict[str, int] | None,
    *finalizers: str,
    deleting: bool = False,
    version: int = 1,
    name: str = "shop",
    **spec: Any,
) -> Envelope:
    meta: dict[str, Any] = {
        "name": name,
        "namespace": KEY,
        "uid": f"np-{name}",
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
            "namespace": name,
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
    ledger = Ledger(PaperApi("meta"), "r1", lambda *key: told.append(key) if key[1] == "shop" else None)
    ledger.reflector.observe(placement({"r1": 1}, DRAIN, version=1))
    ledger.reflector.observe(placement({"r1": 1}, DRAIN, version=2))
    assert told == [(KEY, "shop")]
    assert ledger.open(KEY, "shop", PODS, "web")
    ledger.reflector.observe(placement({"r2": 1}, DRAIN, version=3))
    assert told == [(KEY, "shop")] * 2
    assert ledger.open(KEY, "shop", PODS, "web"), "what is being drained must be seen until it is gone"
    ledger.reflector.observe(placement({"r2": 1}, version=4))
    assert told == [(KEY, "shop")] * 3
    assert not ledger.open(KEY, "shop", PODS, "web")
    assert list(ledger.entries()) == []


def test_a_placement_that_cannot_be_read_changes_nothing() -> None:
    ledger = Ledger(PaperApi("meta"), "r1", lambda *_: None)
    ledger.reflector.observe(placement({"r1": 1}, DRAIN, version=1))
    ledger.reflector.observe(placement({"r1": 1}, DRAIN, version=2, sliceSize={"cpu": "much"}))
    assert ledger.open(KEY, "shop", PODS, "web")


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
    ledger.reflector.observe_gone(KEY, "shop", "np-shop")
    assert ledger.room(KEY) == 0


def test_the_name_server_is_here_as_long_as_any_namespace_has_slices() -> None:
    told: list[tuple[str, str]] = []
    ledger = Ledger(PaperApi("meta"), "r1", lambda *key: told.append(key))  # type: ignore[arg-type]
    system = (KEY, "kube-system")

    def holding() -> Holding | None:
        entry = ledger.entry(*system)
        return entry.holding if entry is not None else None

    seen = ledger.reflector.observe
    assert holding() is None
    seen(placement({"r1": 1}, DRAIN, version=1))
    assert holding() is Holding.NAME_SERVER
    assert told == [(KEY, "shop"), system]
    entry = ledger.entry(*system)
    assert entry is not None
    assert set(entry.placement.hard.values()) == {"0"}, "nothing may run there"
    seen(placement({"r1": 1}, DRAIN, version=2, name="kube-system"))
    assert holding() is Holding.PLACED
    seen(placement({"r2": 1}, DRAIN, version=3, name="kube-system"))
    assert holding() is Holding.DRAINING
    seen(placement({"r2": 1}, version=4, name="kube-system"))
    assert holding() is Holding.NAME_SERVER
    told.clear()
    seen(placement({"r2": 1}, DRAIN, version=5))
    assert holding() is None
    assert told == [(KEY, "shop"), system]


def test_of_the_name_servers_namespace_only_its_service_and_endpoints_pass() -> None:
    ledger = Ledger(PaperApi("meta"), "r1", lambda *_: None)  # type: ignore[arg-type]
    ledger.reflector.observe(placement({"r1": 1}, DRAIN, version=1))

    def passes(resource: Resource, name: str) -> bool:
        return ledger.open(KEY, "kube-system", resource, name) and holds(
            ledger.entry(KEY, "kube-system"), resource, name
        )

    assert passes(NAMESPACES, "kube-system")
    assert passes(SERVICES, "kube-dns")
    assert passes(ENDPOINTS, "kube-dns")
    assert not passes(SERVICES, "metrics-server")
    assert not passes(CONFIG_MAPS, "kube-dns")
    assert not passes(PODS, "kube-dns")
