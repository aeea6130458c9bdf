"""One tenant's session: changes during the filling of caches are not lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from engine_paper import PaperApi, believed, paper_limiter

from vcsync.api import names
from vcsync.api.specs import VirtualClusterSpec
from vcsync.api.without_effect import CORDONED, REASON
from vcsync.kube.errors import (
    Forbidden,
    KubeError,
    NotFound,
    Status,
    StatusCause,
    StatusDetails,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import CONFIG_MAPS, PODS, SECRETS, SERVICES, Resource
from vcsync.objects.envelope import Envelope, OwnerReference
from vcsync.syncer.caches import TOKENS, SuperCaches
from vcsync.syncer.drift.detector import DriftDetector
from vcsync.syncer.drift.ledger import DriftLedger
from vcsync.syncer.kinds import KINDS
from vcsync.syncer.kinds.plan import Notify
from vcsync.syncer.tenant import NODE, REFILL, TenantSync
from vcsync.syncer.waiting import Item, ParkedItems

Session = Callable[..., tuple[TenantSync, list[Item]]]


@pytest.fixture
async def session() -> Session:
    def make(**others: Any) -> tuple[TenantSync, list[Item]]:
        asked: list[Item] = []
        here = SuperCaches(
            PaperApi("r1"),  # type: ignore[arg-type]
            KINDS,
            enqueue=lambda *_: None,
            wake=lambda *_: None,
            on_node=lambda _: None,
        )
        record = SimpleNamespace(name="acme", namespace="vcsync", uid="vc", spec=VirtualClusterSpec())
        handle = SimpleNamespace(
            key="key",
            client=PaperApi("tenant"),
            virtual_cluster=record,
            changed=asyncio.Event(),
            prove=lambda _lists: believed(),
        )
        arguments: dict[str, Any] = {
            "server": "https://10.0.0.1:6443",
            "super_client": PaperApi("r1"),
            "super_caches": here,
            "super_id": "r1",
            "ledger": SimpleNamespace(
                open=lambda *_: True, entries=lambda _: iter(()), entry=lambda *_: None
            ),
            "kinds": KINDS,
            "enqueue": lambda _, item: asked.append(item),
            "wake": lambda *_: None,
            "waiting": ParkedItems(),
            "drift": DriftDetector(DriftLedger(lambda: 0.0), AsyncMock(return_value=None), lambda: 0.0),
            "limiter": paper_limiter(),
            "note": lambda *_: None,
            "on_changed": lambda _: None,
            "clock": lambda: 0.0,
            "leaving": AsyncMock(return_value=False),
        }
        return TenantSync(handle, **arguments | others), asked  # type: ignore[arg-type]

    return make


async def test_a_placement_during_the_filling_of_caches_is_followed_later(
    session: Session,
) -> None:
    tenant, asked = session()
    tenant.ledger_changed("shop")
    assert not asked, "there is nothing yet to bring in line"
    tenant.begin()
    assert asked.count(Item(REFILL, "shop", "")) == 1
    tenant.ledger_changed("other")
    assert asked[-1] == Item(REFILL, "other", "")


async def test_services_of_namespaces_on_a_lost_super_cluster_are_looked_at(session: Session) -> None:
    lost: set[str] = set()
    tenant, asked = session(
        lost=lambda: frozenset(lost),
        ledger=SimpleNamespace(
            open=lambda *_: True,
            entries=lambda _: iter([entry("shop", "r1", "r2"), entry("near", "r1")]),
            entry=lambda *_: None,
        ),
    )
    services = tenant.objects.tenant_caches.reflectors[SERVICES]
    for namespace in ("shop", "near"):
        services.observe(Envelope("web", namespace, f"uid-{namespace}", "7"))
    tenant.begin()
    asked.clear()
    lost.add("r2")
    tenant.lost_changed({"r2"})
    assert asked == [Item("services", "shop", "web")]
    asked.clear()
    tenant.lost_changed({"r2"})
    assert asked == [], "nothing has changed since"


def entry(namespace: str, *super_ids: str) -> Any:
    placement = SimpleNamespace(placements=dict.fromkeys(super_ids, 1))
    return SimpleNamespace(namespace=namespace, placement=placement)


async def test_nodes_that_changed_before_the_session_are_refreshed(session: Session) -> None:
    tenant, asked = session()
    labels = {names.VIRTUAL_NODE: names.TRUE, names.SUPER_CLUSTER_ID: "r1"}
    tenant.objects.tenant_caches.nodes.observe(Envelope("node-0.r1", "", "uid", "7", labels=labels))
    tenant.begin()
    assert Item(NODE, "", "node-0") in asked


def shown(version: str, ready: str) -> Envelope:
    labels = {names.VIRTUAL_NODE: names.TRUE, names.SUPER_CLUSTER_ID: "r1"}
    status = f'{{"conditions":[{{"type":"Ready","status":"{ready}"}}],"phase":"{version}"}}'
    return Envelope("node-0.r1", "", "uid", version, labels=labels, status=status.encode())


async def test_a_node_that_the_tenant_marked_as_unknown_is_refreshed(session: Session) -> None:
    """Its controller does so when it hears no beat for a while; that they come again is not enough for it."""
    tenant, asked = session()
    nodes = tenant.objects.tenant_caches.nodes
    nodes.observe(shown("7", "True"))
    tenant.begin()
    asked.clear()
    nodes.observe(shown("8", "True"))
    assert asked == []
    nodes.observe(shown("9", "Unknown"))
    assert asked == [Item(NODE, "", "node-0")]


async def test_a_pods_controller_gets_an_event_why_its_pods_do_not_run(session: Session) -> None:
    tenant, _ = session()
    emitted: list[tuple[str, str, str, str]] = []
    tenant._recorder.emit = lambda regarding, _type, reason, message, *, now: emitted.append(  # type: ignore[method-assign]
        (regarding.kind, regarding.name, reason, message)
    )
    owners = (
        OwnerReference("v1", "ConfigMap", "other", "u-other"),
        OwnerReference("batch/v1", "Job", "report", "u-job", controller=True),
    )
    pod = KINDS["pods"]
    refused = Notify("Warning", "PolicyRefused", "spec.hostNetwork is not allowed here; remove it")
    for name in ("report-1", "report-2"):
        tenant._notify(
            pod, Item("pods", "shop", name), Envelope(name, "shop", name, "7", owners=owners), refused
        )
    assert emitted == [
        ("Pod", "report-1", "PolicyRefused", refused.message),
        ("Job", "report", "PolicyRefused", f"Pods of it do not run: {refused.message}"),
        ("Pod", "report-2", "PolicyRefused", refused.message),
        ("Job", "report", "PolicyRefused", f"Pods of it do not run: {refused.message}"),
    ], "what is the same is counted on one Event"
    emitted.clear()
    tenant._notify(pod, Item("pods", "shop", "alone"), Envelope("alone", "shop", "u", "7"), refused)
    other = Notify("Warning", "ReservedNames", "without effect")
    tenant._notify(pod, Item("pods", "shop", "x"), Envelope("x", "shop", "x", "7", owners=owners), other)
    config = Envelope("settings", "shop", "u", "7", owners=owners)
    tenant._notify(KINDS["configmaps"], Item("configmaps", "shop", "settings"), config, refused)
    assert [kind for kind, *_ in emitted] == ["Pod", "Pod", "ConfigMap"]


HELD = Status(
    429,
    message="Cannot evict pod as it would violate the pod's disruption budget.",
    details=StatusDetails(causes=(StatusCause("DisruptionBudget", "The disruption budget web needs 2"),)),
)


async def test_a_copy_whose_pod_has_no_node_in_the_tenant_is_known(session: Session) -> None:
    tenant, _ = session()
    pods = tenant.objects.tenant_caches.reflectors[PODS]
    labels = {names.SUPER_CLUSTER: "r1"}
    annotations = {names.NAMESPACE: "shop", names.UID: "u"}
    copy = Envelope("web", "key-shop", "p", "7", annotations=annotations)
    assert not tenant.is_unbound(copy), "the Pod is gone, or elsewhere"
    pods.observe(Envelope("web", "shop", "u", "1", labels=labels, spec=b"{}"))
    assert tenant.is_unbound(copy)
    another = {names.NAMESPACE: "shop", names.UID: "another"}
    assert not tenant.is_unbound(Envelope("web", "key-shop", "p", "7", annotations=another))
    pods.observe(Envelope("web", "shop", "u", "2", labels=labels, spec=b'{"nodeName":"n.r1"}'))
    assert not tenant.is_unbound(copy)


@pytest.mark.parametrize(
    ("error", "waits_for"),
    [
        (None, ""),
        (TooManyRequests(HELD, endpoint="tenant"), "The disruption budget web needs 2"),
        (TooManyRequests(Status(429, message="busy"), endpoint="tenant"), "busy"),
        (Forbidden(Status(403, message="no right"), endpoint="tenant"), ""),
        (
            Unreachable("cut", endpoint="tenant"),
            "its control plane did not answer the eviction of Pod web: tenant: cut",
        ),
    ],
)
async def test_a_pod_is_evicted_in_the_tenant(
    session: Session, monkeypatch: pytest.MonkeyPatch, error: KubeError | None, waits_for: str
) -> None:
    tenant, _ = session()
    api: PaperApi = tenant.handle.client  # type: ignore[assignment]
    stored = api.put(
        PODS, {"metadata": {"name": "web", "namespace": "shop", "labels": {names.SUPER_CLUSTER: "r1"}}}
    )
    tenant.objects.tenant_caches.reflectors[PODS].observe(stored)
    if error is not None:
        api.failures["create eviction pods"] = error  # type: ignore[assignment]
    annotations = {names.NAMESPACE: "shop", names.UID: stored.uid}
    noted: list[tuple[Item, str, str]] = []
    monkeypatch.setattr(tenant, "_note", lambda *each: noted.append(each))
    assert await tenant.evict(Envelope("web", "key-shop", "p", "7", annotations=annotations)) == waits_for
    assert ("create eviction", "pods", "shop", "web") in api.calls
    evicted = (Item("pods", "shop", "web"), "evicted", stored.resource_version)
    assert noted == ([] if error else [evicted])
    api.calls.clear()
    another = {names.NAMESPACE: "shop", names.UID: "another"}
    assert await tenant.evict(Envelope("web", "key-shop", "p", "7", annotations=another)) == ""
    assert api.calls == []


@pytest.mark.parametrize(
    ("operators", "before", "after", "has_event"),
    [
        (False, False, True, True),
        (False, True, True, False),
        (False, True, False, False),
        (True, False, True, False),  # shown by ourselves
    ],
)
async def test_a_cordon_by_the_tenant_is_reported_as_without_effect(
    session: Session,
    monkeypatch: pytest.MonkeyPatch,
    operators: bool,
    before: bool,
    after: bool,
    has_event: bool,
) -> None:
    tenant, _ = session()
    events: list[tuple[str, str, str]] = []
    monkeypatch.setattr(
        tenant._recorder,
        "emit",
        lambda about, _, reason, message, **__: events.append((about.name, reason, message)),
    )

    def node(name: str, version: str, cordoned: bool) -> Envelope:
        labels = {names.VIRTUAL_NODE: names.TRUE, names.SUPER_CLUSTER_ID: "r1"}
        return Envelope(
            name, "", "uid", version, labels=labels, spec=b'{"unschedulable":true}' if cordoned else b"{}"
        )

    tenant._super_caches.nodes.observe(node("node-0", "1", operators))
    tenant.objects.tenant_caches.nodes.observe(node("node-0.r1", "7", before))
    tenant.objects.tenant_caches.nodes.observe(node("node-0.r1", "8", after))
    assert events == ([("node-0.r1", REASON, CORDONED)] if has_event else [])


async def test_a_proof_is_not_reused_after_a_list(session: Session) -> None:
    tenant, _ = session()
    asked: list[int] = []

    async def prove(lists: int) -> None:
        asked.append(lists)

    tenant.handle.prove = prove  # type: ignore[method-assign]
    await tenant.reconciler._prove()
    for reflector in tenant.objects.tenant_caches.all():
        reflector._replace_cache([], "5")
    await tenant.reconciler._prove()
    assert asked == [0, len(list(tenant.objects.tenant_caches.all()))]


@pytest.mark.parametrize(("endpoint", "reported"), [("tenant", 1), ("r1", 0)])
async def test_refused_credentials_are_reported(
    session: Session, monkeypatch: pytest.MonkeyPatch, endpoint: str, reported: int
) -> None:
    """Its session then asks for new ones; those of the super cluster are no affair of the tenant's."""
    tenant, _ = session()
    tenant.begin()
    refused: list[None] = []
    tenant.handle.refused = lambda: refused.append(None)  # type: ignore[method-assign]

    async def reconcile(_: Item) -> None:
        raise Unauthorized(Status(401), endpoint=endpoint)

    monkeypatch.setattr(tenant.reconciler, "reconcile", reconcile)
    with pytest.raises(Unauthorized):
        await tenant.reconcile(Item("pods", "shop", "web"))
    assert len(refused) == reported


async def test_objects_of_a_namespace_are_enqueued_when_its_slices_change(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant, asked = session()
    for resource, namespace, name in (
        (CONFIG_MAPS, "shop", "settings"),
        (CONFIG_MAPS, "other", "settings"),
        (PODS, "shop", "web"),
    ):
        labels = {names.SUPER_CLUSTER: "r1"}
        tenant.objects.tenant_caches.reflectors[resource].observe(
            Envelope(name, namespace, f"{namespace}-{name}", "7", labels=labels)
        )
    tenant.begin()
    asked.clear()
    listed: list[str] = []

    async def refill(namespace: str) -> None:
        listed.append(namespace)

    monkeypatch.setattr(tenant.objects.tenant_caches, "refill", refill)
    await tenant.placement_changed("shop")
    assert listed == ["shop"]
    assert asked[0] == Item("namespaces", "", "shop"), "the others need it"
    assert sorted(asked[1:]) == [Item("configmaps", "shop", "settings"), Item("pods", "shop", "web")]


def with_optional_kinds_failing(
    tenant: TenantSync, monkeypatch: pytest.MonkeyPatch, error: KubeError
) -> list[str]:
    """Let lists of optional kinds fail, and return the kinds that are read."""
    caches = tenant.objects.tenant_caches
    read: list[str] = []
    for resource, reflector in caches.reflectors.items():

        async def refill(_: str, resource: Resource = resource) -> None:
            if resource in caches.optional:
                raise error
            read.append(resource.plural)

        monkeypatch.setattr(reflector, "refill", refill)
    return read


@pytest.mark.parametrize("error", [NotFound(Status(404)), Forbidden(Status(403))])
async def test_a_kind_that_the_tenant_lacks_does_not_keep_the_others_of_a_namespace_from_being_read(
    session: Session, monkeypatch: pytest.MonkeyPatch, error: KubeError
) -> None:
    tenant, _ = session()
    read = with_optional_kinds_failing(tenant, monkeypatch, error)
    await tenant.objects.tenant_caches.refill("shop")
    assert {"configmaps", "secrets", "services"} <= set(read)


async def test_a_kind_that_was_read_before_is_read_again_for_a_namespace(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant, _ = session()
    with_optional_kinds_failing(tenant, monkeypatch, Forbidden(Status(403)))
    monkeypatch.setattr(Reflector, "synced", True)
    with pytest.raises(Forbidden):
        await tenant.objects.tenant_caches.refill("shop")


def token_secret(renew: str) -> Envelope:
    """The Secret in the super cluster with the token of Pod web."""
    return Envelope(
        f"{names.TOKEN_SECRET_PREFIX}uid-web",
        names.super_namespace("key", "shop"),
        "s",
        "7",
        labels={names.CONTROLLED: names.TRUE},
        annotations={
            names.CLUSTER: "key",
            names.NAMESPACE: "shop",
            names.UID: "uid-web",
            names.POD_NAME: "web",
            names.TOKEN_RENEW: renew,
        },
    )


TOKEN = Item(TOKENS, "shop", f"{names.TOKEN_SECRET_PREFIX}uid-web")


def hold(tenant: TenantSync, resource: Resource, envelope: Envelope) -> None:
    tenant.objects.super_caches.reflectors[resource].observe(envelope)


async def test_a_token_is_reconciled_again_when_it_is_due(session: Session) -> None:
    tenant, _ = session()
    labels = {names.SUPER_CLUSTER: "r1"}
    pod = Envelope("web", "shop", "uid-web", "7", labels=labels, status=b'{"phase":"Running"}')
    tenant.objects.tenant_caches.reflectors[PODS].observe(pod)
    hold(tenant, SECRETS, token_secret("2999-01-01T00:00:00Z"))
    tenant.begin()
    waits = await tenant.reconcile(TOKEN)
    assert waits is not None
    assert waits > 0


async def test_a_token_is_kept_while_its_pod_exists_despite_outdated_caches(session: Session) -> None:
    tenant, _ = session()
    api: PaperApi = tenant.handle.client  # type: ignore[assignment]
    labels = {names.SUPER_CLUSTER: "r1"}
    api.put(PODS, {"metadata": {"name": "web", "namespace": "shop", "uid": "uid-web", "labels": labels}})
    hold(tenant, SECRETS, token_secret("2999-01-01T00:00:00Z"))
    tenant.begin()
    waits = await tenant.reconcile(TOKEN)
    assert waits, "it is looked at again"
    assert (
        tenant.objects.super_caches.get(SECRETS, names.super_namespace("key", "shop"), TOKEN.name) is not None
    )


async def test_a_changed_token_secret_enqueues_its_item(session: Session) -> None:
    """So that it is renewed in time, whatever its Pod does meanwhile."""
    asked: list[tuple[str, Item]] = []
    here = SuperCaches(
        PaperApi("r1"),  # type: ignore[arg-type]
        KINDS,
        enqueue=lambda tenant, item: asked.append((tenant, item)),
        wake=lambda *_: None,
        on_node=lambda _: None,
    )
    here.reflectors[SECRETS].observe(token_secret("2999-01-01T00:00:00Z"))
    assert ("key", TOKEN) in asked


async def test_a_changed_pod_enqueues_its_token(session: Session) -> None:
    """One that has ended needs it no more."""
    tenant, asked = session()
    hold(tenant, SECRETS, token_secret("2999-01-01T00:00:00Z"))
    tenant.begin()
    asked.clear()
    for name in ("web", "other"):
        labels = {names.SUPER_CLUSTER: "r1"}
        tenant.objects.tenant_caches.reflectors[PODS].observe(
            Envelope(name, "shop", f"uid-{name}", "7", labels=labels)
        )
    assert [item for item in asked if item.kind == TOKENS] == [TOKEN]
