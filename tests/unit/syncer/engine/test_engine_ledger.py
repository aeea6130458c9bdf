"""The entries of NamespacePlacements for one super cluster."""

import json
from typing import Any

import pytest
from engine_paper import PaperApi

from vcsync.api import names
from vcsync.kube.resources import CONFIG_MAPS, ENDPOINTS, NAMESPACES, PODS, SERVICES, Resource
from vcsync.objects.envelope import Envelope, parse
from vcsync.syncer.ledger import (
    Holding,
    Ledger,
    allowed_on,
    byte_limit_of,
    entry_of,
    hard_of,
    holds,
    name_server_entry,
)
from vcsync.syncer.store_budget import LEAST_BYTES

KEY = "vcsync-1a2b3c-acme"


def placement(
    placements: dict[str, int] | None,
    *finalizers: str,
    deleting: bool = False,
    version: int = 1,
    name: str = "shop",
    status: dict[str, Any] | None = None,
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
        body["status"] = {"placements": placements, **(status or {})}
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
def test_the_holding_depends_on_status_and_finalizer(envelope: Envelope, holding: Holding | None) -> None:
    entry = entry_of(envelope, "r1")
    assert (entry.holding if entry else None) is holding


def test_the_quota_in_the_super_cluster_is_exactly_the_slices() -> None:
    entry = entry_of(placement({"r1": 3, "r2": 1}, DRAIN), "r1")
    assert entry is not None
    assert entry.placement.hard == {"requests.cpu": "1500m", "requests.memory": "3Gi"}
    assert entry.placement.placements == {"r1": 3, "r2": 1}


def test_freed_amounts_count_as_distributed_until_they_are_cleared() -> None:
    def allocated(*finalizers: str) -> dict[str, int]:
        envelope = placement({"r1": 1}, DRAIN, *finalizers, status={"clearing": {"r1": {"cpu": "2"}}})
        entry = entry_of(envelope, "r1")
        assert entry is not None
        return {name: entry.allocated[name] for name in ("cpu",)}

    assert allocated() == {"cpu": 500}
    assert allocated(names.clear_finalizer("r1")) == {"cpu": 2500}


def test_slices_of_thousandths_add_up_exactly() -> None:
    assert hard_of(allowed_on("r1", {"r1": 3}, 0, {"cpu": "333m"})) == {"requests.cpu": "999m"}


def test_the_quota_in_the_super_cluster_limits_pods_and_other_objects() -> None:
    size = {"cpu": "1", "pods": "14", "services.nodeports": "20"}
    wanted = {"requests.cpu": "3", "pods": "42", "services.nodeports": "60"}
    assert hard_of(allowed_on("r1", {"r1": 3}, 0, size)) == wanted
    assert hard_of(allowed_on("r1", {"r1": 3, "r2": 4}, 5, size)) == wanted


def test_super_clusters_share_the_objects_of_slices_that_stand_for_less_than_one() -> None:
    """Each slice once gave one of each, however small it was: 500 load balancers here and 500 there."""
    size = {"cpu": "8m", "services.loadbalancers": "5m", "requests.storage": "1717987m", "devices": "2m"}
    placements = {"r1": 500, "r2": 490}
    first, second = (allowed_on(each, placements, 10, size) for each in placements)
    assert hard_of(first) == {
        "requests.cpu": "4",
        "services.loadbalancers": "3",
        "requests.storage": "858994",
    }
    assert hard_of(second) == {
        "requests.cpu": "3920m",
        "services.loadbalancers": "2",
        "requests.storage": "841814",
    }
    assert (first["devices"], second["devices"]) == ("1", "1")
    assert allowed_on("r3", placements, 10, size)["services.loadbalancers"] == "0"


def test_tenant_and_namespace_are_those_of_the_placements_metadata() -> None:
    entry = entry_of(placement({"r1": 1}, tenant="vcsync-ffffff-other", namespace="kube-system"), "r1")
    assert entry is not None
    assert (entry.tenant, entry.namespace) == (KEY, "shop")


def test_changes_are_reported_once_and_only_when_they_matter() -> None:
    changed: list[tuple[str, str]] = []
    ledger = Ledger(PaperApi("meta"), "r1", lambda *key: changed.append(key) if key[1] == "shop" else None)
    ledger.reflector.observe(placement({"r1": 1}, DRAIN, version=1))
    ledger.reflector.observe(placement({"r1": 1}, DRAIN, version=2))
    assert changed == [(KEY, "shop")]
    assert ledger.open(KEY, "shop", PODS, "web")
    ledger.reflector.observe(placement({"r2": 1}, DRAIN, version=3))
    assert changed == [(KEY, "shop")] * 2
    assert ledger.open(KEY, "shop", PODS, "web"), "what is being drained must be seen until it is gone"
    ledger.reflector.observe(placement({"r2": 1}, version=4))
    assert changed == [(KEY, "shop")] * 3
    assert not ledger.open(KEY, "shop", PODS, "web")
    assert list(ledger.entries()) == []


def test_an_unreadable_placement_changes_nothing() -> None:
    ledger = Ledger(PaperApi("meta"), "r1", lambda *_: None)
    ledger.reflector.observe(placement({"r1": 1}, DRAIN, version=1))
    ledger.reflector.observe(placement({"r1": 1}, DRAIN, version=2, sliceSize={"cpu": "much"}))
    assert ledger.open(KEY, "shop", PODS, "web")


def test_bytes_of_slices_are_not_in_the_quota() -> None:
    size = {"cpu": "1", "object-bytes": "8Mi"}
    allowed = allowed_on("r1", {"r1": 3}, 0, size)
    assert hard_of(allowed) == {"requests.cpu": "3"}
    assert byte_limit_of(allowed) == 24 << 20
    assert byte_limit_of({"object-bytes": "4Ki"}) == LEAST_BYTES
    assert byte_limit_of({"cpu": "1"}) is None


def test_devices_of_slices_are_in_the_quota_by_class_only() -> None:
    size = {"cpu": "1", "devices": "4"}
    found = entry_of(placement({"r1": 3}, DRAIN, sliceSize=size), "r1")
    assert found is not None
    assert (found.placement.hard, found.placement.devices) == ({"requests.cpu": "3"}, "12")
    without = entry_of(placement({"r1": 3}, DRAIN, sliceSize={"cpu": "1"}), "r1")
    assert without is not None
    assert not without.placement.devices


def test_a_tenants_byte_limit_is_the_sum_of_its_namespaces() -> None:
    ledger = Ledger(PaperApi("meta"), "r1", lambda *_: None)  # type: ignore[arg-type]
    size = {"cpu": "1", "object-bytes": "8Mi"}
    seen = ledger.reflector.observe
    seen(placement({"r1": 2}, DRAIN, version=1, sliceSize=size))
    assert ledger.byte_limit(KEY) == 16 << 20
    seen(placement({"r1": 3}, DRAIN, version=2, sliceSize=size))
    assert ledger.byte_limit(KEY) == 24 << 20
    seen(placement({"r2": 3}, DRAIN, version=3, sliceSize=size))
    assert ledger.byte_limit(KEY) <= LEAST_BYTES
    ledger.reflector.observe_gone(KEY, "shop", "np-shop")
    assert ledger.byte_limit(KEY) == 0


def test_the_name_server_is_kept_while_any_namespace_has_slices() -> None:
    changed: list[tuple[str, str]] = []
    ledger = Ledger(PaperApi("meta"), "r1", lambda *key: changed.append(key))  # type: ignore[arg-type]
    system = (KEY, "kube-system")

    def holding() -> Holding | None:
        entry = ledger.entry(*system)
        return entry.holding if entry is not None else None

    seen = ledger.reflector.observe
    assert holding() is None
    seen(placement({"r1": 1}, DRAIN, version=1))
    assert holding() is Holding.NAME_SERVER
    assert changed == [(KEY, "shop"), system]
    entry = ledger.entry(*system)
    assert entry is not None
    assert set(entry.placement.hard.values()) == {"0"}, "nothing may run there"
    assert (entry.placement.placements, entry.placement.slice_size) == ({}, {})
    seen(placement({"r1": 1}, DRAIN, version=2, name="kube-system"))
    assert holding() is Holding.PLACED
    seen(placement({"r2": 1}, DRAIN, version=3, name="kube-system"))
    assert holding() is Holding.DRAINING
    seen(placement({"r2": 1}, version=4, name="kube-system"))
    assert holding() is Holding.NAME_SERVER
    changed.clear()
    seen(placement({"r2": 1}, DRAIN, version=5))
    assert holding() is None
    assert changed == [(KEY, "shop"), system]


def test_only_service_and_endpoints_of_the_name_servers_namespace_are_synced() -> None:
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


def test_slices_of_another_tenant_need_no_name_server() -> None:
    ledger = Ledger(PaperApi("meta"), "r1", lambda *_: None)  # type: ignore[arg-type]
    ledger.reflector.observe(placement({"r1": 1}, DRAIN))
    assert ledger.needs_name_server(KEY)
    assert not ledger.needs_name_server("vcsync-ffffff-other")


def test_a_namespace_with_only_the_name_server_has_no_other_quota() -> None:
    entry = name_server_entry(KEY)
    assert (entry.tenant, entry.namespace, entry.slices) == (KEY, names.TENANT_DNS_NAMESPACE, 0)
    assert entry.placement.name_server_only
    assert set(entry.placement.hard.values()) == {"0"}


def _ledger(*placements: Envelope) -> Ledger:
    meta: Any = PaperApi("meta")
    ledger = Ledger(meta, "r1", lambda *_: None)
    for each in placements:
        ledger.reflector.observe(each)
    return ledger


@pytest.mark.parametrize(
    ("last", "reported", "known"),
    [
        pytest.param(placement({"r1": 1}, DRAIN), True, True, id="the watch reported the deletion"),
        pytest.param(placement({"r1": 1}, DRAIN), False, False, id="a list lacks it"),
        pytest.param(placement({}, DRAIN), False, True, id="it was to be removed before a list lacks it"),
    ],
)
def test_the_end_of_an_entry_is_known_if_it_was_seen(last: Envelope, reported: bool, known: bool) -> None:
    ledger = _ledger(last)
    if reported:
        ledger.reflector._observe_deleted(last)
    else:
        ledger.reflector._replace_cache([], "9")

    assert ledger.entry(KEY, "shop") is None
    assert ledger.released(KEY, "shop", "ns") is known
    assert not ledger.released(KEY, "shop", "another")
    assert not ledger.released(KEY, "web", "ns")


def test_the_end_of_an_entry_is_known_when_its_finalizer_goes_and_until_it_is_back() -> None:
    ledger = _ledger(placement({"r2": 1}, DRAIN), placement({"r2": 1}, version=2))
    assert ledger.released(KEY, "shop", "ns")
    ledger.reflector.observe(placement({"r1": 1}, DRAIN, version=3))
    ledger.reflector._replace_cache([], "9")
    assert ledger.entry(KEY, "shop") is None
    assert not ledger.released(KEY, "shop", "ns"), "the meta cluster may have been emptied since"


@pytest.mark.parametrize("seen", [True, False])
def test_the_end_of_a_name_server_is_known_with_that_of_the_last_namespace(seen: bool) -> None:
    last = placement({"r1": 1}, DRAIN)
    ledger = _ledger(last)
    assert ledger.entry(KEY, names.TENANT_DNS_NAMESPACE) is not None
    if seen:
        ledger.reflector._observe_deleted(last)
    else:
        ledger.reflector._replace_cache([], "9")
    assert ledger.entry(KEY, names.TENANT_DNS_NAMESPACE) is None
    assert ledger.released(KEY, names.TENANT_DNS_NAMESPACE, "any") is seen
