"""The ledger of deletions finds those without a cause, independent of the order and gaps of its input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from hack.audit.deletions import KINDS, Deletions
from hack.audit.world import Json, placement_of
from hack.chaos import witness as chaos_witness
from hack.chaos.witness import PLACEMENTS, Stream, Witness

ACME = "vcsync-aaaaaa-acme"
SHOP = f"{ACME}-shop"


def tenants_own(name: str, uid: str, namespace: str = "shop", *, ending: bool = False) -> Json:
    metadata: Json = {"name": name, "uid": uid}
    if namespace:
        metadata["namespace"] = namespace
    return {"metadata": metadata | ({"deletionTimestamp": "2026-01-01T00:00:00Z"} if ending else {})}


def copy(name: str, source: str, uid: str = "", namespace: str = SHOP, *, ending: bool = False) -> Json:
    found = tenants_own(name, uid or f"copy-{source}", namespace, ending=ending)
    found["metadata"]["annotations"] = {
        "tenancy.x-k8s.io/cluster": ACME,
        "tenancy.x-k8s.io/uid": source,
        "tenancy.x-k8s.io/namespace": "shop",
    }
    return found


def line(*super_ids: str, ending: bool = False) -> Any:
    metadata: Json = {"name": "shop", "namespace": ACME, "uid": "line"}
    if ending:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    status = {"placements": dict.fromkeys(super_ids, 1)}
    return placement_of({"metadata": metadata, "spec": {}, "status": status})


@pytest.fixture
def ledger() -> Deletions:
    """A namespace on r1 and r2 with a Pod on r1 and a Secret on both."""
    found = Deletions()
    found.placed(line("r1", "r2"), 10)
    found.tenant_has(ACME, "namespaces", tenants_own("shop", "ns", ""), 5)
    found.tenant_has(ACME, "pods", tenants_own("web", "pod"), 20)
    found.tenant_has(ACME, "secrets", tenants_own("key", "secret"), 21)
    found.super_has("r1", "namespaces", copy(SHOP, "ns", namespace=""), 15)
    found.super_has("r1", "pods", copy("web", "pod"), 25)
    for super_id in ("r1", "r2"):
        found.super_has(super_id, "secrets", copy("key", "secret", f"key-{super_id}"), 26)
    return found


def all_have_a_cause(ledger: Deletions) -> bool:
    return not list(ledger.without_cause())


def tenant_deletes_the_pod(ledger: Deletions, at: int) -> None:
    ledger.tenant_lost(ACME, "pods", tenants_own("web", "pod"), at)


def tenant_begins_to_delete_the_pod(ledger: Deletions, at: int) -> None:
    ledger.tenant_has(ACME, "pods", tenants_own("web", "pod", ending=True), at)


def tenant_deletes_the_namespace(ledger: Deletions, at: int) -> None:
    ledger.tenant_has(ACME, "namespaces", tenants_own("shop", "ns", "", ending=True), at)


def the_placement_is_lost(ledger: Deletions, at: int) -> None:
    ledger.placed(line("r2"), at)


def the_placement_ends(ledger: Deletions, at: int) -> None:
    ledger.placed(line("r1", "r2", ending=True), at)


def the_placement_is_gone(ledger: Deletions, at: int) -> None:
    ledger.unplaced(ACME, "shop", at)


CAUSES = (
    tenant_deletes_the_pod,
    tenant_begins_to_delete_the_pod,
    tenant_deletes_the_namespace,
    the_placement_is_lost,
    the_placement_ends,
    the_placement_is_gone,
)


@pytest.mark.parametrize("cause", CAUSES)
def test_a_deletion_needs_an_earlier_cause(
    ledger: Deletions, cause: Callable[[Deletions, int], None]
) -> None:
    cause(ledger, 30)
    ledger.super_lost("r1", "pods", copy("web", "pod"), 31)
    assert all_have_a_cause(ledger)
    assert ledger.judged() == {"pods": 1}


@pytest.mark.parametrize("cause", CAUSES)
def test_a_cause_after_the_deletion_does_not_count(
    ledger: Deletions, cause: Callable[[Deletions, int], None]
) -> None:
    ledger.super_has("r1", "pods", copy("web", "pod", ending=True), 29)
    cause(ledger, 30)
    ledger.super_lost("r1", "pods", copy("web", "pod"), 31)
    (finding,) = ledger.without_cause()
    assert (finding.rule, finding.tenant, finding.super_cluster) == ("deleted", ACME, "r1")
    assert (finding.kind, finding.namespace, finding.name) == ("pods", SHOP, "web")


def labelled(super_id: str, node: str = "") -> Json:
    labels = {"labels": {"scheduler.virtualcluster.io/superCluster": super_id}} if super_id else {}
    found = tenants_own("web", "pod")
    return {"metadata": found["metadata"] | labels, "spec": {"nodeName": node} if node else {}}


@pytest.mark.parametrize(
    ("states", "excused"),
    [
        pytest.param(["r1", "r2"], True, id="the label was changed"),
        pytest.param(["r1", "", "r1"], True, id="it was removed and restored"),
        pytest.param(["r2", "r1"], False, id="it was changed before the copy was made"),
        pytest.param(["r1", "r1"], False, id="it was not changed"),
    ],
)
def test_the_label_of_a_pod_that_is_not_bound_is_a_cause(
    ledger: Deletions, states: list[str], excused: bool
) -> None:
    for moment, super_id in enumerate(states, 21):
        ledger.tenant_has(ACME, "pods", labelled(super_id), moment)
    ledger.super_lost("r1", "pods", copy("web", "pod"), 31)
    assert all_have_a_cause(ledger) is excused


def test_the_label_of_a_bound_pod_is_no_cause(ledger: Deletions) -> None:
    ledger.tenant_has(ACME, "pods", labelled("r1"), 21)
    ledger.tenant_has(ACME, "pods", labelled("r2", node="node-0.r1"), 28)
    ledger.super_lost("r1", "pods", copy("web", "pod"), 31)
    assert not all_have_a_cause(ledger)


@pytest.mark.parametrize(
    ("super_id", "said", "node", "excused"),
    [
        pytest.param("r1", '{"state":"withdrawn","reason":"SlicesLeft"}', "", True, id="it was taken back"),
        pytest.param("r1", '{"state":"returned"}', "", True, id="it was given back"),
        pytest.param("r1", '{"state":"refused"}', "", False, id="it was refused"),
        pytest.param("r2", '{"state":"withdrawn"}', "", False, id="it was taken back from elsewhere"),
        pytest.param("r1", '{"state":"withdrawn"}', "node-0.r1", False, id="it is bound"),
        pytest.param("r1", "withdrawn", "", False, id="no statement"),
    ],
)
def test_a_pod_that_was_taken_back_before_it_had_a_node_loses_its_copy(
    ledger: Deletions, super_id: str, said: str, node: str, excused: bool
) -> None:
    found = labelled("r1", node)
    found["metadata"]["annotations"] = {f"refusal.tenancy.x-k8s.io/{super_id}": said}
    ledger.tenant_has(ACME, "pods", found, 28)
    ledger.super_lost("r1", "pods", copy("web", "pod"), 31)
    assert all_have_a_cause(ledger) is excused


def test_a_cause_that_is_recorded_late_counts_by_its_moment(ledger: Deletions) -> None:
    ledger.super_lost("r1", "pods", copy("web", "pod"), 31)
    assert not all_have_a_cause(ledger)
    tenant_deletes_the_pod(ledger, 30)
    assert all_have_a_cause(ledger)


def test_the_deletion_of_another_object_with_the_same_name_is_not_a_cause(ledger: Deletions) -> None:
    tenant_deletes_the_pod(ledger, 30)
    ledger.tenant_has(ACME, "pods", tenants_own("web", "second"), 31)
    ledger.super_lost("r1", "pods", copy("web", "pod"), 32)
    ledger.super_has("r1", "pods", copy("web", "second"), 33)
    assert all_have_a_cause(ledger)
    ledger.super_lost("r1", "pods", copy("web", "second"), 34)
    assert [finding.expected for finding in ledger.without_cause()] == [
        "a deletion of second in the tenant before it"
    ]


def test_the_deletion_of_an_earlier_namespace_with_the_same_name_is_not_a_cause(ledger: Deletions) -> None:
    tenant_deletes_the_namespace(ledger, 30)
    ledger.tenant_lost(ACME, "namespaces", tenants_own("shop", "ns", ""), 31)
    ledger.tenant_has(ACME, "pods", tenants_own("web", "second"), 40)
    ledger.super_has("r1", "pods", copy("web", "second"), 41)
    ledger.super_lost("r1", "pods", copy("web", "second"), 42)
    assert not all_have_a_cause(ledger)


def test_a_placement_lost_in_another_super_cluster_is_not_a_cause(ledger: Deletions) -> None:
    the_placement_is_lost(ledger, 30)
    ledger.super_lost("r2", "secrets", copy("key", "secret", "key-r2"), 31)
    assert not all_have_a_cause(ledger)


def test_a_placement_that_returned_is_a_cause_for_older_copies(ledger: Deletions) -> None:
    the_placement_is_lost(ledger, 30)
    ledger.placed(line("r1", "r2"), 31)
    ledger.super_has("r1", "secrets", copy("key", "secret", "again"), 32)
    ledger.super_lost("r1", "pods", copy("web", "pod"), 33)
    assert all_have_a_cause(ledger)
    ledger.super_lost("r1", "secrets", copy("key", "secret", "again"), 34)
    assert not all_have_a_cause(ledger)


def test_the_deletion_of_a_super_namespace_is_reported_once(ledger: Deletions) -> None:
    ledger.super_has("r1", "namespaces", copy(SHOP, "ns", namespace="", ending=True), 30)
    ledger.super_lost("r1", "pods", copy("web", "pod"), 31)
    assert [finding.kind for finding in ledger.without_cause()] == ["namespaces"]


@pytest.fixture
def external(ledger: Deletions) -> Deletions:
    """The ledger with a Service without selector and its Endpoints on r1."""
    ledger.tenant_has(ACME, "services", tenants_own("ext", "service"), 22)
    ledger.tenant_has(ACME, "endpoints", tenants_own("ext", "endpoints"), 23)
    ledger.super_has("r1", "services", copy("ext", "service"), 27)
    ledger.super_has("r1", "endpoints", copy("ext", "endpoints"), 28)
    return ledger


def test_the_deletion_of_a_service_is_a_cause_for_its_endpoints(external: Deletions) -> None:
    """kube-controller-manager deletes them in the super cluster, perhaps after the tenant has created the Service again."""
    external.tenant_lost(ACME, "services", tenants_own("ext", "service"), 30)
    external.super_lost("r1", "services", copy("ext", "service"), 31)
    external.super_lost("r1", "endpoints", copy("ext", "endpoints"), 32)
    assert all_have_a_cause(external)


def test_the_later_deletion_of_a_service_is_not_a_cause_for_its_endpoints(external: Deletions) -> None:
    external.super_lost("r1", "endpoints", copy("ext", "endpoints"), 30)
    external.tenant_lost(ACME, "services", tenants_own("ext", "service"), 31)
    external.super_lost("r1", "services", copy("ext", "service"), 32)
    assert [finding.kind for finding in external.without_cause()] == ["endpoints"]


def test_a_service_that_the_tenant_did_not_delete_is_reported_once(external: Deletions) -> None:
    external.super_lost("r1", "services", copy("ext", "service"), 31)
    external.super_lost("r1", "endpoints", copy("ext", "endpoints"), 32)
    assert [finding.kind for finding in external.without_cause()] == ["services"]


def test_the_deletion_of_another_service_is_not_a_cause_for_endpoints(external: Deletions) -> None:
    external.tenant_has(ACME, "services", tenants_own("other", "other"), 24)
    external.super_has("r1", "services", copy("other", "other"), 29)
    external.tenant_lost(ACME, "services", tenants_own("other", "other"), 30)
    external.super_lost("r1", "services", copy("other", "other"), 31)
    external.super_lost("r1", "endpoints", copy("ext", "endpoints"), 32)
    assert [finding.kind for finding in external.without_cause()] == ["endpoints"]


def test_deletions_of_other_objects_than_copies_are_not_judged(ledger: Deletions) -> None:
    for kind, found in (
        ("configmaps", tenants_own("kube-root-ca.crt", "root", SHOP)),
        ("secrets", copy("vcsync-token-web", "pod", "token")),
        ("resourcequotas", copy("vcsync-slices", "ns", "quota")),
    ):
        ledger.super_has("r1", kind, found, 30)
        ledger.super_lost("r1", kind, found, 31)
    assert ledger.judged() == {}


def test_copies_without_a_source_may_be_deleted(ledger: Deletions) -> None:
    ledger.super_has("r1", "pods", copy("ghost", "never"), 30)
    ledger.super_lost("r1", "pods", copy("ghost", "never"), 31)
    assert ledger.judged() == {"pods": 1}
    assert all_have_a_cause(ledger)


def with_selector(name: str, uid: str) -> Json:
    return tenants_own(name, uid) | {"spec": {"selector": {"app": "web"}}}


def test_a_selector_of_the_service_is_a_cause_for_endpoints(
    external: Deletions,
) -> None:
    """The tenant replaced the Service, and the syncer copied the Endpoints while there was no Service."""
    external.tenant_lost(ACME, "services", tenants_own("ext", "service"), 26)
    external.tenant_has(ACME, "services", with_selector("ext", "second"), 29)
    external.super_lost("r1", "endpoints", copy("ext", "endpoints"), 30)
    assert all_have_a_cause(external)


def test_a_selector_after_the_deletion_or_before_the_copy_is_not_a_cause(external: Deletions) -> None:
    external.tenant_has(ACME, "services", with_selector("ext", "earlier"), 24)
    external.tenant_lost(ACME, "services", with_selector("ext", "earlier"), 25)
    external.super_lost("r1", "endpoints", copy("ext", "endpoints"), 30)
    external.tenant_has(ACME, "services", with_selector("ext", "later"), 31)
    assert [finding.kind for finding in external.without_cause()] == ["endpoints"]


# --- events of watches


@pytest.fixture
async def witness() -> Witness:
    """A witness that is not running."""
    return Witness(Mock(), {ACME: Mock()}, {"r1": Mock()})


def stream(kind: str, *, tenant: str = "", super_id: str = "") -> Stream:
    return Stream(Mock(), kind, tenant, super_id)


def at(found: Json, version: int) -> Json:
    return {**found, "metadata": {**found["metadata"], "resourceVersion": str(version)}}


async def test_deletions_in_a_gap_of_both_watches_count_as_ordered(witness: Witness) -> None:
    above, below = stream("pods", tenant=ACME), stream("pods", super_id="r1")
    placements = stream(PLACEMENTS)
    ledger_line = at(line("r1").ledger, 2)
    witness.listed(placements, [ledger_line], 3)
    witness.listed(above, [at(tenants_own("web", "pod"), 4)], 5)
    witness.listed(below, [at(copy("web", "pod"), 6)], 7)
    witness.listed(below, [], 20)
    witness.listed(above, [], 30)
    assert witness.deletions.judged() == {"pods": 1}
    assert not list(witness.deletions.without_cause())


async def test_a_service_deleted_in_a_gap_of_the_watch_is_a_cause_for_its_endpoints(
    witness: Witness,
) -> None:
    services, endpoints = stream("services", super_id="r1"), stream("endpoints", super_id="r1")
    above, theirs = stream("services", tenant=ACME), stream("endpoints", tenant=ACME)
    witness.listed(stream(PLACEMENTS), [at(line("r1").ledger, 2)], 3)
    witness.listed(above, [at(tenants_own("ext", "service"), 4)], 5)
    witness.listed(theirs, [at(tenants_own("ext", "endpoints"), 4)], 5)
    witness.listed(services, [at(copy("ext", "service"), 6)], 8)
    witness.listed(endpoints, [at(copy("ext", "endpoints"), 7)], 8)
    witness.observed(above, {"type": "DELETED", "object": at(tenants_own("ext", "service"), 9)})
    witness.observed(endpoints, {"type": "DELETED", "object": at(copy("ext", "endpoints"), 11)})
    witness.listed(services, [], 20)
    assert witness.deletions.judged() == {"services": 1, "endpoints": 1}
    assert not list(witness.deletions.without_cause())


async def test_an_object_that_a_tenant_lost_by_a_fault_is_not_deleted_by_the_tenant(witness: Witness) -> None:
    above, below = stream("pods", tenant=ACME), stream("pods", super_id="r1")
    witness.listed(stream(PLACEMENTS), [at(line("r1").ledger, 2)], 3)
    witness.listed(above, [at(tenants_own("web", "pod"), 4)], 5)
    witness.listed(below, [at(copy("web", "pod"), 6)], 7)
    witness.listed(above, [], 10, by_fault=True)
    witness.observed(below, {"type": "DELETED", "object": at(copy("web", "pod"), 11)})
    assert [finding.name for finding in witness.deletions.without_cause()] == ["web"]


async def test_an_object_that_a_super_cluster_lost_by_a_fault_is_not_judged(witness: Witness) -> None:
    below = stream("pods", super_id="r1")
    witness.listed(below, [at(copy("web", "pod"), 6)], 7)
    witness.listed(below, [], 10, by_fault=True)
    assert witness.deletions.judged() == {}


async def test_a_watch_continues_from_its_last_event(witness: Witness) -> None:
    above = stream("pods", tenant=ACME)
    witness.observed(above, {"type": "ADDED", "object": at(tenants_own("web", "pod"), 4)})
    assert (above.version, set(above.known)) == (4, {"pod"})
    witness.observed(above, {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}})
    assert (above.version, set(above.known)) == (9, {"pod"})
    witness.observed(above, {"type": "DELETED", "object": at(tenants_own("web", "pod"), 12)})
    assert (above.version, set(above.known)) == (12, set())


async def test_the_last_lists_read_effects_before_their_causes(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[tuple[str, str]] = []

    async def listed(self: Witness, listed: Stream, *_: object, **__: object) -> None:
        order.append((listed.super_id or listed.tenant or "meta", listed.kind))

    monkeypatch.setattr(Witness, "_list", listed)
    monkeypatch.setattr(chaos_witness, "_session", Mock(return_value=AsyncMock()))
    await Witness(Mock(), {ACME: Mock()}, {"r1": Mock()}).finish()

    assert order[-1] == ("meta", PLACEMENTS)
    assert all(order.index(("r1", kind)) < order.index((ACME, kind)) for kind in KINDS)
    below = [kind for where, kind in order if where == "r1"]
    assert below.index("endpoints") < below.index("services") < below.index("namespaces")


@pytest.mark.parametrize(("made", "deleted", "caused"), [(28, 29, True), (28, 31, False), (62, 63, True)])
def test_endpoints_without_a_service_may_be_deleted_by_the_super_cluster(
    ledger: Deletions, made: int, deleted: int, caused: bool
) -> None:
    """kube-controller-manager deletes Endpoints by name if it finds no Service, which here exists from 30 to 60."""
    ledger.tenant_has(ACME, "services", tenants_own("ext", "service"), 20)
    ledger.super_has("r1", "services", copy("ext", "service", "below"), 30)
    if deleted > 60:
        ledger.tenant_lost(ACME, "services", tenants_own("ext", "service"), 59)
        ledger.super_lost("r1", "services", copy("ext", "service", "below"), 60)
    ledger.tenant_has(ACME, "endpoints", tenants_own("ext", "endpoints"), made - 1)
    ledger.super_has("r1", "endpoints", copy("ext", "endpoints", "points"), made)
    ledger.super_lost("r1", "endpoints", copy("ext", "endpoints", "points"), deleted)
    assert all_have_a_cause(ledger) is caused
