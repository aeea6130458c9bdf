"""Answers to the syncer's own writes are treated like events, since they may contain changes by other clients."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from engine_paper import PaperApi

from vcsync.api import names
from vcsync.kube.resources import RESOURCE_QUOTAS, SERVICES
from vcsync.objects.envelope import Envelope
from vcsync.syncer.caches import SuperCaches
from vcsync.syncer.kinds import KINDS
from vcsync.syncer.kinds.plan import Side
from vcsync.syncer.tenant_objects import TenantObjects
from vcsync.syncer.waiting import Item

KEY = "vcsync-1a2b3c-acme"
SERVICE = Item("services", "shop", "front")


@pytest.mark.parametrize(("side", "namespace"), [("tenant", "shop"), ("super", f"{KEY}-shop")])
def test_an_answer_enqueues_its_item(side: Side, namespace: str) -> None:
    asked: list[Item] = []

    def enqueue(tenant: str, item: Item) -> None:
        objects.enqueue(tenant, item)

    here = SuperCaches(
        PaperApi("r1"),  # type: ignore[arg-type]
        KINDS,
        enqueue=enqueue,
        wake=lambda *_: None,
        on_node=lambda _: None,
    )
    objects = TenantObjects(
        PaperApi("tenant"),  # type: ignore[arg-type]
        key=KEY,
        super_id="r1",
        super_caches=here,
        ledger=SimpleNamespace(open=lambda *_: True),  # type: ignore[arg-type]
        kinds=KINDS,
        enqueue=lambda _, item: asked.append(item),
        wake=lambda *_: None,
    )
    objects.ready = True
    answer = Envelope(
        "front",
        namespace,
        "uid",
        "7",
        labels={names.CONTROLLED: names.TRUE},
        annotations={names.CLUSTER: KEY, names.NAMESPACE: "shop"},
    )
    objects.observe(side, SERVICES, answer)
    assert SERVICE in asked


def test_pairs_that_lack_a_side_or_are_being_deleted_come_first() -> None:
    here = SuperCaches(
        PaperApi("r1"),  # type: ignore[arg-type]
        KINDS,
        enqueue=lambda *_: None,
        wake=lambda *_: None,
        on_node=lambda _: None,
    )
    objects = TenantObjects(
        PaperApi("tenant"),  # type: ignore[arg-type]
        key=KEY,
        super_id="r1",
        super_caches=here,
        ledger=SimpleNamespace(open=lambda *_: True),  # type: ignore[arg-type]
        kinds=KINDS,
        enqueue=lambda *_: None,
        wake=lambda *_: None,
    )

    def tenant_service(name: str, deleting: str | None = None) -> None:
        objects.observe(
            "tenant", SERVICES, Envelope(name, "shop", f"v-{name}", "7", deletion_timestamp=deleting)
        )

    def super_service(name: str) -> None:
        labels = {names.CONTROLLED: names.TRUE}
        annotations = {names.CLUSTER: KEY, names.NAMESPACE: "shop"}
        objects.observe(
            "super",
            SERVICES,
            Envelope(name, f"{KEY}-shop", f"p-{name}", "7", labels=labels, annotations=annotations),
        )

    tenant_service("new")
    super_service("lost")
    for name, deleting in (("standing", None), ("going", "2026-01-01T00:00:00Z")):
        tenant_service(name, deleting)
        super_service(name)

    settled = {
        name
        for name in ("new", "lost", "standing", "going")
        if objects.looks_settled(Item("services", "shop", name))
    }

    assert settled == {"standing"}


def test_the_usage_of_a_quota_enqueues_no_namespace() -> None:
    asked: list[Item] = []
    woken: list[object] = []
    here = SuperCaches(
        PaperApi("r1"),  # type: ignore[arg-type]
        KINDS,
        enqueue=lambda _, item: asked.append(item),
        wake=lambda _, dependency: woken.append(dependency),
        on_node=lambda _: None,
    )

    def seen(version: str, hard: str, used: str, **labels: str) -> list[Item]:
        asked.clear()
        quota = Envelope(
            names.SUPER_QUOTA_NAME,
            f"{KEY}-shop",
            "uid",
            version,
            labels={names.CONTROLLED: names.TRUE, **labels},
            annotations={names.CLUSTER: KEY, names.NAMESPACE: "shop"},
            spec=b'{"hard":{"pods":"%b"}}' % hard.encode(),
            status=b'{"used":{"pods":"%b"}}' % used.encode(),
        )
        here.reflectors[RESOURCE_QUOTAS].observe(quota)
        return list(asked)

    namespace = [Item("namespaces", "", "shop")]
    assert seen("1", "5", "0") == namespace
    assert seen("2", "5", "1") == []
    assert seen("3", "6", "1") == namespace
    assert seen("4", "6", "1", other="label") == namespace
    assert len(woken) == 4  # whoever waits for room hears of all of it
