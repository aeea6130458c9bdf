"""Beginning of a scheduler's term, and its notes: the fence around the ledger, super clusters out of sight, the timeline."""

from __future__ import annotations

from typing import Any

import pytest
from memory_cluster import MemoryCluster

from vcsync.api import names
from vcsync.api.objects import NamespacePlacement
from vcsync.api.resources import NAMESPACE_PLACEMENTS, SUPER_CLUSTERS, VIRTUAL_CLUSTERS
from vcsync.fairqueue import ObjectName
from vcsync.kube.errors import Conflict
from vcsync.nsscheduler import NamespaceScheduler, fence
from vcsync.nsscheduler.leadership import Leadership
from vcsync.nsscheduler.reconcile import Inputs, Plan
from vcsync.nsscheduler.settings import Settings
from vcsync.scheduling.ledger import Entry
from vcsync.scheduling.resources import from_quantities
from vcsync.scheduling.snapshot import Health, SuperView
from vcsync.tenancy.terms import TermLease

ROOT = "root-acme"
TERM = "8.uid"
CPU = from_quantities({"cpu": "1"})
SHOP = ObjectName("namespaces", "", "shop")
SPEC = {
    "virtualCluster": {"namespace": "vcsync", "name": "acme", "uid": "uid-acme"},
    "tenant": ROOT,
    "namespace": "shop",
    "namespaceUID": "uid-shop",
}


@pytest.fixture
async def meta() -> MemoryCluster:
    return MemoryCluster("meta")


def term_on(meta: MemoryCluster) -> Leadership:
    client: Any = meta
    return Leadership(client, Settings(), lease=TermLease(TERM, lambda: True))


def stamp(meta: MemoryCluster, name: str) -> str | None:
    found = meta.found(NAMESPACE_PLACEMENTS, name, ROOT)
    assert found is not None
    return found["metadata"].get("annotations", {}).get(names.LEDGER_TERM)  # type: ignore[no-any-return]


# The fence


async def test_an_entry_deleted_during_fencing_is_not_in_the_new_term(
    meta: MemoryCluster,
) -> None:
    meta.put(NAMESPACE_PLACEMENTS, "shop", ROOT)
    meta.put(NAMESPACE_PLACEMENTS, "blog", ROOT)
    term = term_on(meta)

    def before(verb: str, _plural: str, name: str) -> None:
        if (verb, name) == ("patch", "shop"):
            meta.remove(NAMESPACE_PLACEMENTS, "shop", ROOT)

    meta.before = before
    await term._fence()
    assert term.placements.cache.get(ROOT, "shop") is None
    assert stamp(meta, "blog") == TERM


async def test_an_entry_changed_during_fencing_is_read_again(
    meta: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fence, "_RETRY_SECONDS", 0.0)
    meta.put(NAMESPACE_PLACEMENTS, "shop", ROOT)
    term = term_on(meta)
    late = [{"placements": {"r1": 9}}]

    def before(verb: str, _plural: str, name: str) -> None:
        if verb == "patch" and late:
            meta.put(NAMESPACE_PLACEMENTS, name, ROOT, status=late.pop())

    meta.before = before
    await term._fence()
    known = term.placements.cache.get(ROOT, "shop")
    assert known is not None
    assert (known.status, known.annotations) == (b'{"placements":{"r1":9}}', {names.LEDGER_TERM: TERM})
    assert stamp(meta, "shop") == TERM


async def test_an_entry_changed_and_deleted_during_fencing_is_not_in_the_new_term(
    meta: MemoryCluster,
) -> None:
    meta.put(NAMESPACE_PLACEMENTS, "shop", ROOT)
    term = term_on(meta)

    def before(verb: str, _plural: str, name: str) -> None:
        if verb == "patch":
            meta.put(NAMESPACE_PLACEMENTS, name, ROOT)
        elif verb == "get":
            meta.remove(NAMESPACE_PLACEMENTS, name, ROOT)

    meta.before = before
    await term._fence()
    assert term.placements.cache.get(ROOT, "shop") is None


async def test_the_status_shows_that_a_term_fences_the_ledger(meta: MemoryCluster) -> None:
    shown: list[str] = []
    term = term_on(meta)
    meta.before = lambda *_: shown.append(term.held_back())
    await term._fence()
    assert shown == ["fencing the ledger against late writes of an earlier leader"]


# A VirtualCluster that goes


def leaving(meta: MemoryCluster, term: Leadership, *finalizers: str) -> None:
    meta.put(
        VIRTUAL_CLUSTERS,
        "acme",
        "vcsync",
        metadata={
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": [*finalizers, names.VIRTUAL_CLUSTER_DRAIN_FINALIZER],
        },
        status={"clusterNamespace": ROOT},
    )
    term.registry.virtual_clusters.observe(meta._envelope((VIRTUAL_CLUSTERS.plural, "vcsync", "acme")))


async def test_a_finalizer_is_removed_only_in_the_version_that_was_read(meta: MemoryCluster) -> None:
    term = term_on(meta)
    leaving(meta, term, "example.com/one")
    found = meta.found(VIRTUAL_CLUSTERS, "acme", "vcsync")
    assert found is not None
    both = [names.VIRTUAL_CLUSTER_DRAIN_FINALIZER, "example.com/two"]
    meta.put(VIRTUAL_CLUSTERS, "acme", "vcsync", metadata=found["metadata"] | {"finalizers": both})
    with pytest.raises(Conflict):
        await term._handle(ROOT, "")
    found = meta.found(VIRTUAL_CLUSTERS, "acme", "vcsync")
    assert found is not None
    assert found["metadata"]["finalizers"] == both


async def test_the_state_of_a_deleted_tenant_is_removed(meta: MemoryCluster) -> None:
    term = term_on(meta)
    leaving(meta, term)
    term.work.timeline.add(ROOT, SHOP, "slices: r1 1", now=0.0)
    term.work.timeline.add("root-other", SHOP, "slices: r1 1", now=0.0)
    for tenant in (ROOT, "root-other"):
        term.ledger.put((tenant, "shop"), Entry(CPU, {"r1": 1}))
        term._unanswered.add((tenant, "shop"))
    assert await term._handle(ROOT, "") is None
    assert meta.found(VIRTUAL_CLUSTERS, "acme", "vcsync") is None
    assert term.work.timeline.of(ROOT, SHOP) == ()
    assert term.ledger.get((ROOT, "shop")) is None
    assert term._unanswered == {("root-other", "shop")}
    assert len(term.work.timeline.of("root-other", SHOP)) == 1
    assert term.ledger.get(("root-other", "shop")) is not None


async def test_a_virtual_cluster_with_other_finalizers_is_observed_after_the_patch(
    meta: MemoryCluster,
) -> None:
    term = term_on(meta)
    leaving(meta, term, "example.com/theirs")
    await term._handle(ROOT, "")
    known = term.registry.virtual_clusters.cache.get("vcsync", "acme")
    assert known is not None
    assert known.finalizers == ("example.com/theirs",)


# Super clusters out of sight


async def test_slices_on_an_unseen_super_cluster_are_kept_while_it_may_exist(
    meta: MemoryCluster,
) -> None:
    term = term_on(meta)
    term.pool.views["r1"] = SuperView("r1", Health.READY, CPU)
    meta.put(SUPER_CLUSTERS, "r9", spec={"id": "r9"})
    term.ledger.put((ROOT, "shop"), Entry(CPU, {"r1": 1, "r9": 1}))
    views = await term._views(ROOT, "shop")
    assert views == {
        "r1": SuperView("r1", Health.READY, CPU),
        "r9": SuperView("r9", Health.UNKNOWN, {}),
    }
    assert set(term.pool.views) == {"r1"}, "the others do not see a stand-in"


async def test_slices_on_a_super_cluster_that_an_operator_removed_are_removed(meta: MemoryCluster) -> None:
    term = term_on(meta)
    term.pool.taken_out.add("r9")
    term.pool.views["r1"] = SuperView("r1", Health.READY, CPU)
    term.ledger.put((ROOT, "shop"), Entry(CPU, {"r1": 1, "r9": 1}))
    assert set(await term._views(ROOT, "shop")) == {"r1"}


# The timeline


def inputs(placement: NamespacePlacement | None) -> Inputs:
    nothing: Any = None
    return Inputs((ROOT, "shop"), nothing, None, (), placement, {}, nothing, {}, "spread", "")


@pytest.mark.parametrize(
    ("plan", "what"),
    [
        pytest.param(Plan(placements={"r2": 1, "r1": 2}), ["slices: r1 2, r2 1"], id="slices"),
        pytest.param(Plan(placements={}), ["slices: none"], id="no slices"),
        pytest.param(
            Plan(delete=True, confirm="quota", placements={}),
            ["slices withdrawn: the quota is gone"],
            id="withdrawn",
        ),
        pytest.param(Plan(), [], id="nothing was decided"),
    ],
)
async def test_decisions_are_in_the_timeline_of_the_namespace(
    meta: MemoryCluster, monkeypatch: pytest.MonkeyPatch, plan: Plan, what: list[str]
) -> None:
    monkeypatch.setattr("vcsync.nsscheduler.leadership.time.time", lambda: 60.0)
    term = term_on(meta)
    term._note(inputs(None), plan)
    noted = term.work.timeline.of(ROOT, SHOP)
    assert [each.what for each in noted] == what
    assert {(each.time, each.controller, each.version) for each in noted} <= {(60.0, "nsscheduler", "")}


async def test_the_timeline_has_the_version_of_the_entry(
    meta: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vcsync.nsscheduler.leadership.time.time", lambda: 60.0)
    client: Any = meta
    scheduler = NamespaceScheduler(client, identity="me")
    assert scheduler.timeline(ROOT, SHOP) == []
    term = scheduler._terms.current = term_on(meta)
    meta.put(NAMESPACE_PLACEMENTS, "shop", ROOT, spec=SPEC)
    entry = await client.get(NAMESPACE_PLACEMENTS, "shop", ROOT)
    placement = NamespacePlacement.from_envelope(entry)
    term._note(inputs(placement), Plan(placements={"r1": 1}))
    assert scheduler.timeline(ROOT, SHOP) == [
        {
            "time": "1970-01-01T00:01:00Z",
            "controller": "nsscheduler",
            "reconcile": "",
            "what": "slices: r1 1",
            "version": entry.resource_version,
        }
    ]
    assert scheduler.timeline("root-other", SHOP) == []
