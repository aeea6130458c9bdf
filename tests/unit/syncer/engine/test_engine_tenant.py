"""One tenant's session: what happens while its caches are being filled is not forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from engine_paper import PaperApi, believed, paper_gate

from vcsync.api import names
from vcsync.api.specs import VirtualClusterSpec
from vcsync.kube.envelope import Envelope, OwnerReference
from vcsync.kube.errors import (
    Forbidden,
    KubeError,
    Status,
    StatusCause,
    StatusDetails,
    TooManyRequests,
    Unreachable,
)
from vcsync.kube.resources import PODS
from vcsync.syncer.caches import SuperCaches
from vcsync.syncer.drift import DriftLedger
from vcsync.syncer.kinds import KINDS
from vcsync.syncer.kinds.plan import Notify
from vcsync.syncer.tenant import NODE, REFILL, TenantSync
from vcsync.syncer.waiting import Item, WaitingRoom

Session = Callable[..., tuple[TenantSync, list[Item]]]


@pytest.fixture
async def session() -> Session:
    def make() -> tuple[TenantSync, list[Item]]:
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
            prove=believed,
        )
        arguments: dict[str, Any] = {
            "server": "https://10.0.0.1:6443",
            "super_client": PaperApi("r1"),
            "here": here,
            "super_id": "r1",
            "ledger": SimpleNamespace(open=lambda *_: True, entries=lambda _: iter(())),
            "kinds": KINDS,
            "enqueue": lambda _, item: asked.append(item),
            "wake": lambda *_: None,
            "waiting": WaitingRoom(),
            "drift": DriftLedger(),
            "gate": paper_gate(),
            "on_changed": lambda _: None,
            "clock": lambda: 0.0,
        }
        return TenantSync(handle, **arguments), asked  # type: ignore[arg-type]

    return make


async def test_a_namespace_that_is_placed_while_the_caches_fill_is_followed_once_they_are(
    session: Session,
) -> None:
    tenant, asked = session()
    tenant.ledger_changed("shop")
    assert not asked, "there is nothing yet to bring in line"
    tenant.begin()
    assert asked.count(Item(REFILL, "shop", "")) == 1
    tenant.ledger_changed("other")
    assert asked[-1] == Item(REFILL, "other", "")


async def test_nodes_that_changed_while_nobody_looked_are_refreshed(session: Session) -> None:
    tenant, asked = session()
    labels = {names.VIRTUAL_NODE: names.TRUE, names.SUPER_CLUSTER_ID: "r1"}
    tenant.world.theirs.nodes.observe(Envelope("node-0.r1", "", "uid", "7", labels=labels))
    tenant.begin()
    assert Item(NODE, "", "node-0") in asked


def shown(version: str, ready: str) -> Envelope:
    labels = {names.VIRTUAL_NODE: names.TRUE, names.SUPER_CLUSTER_ID: "r1"}
    status = f'{{"conditions":[{{"type":"Ready","status":"{ready}"}}],"phase":"{version}"}}'
    return Envelope("node-0.r1", "", "uid", version, labels=labels, status=status.encode())


async def test_a_node_that_the_tenant_has_given_up_is_looked_at_again(session: Session) -> None:
    """Its controller does so when it hears no beat for a while; that they come again is not enough for it."""
    tenant, asked = session()
    nodes = tenant.world.theirs.nodes
    nodes.observe(shown("7", "True"))
    tenant.begin()
    asked.clear()
    nodes.observe(shown("8", "True"))
    assert asked == []
    nodes.observe(shown("9", "Unknown"))
    assert asked == [Item(NODE, "", "node-0")]


async def test_a_pods_controller_is_told_what_keeps_its_pods_from_running(session: Session) -> None:
    tenant, _ = session()
    told: list[tuple[str, str, str, str]] = []
    tenant._recorder.emit = lambda regarding, _type, reason, message, *, now: told.append(  # type: ignore[method-assign]
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
    assert told == [
        ("Pod", "report-1", "PolicyRefused", refused.message),
        ("Job", "report", "PolicyRefused", f"Pods of it do not run: {refused.message}"),
        ("Pod", "report-2", "PolicyRefused", refused.message),
        ("Job", "report", "PolicyRefused", f"Pods of it do not run: {refused.message}"),
    ], "what is the same is counted on one Event"
    told.clear()
    tenant._notify(pod, Item("pods", "shop", "alone"), Envelope("alone", "shop", "u", "7"), refused)
    other = Notify("Warning", "ReservedNames", "without effect")
    tenant._notify(pod, Item("pods", "shop", "x"), Envelope("x", "shop", "x", "7", owners=owners), other)
    config = Envelope("settings", "shop", "u", "7", owners=owners)
    tenant._notify(KINDS["configmaps"], Item("configmaps", "shop", "settings"), config, refused)
    assert [kind for kind, *_ in told] == ["Pod", "Pod", "ConfigMap"]


HELD = Status(
    429,
    message="Cannot evict pod as it would violate the pod's disruption budget.",
    details=StatusDetails(causes=(StatusCause("DisruptionBudget", "The disruption budget web needs 2"),)),
)


@pytest.mark.parametrize(
    ("error", "waits_for"),
    [
        (None, ""),
        (TooManyRequests(HELD, endpoint="tenant"), "The disruption budget web needs 2"),
        (TooManyRequests(Status(429, message="busy"), endpoint="tenant"), "busy"),
        (Forbidden(Status(403, message="no right"), endpoint="tenant"), ""),
        (
            Unreachable("cut", endpoint="tenant"),
            "its control plane does not say whether Pod web may end: tenant: cut",
        ),
    ],
)
async def test_a_tenant_is_asked_whether_a_pod_may_end(
    session: Session, error: KubeError | None, waits_for: str
) -> None:
    tenant, _ = session()
    api: PaperApi = tenant.handle.client  # type: ignore[assignment]
    stored = api.put(
        PODS, {"metadata": {"name": "web", "namespace": "shop", "labels": {names.SUPER_CLUSTER: "r1"}}}
    )
    tenant.world.theirs.reflectors[PODS].observe(stored)
    if error is not None:
        api.failures["create eviction pods"] = error  # type: ignore[assignment]
    annotations = {names.NAMESPACE: "shop", names.UID: stored.uid}
    assert await tenant.evict(Envelope("web", "key-shop", "p", "7", annotations=annotations)) == waits_for
    assert ("create eviction", "pods", "shop", "web") in api.calls
    api.calls.clear()
    another = {names.NAMESPACE: "shop", names.UID: "another"}
    assert await tenant.evict(Envelope("web", "key-shop", "p", "7", annotations=another)) == ""
    assert api.calls == []
